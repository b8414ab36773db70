-- Metrics of a data set: their values, files, order; what is refused; work that was stopped.

local fails = require "tests.support.fails"
local program = require "tests.support.program"
local rarity = require "tests.support.rarity"
local small = require "tests.support.small"
local sr = require "seqrun"
local sys = require "seqrun.core.sys"
local with = require "tests.support.with"

local folder = program.folder()
local path = small.corpus(folder)
local corpus = sr.must(sr.data.open(path))

local function analyze(options)
  options.data = options.data or corpus
  options.out = options.out or folder
  return sr.data.analyze(options)
end

---The sequences that a loader makes of these examples, ids before masking.
local function sequences_of(options)
  local loader <close> = sr.must(sr.data.loader(with(options, {
    data = corpus, packs = 1, prefetch = 0, keep_ids = true,
  })))
  local list = {}
  for uid = 0, loader:examples() - 1 do
    list[uid + 1] = loader:batch_of({ uid }, { arrange = "single" }).original_ids:totable()
    list[uid + 1] = table.move(list[uid + 1], 1, loader:lengths()[uid + 1], 1, {})
  end
  return list
end

---Rows of a golden table, and the numbers of its head.
local function golden()
  local rows, head = {}, {}
  for line in io.lines("tests/data/curriculum/rarity_golden.tsv") do
    if line:find("^#") then
      for key, value in line:gmatch("([%w_]+)=(%d+)") do head[key] = tonumber(value) end
    elseif line:find("^%d") then
      local fields, ids = {}, {}
      for field in line:gmatch("[^\t]+") do fields[#fields + 1] = field end
      for id in fields[2]:gmatch("%d+") do ids[#ids + 1] = tonumber(id) end
      rows[#rows + 1] = {
        ids = ids, seqlen = tonumber(fields[3]), rarity_nats = tonumber(fields[4]), vocab_rarity = tonumber(fields[5]),
        seqlen_vocab_rarity = tonumber(fields[6]),
      }
    end
  end
  return rows, head
end

---The golden sequences as a data set: 1 is [CLS], 2 is [SEP].
local function golden_corpus(rows)
  local words = { "[PAD]", "[CLS]", "[SEP]", "w3", "[MASK]", "w5", "w6", "w7", "w8", "w9", "w10", "[UNK]" }
  local vocab = program.write(folder, "golden.txt", table.concat(words, "\n") .. "\n")
  local examples = {}
  for i, row in ipairs(rows) do
    local example, part = { a = {}, b = {} }, "a"
    for k = 2, #row.ids - 1 do
      if row.ids[k] == 2 then part = "b" else table.insert(example[part], row.ids[k]) end
    end
    examples[i] = example
  end
  sr.must(sr.data.write { out = folder .. "/golden.sqr", vocab = vocab, examples = examples, columns = {} })
  return sr.must(sr.data.open(folder .. "/golden.sqr"))
end

describe("rarity", function()
  it("matches the golden rows", function()
    local rows, head = golden()
    local sequences = {}
    for i, row in ipairs(rows) do sequences[i] = row.ids end
    local got, facts = rarity { sequences = sequences, padded_counts = head.padded_counts, max_seq = head.max_seq }
    assert.same({ head.denominator, head.seqlen_coefficient }, { facts.denominator, facts.seqlen_coefficient })
    assert.is_true(#rows >= 6)
    for i, row in ipairs(rows) do
      local own = got[i]
      assert.near(row.rarity_nats, own.rarity_nats, 1e-12 * row.rarity_nats)
      for _, key in ipairs { "seqlen", "vocab_rarity", "seqlen_vocab_rarity" } do assert.equal(row[key], own[key]) end
    end
  end)

  it("of a data set matches the golden rows", function()
    local rows = golden()
    local data = golden_corpus(rows)
    local made = sr.must(analyze { data = data, metrics = { "length", "rarity", "rarity_integer" } })
    for i, row in ipairs(rows) do
      assert.equal(row.seqlen, made.length:value(i - 1))
      assert.near(row.rarity_nats, made.rarity:value(i - 1), 1e-12 * row.rarity_nats)
      assert.equal(row.vocab_rarity, made.rarity_integer:value(i - 1))
    end
  end)
end)

describe("a metric", function()
  it("has the value of each example of the epoch", function()
    local options = { max_len = 40, seed = 5, short_seq_prob = 0.3 }
    local sequences = sequences_of(options)
    local made = sr.must(analyze {
      metrics = { "length", "rarity", "token_counts", "compressibility", { name = "first", fn = function(s)
        return s.ids[2] + s.uid / 2
      end } },
      max_len = 40, seed = 5, short_seq_prob = 0.3,
    })
    local rows = rarity { sequences = sequences, padded_counts = corpus:vocab_size() + 1, max_seq = 40 }
    local counts = {}
    assert.equal(#sequences, made.length:count())
    for i, ids in ipairs(sequences) do
      assert.equal(#ids, made.length:value(i - 1))
      assert.near(rows[i].rarity_nats, made.rarity:value(i - 1), 1e-10)
      assert.equal(ids[2] + (i - 1) / 2, made.first:value(i - 1))
      for _, id in ipairs(ids) do counts[id] = (counts[id] or 0) + 1 end
    end
    for id = 0, corpus:vocab_size() - 1 do assert.equal(counts[id] or 0, made.token_counts:value(id)) end
    assert.is_true(made.compressibility:least() > 0.05 and made.compressibility:most() < 1.5)
  end)

  it("orders sequences by value, ties by uid", function()
    local length = sr.must(analyze { metrics = { "length" } }).length
    local order = length:order()
    assert.equal(length:count(), #order)
    for i = 2, #order do
      local a, b = length:value(order[i - 1]), length:value(order[i])
      assert.is_true(a < b or a == b and order[i - 1] < order[i])
    end
    local half = length:percentile(50)
    assert.is_true(length:upto(half) >= #order / 2 and length:upto(half - 1) < #order / 2)
    assert.equal(length:upto(half), length:upto(half + 0.5))
    assert.same({ length:least(), length:most() }, { length:percentile(0), length:percentile(100) })
  end)

  it("gives the same bytes on any number of threads", function()
    local hashes = {}
    for threads = 1, 3 do
      local out = program.folder()
      sr.must(analyze { metrics = { "rarity", "compressibility" }, out = out, threads = threads })
      hashes[threads] = sys.hash_file(out .. "/corpus.rarity.metric")
        .. sys.hash_file(out .. "/corpus.compressibility.metric")
      assert(sys.remove(out))
    end
    assert.same({ hashes[1], hashes[1], hashes[1] }, hashes)
  end)

  it("in memory is a list of values", function()
    local metric = sr.must(sr.data.metric { 3, 1, 2, 1 })
    assert.same({ 1, 3, 2, 0 }, metric:order())
    assert.equal(2, metric:upto(1))
    assert.has_error(function() sr.data.metric { 1, 0 / 0 } end)
    assert.has_error(function() sr.data.metric { 1, "two" } end)
    assert.has_error(function() sr.data.metric {} end)
  end)

  it("is the distance to a corpus", function()
    local made = sr.must(analyze { metrics = { { name = "self", corpus = corpus } } })
    assert.is_true(made.self:least() >= 0 and made.self:most() <= 1)
    fails.returning(nil, "another vocabulary",
      analyze { data = golden_corpus((golden())), metrics = { { name = "x", corpus = corpus } } })
  end)
end)

describe("a metric is refused", function()
  it("for another data set, vocabulary or choice of examples", function()
    local length = sr.must(analyze { metrics = { "length" } }).length
    local file = length.about.path
    local other = sr.must(sr.data.open(small.corpus(program.folder(), 90)))
    local function refused(words, ...)
      local metric, message, code = sr.data.metric(...)
      assert.is_nil(metric)
      assert.is_true(code == "data" or code == "missing")
      assert.matches(words, message)
      assert.matches("seqrun analyze", message)
    end
    assert.is_truthy(sr.data.metric(file, corpus, {}))
    refused("another vocabulary", file, golden_corpus((golden())))
    refused("another", file, other)
    refused("choice of examples", file, corpus, { seed = 1 })
    refused("choice of examples", file, corpus, { part = "held" })
    refused("choice of examples", file, sr.must(sr.data.open(path, { held = 0.2 })), {})
    refused("not a metric", path, corpus)
    refused("no such metric", folder .. "/none.metric", corpus)
    local loader <close> = sr.must(sr.data.loader { data = corpus, max_len = 64, packs = 1, prefetch = 0 })
    assert.has_error(function() length:check(loader) end)
    local same <close> = sr.must(sr.data.loader { data = corpus, packs = 1, prefetch = 0 })
    assert.equal(length, length:check(same))
  end)

  it("when its file is damaged", function()
    local file = sr.must(analyze { metrics = { "length" } }).length.about.path
    local bytes = assert(sys.read_file(file))
    for _, at in ipairs { 40, #bytes // 2, #bytes - 20 } do
      local bad = bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 1) .. bytes:sub(at + 1)
      assert(sys.write_file(folder .. "/bad.metric", bad))
      local metric = sr.data.metric(folder .. "/bad.metric", corpus)
      assert.is_true(metric == nil or not pcall(function()
        metric:values()
        metric:order()
      end))
    end
  end)
end)

describe("a metric of one's own", function()
  it("that goes wrong names the sequence, and writes nothing #once", function()
    local examples, at = {}, 70000
    for i = 1, at + 10 do examples[i] = { a = { 5 + i % 7 } } end
    local vocab = program.write(folder, "many.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\ng\n")
    sr.must(sr.data.write { out = folder .. "/many.sqr", vocab = vocab, examples = examples, columns = {} })
    local many = sr.must(sr.data.open(folder .. "/many.sqr"))
    for wrong, words in pairs {
      [ [["hard"]] ] = "returned 'hard'", ["0 / 0"] = "returned NaN", ["1 / 0"] = "returned inf",
      ["nil"] = "returned nil", ["error('no luck')"] = "no luck",
    } do
      local fn = load(("return function(s) if s.uid < %d then return s.length end return %s end"):format(at, wrong))()
      fails.returning("data", "metric 'own', sequence 70000: .*" .. words,
        analyze { data = many, metrics = { { name = "own", fn = fn } } })
      for _, name in ipairs(sr.must(sys.list(folder))) do assert.is_nil(name:find("many%.own")) end
    end
  end)

  it("may accumulate over all sequences", function()
    local made = sr.must(analyze { metrics = { { name = "lengths", size = 128, accumulate = function(totals, s)
      totals[s.length] = totals[s.length] + 1
    end } } })
    local histogram = corpus:histogram("train", 0, 128)
    for i, count in ipairs(histogram) do assert.equal(count, made.lengths:value(i - 1)) end
    assert.has_error(function() made.lengths:order() end)
  end)

  it("goes on where it was killed, and is kept when it is there", function()
    local calls = folder .. "/calls"
    local file = program.write(folder, "slow.lua", ([[
      return function(sequence)
        local log = io.open(%q, "a")
        log:write(sequence.uid, "\n")
        log:close()
        if sequence.uid == 9000 and os.getenv("DIE") then os.exit(9) end
        return sequence.ids[2] * 1.5
      end]]):format(calls))
    local examples = {}
    for i = 1, 10000 do examples[i] = { a = { 5 + i % 7, 5, 6, 7, 8, 9, 10, 11, 5, 5, 5, 5 } } end
    local vocab = program.write(folder, "more.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\ng\n")
    sr.must(sr.data.write { out = folder .. "/more.sqr", vocab = vocab, examples = examples, columns = {} })
    local words = { "analyze", folder .. "/more.sqr", "--metric", file, "--json" }
    local function called()
      return (select(2, (sys.read_file(calls) or ""):gsub("\n", "")))
    end
    assert.equal(9, (program.run(words, { before = "DIE=1" })))
    assert.equal(9001, called())
    local report = program.json(words).metrics[1]
    assert.is_true(called() < 9001 + 7000)
    assert.equal(10000, report.count)
    local metric = sr.must(sr.data.metric(folder .. "/more.slow.metric"))
    for uid = 0, 9999, 37 do assert.equal((5 + (uid + 1) % 7) * 1.5, metric:value(uid)) end
    local before = called()
    assert.equal(0, (program.run(words)))
    assert.equal(before, called())
    assert.is_false(sys.exists(folder .. "/more.slow.metric.part"))
  end)
end)

it("the loss under a checkpoint is the mean over the masked tokens of each sequence", function()
  local out = folder .. "/run"
  assert.equal(0, (program.run(small.words(path, "--out", out, "--max-steps", "2", "data.nsp=true"))))
  local options = { max_len = 48, seed = 3 }
  local made = sr.must(analyze {
    metrics = { { name = "loss", checkpoint = out, batch = 7 } }, max_len = 48, seed = 3,
  })
  options.data, options.packs, options.prefetch, options.targets = corpus, 1, 0, { "mlm" }
  local loader <close> = sr.must(sr.data.loader(options))
  local model = sr.must(sr.nn.pretrained(out, { heads = { "mlm" } }))
  model.training = false
  assert.equal(loader:examples(), made.loss:count())
  for uid = 0, loader:examples() - 1, 11 do
    local batch = loader:batch_of({ uid }, { arrange = "single" })
    assert.near(model:losses(batch).mlm.total:item(), made.loss:value(uid), 1e-5)
  end
  fails.returning(nil, "needs the checkpoint", analyze { metrics = { "loss" } })
end)

describe("seqrun analyze", function()
  it("draws percentiles and a histogram, and prints JSON", function()
    local words = { "analyze", path, "--metric", "length", "rarity", "--out", folder, "--max-len", "32" }
    local out = program.ok(words)
    assert.matches("length of %d+ sequences", out)
    assert.matches("rarity of %d+ sequences", out)
    assert.matches("50 %%", out)
    assert.matches("#####", out)
    local reports = program.json({
      "analyze", path, "--metric", "length", "--metric", "token_counts", "--out", folder, "--max-len", "32", "--json",
    }).metrics
    local total = 0
    for _, class in ipairs(reports[1].histogram) do total = total + class.sequences end
    assert.equal(reports[1].count, total)
    assert.equal("token_counts", reports[2].name)
  end)

  it("is the way out that a refused metric names", function()
    local options = { max_len = 40, seed = 9, short_seq_prob = 0.25, nsp = false, part = "held" }
    options.short_seq_by = "document"
    local held = sr.must(sr.data.open(path, { held = 0.125 }))
    local file = sr.must(analyze { metrics = { "length" } }).length.about.path
    local _, message = sr.data.metric(file, held, options)
    local words = {}
    for word in message:match("`seqrun (.*)`"):gmatch("%S+") do words[#words + 1] = word end
    assert.equal("analyze", words[1])
    assert.equal(0, (program.run(words)))
    assert.is_truthy(sr.data.metric(file, held, options))
  end)

  it("makes files that seqrun info describes", function()
    local file = sr.must(analyze { metrics = { "length" } }).length.about.path
    local out = program.ok { "info", file }
    assert.matches("metric.*length of %d+ sequences.*#####", out)
    local facts = program.json { "info", file, "--json" }
    assert.same({ "metric", "length" }, { facts.kind, facts.name })
    assert.equal("dataset", program.json({ "info", path, "--json" }).kind)
  end)

  it("refuses what it cannot do", function()
    local function refused(code, words, ...)
      program.refuses(code, words, program.run { "analyze", ... })
    end
    refused(2, "did you mean 'length'", path, "--metric", "lenght")
    refused(2, "name the metrics", path)
    refused(2, "%-%-checkpoint", path, "--metric", "loss")
    refused(2, "%-%-corpus", path, "--metric", "tfidf")
    refused(3, "no such data set", folder .. "/none.sqr", "--metric", "length")
    refused(2, "must return a function", path, "--metric", program.write(folder, "seven.lua", "return 7"))
    refused(2, "unknown option", path, "--metric", program.write(folder, "odd.lua", "return { fun = 1 }"))
    refused(2, "fewer than", path, "--metric", "rarity", "--slots", "7")
  end)
end)

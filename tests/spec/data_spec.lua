-- From text to data sets, as seen from a Lua program.

local fails = require("tests.support.fails")
local program = require "tests.support.program"
local sr = require "seqrun"
local sys = require "seqrun.core.sys"
local with = require("tests.support.with")

local folder = program.folder()

local function file(name, bytes) return program.write(folder, name, bytes) end

local function read(path) return assert(sys.read_file(path, 1 << 24)) end

local WORDS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\n##s\non\nmat\n.\nmask\n[\n]\n"
local TEXT = "The cat sat. The cat sat on the mat.\nOn the mats sat the cat.\n\nCats sat. [MASK] sat.\n"

local vocab, text = file("vocab.txt", WORDS), file("text.txt", TEXT)

---Prepares text and opens the result.
local function corpus(options, open)
  local out = folder .. "/x.sqr"
  local counts = assert(sr.data.prepare(with({ inputs = text, vocab = vocab, out = out, overwrite = true }, options)))
  return assert(sr.data.open(out, open or { held = 0 })), counts
end

describe("prepare", function()
  it("separates sentences and documents, and accounts for every sentence", function()
    local ds, counts = corpus()
    local info = ds:info()
    assert.same({ 2, 4 }, { info.documents, info.sentences })
    assert.equal(counts.sentences + counts.pieces, counts.stored + counts.empty)
    assert.equal("the cat sat.\nthe cat sat on the mat.\non the mats sat the cat.", (ds:decode(1):gsub(" %.", ".")))
  end)

  it("treats special tokens written in the text as plain text", function()
    local ids = corpus().core:unit(2)
    for _, id in ipairs(ids) do assert.not_equal(4, id) end
  end)

  it("reads one sentence per line in format lines", function()
    assert.equal(3, corpus({ format = "lines" }):info().sentences)
  end)

  it("starts documents at the given prefix", function()
    local path = file("chapters.txt", "CHAPTER I\n\nThe cat.\n\nThe mat.\n\nCHAPTER II\n\nThe cat sat.\n")
    assert.equal(5, corpus({ inputs = path }):info().documents)
    local ds = corpus { inputs = path, document_start = "CHAPTER " }
    assert.equal(2, ds:info().documents)
    assert.equal("CHAPTER ", ds:meta().document_start)
  end)

  it("drops and counts sentences without tokens, and documents without sentences", function()
    local _, counts = corpus { inputs = file("odd.txt", "\u{200B}\u{200B}\n\nThe cat.\n") }
    assert.same({ 1, 1, 1 }, { counts.empty, counts.documents_empty, counts.documents })
  end)

  it("writes the same file on any number of threads, from one input, .gz or several", function()
    local lines = {}
    for i = 1, 20000 do lines[i] = ("The cat sat on mat %d.%s"):format(i % 97, i % 7 == 0 and "\n" or "") end
    local long = file("long.txt", table.concat(lines, "\n"))
    corpus { inputs = long, threads = 1 }
    local one = read(folder .. "/x.sqr")
    for _, threads in ipairs { 2, 3 } do
      corpus { inputs = long, threads = threads }
      assert.is_true(one == read(folder .. "/x.sqr"))
    end
  end)

  it("trains a vocabulary if none is given, and stores it in and next to the data set", function()
    local ds = corpus { inputs = text, vocab = { size = 40, min_frequency = 1 } }
    assert.equal(read(folder .. "/x.vocab.txt"), (ds:tokenizer():plain()))
    assert.equal(#assert(sr.text.vocab(folder .. "/x.vocab.txt")), ds:vocab_size())
  end)

  it("rejects empty text, binary data and missing files, and leaves the old file intact", function()
    corpus()
    local before = read(folder .. "/x.sqr")
    local cases = {
      { file("empty.txt", ""), "data", "no words" },
      { file("blank.txt", "\n\n \n"), "data", "no words" },
      { file("binary.txt", "abc\0\1\2"), "data", "zero byte" },
      { folder .. "/nowhere.txt", "missing", "nowhere.txt" },
    }
    for _, case in ipairs(cases) do
      fails.returning(case[2], case[3], sr.data.prepare {
        inputs = case[1], vocab = vocab, out = folder .. "/x.sqr", overwrite = true,
      })
    end
    assert.is_true(before == read(folder .. "/x.sqr"))
    for _, name in ipairs(assert(sys.list(folder))) do assert.is_nil(name:find("tmp-", 1, true)) end
  end)

  it("counts a document once, even if its end is held out", function()
    local path = file("one.txt", "The cat sat. The cat sat on the mat. The mat sat.\n")
    local ds = corpus({ inputs = path }, { held = 0.3 })
    assert.same({ 1, true, 1 }, { ds:info().documents, ds:info().cut, ds:info().held.units })
    assert.truthy(tostring(ds):find("in 1 documents,", 1, true))
  end)

  it("says what to do if there is too little text to hold any out", function()
    local ds = corpus({ inputs = file("one.txt", "The cat sat.\n") }, { held = 0.3 })
    fails.returning(nil, "the part 'held' is empty; hold out more, or nothing (held: 0)",
      sr.data.loader { data = ds, part = "held", max_len = 32 })
  end)

  it("names the temporary file left behind by a killed process", function()
    local left = file(".x.sqr.tmp-0123abcd", "half")
    local lines = {}
    corpus { progress = function(line) lines[#lines + 1] = line end }
    assert.truthy(lines[1]:find(left .. " is left over from a killed prepare", 1, true), lines[1])
    os.remove(left)
  end)

  it("says how to make a missing data set", function()
    fails.returning("missing", "such data set; create it with `seqrun recipes/prepare.lua out=",
      sr.data.open(folder .. "/nowhere.sqr"))
  end)

  it("rejects a vocabulary without [MASK]", function()
    local bad = file("bad.txt", (WORDS:gsub("%[MASK%]", "word")))
    fails.returning("data", "[MASK]", sr.data.prepare { inputs = text, vocab = bad, out = folder .. "/y.sqr" })
  end)

  it("reports invalid options", function()
    assert.has_error(function() sr.data.prepare { inputs = text, out = "x", vocap = vocab } end)
    assert.has_error(function() sr.data.prepare { inputs = text, out = "x" } end)
    fails.returning("config", "read once",
      sr.data.prepare { inputs = "-", out = folder .. "/y.sqr", vocab = { size = 40 } })
    fails.returning("config", "inputs is empty",
      sr.data.prepare { inputs = {}, out = folder .. "/y.sqr", vocab = vocab })
    fails.raising("did you mean 'size'", sr.data.prepare, { inputs = text, out = "x", vocab = { sise = 40 } })
  end)

  it("checks that it can write before it starts", function()
    local made = {}
    fails.returning("storage", "name a file, not a directory", sr.data.prepare {
      inputs = text, out = folder, vocab = { size = 40 }, progress = function(line) made[#made + 1] = line end,
    })
    assert.same({}, made)
  end)
end)

describe("open", function()
  it("rejects a damaged, truncated or foreign file by name", function()
    corpus()
    local bytes = read(folder .. "/x.sqr")
    local cases = {
      bytes:sub(1, #bytes // 2), bytes:sub(1, 10), bytes:sub(1, -2), "", "hello",
      bytes:sub(1, -30) .. string.char(bytes:byte(-29) ~ 4) .. bytes:sub(-28),
    }
    for i, case in ipairs(cases) do
      local path = file("bad" .. i .. ".sqr", case)
      fails.returning("data", path, sr.data.open(path))
    end
  end)

  it("detects a flipped bit when it reads the tokens", function()
    corpus()
    local bytes, at = read(folder .. "/x.sqr"), 40
    local path = file("flip.sqr", bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 1) .. bytes:sub(at + 1))
    local ds, _, code = sr.data.open(path, { held = 0 })
    if ds then
      local good
      good, _, code = ds.core:verify()
      assert.is_nil(good)
    end
    assert.equal("data", code)
  end)

  it("rejects another vocabulary and names both", function()
    corpus()
    local other = file("other.txt", WORDS .. "dog\n")
    fails.returning("data", "of 15 tokens, not with", sr.data.open(folder .. "/x.sqr", { vocab = other }))
    assert.is_truthy(sr.data.open(folder .. "/x.sqr", { vocab = vocab }))
  end)

  it("prints itself and how much is held out", function()
    local ds = corpus(nil, { held = 0.3 })
    assert.equal(1, ds:info().held.units)
    assert.is_truthy(tostring(ds):find("held%-out 1 with %d+ tokens"))
  end)

  it("counts the tokens of a part", function()
    local ds = corpus(nil, { held = 0.3 })
    local sum, info = 0, ds:info()
    for _, part in ipairs { "train", "held" } do
      local counts = assert(ds:counts(part))
      assert.equal(ds:vocab_size(), #counts)
      for _, count in ipairs(counts) do sum = sum + count end
    end
    assert.equal(info.tokens, sum)
  end)
end)

describe("fixed examples", function()
  it("that are sorted by label warn when their end is held out", function()
    local tell = require("seqrun.data.dataset.held_classes")
    local function told(label_of, options)
      local out, examples = folder .. "/classes.sqr", {}
      for i = 1, 120 do examples[i] = { a = { 5, 6, 7 }, label = label_of(i) } end
      assert(sr.data.write { out = out, vocab = vocab, examples = examples,
        columns = { label = { type = "i32" } } })
      return tell(assert(sr.data.open(out, { held = options.held, split = options.split or "tail" })))
    end
    local function sorted(i) return i <= 60 and 1 or 0 end
    local message = told(sorted, { held = 0.1 })
    assert.truthy(message:find("classes.sqr: its last 12 of 120 examples, held out, have only the label 0, as if "
      .. 'sorted by label: their scores do not represent the rest; set split="keyed"', 1, true), message)
    message = told(function(i) return (i - 1) // 40 end, { held = 0.5 })
    assert.truthy(message:find("its last 60 of 120 examples, held out, have no label 0", 1, true), message)
    assert.is_nil(told(sorted, { held = 0 }))
    assert.is_nil(told(function(i) return i % 3 end, { held = 0.1 }))
    assert.is_nil(told(function() return 1 end, { held = 0.1 })) -- there is no other class
    assert.is_nil(told(function(i) return i == 5 and 1 or i % 2 * 2 end, { held = 0.1 })) -- seldom: absent by chance
    assert.is_nil(told(function(i) return i == 5 and -100 or 1 end, { held = 0.1 })) -- ignored labels are not a class
  end)

  it("warn at the opening unless the split was chosen #slow", function()
    local out, examples = folder .. "/sorted.sqr", {}
    for i = 1, 40 do examples[i] = { a = { 5, 6, 7 }, label = i // 21 } end
    assert(sr.data.write { out = out, vocab = vocab, examples = examples, columns = { label = { type = "i32" } } })
    local function said(options)
      return select(3, program.run { "-e", ('require("seqrun").data.open(%q, %s)'):format(out, options) })
    end
    assert.matches("^seqrun: warning: .*sorted.sqr: its last 8 of 40 examples", said "{ held = 0.2 }")
    assert.equal("", said '{ held = 0.2, split = "keyed" }')
    assert.equal("", said '{ held = 0.2, split = "tail" }')
    assert.equal("", said "{}")
  end)

  it("are restored with their labels", function()
    local out = folder .. "/given.sqr"
    local examples = {}
    for i = 1, 30 do examples[i] = { a = { 5, 6, 7 }, b = i % 2 == 0 and { 5, 10 } or nil, label = i - 1 } end
    assert.equal(30, assert(sr.data.write { out = out, vocab = vocab, examples = examples }))
    local ds = assert(sr.data.open(out))
    assert.same({ "examples", 0 }, { ds:info().kind, ds:info().held.units })
    local loader = assert(sr.data.loader { data = ds, max_len = 16, packs = 100, epochs = 1 })
    local update, labels = loader:next(), {}
    local scope <close> = sr.scope()
    for batch in update:batches() do
      for _, label in ipairs(batch.targets.label.labels:totable()) do labels[label] = true end
      assert.is_nil(batch.targets.nsp)
    end
    assert.equal(30, update.sequences)
    for i = 0, 29 do assert.is_true(labels[i]) end
  end)

  it("are rejected if there are none", function()
    fails.returning("data", "", sr.data.write { out = folder .. "/none.sqr", vocab = vocab, examples = {} })
    assert.is_false(sys.exists(folder .. "/none.sqr"))
  end)
end)

describe("stats", function()
  it("reports repeats, coverage and lengths", function()
    local path = file("twice.txt", "The cat sat.\n\nThe cat sat.\n\nThe mat sat on the cat. The cat sat.\n")
    corpus { inputs = path }
    local report = assert(require("seqrun.data.stats").examine(folder .. "/x.sqr", 32))
    assert.same({ 3, 1, 2, 0, 6 }, { report.documents, report.repeated_documents, report.repeated_sentences,
      report.unknown, report.vocab_used })
    local sum = 0
    for _, class in ipairs(report.lengths) do sum = sum + class.examples end
    assert.equal(report.train_examples, sum)
    local last = report.depths[#report.depths]
    assert.same({ 1, nil }, { report.depths[1].max_seqs, last.max_seqs })
    assert.near(report.filled_when_padded, report.depths[1].efficiency, 1e-12)
    assert.is_true(last.efficiency >= report.depths[1].efficiency)
    assert.equal(report.train_tokens, math.floor(last.efficiency * last.packs * report.max_len + 0.5))
    local shown = require("seqrun.data.stats").text(report)
    for line in shown:gmatch("[^\n]+") do assert.is_true(line:find("x.sqr") ~= nil or utf8.len(line) <= 80, line) end
    assert.matches("1 %(padded%) +" .. ("%.2f"):format(100 * report.filled_when_padded):gsub("%p", "%%%0"), shown)
  end)

  it("reports how much of the text sentence pairs use", function()
    local path = file("long.txt", ("The cat sat" .. (" on the mat"):rep(30) .. ".\n"):rep(4))
    corpus { inputs = path }
    local stats = require("seqrun.data.stats")
    local report = assert(stats.examine(folder .. "/x.sqr", 32))
    assert.is_true(report.used_share > 0 and report.used_share < 0.5, report.used_share)
    assert.matches(("of the text, %.0f %%%% of the tokens"):format(100 * report.used_share), stats.text(report))
    assert.is_nil(assert(stats.examine(folder .. "/x.sqr", 32, true)).used_share)
  end)

  it("reports the longest length of examples", function()
    assert(sr.data.write { out = folder .. "/e.sqr", vocab = vocab, examples = { { a = { 5, 6 } }, { a = { 5 } } } })
    local report = assert(require("seqrun.data.stats").examine(folder .. "/e.sqr"))
    assert.same({ 4, 2, 7 }, { report.max_len, report.train_examples, report.train_tokens })
  end)

  it("says what it was given instead of a data set", function()
    corpus { inputs = file("some.txt", "The cat sat.\n") }
    for path, words in pairs {
      [folder .. "/y.sqr"] = "y.sqr: no such data set.*did you mean '[^']+/e.sqr'",
      [folder .. "/x"] = "did you mean '[^']+/x.sqr'",
      ["tests/data/model/tiny/vocab.txt"] = "vocab.txt: a vocabulary, not a data set; seqrun info ",
    } do
      assert.equal("", (fails.exiting(3, words, { "stats", path })))
    end
  end)
end)

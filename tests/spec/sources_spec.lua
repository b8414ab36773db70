-- Several data sets as one, and draws from them by weight.

local fails = require("tests.support.fails")
local mixed = require("seqrun.data.loader.mixed")
local mpi = require("tests.support.mpi")
local numbers = require("tests.support.numbers")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local with = require("tests.support.with")

local exits, works = program.exits, program.works

local folder = program.folder()
local VOCAB = "tests/data/tokenizer/vocab.txt"
local news, tales, both = folder .. "/news.sqr", folder .. "/tales.sqr", folder .. "/both.sqr"

---Documents of two to five short sentences.
local function text(documents, noun)
  local lines = {}
  for d = 1, documents do
    for s = 1, 2 + d % 4 do
      lines[#lines + 1] = ("%s %d saw %s the %d hills."):format(noun, d * s % 91, ("very "):rep(d * s % 7), d + s)
    end
    lines[#lines + 1] = ""
  end
  return table.concat(lines, "\n")
end

local function prepare(path, words, vocab)
  local input = program.write(folder, "text.txt", words)
  sr.must(sr.data.prepare { inputs = input, out = path, vocab = vocab or VOCAB, format = "lines", overwrite = true })
  return path
end

local function open(files, held) return sr.must(sr.data.open(files, { held = held or 0 })) end

setup(function()
  prepare(news, text(90, "reporters"))
  prepare(tales, text(30, "giants"))
  prepare(both, text(90, "reporters") .. "\n" .. text(30, "giants"))
end)

---Checks that two data sets have the same updates.
local function check_updates(one, other, options)
  local a <close> = sr.must(sr.data.loader(with(options, { data = one })))
  local b <close> = sr.must(sr.data.loader(with(options, { data = other })))
  for update in function() return a:next() end do assert.equal(numbers.contents(update), numbers.contents(b:next())) end
end

describe("a list of data sets", function()
  it("is the data set of all their texts, whatever reads it", function()
    local one, list = open(both), open { news, tales }
    for _, key in ipairs { "tokens", "sentences", "documents" } do
      assert.equal(one:info()[key], list:info()[key], key)
    end
    for i = 1, one:info().documents do assert.equal(one:decode(i), list:decode(i)) end
    assert.same(one:counts(), list:counts())
    assert.is_true(list.core:verify())
    assert.not_equal(list:info().digest, open({ tales, news }):info().digest)
    check_updates(one, list, { max_len = 48, packs = 5, nsp = false, seed = 4, epochs = 2 })
  end)

  it("reads where words begin from the bits of each file", function()
    local json, files = "tests/data/families/modernbert/tokenizer.json", {}
    local words = { text(9, "the cat"), text(7, "a dog"), text(16, "they") }
    local all = prepare(folder .. "/bits.sqr", table.concat(words, "\n"), json)
    for i, own in ipairs(words) do files[i] = prepare(("%s/bits%d.sqr"):format(folder, i), own, json) end
    local options = { max_len = 32, packs = 3, nsp = false, mask = { whole_word = true, max = 8 }, epochs = 1 }
    check_updates(open(all), open(files), options)
  end)

  it("holds out a part of each, as alone, and takes other sentences of a pair from the same", function()
    local list, own = open({ news, tales }, 0.2), { open(news, 0.2), open(tales, 0.2) }
    for i, source in ipairs(list:info().sources) do
      assert.equal(own[i]:info().held.units, source.held)
      assert.equal(own[i]:info().train.units, source.train)
    end
    local loader <close> = sr.must(sr.data.loader { data = list, max_len = 48, packs = 8, nsp = true })
    local function count(ids, word)
      local found = 0
      for _, id in ipairs(ids) do found = found + (id == list:tokenizer():id(word) and 1 or 0) end
      return found
    end
    for uid = 0, loader:examples() - 1 do
      local ids = loader:batch_of({ uid }, { arrange = "single" }):host("ids")
      assert.is_true(count(ids, "reporters") == 0 or count(ids, "giants") == 0)
    end
  end)

  it("refuses files that do not fit, by name", function()
    local cased = prepare(folder .. "/other.sqr", text(5, "cats"), { size = 150 })
    fails.raising("news.sqr and .*other.sqr were not made alike: .*vocab.*prepare both with one tokenizer", open,
      { news, cased })
    local fixed = folder .. "/fixed.sqr"
    sr.must(sr.data.write { out = fixed, vocab = VOCAB, examples = { { a = { 7, 8 } }, { a = { 9 } } } })
    fails.raising("not made alike: kind is text in one, examples in the other", open, { news, fixed })
    local labelled = folder .. "/labelled.sqr"
    sr.must(sr.data.write { out = labelled, vocab = VOCAB, columns = { next_sentence = { type = "i32" } }, examples = {
      { a = { 7 }, next_sentence = 1 },
    } })
    fails.raising("column.next_sentence is example in one, not there in the other", open, { fixed, labelled })
    local lone = prepare(folder .. "/lone.sqr", "one sentence here\nand another one")
    fails.raising("file 2 is one document, of which nothing can be held out", open, { news, lone }, 0.1)
  end)
end)

describe("an order by weight", function()
  ---The items drawn by each update, and the sources.
  local function draws(counts, t, updates)
    local state, list = {}, {}
    local order, sources = mixed({ "s1", "s2", "s3", "s4", "s5" }, counts, t.each, t)
    for update = 1, updates do list[update] = order(update - 1, state) end
    return list, sources
  end

  local function source_of(counts, item)
    for i, count in ipairs(counts) do
      if item < count then return i end
      item = item - count
    end
  end

  it("gives each source its share of any first draws, to within one", function()
    for _, case in ipairs {
      { { 500, 400, 300 }, { 5, 3, 1 } }, { { 900, 50 }, { 40, 1 } }, { { 60, 70, 80, 90, 100 }, { 1, 2, 3, 4, 5 } },
    } do
      local counts, weights = case[1], case[2]
      local list, sources = draws(counts, { weights = weights, each = 10, seed = 5 }, 300)
      local drawn, total = {}, 0
      for _, update in ipairs(list) do
        for _, item in ipairs(update) do
          local s = source_of(counts, item)
          drawn[s], total = (drawn[s] or 0) + 1, total + 1
          for i, source in ipairs(sources) do
            assert.is_true(math.abs((drawn[i] or 0) - total * source.share) < 1)
          end
        end
      end
    end
  end)

  it("by hand: 3 to 1 is a, a, a, b; a temperature of 0.5 halves the logarithms of sizes", function()
    local counts = { 100, 100 }
    local list = draws(counts, { weights = { 3, 1 }, each = 8 }, 1)
    local names = {}
    for i, item in ipairs(list[1]) do names[i] = source_of(counts, item) end
    assert.same({ 1, 1, 1, 2, 1, 1, 1, 2 }, names)
    local _, sources = draws({ 900, 100 }, { temperature = 0.5, each = 4 }, 1)
    assert.equal(0.75, sources[1].share)
    assert.near(0.75 * 1000 / 900, sources[1].passes, 1e-12)
    assert.equal(2.5, sources[2].passes)
  end)

  it("draws all of a source before any again, and nothing twice in an update", function()
    local counts = { 97, 23 }
    local list = draws(counts, { weights = { 2, 3 }, each = 16, seed = 9 }, 230)
    local times = {}
    for number, update in ipairs(list) do
      local seen = {}
      for _, item in ipairs(update) do
        assert.is_nil(seen[item])
        seen[item], times[item] = true, (times[item] or 0) + 1
      end
      local least, most = math.huge, 0
      for i = 97, 119 do least, most = math.min(least, times[i] or 0), math.max(most, times[i] or 0) end
      assert.is_true(most - least <= 2, number) -- one more where the end of a pass lies in an update
    end
  end)

  it("refuses a source without anything, and one that an update would exhaust", function()
    fails.raising("source s2 has nothing to draw", draws, { 5, 0 }, { weights = { 1, 1 }, each = 1 }, 1)
    fails.raising("s2 has less than one draw an epoch", draws, { 50, 50 },
      { weights = { 1e9, 1 }, each = 1 }, 1)
    fails.raising("draws up to 9 of the 8 sequences of s2.*lower its weight", draws, { 50, 8 },
      { weights = { 1, 1 }, each = 16 }, 1)
  end)
end)

describe("a run on sources by weight", function()
  local function words(out, ...)
    return small.words(("[%s,%s]"):format(news, tales), "batch.sequences=12", "--out", folder .. "/" .. out, ...)
  end

  it("says what it draws, measures each source, and resumes and replays to the bit", function()
    local function run(out, steps, ...)
      return program.run(words(out, "data.weights=[3,1]", "eval.every=4", "verify.every=3", "save.every=5",
        "--max-steps", steps, ...))
    end
    works(run("a", "8"))
    assert.matches("source  tales: 25.0%% of what is drawn; %d+ in a pass, [%d.]+ passes in an epoch",
      assert(sys.read_file(folder .. "/a/run.log")))
    local lines, evals = small.metrics(folder .. "/a"), small.metrics(folder .. "/a", "eval")
    for _, line in ipairs(lines) do
      assert.equal(0.75, line.share_news)
      assert.is_number(line.tales_mlm_loss)
    end
    local last = evals[#evals]
    assert.near(0.75 * last.news_mlm_loss + 0.25 * last.tales_mlm_loss, last.weighted_mlm_loss, 1e-12)
    assert.is_true(math.min(last.news_mlm_loss, last.tales_mlm_loss) <= last.mlm_loss)
    assert.is_true(math.max(last.news_mlm_loss, last.tales_mlm_loss) >= last.mlm_loss)
    works(run("b", "3"))
    works(run("b", "8", "--resume"))
    assert.same(small.weights(folder .. "/a", 8), small.weights(folder .. "/b", 8))
    assert.same(lines, small.metrics(folder .. "/b"))
    exits(2, "may not change on resume", run("b", "9", "--resume", "data.weights=[4,1]"))
    assert.matches("all bit%-identical", works(program.run { "verify", folder .. "/a" }))
    assert.matches("tales.sqr, its held%-out part", works(program.run { "eval", folder .. "/a", tales }))
    assert.matches("mlm loss [%d.]+ %(news [%d.]+, tales [%d.]+%)",
      works(program.run { "eval", folder .. "/a", news, tales }))
  end)

  mpi.tests(it, pending)("has the same bits and metrics on two ranks", function()
    local keys = { "data.temperature=0.5", "--max-steps", "4", "batch.micro_packs=1", "batch.shares=2" }
    program.ok(words("one", table.unpack(keys)))
    works(mpi.run(2, words("two", table.unpack(keys))))
    assert.same(small.weights(folder .. "/one", 4), small.weights(folder .. "/two", 4))
    assert.same(small.metrics(folder .. "/one"), small.metrics(folder .. "/two"))
  end)

  it("refuses what does not go with it", function()
    for message, key in pairs {
      ["exclude each other"] = { "data.weights=[1,1]", "data.temperature=1" },
      ["has 3 numbers for the 2 sources"] = { "data.weights=[1,1,1]" },
      ["batch.adjust must be batch"] = { "data.weights=[1,1]", "batch.adjust=betas" },
      ["more than 0"] = { "data.weights=[1,0]" },
      ["for several sources; list them, as in data.file=%[a,b%]"] = { "data.weights=[3,1]", "data.file=" .. news },
    } do
      fails.exiting(2, message, words("none", table.unpack(key)))
    end
    local curriculum = small.recipe("curriculum", news, ("data.file=[%s,%s]"):format(news, tales), "rate.total=9",
      "rate.warmup=1", "--dry-run", "batch.sequences=12", "model.hidden_size=16", "model.num_attention_heads=2",
      "curriculum.rarity.min=50", "curriculum.rarity.max=100", "curriculum.rarity.total=5")
    fails.exiting(2, "a metric belongs to one data set, not to the list", curriculum)
    curriculum[#curriculum + 1] = "data.weights=[3,1]"
    fails.exiting(2, "but a curriculum, .* decides here which sequences an update has", curriculum)
  end)
end)

describe("labelled files by weight", function()
  local function rows(name, count, words)
    local lines = { "text,label" }
    for i = 1, count do lines[i + 1] = ("%s %d,%s"):format(words, i, i % 2 == 0 and "yes" or "no") end
    return program.write(folder, name, table.concat(lines, "\n"))
  end

  it("are data sets of their own, which questions and pairs draw from too", function()
    local x, y = rows("x.csv", 60, "one"), rows("y.csv", 40, "two")
    local options = {
      task = "classify", train = { x, y }, vocab = VOCAB, folder = folder .. "/sets", weights = { 1, 3 },
    }
    local sets = sr.must(sr.data.files(options))
    assert.same({ "x", "y" }, sets.train:sources())
    local same = setmetatable({ files = { "a.sqr", "b/a.sqr", "a_2.sqr" } }, { __index = sets.train })
    assert.same({ "a", "a_2", "a_2_3" }, sets.train.sources(same))
    assert.equal(y .. ":2", sets.train:place(61))
    local loader <close> = sr.must(sr.data.loader {
      data = sets.train, by = "sequences", sequences = 8, max_len = 16, weights = { 1, 3 }, targets = { "label" },
    })
    local update = loader:next()
    assert.same({ 8, 2 }, { update.sequences, select(2, update.core:of_source(1, 1)) })
    local held = sr.must(sr.data.files(with(options, { held = 0.25, seed = 3 }))).dev:info()
    assert.equal(100, held.held.units + held.train.units)
    exits(2, "batch.by=packs draws whole packs, but data.weights a number", program.run { "recipes/finetune.lua",
      "task=classify", ("data.train=[%s,%s]"):format(x, y), "data.weights=[1,3]", "batch.by=packs",
      "init.from=" .. folder, "--dry-run" })
    program.write(folder, "y.csv", "text,label\none,yes\ntwo,perhaps\n")
    local wrong = select(2, sr.data.files(options))
    assert.matches("alike: labels.label is .*; list all labels in data.labels$", wrong)
    assert.equal(3, #sr.must(sr.data.files(with(options, { labels = { "no", "yes", "perhaps" } }))).labels)
  end)
end)

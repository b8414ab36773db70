-- Words: counted when text is prepared, exact in every update, and what milestones of a run are made of.

local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local folder, corpus = small.folder()

---The words of a text by another way.
local function count(text)
  local words = 0
  for _ in text:gmatch("%S+") do words = words + 1 end
  return words
end

local function run(words, ...)
  local all = table.move({ ... }, 1, select("#", ...), #words + 1, { table.unpack(words) })
  local out = works(program.run(small.words(corpus, table.unpack(all))))
  return out
end

local function recipe(...)
  local words = small.words(corpus, ...)
  words[1] = "recipes/babylm.lua"
  return program.run(words)
end

describe("the words of a data set", function()
  it("are those that white space separates", function()
    local texts = {
      "The cat  sat.\tOn it's o'clock -- a mat, twenty-one times.", "one", " x ", "A\u{A0}b\u{3000}c d\u{2003}e.",
      ("word "):rep(5000), "caf\u{E9} na\u{EF}ve \u{4E2D}\u{6587} \u{1F600} end.", "a\u{1}b c\u{7F}d 12345678 1234567",
    }
    local wanted = { 11, 1, 1, 5, 5000, 5, 4 }
    for i, text in ipairs(texts) do
      local counts = sr.must(sr.data.prepare {
        inputs = program.write(folder, "w.txt", text .. "\n"), out = folder .. "/w.sqr", overwrite = true,
        vocab = "tests/data/tokenizer/vocab.txt",
      })
      assert.equal(wanted[i], counts.words, text:sub(1, 40))
    end
  end)

  it("add up over parts, epochs, cut sequences and pairs", function()
    local text = sr.must(sys.read_file(folder .. "/corpus.txt"))
    local set = sr.must(sr.data.open(corpus, { held = 0.2 }))
    local info = set:info()
    assert.equal(count(text), info.train.words + info.held.words)
    for _, max_len in ipairs { 16, 48 } do
      local loader <close> = sr.must(sr.data.loader {
        data = set, max_len = max_len, packs = 3, nsp = false, epochs = 2,
      })
      local sum = 0
      for update in function() return loader:next() end do
        assert.is_true(update.words > 0)
        sum = sum + update.words
        assert.equal(sum, update.upto.words)
      end
      assert.equal(2 * info.train.words, sum)
    end
    local pairs_of <close> = sr.must(sr.data.loader { data = set, max_len = 48, packs = 3, nsp = true, epochs = 1 })
    local update = pairs_of:next()
    local ranks = 0
    for rank = 0, 1 do
      local own <close> = sr.must(sr.data.loader {
        data = set, max_len = 48, packs = 3, nsp = true, epochs = 1, rank = rank, ranks = 2,
      })
      ranks = ranks + own:next().words
    end
    assert.equal(2 * update.words, ranks) -- every rank knows those of the whole update
  end)

  it("are missing from fixed examples, which runs that need them refuse", function()
    local path = folder .. "/fixed.sqr"
    sr.must(sr.data.write { out = path, vocab = folder .. "/corpus.vocab.txt", examples = {
      { a = { 7, 8, 9 } }, { a = { 8, 9 } }, { a = { 9, 9, 8 } },
    } })
    assert.is_nil(sr.must(sr.data.open(path)):info().train.words)
    for _, key in ipairs { "stop.words=10", "save.at.words=[10]", "rate.by=words" } do
      exits(2, "needs the words of the data set, which has not counted any",
        program.run(small.words(path, "data.nsp=false", "data.held=0", key, "--out", folder .. "/none")))
    end
  end)
end)

describe("save.at", function()
  local WORDS = {
    "data.nsp=false", "--max-steps", "9", "save.at.words=[1_000, 2_000, 2_100, 1_000_000]", "save.at.steps=[3]",
  }

  it("keeps the first model that has seen so many words, which other programs load", function()
    local out = run(WORDS, "--out", folder .. "/a")
    local lines = small.metrics(folder .. "/a")
    for _, one in ipairs { { "chck_1k", 1000 }, { "chck_2k", 2000 }, { "chck_2100", 2100 }, { "chck_step_3" } } do
      local path = folder .. "/a/" .. one[1]
      local facts = sr.must(require("seqrun.checkpoint").pretrained(path))
      assert.equal("bert", facts.family.name)
      for _, name in ipairs { "config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json" } do
        assert.is_true(sys.exists(path .. "/" .. name), name)
      end
      assert.is_false(sys.exists(path .. "/trainer"))
      local step = 3
      for i = #lines, 1, -1 do
        if one[2] and lines[i].words >= one[2] then step = lines[i].step end
      end
      run(WORDS, "--out", ("%s/%s"):format(folder, one[1]), "--max-steps", tostring(step))
      local newest = ("%s/%s/step-%09d/model.safetensors"):format(folder, one[1], step)
      assert.equal(sys.hash_file(newest), sys.hash_file(path .. "/model.safetensors"), one[1])
    end
    assert.is_false(sys.exists(folder .. "/a/.milestone"))
    assert.is_false(sys.exists(folder .. "/a/chck_1M"))
    assert.matches("before chck_1M", sr.must(sys.read_file(folder .. "/a/run.log")) .. out)
  end)

  it("gives the same models after a stop and a resume, with the same words", function()
    run(WORDS, "--out", folder .. "/b", "--max-steps", "2")
    run({ "--resume=" .. folder .. "/b", "--max-steps", "9" })
    assert.same(small.metrics(folder .. "/a"), small.metrics(folder .. "/b"))
    for _, name in ipairs { "chck_1k", "chck_2k", "chck_2100", "chck_step_3" } do
      assert.equal(sys.hash_file(folder .. "/a/" .. name .. "/model.safetensors"),
        sys.hash_file(folder .. "/b/" .. name .. "/model.safetensors"), name)
    end
  end)

  it("keeps the same models on two ranks #slow", function()
    local why = mpi.missing()
    if why then return pending(why) end
    local all = table.move(WORDS, 1, #WORDS, 1, {})
    table.move({ "threads=1", "--out", folder .. "/r" }, 1, 3, #all + 1, all)
    works(mpi.run(2, small.words(corpus, table.unpack(all)), {
      before = "OMPI_MCA_mpi_yield_when_idle=1",
    }))
    for _, name in ipairs { "chck_1k", "chck_2k", "chck_2100", "chck_step_3" } do
      assert.equal(sys.hash_file(folder .. "/a/" .. name .. "/model.safetensors"),
        sys.hash_file(folder .. "/r/" .. name .. "/model.safetensors"), name)
    end
  end)

  it("counts words to the end of a run, or drives its rate", function()
    run({ "data.nsp=false", "stop.words=1500" }, "--out", folder .. "/c")
    local lines = small.metrics(folder .. "/c")
    assert.is_true(lines[#lines].words >= 1500 and lines[#lines - 1].words < 1500)
    run({ "data.nsp=false", "rate.by=words", "rate.total=1500" }, "--out", folder .. "/d")
    lines = small.metrics(folder .. "/d")
    assert.is_true(lines[#lines].words >= 1500 and lines[#lines].lr == 0)
  end)
end)

it("a checkpoint of a version that did not count words makes their number unknown, not 0", function()
  local goals, loaders = require("seqrun.run.checks.goals"), require("seqrun.run.loaders")
  local set = sr.must(sr.data.open(corpus, { held = 0.2 }))
  local loader <close> = sr.must(sr.data.loader { data = set, max_len = 48, packs = 3, nsp = false, prefetch = 0 })
  local all = loaders.new { loader = loader }
  all:next("train", 1, 0)
  all:advance()
  local state = all:state()
  assert.is_true(all:knows_words() and state.totals.words > 0 and all:counts().words == state.totals.words)
  state.totals.words = nil
  all:restore(state)
  all:next("train", 2, 0)
  assert.is_nil(all:counts().words)
  all:advance()
  assert.is_false(all:knows_words())
  assert.is_nil(all:counts().words or all:state().totals.words)
  assert.matches("^save.at.words: the checkpoint is of a version that did not count words",
    goals.words_lost({ save = { at = { words = { 10 } } }, rate = {} }, all:knows_words()))
  assert.is_nil(goals.words_lost({ save = { at = {} }, rate = { by = "step" } }, false))
end)

it("recipes/babylm.lua trains for its epochs and no more, and keeps its models", function()
  works(recipe("--out", folder .. "/e", "epochs=2", "rate.by=words", "rate.warmup_by=words",
    "rate.warmup=100", "rate.total=100000", "save.at.words=[1000]"))
  local words = sr.must(sr.data.open(corpus, { held = 0.1 })):info().train.words
  local lines = small.metrics(folder .. "/e")
  assert.equal(2 * words, lines[#lines].words)
  assert.is_true(sys.exists(folder .. "/e/chck_1k/model.safetensors"))
end)

it("recipes/babylm.lua says how to prepare the challenge's corpus, where it is missing", function()
  exits(3, "none.sqr: no such data set; prepare the challenge's corpus: seqrun recipes/prepare.lua",
    recipe("data.file=" .. folder .. "/none.sqr", "--dry-run"))
end)

it("recipes/babylm.lua refuses an eleventh epoch, and more words than the track has", function()
  exits(2, "epochs", recipe("--out", folder .. "/f", "epochs=11"))
  local big = folder .. "/big.txt"
  local file = assert(io.open(big, "w"))
  for _ = 1, 10001 do file:write(("a "):rep(1000), "\n") end
  file:close()
  sr.must(sr.data.prepare { inputs = big, out = folder .. "/big.sqr", format = "lines",
    vocab = folder .. "/corpus.vocab.txt" })
  exits(2, "has 10001000 words, but track strict_small allows 10000000",
    recipe("--out", folder .. "/f", "data.file=" .. folder .. "/big.sqr", "data.held=0"))
end)

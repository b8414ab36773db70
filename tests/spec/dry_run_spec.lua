-- A dry run leaves no file: no run, no metric of a curriculum, no data set of labelled files.

local files = require("tests.support.task_files")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local folder = program.folder()

---All files below a directory, with their sizes and times.
local function listing(path)
  local pipe <close> = assert(io.popen(("find '%s' -printf '%%p %%s %%T@\\n' | sort"):format(path)))
  return pipe:read("a")
end

---Runs a command in a directory of its own, without and with --dry-run; only the first may leave files.
local function check(words, expected)
  local here = folder .. "/here"
  assert(sys.make_dirs(here))
  words[1] = sys.real_path(words[1])
  local before = listing(folder)
  local dry = table.move(words, 1, #words, 1, {})
  dry[#dry + 1] = "--dry-run"
  local out, err = program.ok(dry, { before = ("cd '%s' && "):format(here) })
  assert.matches("nothing was written", out)
  assert.matches(expected, out .. err)
  assert.equal(before, listing(folder))
  program.ok(words, { before = ("cd '%s' && "):format(here) })
  assert.not_equal(before, listing(folder))
end

describe("a dry run", function()
  it("computes the metrics of a curriculum without leaving them", function()
    local corpus = small.corpus(folder)
    local words = small.words(corpus, "curriculum.rarity.min=30", "curriculum.rarity.max=100",
      "curriculum.rarity.total=8", "curriculum.length_rarity.kind=fraction", "curriculum.length_rarity.min=0.5",
      "curriculum.length_rarity.max=1", "curriculum.length_rarity.total=8", "--max-steps", "2", "--out",
      folder .. "/run")
    words[1] = "recipes/curriculum.lua"
    check(words, "rarity: .*corpus.rarity.metric did not exist; computed for %d+ sequences .*; not kept")
    assert.is_true(sys.exists(folder .. "/corpus.rarity.metric"))
  end)

  it("does not ask a rate that depends on tokens for its values at steps", function()
    local recipe, changed = sr.must(sys.read_file("recipes/pretrain.lua")):gsub("local rate = [^\n]+", [[
local rate = sr.schedule.custom(function(tokens)
  assert(tokens == 0 or tokens > 100, "a step instead of tokens")
  return 1e-3
end, "real_tokens")]])
    assert.equal(1, changed)
    local words = small.words(small.corpus(folder), "--dry-run", "--out", folder .. "/tokens")
    words[1] = program.write(folder, "tokens.lua", recipe)
    program.write(folder, "tokens.yaml", sr.must(sys.read_file("recipes/pretrain.yaml")))
    local out = program.ok(words)
    assert.matches("\n +rate +a function of real_tokens\n", out)
  end)

  it("reads labelled files without leaving data sets", function()
    local base, data = files.encoder(folder .. "/base"), files.write(folder, "classify")
    local words = { "recipes/finetune.lua", "task=classify", "data.train=" .. data.train, "init.from=" .. base,
      "data.max_len=48", "data.held=0.2", "save.minutes=0", "--quiet", "--max-steps", "2", "--out", folder .. "/tuned" }
    table.move(data.words, 1, #data.words, #words + 1, words)
    check(words, "480 examples")
    assert.is_true(sys.is_dir(folder .. "/here/runs/data"))
  end)

  it("measures some sequences of a micro-batch that would take long", function()
    local peak, rehearsal = require("seqrun.run.measure.peak"), require("seqrun.run.screen.rehearsal")
    local measure = peak.measure
    finally(function() peak.measure = measure end)
    peak.measure = function() return 1e9 end
    local loader <close> = sr.must(sr.data.loader { data = sr.must(sr.data.open(small.corpus(folder))), max_len = 64,
      packs = 8, prefetch = 0 })
    local model, told = { flops = function() return 1e12 end, params = { precision = "f32" } }, nil
    local steps = rehearsal({ update = loader:next(), loader = loader, model = model, begin = function() end },
      function(micros, _, rows, whole) told = { #micros, rows, whole } end)
    for _, update in steps do
      assert.same({ 1, 1 }, { update.count, update:batch(1).sequences }) -- what an objective sees
      for batch in update:batches() do assert.equal(1, batch.sequences) end
    end
    assert.same({ 50, 128, 512 }, told)
  end)
end)

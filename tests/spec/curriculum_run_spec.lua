-- recipes/curriculum.lua: a run with two metrics, a length schedule, token dropping, a batch ramp and a masking rate
-- that changes resumes to the bit, and is the same with other threads and prefetching.

local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local STEPS = 10

local folder, corpus = small.folder()
local straight = folder .. "/straight"

local COURSE = {
  "curriculum.length.min=16", "curriculum.length.max=48", "curriculum.length.total=6",
  "curriculum.rarity.type=root", "curriculum.rarity.degree=2", "curriculum.rarity.min=30", "curriculum.rarity.max=100",
  "curriculum.rarity.total=8", "curriculum.short.kind=value", "curriculum.short.min=30", "curriculum.short.max=48",
  "curriculum.short.quantum=1", "curriculum.short.total=7", "token_drop.keep.min=16",
  "token_drop.keep.max=48", "token_drop.keep.total=9",
  "mask.rate.min=0.15", "mask.rate.max=0.3", "mask.rate.total=9", "mask.rate.down=true", "batch.ramp.min=8",
  "batch.ramp.max=24", "batch.ramp.total=5", "batch.scale=sqrt", "curriculum.window=3", "model.num_hidden_layers=3",
}

local function words(...)
  local list = small.words(corpus, table.unpack(COURSE))
  list[1] = "recipes/curriculum.lua"
  list[#list + 1] = ("curriculum.rarity.file=%s/corpus.rarity.metric"):format(folder)
  list[#list + 1] = ("curriculum.short.file=%s/corpus.length.metric"):format(folder)
  return table.move({ ... }, 1, select("#", ...), #list + 1, list)
end

local function run(...) return program.ok(words(...)) end

setup(function()
  local opened = sr.must(sr.data.open(corpus, { held = 0.1 }))
  sr.must(sr.data.analyze { data = opened, metrics = { "rarity", "length" }, out = folder, max_len = 48, seed = 42 })
  run("--out", straight, "--max-steps", tostring(STEPS))
end)

local function check_same(out)
  assert.same(small.metrics(straight), small.metrics(out))
  assert.same(small.weights(straight, STEPS), small.weights(out, STEPS))
end

describe("a run whose lengths, examples, kept tokens, masks and batches change", function()
  it("reports what changes in its metrics, and counts what layers really processed", function()
    local lines = small.metrics(straight)
    local first, last = lines[1], lines[STEPS]
    assert.is_true(first.curriculum_length < 48 and first.curriculum_unlocked < last.curriculum_unlocked)
    assert.is_true(first.curriculum_rarity < 100 and last.curriculum_rarity == 100 and last.curriculum_short == 48)
    assert.is_true(first.token_drop < last.token_drop and last.token_drop == 48)
    assert.is_true(first.mask_rate > last.mask_rate)
    local before = lines[STEPS - 1]
    assert.is_true(last.layer_tokens < 3 * last.real_tokens) -- the middle dropped some, not at the end
    assert.equal(3 * (last.real_tokens - before.real_tokens), last.layer_tokens - before.layer_tokens)
    assert.is_true(last.sequences - before.sequences > first.sequences)
  end)

  for _, stop in ipairs { 1, 2, 3, 5, 8 } do
    it(("is the same after a stop at step %d, on other threads"):format(stop), function()
      local out = ("%s/stop%d"):format(folder, stop)
      run("--out", out, "--max-steps", tostring(stop), "--threads", "1")
      program.ok { "recipes/curriculum.lua", "--resume=" .. out, "--max-steps", tostring(STEPS),
        "--quiet", "--threads", "3" }
      check_same(out)
    end)
  end

  it("is the same when updates are made ahead by no worker or by many", function()
    for prefetch, workers in pairs { [0] = 1, [2] = 0, [5] = 3 } do
      local out = ("%s/ahead%d"):format(folder, prefetch)
      run("--out", out, "--max-steps", tostring(STEPS), "data.prefetch=" .. prefetch, "data.workers=" .. workers)
      check_same(out)
    end
  end)

  mpi.tests(it, pending)("is the same on two ranks, also with fresh examples each epoch", function()
    local one, two = folder .. "/one", folder .. "/two"
    local more = {
      "batch.shares=2", "curriculum.examples=fresh", "curriculum.window=2", "curriculum.short.min=40", "--threads", "1",
      "--max-steps", tostring(STEPS),
    }
    run("--out", one, table.unpack(more))
    program.works(mpi.run(2, words("--out", two, table.unpack(more))))
    assert.same(small.metrics(one), small.metrics(two))
    assert.same(small.weights(one, STEPS), small.weights(two, STEPS))
  end)

  it("may depend on effective tokens, and ends at a number of them, also after a stop", function()
    local by = { "curriculum.length.by=effective_tokens", "curriculum.length.total=1500",
      "token_drop.keep.by=effective_tokens", "token_drop.keep.total=4000", "rate.by=effective_tokens",
      "rate.total=5000" }
    local whole, stopped = folder .. "/tokens", folder .. "/tokens2"
    run("--out", whole, table.unpack(by))
    run("--out", stopped, "--max-steps", "4", table.unpack(by))
    program.ok { "recipes/curriculum.lua", "--resume=" .. stopped, "--quiet" }
    local lines = small.metrics(whole)
    assert.is_true(lines[#lines].effective_tokens >= 5000)
    assert.same(lines, small.metrics(stopped))
    assert.same(small.weights(whole, #lines), small.weights(stopped, #lines))
  end)

  it("says on a resume that what depends on the time is not exact", function()
    local out = folder .. "/timed"
    local by = { "curriculum.length.by=seconds", "curriculum.length.total=1000", "rate.by=seconds", "rate.total=900" }
    run("--out", out, "--max-steps", "2", table.unpack(by))
    local _, err = program.ok { "recipes/curriculum.lua", "--resume=" .. out, "--quiet", "--max-steps", "3" }
    assert.truthy(err:find("length depends on time, so results differ from those", 1, true), err)
    assert.truthy(err:find("rate depends on time", 1, true), err)
  end)

  it("plans, explains and refuses before it trains", function()
    local text = run("--dry-run", "--out", folder .. "/none")
    assert.truthy(text:find("token_drop.keep: linear, 16 to 48 over 9 steps", 1, true), text)
    local function refused(expected, ...)
      local code, _, message = program.run(words("--out", folder .. "/none", ...))
      assert.is_true(code == 2 or code == 3, message)
      assert.truthy(message:find(expected, 1, true), message)
    end
    refused("curriculum.length: max is 64, but data.max_len is 48", "curriculum.length.max=64")
    refused("curriculum.rarity: max is 101; a percentile must be 1 to 100", "curriculum.rarity.max=101")
    refused("curriculum.loss.file is missing", "curriculum.loss.min=1", "curriculum.loss.max=9",
      "curriculum.loss.total=9")
    refused("another choice of examples", "seed=7")
    refused("token_drop.keep: max is 0", "token_drop.keep=0")
    refused("token_drop: keep begins at 64 tokens, but sequences have at most 48", "token_drop.keep=64")
    refused("curriculum.length: min is 10, which is not a multiple of quantum 8", "curriculum.length.min=10")
    refused("curriculum.length: max is 0", "curriculum.length.min=0", "curriculum.length.max=0")
  end)

  it("takes functions of the counters, and a failing one is a sentence with key, step and way out", function()
    local out, small_words = folder .. "/custom", small.words(corpus, "--max-steps", "6")
    small_words[1] = "recipes/curriculum.lua"
    local function ended(key, text)
      local path = program.write(folder, "own.lua", "return function(c) if c.step > 3 then " .. text .. " end "
        .. "return 16 end")
      local list = table.move(small_words, 1, #small_words, 1, {})
      for i, word in ipairs { "type=custom", "fn=" .. path } do list[#small_words + i] = key .. "." .. word end
      list[#list + 1], list[#list + 2], list[#list + 3] = "--out", out, "model.num_hidden_layers=3"
      list[#list + 1] = "curriculum.window=1"
      sys.remove(out)
      return program.run(list)
    end
    for _, key in ipairs { "curriculum.length", "batch.ramp", "token_drop.keep" } do
      program.works(ended(key, "return 24"))
      program.exits(1, "^seqrun: " .. key .. ": the custom function failed at step 4: .*own.lua:1: late; correct it "
        .. "and resume the run\n$", ended(key, "error('late')"))
      program.exits(1, "^seqrun: " .. key .. ": the custom function returned 'x' at step 4; it must return a finite",
        ended(key, "return 'x'"))
    end
  end)
end)

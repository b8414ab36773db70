-- Steps that are computed twice (verify.every), and recorded steps that are computed again (seqrun verify).

local checked = require("tests.support.checked_run")
local fault = require("tests.support.fault")
local json = require("seqrun.core.json")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local folder
before_each(function() folder = program.folder() end)
after_each(function() sys.remove(folder) end)

local function lines(name) return small.metrics(folder .. "/" .. (name or "run"), "verify") end

---Trains with the program; fails with its words.  A first setting may name another recipe.
local function train(name, first, ...)
  local recipe = first:match("%.lua$") and first or nil
  local words = small.words(small.corpus(folder), "--out", folder .. "/" .. name, recipe and ... or first,
    table.unpack({ ... }, recipe and 2 or 1))
  words[1] = recipe or words[1]
  local code, _, err = program.run(words)
  assert.equal("0 ", code .. " " .. err)
end

describe("a checked step #slow", function()
  it("changes no bit of the run, and records the same hashes on any threads", function()
    train("plain", "--max-steps=9", "save.every=4")
    train("each", "--max-steps=9", "save.every=4", "verify.every=1", "threads=1")
    train("third", "--max-steps=9", "verify.every=3", "verify.action=retry", "save.background=false", "threads=3")
    for _, name in ipairs { "each", "third" } do
      assert.same(small.weights(folder .. "/plain", 9), small.weights(folder .. "/" .. name, 9))
      assert.same(small.metrics(folder .. "/plain"), small.metrics(folder .. "/" .. name))
    end
    local each, third = lines("each"), lines("third")
    assert.same({ 9, 3 }, { #each, #third })
    for _, line in ipairs(third) do assert.same(each[line.step], line) end
  end)

  it("is checked in a curriculum with dropped tokens, with LAMB, Muon and bf16", function()
    for i, words in ipairs {
      { "recipes/pretrain.lua", "optimizer.name=lamb", "token_drop.keep=0.5", "model.num_hidden_layers=4" },
      { "recipes/pretrain.lua", "optimizer.name=muon", "precision=bf16", "optimizer.average=0.9" },
      { "recipes/curriculum.lua", "curriculum.length.min=16",
        "curriculum.length.max=48", "curriculum.length.total=6" },
    } do
      local recipe = table.remove(words, 1)
      train("plain" .. i, recipe, "--max-steps=6", table.unpack(words))
      train("checked" .. i, recipe, "--max-steps=6", "verify.every=2", table.unpack(words))
      assert.same(small.weights(folder .. "/plain" .. i, 6), small.weights(folder .. "/checked" .. i, 6))
      assert.equal(3, #lines("checked" .. i))
      assert.equal(0, (program.run { "verify", folder .. "/checked" .. i, "--last" }) % 3)
    end
  end)

  it("goes on over a stop", function()
    train("whole", "--max-steps=8", "verify.every=2")
    train("parts", "--max-steps=3", "verify.every=2")
    train("parts", "--max-steps=8", "verify.every=2", "--resume")
    assert.same(lines("whole"), lines("parts"))
  end)
end)

---Runs with a flip of the weight, moment or gradient of a tensor; returns what was said and how it ended.
local function flipped(action, where, extra)
  local said = {}
  local hooks = { warn = function(text) said[#said + 1] = text end }
  hooks[where.at or "start"] = function(c)
    if c.step ~= where.step or where.number and c.number ~= where.number then return end
    local name = "bert.pooler.dense.weight"
    local m = c.optimizer:moments(name)
    local all = { weight = c.model.params:master(name), m = m, gradient = c.model.params:get(name):grad() }
    fault.flip(all[where.kind], 32 * 7 + 3)
  end
  local good, problem = checked.train(folder, { "--max-steps=5", "verify.every=1", "verify.action=" .. action,
    table.unpack(extra or {}) }, hooks)
  return said, good, problem
end

describe("a difference #slow", function()
  it("stops the run, is named and recorded, and both states are kept", function()
    local said, good, problem = flipped("stop", { step = 2, number = 2, kind = "weight" })
    assert.is_false(good)
    assert.equal("device", problem.code)
    assert.matches("step 2 computed twice differs on rank 0: .*", problem.message)
    assert.equal(1, #said)
    local line = lines()[2]
    assert.same({ 2, false, 0 }, { line.step, line.equal, line.rank })
    for _, name in ipairs { "first", "second" } do
      local path = ("%s/run/differences/step-%09d-%s.safetensors"):format(folder, 2, name)
      assert.is_truthy(sr.must(sr.checkpoint.read_tensors(path))["w.bert.pooler.dense.weight"])
    end
    assert.is_false(sys.exists(folder .. "/run/step-000000002"))
  end)

  it("names the tensor and the element of a moment and of a gradient", function()
    local said = flipped("continue", { step = 3, number = 1, kind = "m" })
    assert.matches("bert.pooler.dense.weight from element 7", said[1])
    sys.remove(folder .. "/run")
    said = flipped("continue", { step = 3, number = 1, kind = "gradient", at = "gradient" })
    assert.matches("the gradient of bert.pooler.dense.weight", said[1])
  end)

  it("is decided by a third computation", function()
    train("plain", "--max-steps=1")
    local sums = {}
    for number = 1, 2 do
      local said, good, problem = flipped("retry", { step = 2, number = number, kind = "weight" })
      assert.is_true(good, tostring(problem))
      assert.matches(("equals the %s"):format(number == 1 and "second" or "first"), said[2])
      sums[number] = small.weights(folder .. "/run", 5)
      sys.remove(folder .. "/run")
    end
    assert.is_true((checked.train(folder, { "--max-steps=5" }, {})))
    assert.same(small.weights(folder .. "/run", 5), sums[1])
    assert.same(sums[1], sums[2])
  end)

  it("stops where a third computation differs too", function()
    local said, good, problem = flipped("retry", { step = 2, kind = "m", number = nil })
    assert.is_true(good, "the same flip in all three: " .. tostring(problem))
    assert.same({}, said)
  end)

  it("of memory between two steps is found before the next", function()
    local said, good, problem = flipped("stop", { step = 3, kind = "m", at = "between" })
    assert.is_false(good)
    assert.equal("device", problem.code)
    assert.matches("first moment of bert.pooler.dense.weight changed in memory on rank 0 between step 3 and step 4",
      problem.message)
    assert.equal(1, #said)
  end)
end)

it("a resume #slow says that the recipe has been edited", function()
  local recipe = folder .. "/own.lua"
  local text = sr.must(sys.read_file("recipes/pretrain.lua"))
  local function resume(words)
    sr.must(sys.write_file(recipe, text))
    local all = small.words(small.corpus(folder), "--out", folder .. "/run", "config=recipes/pretrain.yaml",
      table.unpack(words))
    all[1] = recipe
    return program.run(all)
  end
  assert.equal(0, (resume { "--max-steps=1" }))
  local code, out, err = resume { "--max-steps=2", "--resume" }
  assert.same({ 0, nil }, { code, (out .. err):find("edited", 1, true) })
  text = text .. "-- more"
  out, err = works(resume { "--max-steps=3", "--resume" })
  assert.matches("own.lua has been edited since this run was started", out .. err, 1, true)
end)

it("a difference names the Lua files that were edited, those that a recipe loads too", function()
  local recipe, part = folder .. "/parts.lua", folder .. "/part.lua"
  local text = sr.must(sys.read_file("recipes/pretrain.lua"))
  sr.must(sys.write_file(part, "return 1\n"))
  sr.must(sys.write_file(recipe, (text:gsub("losses%.total:backward",
    (";(losses.total * dofile(%q)):backward"):format(part)))))
  local words = small.words(small.corpus(folder), "--out", folder .. "/parts", "config=recipes/pretrain.yaml",
    "verify.every=2", "save.every=1", "--max-steps=2")
  words[1] = recipe
  program.ok(words)
  sr.must(sys.write_file(part, "return 2\n"))
  local code, out, err = program.run { "verify", folder .. "/parts", "--trust" }
  assert.matches("step 2 differs from the recorded one.*\nnote: [^\n]*/part.lua has been edited since", out, err)
  assert.same({ 1, nil }, { code, out:find("parts.lua", 1, true) })
end)

describe("seqrun verify #slow", function()
  local function verify(...) return program.run { "verify", folder .. "/run", ... } end

  it("computes recorded steps again from a checkpoint", function()
    train("run", "--max-steps=10", "verify.every=2", "save.every=3")
    local before = sys.list(folder .. "/run")
    local code, out = verify("--json")
    assert.equal(0, code)
    local found = json.decode(out)
    assert.same({ true, { { step = 10, equal = true } } }, { found.equal, found.steps })
    assert.equal(0, (verify("--last")))
    local text = sr.must(sys.read_file(folder .. "/run/metrics.jsonl"))
    sr.must(sys.write_file(folder .. "/run/metrics.jsonl", (text:gsub('"weights_(%a+)":".', '"weights_%1":"x'))))
    code, out = verify("--step", "10", "--json")
    found = json.decode(out)
    assert.equal(1, code)
    assert.same({ step = 10, what = "weights", tensor = "bert.embeddings.word_embeddings.weight" }, found.difference)
    table.sort(before)
    local after = sys.list(folder .. "/run")
    table.sort(after)
    assert.same(before, after)
  end)

  it("exits with 3 without a checkpoint or hashes", function()
    train("run", "--max-steps=4", "verify.every=2")
    for words, pattern in pairs {
      [{ "--step", "3" }] = "step 3 has no recorded hashes; those of 2, 4 have",
      [{ "--step", "2" }] = "no checkpoint is older than step 2",
    } do
      exits(3, pattern, verify(table.unpack(words)))
    end
    train("other", "--max-steps=2")
    exits(3, "train with verify%.every=100", program.run { "verify", folder .. "/other" })
    exits(3, "", program.run { "verify", folder .. "/nothing" })
  end)
end)

describe("on several ranks #slow", function()
  mpi.tests(it, function(why) pending(why) end)("the hashes are those of one", function()
    local words = { "--max-steps=4", "verify.every=2", "batch.shares=4" }
    train("one", table.unpack(words))
    for _, shard in ipairs { "true", "false" } do
      local all = small.words(small.corpus(folder), "--out", folder .. "/two" .. shard, "optimizer.shard=" .. shard,
        table.unpack(words))
      works(mpi.run(2, all))
      assert.same(lines("one"), lines("two" .. shard))
    end
  end)
end)

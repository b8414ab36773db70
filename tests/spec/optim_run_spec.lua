-- Runs with StableAdamW and Muon: the same bits on any number of ranks and threads, and across a stop.

local checkpoint = require("seqrun.checkpoint")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")

local exits = program.exits

local STEPS = 12

local folder, corpus = small.folder()

---A run of this many ranks; the words after its own.
local function run(ranks, out, ...)
  local words = small.words(corpus, "--out", folder .. "/" .. out, "ranks.bucket=0.001", ...)
  local code, stdout, stderr
  if ranks == 1 then code, stdout, stderr = program.run(words) else code, stdout, stderr = mpi.run(ranks, words) end
  assert.equal(0, code, stdout .. stderr)
  return stdout .. stderr
end

local function facts(out)
  return { small.weights(folder .. "/" .. out, STEPS), small.metrics(folder .. "/" .. out) }
end

for _, kind in ipairs { "stable_adamw", "muon" } do
  describe("a run with " .. kind, function()
    local words = { "optimizer.name=" .. kind, "optimizer.decay_by=peak", "optimizer.clip=0" }
    local wanted

    setup(function()
      run(1, kind, "--max-steps", tostring(STEPS), "threads=1", table.unpack(words))
      wanted = facts(kind)
      assert.equal(STEPS, #wanted[2])
    end)

    it("has the same bits on three threads, and when it is stopped and resumed", function()
      run(1, kind .. "_threads", "--max-steps", tostring(STEPS), "threads=3", table.unpack(words))
      assert.same(wanted, facts(kind .. "_threads"))
      run(1, kind .. "_stopped", "--max-steps", "5", "threads=1", table.unpack(words))
      run(1, kind .. "_stopped", "--max-steps", tostring(STEPS), "--resume", "threads=1", table.unpack(words))
      assert.same(wanted, facts(kind .. "_stopped"))
    end)

    it("has the same bits on two and three ranks, also without shards of the optimizer #slow", function()
      local why = mpi.missing()
      if why then return pending(why) end
      for _, case in ipairs { { 2, "true" }, { 3, "true" }, { 2, "false" } } do
        local out = kind .. case[1] .. case[2]
        run(case[1], out, "--max-steps", tostring(STEPS), "threads=1", "optimizer.shard=" .. case[2],
          table.unpack(words))
        assert.same(wanted, facts(out))
      end
    end)

    it("carries its moments into a phase with another schedule", function()
      run(1, kind .. "_next", "--max-steps", "1", "init.from=" .. folder .. "/" .. kind, "init.carry=moments",
        table.unpack(words))
      local state = sr.must(checkpoint.state(folder .. "/" .. kind .. "_next/step-000000001"))
      assert.equal(kind == "stable_adamw" and STEPS + 1 or 1, state.optimizer.applied)
    end)
  end)
end

it("moments of Muon are refused by an optimizer that needs second moments of matrices", function()
  run(1, "from_muon", "--max-steps", "1", "optimizer.name=muon")
  local code, out, err = program.run(small.words(corpus, "--out", folder .. "/to_adamw", "--max-steps", "1",
    "init.from=" .. folder .. "/from_muon", "init.carry=moments"))
  assert.not_equal(0, code)
  assert.is_truthy((out .. err):find("written by muon, which has no second moments of matrices", 1, true), out .. err)
end)

it("moments of Muon need no decay by the peak with LAMB, and say so", function()
  local out, err = exits(2, "", program.run(small.words(corpus, "--out", folder .. "/no", "--max-steps", "1",
    "optimizer.name=lamb", "optimizer.decay_by=peak")))
  assert.is_truthy((out .. err):find("decay_by=peak does not apply to lamb", 1, true), out .. err)
end)

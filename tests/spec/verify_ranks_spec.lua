-- Checked steps (verify.every) on several ranks, and checked steps that are skipped.

local checked = require("tests.support.checked_run")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local folder
before_each(function()
  folder = program.folder()
  small.corpus(folder, 20)
end)
after_each(function() sys.remove(folder) end)

describe("a bit flipped on one rank #slow", function()
  local test = mpi.tests(it, function(why) pending(why) end)
  for _, shard in ipairs { "false", "true" } do
    for kind, words in pairs { gradient = "the gradient of ", weight = "", m = "" } do
      for culprit = 0, 1 do
        test(("is found and named with its rank: a %s on rank %d, optimizer.shard=%s"):format(kind, culprit, shard),
          function()
            local code, out, err = mpi.run(2, { "tests/support/rank_flip.lua", folder, kind, culprit .. "", shard })
            assert.equal(4, code, out .. err)
            local found = ("step 2 computed twice differs on rank %d: "):format(culprit)
            assert.is_truthy(out:find(found, 1, true), out .. err)
            assert.is_truthy(out:find(words, 1, true), out .. err)
            local lines = small.metrics(folder .. "/run", "verify")
            assert.same({ true, 2, false, culprit }, { lines[1].equal, lines[2].step, lines[2].equal, lines[2].rank })
            for _, name in ipairs { "first", "second" } do
              for rank = 0, 1 do
                local file = ("%s/run/differences/step-000000002-%s-rank-%d.safetensors"):format(folder, name, rank)
                assert.is_true(sys.exists(file), file)
              end
            end
          end)
      end
    end
  end
end)

describe("a skipped step that is checked #slow", function()
  ---Trains with gradients of these steps that are infinite; `once`: in the second computation only.
  local function train(steps, once, ...)
    local said, counts = {}, {}
    local good, problem = checked.train(folder, { "--max-steps=6", "log.every=1", ... }, {
      gradient = function(c)
        if steps[c.step] and (not once or c.number == 2) then
          c.model.params:get("bert.pooler.dense.weight"):grad():fill_(math.huge)
        end
      end,
      done = function(c) counts = { c.optimizer:counts() } end,
      warn = function(text) said[#said + 1] = text end,
    })
    return { good = good, problem = problem, said = said, counts = counts }
  end

  it("counts once, is equal, and leaves the bits of a run that checks nothing", function()
    local steps = { [2] = true, [3] = true, [5] = true }
    local plain = train(steps, false)
    assert.is_true(plain.good, tostring(plain.problem))
    local weights, metrics = small.weights(folder .. "/run", 6), small.metrics(folder .. "/run")
    sys.remove(folder .. "/run")
    for _, action in ipairs { "stop", "retry" } do
      local twice = train(steps, false, "verify.every=1", "verify.action=" .. action)
      assert.is_true(twice.good, tostring(twice.problem))
      assert.same(plain.counts, twice.counts)
      assert.same({ 3, 3 }, { twice.counts[1], twice.counts[2] })
      assert.same(weights, small.weights(folder .. "/run", 6))
      assert.same(metrics, small.metrics(folder .. "/run"))
      local lines = small.metrics(folder .. "/run", "verify")
      assert.equal(6, #lines)
      for _, line in ipairs(lines) do assert.is_true(line.equal) end
      sys.remove(folder .. "/run")
    end
  end)

  it("ends the run after as many in a row as without checks", function()
    local all = { true, true, true, true, true, true }
    local plain = train(all, false, "optimizer.max_skipped=4")
    sys.remove(folder .. "/run")
    local twice = train(all, false, "optimizer.max_skipped=4", "verify.every=1")
    assert.same({ false, false }, { plain.good, twice.good })
    assert.same({ "numeric", tostring(plain.problem) }, { twice.problem.code, tostring(twice.problem) })
  end)

  it("is a difference where only one of two computations is skipped", function()
    local found = train({ [2] = true }, true, "verify.every=1")
    assert.is_false(found.good)
    assert.equal("device", found.problem.code)
    assert.matches("step 2 computed twice differs on rank 0: the gradient of bert.pooler.dense.weight", found.said[1])
  end)
end)

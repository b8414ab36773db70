-- What a device chose by timing is the same on all ranks and after a resume.  The device is tests/support/timed.c.

local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local plugin = require("tests.support.devices").plugin("timed")
local many = mpi.tests(it, function(reason) pending(reason) end)

local STEPS, STOP = 14, 8 -- all classes of shapes are met before the stop

local folder = program.folder()
local corpus = small.corpus(folder)

---Runs the program where the clock says `clock`, with a cache of this name; "none": without one.
local function start(ranks, clock, cache, words, more)
  local home = cache == "none" and "/proc/nowhere" or folder .. "/" .. cache
  local before = ("XDG_CACHE_HOME='%s' SEQRUN_PLUGINS='%s' SEQRUN_TIMED=%s %s"):format(home, plugin, clock, more or "")
  if ranks > 1 then return mpi.run(ranks, words, { before = before .. " OMPI_MCA_mpi_yield_when_idle=1" }) end
  return program.run(words, { before = before })
end

---Trains up to a step in a directory of the tests; returns what it said.
local function train(ranks, clock, cache, out, upto, more)
  local words = small.words(corpus, "device=timed", "--out", folder .. "/" .. out, "--max-steps", tostring(upto),
    "threads=1")
  if sys.exists(folder .. "/" .. out) then words[#words + 1] = "--resume" end
  local _, err = program.works(start(ranks, clock, cache, words, more))
  return err
end

local function step_of(out, step) return ("%s/%s/step-%09d"):format(folder, out, step) end
local function choices_of(out, step) return sys.read_file(step_of(out, step) .. "/trainer/choices.txt") end
local function weights(out) return small.weights(folder .. "/" .. out, STEPS) end

describe("choices by timing", function()
  it("are part of a checkpoint: a resume elsewhere, where times are others, has the same bits", function()
    train(1, 2, "cache", "straight", STEPS)
    assert.equal("", train(1, 2, "cache", "cut", STOP))
    assert.equal("", train(1, 7, "empty", "cut", STEPS))
    assert.same(weights("straight"), weights("cut"))
    local text = choices_of("straight", STEPS)
    assert.matches("^seqrun choices 1 timed%-1 1\n", text)
    assert.is_nil(text:find("\t0[^2]"))
    train(1, 7, "other", "otherwise", STEPS)
    assert.are_not.same(weights("straight"), weights("otherwise")) -- so that this test is meaningful
  end)

  it("stand before those of a changed cache, which is left as it is", function()
    train(1, 5, "changed", "changed", STEPS)
    local path = folder .. "/changed/seqrun/timed"
    local before = sys.read_file(path)
    train(1, 2, "cache", "kept", STOP)
    train(1, 5, "changed", "kept", STEPS)
    assert.same(weights("straight"), weights("kept"))
    assert.equal(before, sys.read_file(path))
  end)

  it("of another GPU are not taken over, which is said", function()
    train(1, 2, "cache", "moved", STOP)
    local err = train(1, 7, "none", "moved", STEPS, "SEQRUN_TIMED_GPU=timed-2")
    assert.matches("trainer/choices.txt: these choices are for timed%-1, not for timed%-2: products may be "
      .. "computed in other ways than before, so resuming is not bit%-exact", (err:gsub("%s+", " ")))
    assert.matches("^seqrun choices 1 timed%-2 1\n", choices_of("moved", STEPS))
  end)

  it("may be missing, as in earlier checkpoints, which is said", function()
    assert.equal("", train(1, "never", "none", "early", STOP))
    assert.is_nil(choices_of("early", STOP))
    local err = train(1, 7, "none", "early", STEPS)
    assert.matches("early/step%-000000008 was saved without trainer/choices.txt: products may", (err:gsub("%s+", " ")))
  end)

  it("that are damaged are not taken over, which is said", function()
    local path = program.folder()
    assert(sys.make_dirs(path .. "/trainer"))
    local restore = [[(function()
      sr.use("timed")
      local core = require("seqrun.core.tensor")
      local screen = { warn = function(_, ...) print("warned: " .. (...):format(select(2, ...))) end }
      local autotune = require("seqrun.run.ranks.autotune").new({ leads = true }, screen)
      autotune:restore(%q, require("seqrun.tensor.devices").instructions())
      return select(2, core.choices())
    end)()]]
    local function told(text)
      program.write(path .. "/trainer", "choices.txt", text)
      local out = program.works(start(1, 1, "none", { "-e", restore:format(path) }))
      return out
    end
    local good = "seqrun choices 1 timed-1 1\nlinear 16 2 16\t02\nend 1\n"
    assert.equal("1\n", told(good))
    for _, bad in ipairs { "", "\0", "something else\n", good:sub(1, -4), good:gsub("02", "0x"), good .. good } do
      local out = told(bad)
      assert.matches("^warned: .*trainer/choices.txt: .*: products may be computed in other ways", out)
      assert.matches("\n0\n$", out)
    end
  end)
end)

describe("choices by timing of cuda, by stand-ins for CUDA and cuBLASLt", function()
  local fake = program.path:gsub("[^/]*$", "tests/fake")
  if not sys.exists(fake .. "/seqrun_cuda.so") then return end

  ---The recipe with new tensors full of NaN until the first step: kernels do not run there, so that ranks, which
  ---compare their weights, would compare what their memory holds.  Evaluations get zeros, as their losses must be
  ---numbers.
  local recipe
  setup(function()
    recipe = program.write(folder, "poisoned.lua", [[
      local core, sr = require("seqrun.core.tensor"), require("seqrun")
      local adamw = sr.optim.adamw
      function sr.optim.adamw(...)
        core.poison(true)
        local optimizer = adamw(...)
        local step = optimizer.step
        function optimizer:step(...)
          core.poison(false)
          return step(self, ...)
        end
        return optimizer
      end
      local evaluate = require("seqrun.run.evaluation.evaluate")
      local run = evaluate.run
      function evaluate.run(...)
        collectgarbage()
        core.trim()
        return run(...)
      end
      dofile("recipes/pretrain.lua")]])
  end)

  ---Trains up to a step, resuming if it can.
  local function go(ranks, out, upto)
    local words = small.words(corpus, "device=cuda", "--out", folder .. "/" .. out, "--max-steps", tostring(upto),
      "threads=1", "optimizer.max_skipped=100", "config=recipes/pretrain.yaml",
      "ranks.engine=" .. (ranks > 1 and "mpi" or "auto"))
    if ranks > 1 then words[1] = recipe end
    if sys.exists(folder .. "/" .. out) then words[#words + 1] = "--resume" end
    local before = ("LD_LIBRARY_PATH='%s' SEQRUN_PLUGINS='%s/seqrun_cuda.so' XDG_CACHE_HOME='%s/fake' "
      .. "SEQRUN_FAKE='different GPUs'"):format(fake, fake, folder)
    local run = ranks > 1 and mpi.run or function(_, ...) return program.run(...) end
    program.works(run(ranks, words, { before = before }))
  end

  local function check(ranks, out)
    go(ranks, out, STOP)
    local text = choices_of(out, STOP)
    assert.matches("^seqrun choices 1 cublaslt%-%d+%-fake_gpu_0%-4 64\n", text)
    assert.is_truthy(text:find(" bias\t01", 1, true), text)
    assert.is_nil(text:find(" add", 1, true)) -- a gradient that is written and one that is added to: the same bits
    assert.equal(1, #sys.list(folder .. "/fake/seqrun"))
    sys.remove(folder .. "/fake")
    go(ranks, out, STOP + 1)
    assert.equal(text, choices_of(out, STOP + 1))
    local path = folder .. "/fake/seqrun"
    local name = (sys.list(path) or {})[1] -- of padded rows, which are timed at the end of a run on one rank
    for key in (name and sys.read_file(path .. "/" .. name) or ""):gmatch("([^\n]*\t)%x+\n") do
      assert.is_nil(text:find("\n" .. key, 1, true), key)
    end
    assert.is_true(ranks == 1 or name == nil) -- nothing was timed again, on any rank
  end

  it("are all in a checkpoint, so a resume times nothing again", function() check(1, "cuda1") end)
  many("reach all ranks, so none of them times anything in a resume", function() check(2, "cuda2") end)
end)

describe("choices by timing of several ranks", function()
  many("are those of rank 0, from the first step on", function()
    train(1, 2, "cache", "straight", STEPS)
    train(2, "rank", "cache", "two", STEPS, "SEQRUN_TIMED_CACHE=first")
    assert.same(weights("straight"), weights("two"))
  end)

  many("are those of another rank where rank 0 has none, and are in the checkpoint", function()
    train(1, 2, "cache", "straight", STEPS)
    train(2, 7, "cache", "lent", STEPS, "SEQRUN_TIMED_CACHE=others")
    assert.same(weights("straight"), weights("lent"))
    assert.is_nil(choices_of("lent", STEPS):find("\t0[^2]"))
  end)

  many("are exchanged between steps, and are part of a checkpoint whichever rank met the shape", function()
    train(2, "rank", "none", "apart", STEPS)
    local text = choices_of("apart", STEPS)
    assert.is_truthy(text:find("\t01") and text:find("\t02"), text) -- some shapes were met by rank 1 only
    for ranks = 1, 2 do
      local out = "apart" .. ranks
      train(2, "rank", "none", out, STOP)
      assert.equal(text, choices_of(out, STOP))
      train(ranks, 9, "none", out, STEPS)
      assert.same(weights("apart"), weights(out))
    end
  end)

  many("are their own where their GPUs are different, which is said", function()
    local err = train(2, "rank", "none", "mixed", STOP, "SEQRUN_TIMED_GPU=rank")
    assert.matches("rank 1: these choices are for timed%-0, not for timed%-1; it chooses its own products",
      (err:gsub("%s+", " ")))
    assert.is_nil(choices_of("mixed", STOP):find("\t02"))
  end)
end)

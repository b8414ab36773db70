-- Worlds of ranks: every call of an engine, on real ranks where there is an MPI.

local core = require("seqrun.core.comm")
local fails = require("tests.support.fails")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local ranks = require("seqrun.tensor.ranks")

local on_ranks = mpi.tests(it, function(why) pending(why) end)

---All calls on n ranks: tests/support/world.lua.
local function check(n, device, before)
  local out, err = program.works(mpi.run(n, { "tests/support/world.lua", device }, { before = before }))
  for rank = 0, n - 1 do assert.is_truthy(out:find(("rank %d of %d: ok\n"):format(rank, n), 1, true), out .. err) end
end

describe("a world of ranks", function()
  it("is this process alone without a launcher", function()
    local out = program.ok { "tests/support/world.lua" }
    assert.equal("rank 0 of 1: ok\n", out)
    assert.is_nil(ranks.launcher())
  end)

  for n = 1, 4 do
    on_ranks(("carries tensors and texts between %d ranks"):format(n), function() check(n, "cpu") end)
  end

  on_ranks("cuts calls that are too large for MPI into pieces", function() check(3, "cpu", "SEQRUN_MPI_COUNT=7") end)
  on_ranks("carries tensors of f64", function() check(2, "ref") end)
  on_ranks("copies the memory of devices that are not the host", function()
    check(3, "late", "SEQRUN_PLUGINS=" .. require("tests.support.devices").plugin("late"))
  end)

  on_ranks("survives every allocation that fails, and frees its memory", function()
    local out = program.ok({ "tests/support/world_memory.lua" }, { before = mpi.settings })
    assert.matches("survived %d+", out)
  end)

  it("has an engine of this name", function()
    local opened, message, code = core.open("cpu", { engine = "pigeons" })
    assert.is_nil(opened)
    assert.equal("device", code)
    assert.is_truthy(message:find("pigeons", 1, true) or message:find("without MPI", 1, true), message)
  end)
end)

describe("a launcher", function()
  it("is known by the environment", function()
    local function launcher(before)
      local expression = 'require("seqrun.core.json").encode(require("seqrun.tensor.ranks").launcher() or {})'
      local _, out = program.run({ "-e", expression }, { before = before })
      return out
    end
    local open_mpi = launcher("OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=2")
    assert.is_truthy(open_mpi:find("mpirun", 1, true) and open_mpi:find('local_ranks\\?":2'), open_mpi)
    local slurm = launcher("SLURM_STEP_NUM_TASKS=8 SLURM_PROCID=3 SLURM_LOCALID=1")
    assert.is_truthy(slurm:find("srun", 1, true) and slurm:find('ranks\\?":8'), slurm)
    assert.is_nil(launcher("SLURM_NTASKS=8 SLURM_PROCID=0"):find("srun")) -- a batch script
    local named = launcher("PMIX_NAMESPACE=12058625 PMIX_RANK=0") -- as a process without mpirun sets it itself
    assert.is_truthy(named:find("mpirun"))
    assert.is_nil(named:find("12058625"))
  end)

  it("decides which GPU a rank takes", function()
    local function device(before)
      local words = { "-e", 'require("seqrun.run.ranks.placement").device("cuda")' }
      local _, out, err = program.run(words, { before = before })
      return out:match("cuda:%d") or out .. err
    end
    assert.equal("cuda:1", device("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 CUDA_VISIBLE_DEVICES=0"))
    assert.equal("cuda:1", device("SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 CUDA_VISIBLE_DEVICES=0,1"))
    assert.equal("cuda:0", device("SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 CUDA_VISIBLE_DEVICES=0")) -- --gpus-per-task=1
  end)

  it("that serves another MPI is named with both sizes", function()
    local why = mpi.missing()
    if why then return pending(why) end
    local before = mpi.settings .. "SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 timeout 400"
    local _, err = fails.exiting(4, "srun started 3 processes, but MPI", { "tests/support/world.lua" },
      { before = before })
    assert.is_truthy(err:find("--mpi=pmix", 1, true), err)
  end)
end)

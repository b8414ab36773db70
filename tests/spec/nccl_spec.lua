-- The engine of NCCL by its calls: a stand-in for the library writes them down (tests/support/nccl.c).

local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local test = mpi.tests(it, function(why) pending(why) end)
local library = require("tests.support.devices").plugin("nccl")

---Runs two ranks; the calls of rank 1, a string each.
local function run(settings)
  local folder = program.folder()
  local before = ("SEQRUN_NCCL=%s NCCL_CALLS=%s/calls %s"):format(library, folder, settings or "")
  local code, _, err = mpi.run(2, { "tests/support/nccl_calls.lua" }, { before = before, seconds = 60 })
  local calls = {}
  for line in (sys.read_file(folder .. "/calls.1") or ""):gmatch("[^\n]+") do calls[#calls + 1] = line end
  local first = sys.read_file(folder .. "/calls.0") or ""
  sys.remove(folder)
  return calls, code, err, first
end

describe("the engine of NCCL", function()
  test("groups sends and receives, and ends a group before its results are used", function()
    local calls, code, err, first = run()
    assert.equal(0, code, err)
    assert.same({
      "CommInitRank 1 of 2: the id of rank 0",
      "GroupStart", "Send 6 of 7 to 0", "Recv 6 of 7 from 0", "GroupEnd",
      "GroupStart", "Send 6 of 7 to 0", "Recv 6 of 7 from 0", "GroupEnd",
      "GroupStart", "Send 6 of 7 to 0", "Recv 6 of 2 from 0", "GroupEnd",
      "AllReduce 6 of 7 by 0", "Broadcast 6 of 2 from 1", "ReduceScatter 3 of 9 by 0", "AllGather 3 of 7",
      "CommDestroy",
    }, calls)
    assert.equal("GetUniqueId\nCommInitRank 0 of 2: the id of rank 0", first:match("^[^\n]*\n[^\n]*"))
  end)

  test("says which call failed", function()
    local _, code, err = run("NCCL_FAILS=AllReduce")
    assert.equal(4, code, err)
    assert.is_truthy(err:find("all_reduce: NCCL failed: unhandled system error; NCCL_DEBUG=WARN", 1, true), err)
  end)

  test("refuses versions that it does not know", function()
    local _, code, err = run("NCCL_VERSION=20800")
    assert.equal(4, code, err)
    assert.is_truthy(err:find("nccl: version 20800 is not supported; install 2.10 or a later 2.x", 1, true), err)
  end)

  test("says how to go on without the library", function()
    local _, code, err = run("SEQRUN_NCCL=/nowhere/libnccl.so.2")
    assert.equal(4, code, err)
    assert.is_truthy(err:find("install libnccl2, or set ranks.engine=mpi", 1, true), err)
  end)
end)

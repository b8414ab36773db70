-- The engine of NCCL by its calls: a stand-in for the library writes them down (tests/support/nccl.c).

local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local test = mpi.tests(it, function(why) pending(why) end)
local library = require("tests.support.devices").plugin("nccl")

---Runs a program on two ranks, which is to end with 0 or a code; the calls of rank 1, a string each.
local function run(settings, words, wanted)
  local folder = program.folder()
  local before = ("SEQRUN_NCCL=%s NCCL_CALLS=%s/calls %s"):format(library, folder, settings or "")
  local code, _, err = mpi.run(2, words or { "tests/support/nccl_calls.lua" }, { before = before, seconds = 400 })
  local calls = {}
  for line in (sys.read_file(folder .. "/calls.1") or ""):gmatch("[^\n]+") do calls[#calls + 1] = line end
  local first = sys.read_file(folder .. "/calls.0") or ""
  sys.remove(folder)
  assert.equal(wanted or 0, code, err)
  return calls, err, first
end

---Runs a program that fails with these words.
local function fails(text, settings, words)
  local _, err = run(settings, words, 4)
  assert.is_truthy(err:find(text, 1, true), err)
  return err
end

describe("the engine of NCCL", function()
  test("groups sends and receives, and ends a group before its results are used", function()
    local calls, _, first = run()
    assert.same({
      "CommInitRank 1 of 2: the id of rank 0",
      "GroupStart", "Send 6 of 7 to 0", "Recv 6 of 7 from 0", "GroupEnd",
      "GroupStart", "Send 6 of 7 to 0", "Recv 6 of 7 from 0", "GroupEnd",
      "GroupStart", "Send 6 of 7 to 0", "Recv 6 of 2 from 0", "GroupEnd",
      "AllReduce 6 of 7 by 0", "Broadcast 6 of 2 from 1", "Reduce 6 of 7 by 0 to 1",
      "ReduceScatter 3 of 9 by 0", "AllGather 3 of 7",
      "CommDestroy",
    }, calls)
    assert.equal("GetUniqueId\nCommInitRank 0 of 2: the id of rank 0", first:match("^[^\n]*\n[^\n]*"))
  end)

  test("uses a stream of its own, which waits for the kernels before each call", function()
    local late = require("tests.support.devices").plugin("late")
    local settings = ("SEQRUN_CUDA_DRIVER=%s SEQRUN_PLUGINS=%s"):format(library, late)
    local calls = run(settings, { "tests/support/nccl_calls.lua", "late" })
    local text = table.concat(calls, "\n")
    assert.matches("^EventCreate 2\nStreamCreate 1\nCommInitRank", text)
    assert.matches("\nCommDestroy\nStreamDestroy own\nEventDestroy$", text)
    local before = "EventRecord on device's stream\nStreamWaitEvent on own stream\n"
    for _, call in ipairs { "GroupEnd", "AllReduce", "Broadcast", "Reduce ", "ReduceScatter", "AllGather" } do
      local all, after = select(2, text:gsub("\n" .. call, "")), select(2, text:gsub(before .. call, ""))
      assert.is_true(all > 0 and all == after, call)
    end
  end)

  ---What follows "step N" up to the end of its loop.
  local function calls_of(step, ...)
    local text = table.concat((run(nil, { "tests/support/nccl_overlap.lua", ... })), "\n")
    return text:match("step " .. step .. "\n(.-)\nloop ended")
  end

  test("exchanges the gradients of finished layers during the backward pass", function()
    -- the first rank owns the first layer and a chunk of the second
    assert.equal(table.concat({
      "layer 3", "GroupStart", "Recv 40000 of 7 from 0", "GroupEnd",
      "layer 2", "GroupStart", "Recv 7232 of 7 from 0", "Send 32768 of 7 to 0", "GroupEnd",
      "layer 1", "GroupStart", "Send 40000 of 7 to 0", "GroupEnd",
    }, "\n"), calls_of(2))
    assert.equal(table.concat({
      "layer 3", "Reduce 40000 of 7 by 0 to 1",
      "layer 2", "Reduce 32768 of 7 by 0 to 0", "Reduce 7232 of 7 by 0 to 1", "layer 1", "Reduce 40000 of 7 by 0 to 0",
    }, "\n"), calls_of(2, "library"))
  end)

  test("exchanges them after the loop in the first update, which shows what there is", function()
    assert.matches("^layer 3\nlayer 2\nlayer 1\nGroupStart", calls_of(1))
  end)

  test("says which call failed", function()
    fails("all_reduce: NCCL failed: unhandled system error; set NCCL_DEBUG=WARN", "NCCL_FAILS=AllReduce")
  end)

  test("makes the kernels that follow a wait wait, not the host", function()
    local late = require("tests.support.devices").plugin("late")
    local settings = ("SEQRUN_CUDA_DRIVER=%s SEQRUN_PLUGINS=%s"):format(library, late)
    local calls = run(settings, { "tests/support/nccl_calls.lua", "late" })
    local _, waits = table.concat(calls, "\n"):gsub("EventRecord on own stream\nStreamWaitEvent on device's stream", "")
    assert.equal(2, waits)
  end)

  test("ends a wait for the device when calls have failed", function()
    local fake = program.path:gsub("[^/]*$", "tests/fake")
    if not sys.exists(fake .. "/seqrun_cuda.so") then return pending("nvcc not found") end
    local settings = ("NCCL_FAILS=Later SEQRUN_FAKE='an end' SEQRUN_CUDA_DRIVER=%s LD_LIBRARY_PATH=%s"
      .. " SEQRUN_PLUGINS=%s/seqrun_cuda.so"):format(library, fake, fake)
    local err = fails("the host goes on", settings, { "tests/support/nccl_later.lua" })
    assert.is_truthy(err:find("wait: NCCL failed: unhandled system error", 1, true), err)
  end)

  test("takes any answer of a stream but done and busy for a failure", function()
    local late = require("tests.support.devices").plugin("late")
    local settings = ("NCCL_FAILS=StreamQuery SEQRUN_CUDA_DRIVER=%s SEQRUN_PLUGINS=%s"):format(library, late)
    fails("wait: the CUDA driver failed: 719", settings, { "tests/support/nccl_calls.lua", "late" })
  end)

  test("refuses versions that it does not know", function()
    fails("nccl: version 20800 is not supported; install 2.10 or a later 2.x", "NCCL_VERSION=20800")
  end)

  test("says how to go on without the library", function()
    fails("install libnccl2, or set ranks.engine=mpi", "SEQRUN_NCCL=/nowhere/libnccl.so.2")
  end)
end)

-- One rank of several fails, dies or hangs: one sentence says which, all end with one code, nobody is left.

local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local test = mpi.tests(it, function(why) pending(why) end)

-- mpirun gives the survivors time to end by themselves.
local SLOW = "OMPI_MCA_odls_base_sigkill_timeout=6 "

---Runs three ranks, one of which has this fault; each rank's exit code is kept where `codes` is set.
---@return string err
---@return integer code of mpirun
---@return table<integer, integer> codes by rank; nil of one that mpirun killed
---@return integer alive processes left
local function run(fault, culprit, timeout, codes)
  local folder = program.folder()
  local words = { "tests/support/rank_faults.lua", fault, tostring(culprit), tostring(timeout or 120) }
  local keep = "sh -c 'trap \"\" TERM; \"$@\"; echo $? >$FAULTS/code.$OMPI_COMM_WORLD_RANK' sh"
  local before = (codes and SLOW or "") .. "FAULTS=" .. folder
  local code, _, err = mpi.run(3, words, { before = before, mpirun = codes and keep, seconds = 400 })
  local found, alive = {}, 0
  for rank = 0, 2 do
    found[rank] = tonumber(sys.read_file(("%s/code.%d"):format(folder, rank)) or nil)
    local pid = sys.read_file(("%s/pid.%d"):format(folder, rank))
    if pid and mpi.lives(tonumber(pid), 60) then alive = alive + 1 end
  end
  sys.remove(folder)
  return err, code, found, alive
end

---One line of ours on stderr, with these words.
local function says(err, words)
  local lines = {}
  for line in err:gmatch("[^\n]+") do
    if line:find("^seqrun: ") then lines[#lines + 1] = line end
  end
  assert.equal(1, #lines, err)
  assert.is_truthy(lines[1]:find(words, 1, true), err)
end

describe("a rank that fails", function()
  local function ends(fault, culprit, exit, words)
    local err, code, _, alive = run(fault, culprit)
    says(err, words)
    assert.equal(exit, code, err)
    assert.equal(0, alive)
  end

  test("ends all with its message and code", function() ends("raise", 2, 3, "rank 2: the data set is cut short") end)
  test("is the first", function() ends("raise", 0, 3, "seqrun: the data set is cut short") end)
  test("by an error of the recipe ends all with 1", function() ends("error", 1, 1, "rank 1: ") end)
  test("for lack of memory ends all with 4", function() ends("memory", 1, 4, "rank 1: ") end)
  test("as all others do is heard once", function() ends("all", 0, 3, "seqrun: the data set is cut short") end)
  test("while rank 0 works by itself is heard once", function()
    ends("deaf", 2, 3, "rank 2: the data set is cut short")
  end)
  test("to agree is named with both values", function()
    ends("unequal", 1, 2, "differs from rank 0: the seed is 2, but 1 on rank 0; give all one seed")
  end)
end)

describe("a rank that is gone", function()
  for culprit = 0, 2, 2 do
    test(("ends the others with 8: rank %d was killed"):format(culprit), function()
      local err, _, codes, alive = run("kill", culprit, 120, true)
      says(err, ("rank %d (process "):format(culprit))
      assert.is_truthy(err:find("died; start the run again with --resume", 1, true), err)
      for rank = 0, 2 do assert.equal(rank == culprit and 137 or 8, codes[rank], "rank " .. rank) end
      assert.equal(0, alive)
    end)
  end

  for name, case in pairs {
    ["is missed after the timeout"] = { "stop", 1, "is stopped and has not answered for 6 s" },
    ["since it does something else is missed too"] = { "sleep", 2, "raise ranks.timeout" },
  } do
    test(name, function()
      local err, code, _, alive = run(case[1], case[2], 6)
      says(err, ("rank %d (process "):format(case[2]))
      assert.is_truthy(err:find(case[3], 1, true), err)
      assert.same({ 8, 0 }, { code, alive })
    end)
  end
end)

describe("before the ranks have met", function()
  local function ends(fault, culprit, message)
    local words = { "tests/support/rank_faults.lua", fault, tostring(culprit), "120" }
    local code, _, err = mpi.run(3, words, { before = "FAULTS=/nowhere", seconds = 400 })
    assert.equal(3, code)
    says(err, message)
  end

  test("an error of all is printed once", function() ends("all early", 0, "seqrun: there is no such file") end)
  test("an error of one ends all", function() ends("early", 1, "seqrun: rank 1: there is no such file") end)
end)

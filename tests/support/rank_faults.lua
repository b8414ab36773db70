-- rank_faults.lua - ranks one of which gets into trouble; run by mpirun (faults_spec.lua).
--
--     seqrun rank_faults.lua FAULT RANK TIMEOUT
--
-- Each rank writes its process id to $FAULTS/pid.RANK, then all sum until the fault.

local failure = require("seqrun.base.failure")
local ranks = require("seqrun.tensor.ranks")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local fault, culprit, timeout = arg[1], tonumber(arg[2]), tonumber(arg[3])
local folder = os.getenv("FAULTS")

if fault == "early" and ranks.launcher().rank == culprit then failure.raise("data", "there is no such file") end
if fault == "all early" then failure.raise("data", "there is no such file") end

local world = ranks.open("cpu", { timeout = timeout })
assert(sys.write_file(("%s/pid.%d"):format(folder, world.rank), ("%d\n"):format(sys.pid())))
local mine = world.rank == culprit

local faults = {
  raise = function() failure.raise("data", "%s", "the data set is cut short") end,
  error = function() error("a bug of the recipe") end,
  kill = function() os.execute("kill -9 " .. sys.pid()) end,
  stop = function() os.execute("kill -STOP " .. sys.pid()) end,
  memory = function() sr.zeros(1 << 50) end,
  sleep = function() sys.sleep(60) end,
}
faults.deaf = faults.raise -- while rank 0 does not listen

for step = 1, 20 do
  local x = sr.tensor { step, world.rank }
  if step == 10 then
    if fault == "all" then failure.raise("data", "the data set is cut short") end
    if fault == "deaf" and world.rank == 0 then sys.sleep(8) end
    if mine and faults[fault] then faults[fault]() end
  end
  world:all_reduce(x)
  world:wait()
end
if fault == "unequal" then
  require("seqrun.run.ranks.world").agree(world, { { "the seed", mine and "2" or "1" } }, "config", "give all one seed")
end
print("done")

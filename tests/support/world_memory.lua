-- world_memory.lua - every allocation of a world over MPI fails once; one rank, without mpirun (comm_spec.lua).

local core = require("seqrun.core.comm")
local fault = dofile("tests/support/fault.lua")
local sr = require("seqrun")

local outer = assert(core.open("cpu", { engine = "mpi" })) -- MPI begins and ends once
local x, y = sr.ones(5), sr.zeros(5)

local function must(done, message, code)
  if not done then error(code == "memory" and "not enough memory" or message, 0) end
  return done
end

local function use()
  local world <close> = must(core.open("cpu", { engine = "mpi" }))
  for _ = 1, 40 do must(world:all_reduce(x)) end -- more than the first lists hold
  must(world:all_gather(y, x))
  must(world:wait())
  assert(#must(world:gather_text("text")) == 1)
  must(world:barrier())
end

use()
collectgarbage()
local before, failures = fault.held(), 0
for n = 1, 1000 do
  fault.memory(n, false)
  local done, message = pcall(use)
  local reached = fault.allocations() >= n
  fault.memory(0)
  if not reached then break end
  local text = done and "" or tostring(message)
  assert(done or text:find("not enough memory", 1, true) or text:find("cannot allocate", 1, true), text)
  collectgarbage()
  failures = failures + (done and 0 or 1) -- Lua collects garbage and tries again
end
use()
collectgarbage()
collectgarbage()
assert(failures >= 3 and failures < 1000, tostring(failures))
assert(fault.held() <= before + 20, ("%d blocks are held, %d were"):format(fault.held(), before))
assert(y:totable()[5] == 1)
outer:close()
print("survived " .. failures)

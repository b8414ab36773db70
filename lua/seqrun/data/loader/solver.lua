-- solver.lua - solvers that are written in Lua, for loaders.
--
-- Such a solver runs on the thread of the program, so its loader has no workers: it packs, and makes updates, when they
-- are asked for.

local failure = require("seqrun.base.failure")
local pack = require("seqrun.pack")
local solvers = require("seqrun.pack.solvers")

local solver = {}

---What the core calls with a histogram: returns a plan, or nil, message, code.
local function caller(name)
  return function(histogram, max_seqs)
    local limit = max_seqs > 0 and max_seqs or nil
    local ok, plan, message, code = pcall(solvers.solve, histogram, { solver = name, max_seqs = limit })
    if ok then return plan, message, code end
    local problem = failure.of(plan)
    return nil, problem and problem.message or tostring(plan), problem and problem.code
  end
end

---Puts the function of a solver written in Lua into the options for the core.
---@param t seqrun.LoaderOptions
---@param o table options for the core
function solver.replace(t, o)
  if not t.solver or not pack.is_registered(t.solver) then return end
  o.solve, o.solver, o.prefetch = caller(t.solver), nil, 0
end

return solver

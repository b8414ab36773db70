-- solver.lua - plans of solvers that are written in Lua, for loaders.
--
-- Loaders plan on worker threads, where no Lua runs.  Fixed examples have a single plan, so it is made here,
-- before the loader opens.  Text has new lengths every epoch, which a worker must plan during training: that is
-- rejected.

local pack = require("seqrun.pack")

local solver = {}

local function refuse(name, why)
  local text = "data.loader: the solver '%s' is written in Lua, and %s; use one of %s"
  return nil, text:format(name, why, table.concat(pack.builtin_solvers(), ", ")), "config"
end

---Replaces a solver written in Lua by its plan in the options for the core.
---@param t seqrun.LoaderOptions
---@param o table options for the core
---@return true? done
---@return string? message
---@return string? code
function solver.replace(t, o)
  if not t.solver or not pack.is_registered(t.solver) then return true end
  if o.by and o.by ~= "packs" then return refuse(t.solver, "worker threads pack inside every update") end
  if t.stages then return refuse(t.solver, "worker threads pack every stage") end
  if t.data:info().kind == "text" and t.epochs ~= 1 then
    return refuse(t.solver, "worker threads pack every epoch of text")
  end
  o.solver = nil
  if t.plan then return true end -- a run that resumes has saved it
  local lengths, message, code = t.data:lengths(t.part or "train", t.epoch or 0, t.max_len or 128, {
    nsp = o.nsp, short_seq_prob = t.short_seq_prob, seed = t.seed, too_long = t.too_long,
  })
  if not lengths then return nil, message, code end
  local plan
  plan, message, code = pack(lengths, { max_len = t.max_len or 128, max_seqs = t.max_seqs, solver = t.solver })
  if not plan then return nil, message, code end
  o.plan = plan:text()
  return true
end

return solver

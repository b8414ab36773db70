-- competence.lua - the pace of competence-based curricula.
--
-- The part c of the order that is unlocked grows from c0 to 1 such that every example is met about equally often
-- before the next are: c = ((t / T) (1 - c0^p) + c0^p)^(1/p).  Source: Platanios et al. 2019, arXiv:1903.09848, p = 2.

local check = require("seqrun.base.check")
local counters = require("seqrun.schedule.counters")

---A schedule of competence from the bounds of another one.
---@param what string
---@param s seqrun.ValueSchedule with min, max and total
---@return seqrun.ValueSchedule
return function(what, s)
  if type(s) ~= "table" or not s.min or not s.max or not s.total then
    check.fail("%s: order competence needs a schedule with min, max and total (type linear or root)", what)
  end
  local power = s.degree and s.degree > 1 and s.degree or 2
  local first = (s.min / s.max) ^ power
  return require("seqrun.schedule").new {
    name = what, type = "custom", by = s.by, min = s.min, max = s.max, fn = function(at)
      local part = math.min(1, counters.read(at, s.by) / s.total)
      return s.max * (part * (1 - first) + first) ^ (1 / power)
    end,
  }
end

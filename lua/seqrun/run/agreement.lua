-- agreement.lua - what the ranks of a run agree on between steps: the time, signals, what devices chose, and whether
-- attached prompts ask for something.

local changes = require("seqrun.run.changes")
local chosen = require("seqrun.run.chosen")
local sys = require("seqrun.core.sys")

local agreement = {}

---Agrees with the other ranks; all of them call it.
---@param run seqrun.Run
function agreement.reach(run)
  run.asked = changes.asked(run)
  if not run.ranks:several() then return end
  local all = run.ranks:gather {
    seconds = run:seconds(), signal = sys.caught(), asked = run.asked, chosen = chosen.news(run),
  }
  run.agreed, run.asked = all[1].seconds, all[1].asked
  for _, rank in ipairs(all) do run.signal = run.signal or rank.signal end
  chosen.merge(run, all)
end

---Seconds of the run, the same on all ranks: those of rank 0 when they last agreed.
---@param run seqrun.Run
---@return number
function agreement.seconds(run)
  if not run.ranks:several() then return run:seconds() end
  return run.agreed or run.seconds_before
end

---The signal that is to stop the run, on whichever rank it came; nil if there is none.
---@param run seqrun.Run
---@return integer|nil
function agreement.signal(run)
  if run.ranks:several() then return run.signal end
  return sys.caught()
end

return agreement

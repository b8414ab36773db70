-- agreement.lua - what the ranks of a run agree on between steps: the time, signals, and whether attached prompts ask
-- for something.

local sys = require("seqrun.core.sys")

---@class seqrun.Agreement
---@field ranks seqrun.RunRanks
---@field before number seconds of the run before this process
---@field began number when this process began to count
---@field agreed? number seconds of rank 0 when the ranks last agreed
---@field signal? integer that came on any rank
---@field noticed? number when this rank noticed a signal
---@field asked boolean|nil whether an attached prompt asks for something
local Agreement = {}
Agreement.__index = Agreement

---@param ranks seqrun.RunRanks
---@return seqrun.Agreement
local function new(ranks)
  return setmetatable({ ranks = ranks, before = 0, began = sys.now() }, Agreement)
end

---Counts from now on, after the seconds of earlier processes.
---@param before? number as they are if nil
function Agreement:restart(before) self.before, self.began = before or self.before, sys.now() end

---Seconds of the run on this rank, those before a resume included.
---@return number
function Agreement:own_seconds() return self.before + sys.now() - self.began end

---Agrees with the other ranks; all of them call it.
---@param asked boolean whether an attached prompt of this rank asks for something
function Agreement:reach(asked)
  self.asked = asked
  if not self.ranks:several() then return end
  local all = self.ranks:gather { seconds = self:own_seconds(), signal = sys.caught(), asked = asked }
  self.agreed, self.asked = all[1].seconds, all[1].asked
  for _, rank in ipairs(all) do self.signal = self.signal or rank.signal end
end

---Seconds of the run, the same on all ranks: those of rank 0 when they last agreed.
---@return number
function Agreement:seconds()
  if not self.ranks:several() then return self:own_seconds() end
  return self.agreed or self.before
end

---Seconds since a signal was first noticed on this rank; nil if none came.
---@return number|nil
---@return boolean? first it was noticed by this call
function Agreement:since_signal()
  if not sys.caught() then return nil end
  local first = self.noticed == nil
  self.noticed = self.noticed or sys.now()
  return sys.now() - self.noticed, first
end

---Whether an attached prompt asks for something; the same on all ranks since they last agreed.
---@return boolean|nil
function Agreement:is_asked() return self.asked end

---The signal that is to stop the run, on whichever rank it came; nil if there is none.
---@return integer|nil
function Agreement:caught()
  if self.ranks:several() then return self.signal end
  return sys.caught()
end

return { new = new }

-- saver.lua - saves again and again during a run, and tolerates a disk that is full for a while

local writing = require("seqrun.checkpoint.writing")

local saver = {}

---@class seqrun.Saver
---@field failures integer in a row
local Saver = {}
Saver.__index = Saver

---Saves repeatedly and tolerates a disk that is full for a while.
---@param run string
---@param options? { keep?: integer, every?: integer, max_failures?: integer } max_failures: default 3
---@return seqrun.Saver
function saver.new(run, options)
  options = options or {}
  return setmetatable({ run = run, options = options, most = options.max_failures or 3, failures = 0 }, Saver)
end

---Saves unless this step has been saved.  A failure is a warning while there are fewer than
---`max_failures` in a row: then the path is nil, but there is no code.
---@param t seqrun.Saved
---@return string|nil path
---@return string? message
---@return string? code given when the run should end
function Saver:save(t)
  if self.step == t.step then return self.path end
  local path, message, code = writing.save(self.run, t, self.options)
  if path then
    self.step, self.path, self.failures = t.step, path, 0
    return path, message
  end
  self.failures = self.failures + 1
  local lost = t.step - (self.step or 0)
  message = ("%s (step %d is not saved; %d steps are at risk)"):format(message, t.step, lost)
  if self.failures < self.most then return nil, message end
  return nil, message, code
end

---The step of the newest checkpoint; nil if there is none.
---@return integer|nil
function Saver:newest() return self.step end

---The newest checkpoint is not that of the run any more: its step is saved again.
function Saver:forget() self.step = nil end

---Tells the saver which checkpoint the run resumed from.
function Saver:resumed(step, path) self.step, self.path = step, path end

return saver

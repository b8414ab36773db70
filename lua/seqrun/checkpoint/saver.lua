-- saver.lua - saves again and again during a run, in the background or not, and tolerates a disk that is full for a
-- while.

local train = require("seqrun.core.train")
local writing = require("seqrun.checkpoint.writing")

local saver = {}

---@class seqrun.Saver
---@field run string
---@field options table
---@field most integer failures in a row that end the run
---@field failures integer in a row
---@field step? integer of the newest checkpoint
---@field path? string
---@field copy? userdata for checkpoints in the background
---@field pending? { step: integer, path: string, forgotten?: boolean } being written
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

---Counts a checkpoint or a failure.
local function count(self, step, path, message, code)
  if path then
    self.step, self.path, self.failures = step, path, 0
    return path, message
  end
  self.failures = self.failures + 1
  local lost = step - (self.step or 0)
  message = ("%s (step %d is not saved; %s at risk)"):format(message, step,
    lost == 1 and "1 step is" or ("%d steps are"):format(lost))
  if self.failures < self.most then return nil, message end
  return nil, message, code
end

---Saves unless this step has been saved; no checkpoint is being written.  A failure is a warning while there are fewer
---than `max_failures` in a row: then the path is nil, but there is no code.
---@param t seqrun.Saved
---@return string|nil path
---@return string? message
---@return string? code given when the run should end
function Saver:save(t)
  if self.step == t.step then return self.path end
  return count(self, t.step, writing.save(self.run, t, self.options))
end

---Copies a checkpoint into memory and starts to write it; no other is being written.  `wait` says how that ended.
---@param t seqrun.Saved
---@return boolean|nil # nil: there is no memory for a copy, so the caller has to `save`
---@return string? message why not; of a failure that `save` would have as well, false instead of nil
---@return string? code given when the run should end
function Saver:begin(t)
  local path = train.checkpoint_path(self.run, t.step)
  self.copy = self.copy or train.background(self.run)
  local begun, message, code = writing.begin(self.copy, t, self.options)
  if not begun and code == "memory" then return nil, message end
  if not begun then return false, select(2, count(self, t.step, nil, message, code)) end
  self.pending = { step = t.step, path = path }
  return true
end

---Whether a checkpoint is being written, or its end has not been asked for.
---@return boolean
function Saver:is_writing() return self.pending ~= nil end

---Whether there is no checkpoint of this step, neither written nor being written.
---@param step integer
---@return boolean
function Saver:lacks(step)
  local pending = self.pending
  return self.step ~= step and not (pending and pending.step == step and not pending.forgotten)
end

---Whether the checkpoint that was being written has ended one way or the other.
---@return boolean
function Saver:ended() return self.pending ~= nil and self.copy:done() end

---Waits for the checkpoint that is being written.
---@return string|nil path
---@return string? message
---@return string? code given when the run should end
function Saver:wait()
  local pending = self.pending
  if not pending then return nil end
  self.pending = nil
  local done, message, code = self.copy:wait()
  if not done then return count(self, pending.step, nil, message, code) end
  local warning = message and ("saved, but an old checkpoint could not be removed: %s"):format(message) or nil
  local path = count(self, pending.step, pending.path)
  if pending.forgotten then self.step = nil end
  return path, warning
end

---Frees the copy.
function Saver:close()
  if self.copy then self.copy:finish() end
  self.copy, self.pending = nil, nil
end

---The step of the newest checkpoint; nil if there is none.
---@return integer|nil
function Saver:newest() return self.step end

---The newest checkpoint is not that of the run any more: its step is saved again.
function Saver:forget()
  self.step = nil
  if self.pending then self.pending.forgotten = true end
end

---Tells the saver which checkpoint the run resumed from.
function Saver:resumed(step, path) self.step, self.path = step, path end

return saver

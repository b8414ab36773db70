-- saves.lua - when a run writes checkpoints, the newest one, and the recipe's own values in them.

local checkpoint = require("seqrun.checkpoint")
local failure = require("seqrun.base.failure")

---@class seqrun.Saves
---@field folder string of the run
---@field options table `save` of the config
---@field screen seqrun.Screen
---@field kept table<string, number|string|boolean> values of the recipe
---@field saver? seqrun.Saver nil on a rank that writes no part of a checkpoint
---@field at number seconds of the run at the last one
local Saves = {}
Saves.__index = Saves

---@param t { folder: string, options: table, screen: seqrun.Screen }
---@return seqrun.Saves
local function new(t)
  return setmetatable({ folder = t.folder, options = t.options, screen = t.screen, kept = {}, at = 0 }, Saves)
end

---The directory is there; from now on checkpoints may be written.
---@param writes boolean whether this rank writes a part of them
function Saves:start(writes)
  local options = { keep = self.options.keep, max_failures = self.options.max_failures }
  if writes then self.saver = checkpoint.saver(self.folder, options) end
end

---Names values that are saved with the run; those that there are already stay.
---@param defaults table<string, number|string|boolean>
---@return table # the values
function Saves:keep(defaults)
  for name, value in pairs(defaults) do
    if self.kept[name] == nil then self.kept[name] = value end
  end
  return self.kept
end

---Takes over the values of a checkpoint.
---@param kept table<string, number|string|boolean>
function Saves:restore(kept)
  for name, value in pairs(kept) do self.kept[name] = value end
end

---The run resumes from this checkpoint.
---@param step integer
---@param path string
function Saves:resumed(step, path)
  if self.saver then self.saver:resumed(step, path) end
end

---Counts the time until the next one from now on.
---@param seconds number of the run
function Saves:wait(seconds) self.at = seconds end

---Whether a checkpoint is due after this step.
---@param step integer
---@param seconds number of the run
---@return boolean
function Saves:due(step, seconds)
  local every, minutes = self.options.every, self.options.minutes
  return every > 0 and step % every == 0 or minutes > 0 and seconds - self.at >= 60 * minutes
end

---The step of the newest checkpoint of this run; nil if there is none.
---@return integer|nil
function Saves:step() return self.saver and self.saver:newest() end

---A checkpoint of this step that exists already is no longer that of the run.
function Saves:forget()
  if self.saver then self.saver:forget() end
end

---Whether this rank is to write a part of the checkpoint of this step.
---@param step integer
---@return boolean
function Saves:lacks(step) return self.saver ~= nil and self.saver:newest() ~= step end

---Writes a checkpoint.
---@param parts seqrun.Saved
---@param needed boolean whether a failure ends the run; otherwise it is a warning until there are too many
---@return string|nil path
---@return string? message
function Saves:write(parts, needed)
  self.screen:saving(parts.step)
  local path, message, code = self.saver:save(parts)
  self.screen:saved()
  if not path and (code or needed) then failure.raise(code or "storage", "%s", message) end
  if message then self.screen:warn("%s", message) end
  if path then self.screen:say("saved %s", path) end
  return path, message
end

return { new = new }

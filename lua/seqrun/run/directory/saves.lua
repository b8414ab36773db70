-- saves.lua - when a run writes checkpoints, the newest one, and the recipe's own values in them.
--
-- With save.background a thread writes a copy of the state while training continues: one checkpoint at a time, and what
-- is needed (at the end, before a stop) is waited for.

local check = require("seqrun.base.check")
local checkpoint = require("seqrun.checkpoint")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local sorted = require("seqrun.base.sorted")

---@class seqrun.Saves
---@field folder string of the run
---@field options table `save` of the config
---@field screen seqrun.Screen
---@field kept table<string, number|string|boolean> values of the recipe
---@field saver? seqrun.Saver nil on a rank that writes no part of a checkpoint
---@field background boolean checkpoints are written while training continues
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
---@param together boolean whether ranks write them together, each waiting for the others
function Saves:start(writes, together)
  self.background = self.options.background and not together
  local options = { keep = self.options.keep, max_failures = self.options.max_failures }
  if writes then self.saver = checkpoint.saver(self.folder, options) end
end

local PLAIN = { number = true, string = true, boolean = true }

---Fails if a value of the recipe is not one that a checkpoint can keep.
local function check_kept(name, value)
  if type(name) == "string" and PLAIN[type(value)] then return end
  check.fail("run:state: '%s' must be a number, a string, true or false, got %s; of a tensor, keep tensor:item()",
    tostring(name), check.show(value))
end

---Names values that are saved with the run; those that there are already stay.
---@param defaults table<string, number|string|boolean>
---@return table<string, number|string|boolean> # the values; none but these can be set
function Saves:keep(defaults)
  for name, value in pairs(defaults) do
    check_kept(name, value)
    if self.kept[name] == nil then self.kept[name] = value end
  end
  local kept = self.kept
  return setmetatable({}, {
    __index = kept, __pairs = function() return next, kept end,
    __newindex = function(_, name, value)
      if kept[name] == nil then
        check.fail("run:state has no '%s', which needs a first value%s", name, guess.hint(tostring(name), sorted(kept)))
      end
      check_kept(name, value)
      kept[name] = value
    end,
  })
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
function Saves:lacks(step) return self.saver ~= nil and self.saver:lacks(step) end

---Says how a save ended.
local function report(self, needed, path, message, code)
  if not path and (code or needed) then failure.raise(code or "storage", "%s", message) end
  if message then self.screen:warn("%s", message) end
  if path then self.screen:say("saved %s", path) end
  return path, message
end

---Whether a checkpoint is being written.
---@return boolean
function Saves:is_writing() return self.saver ~= nil and self.saver:is_writing() end

---Waits for the checkpoint that is being written, if there is one.
---@return string|nil path
---@return string? message
function Saves:join()
  if not self:is_writing() then return nil end
  return report(self, false, self.saver:wait())
end

---Says how the checkpoint that was being written has ended, if it has.
function Saves:look()
  if self.saver and self.saver:ended() then self:join() end
end

---Copies a checkpoint for the background; nil if it has to be written at once.
local function begin(self, parts)
  if not self.background then return nil end
  local begun, message, code = self.saver:begin(parts)
  if begun == false then return report(self, false, nil, message, code) or false end
  if begun == nil then
    self.background = false
    self.screen:warn("%s, so training waits while checkpoints are written", message)
  end
  return begun
end

---Writes a checkpoint; one that is not needed at once, in the background.
---@param parts seqrun.Saved
---@param needed boolean whether a failure ends the run; otherwise it is a warning until there are too many
---@return string|nil path nil as well while it is being written
---@return string? message
function Saves:write(parts, needed)
  self:join()
  self.screen:saving(parts.step)
  local begun = nil
  if not needed then begun = begin(self, parts) end
  if begun ~= nil then return self.screen:saved() end
  local path, message, code = self.saver:save(parts)
  self.screen:saved()
  return report(self, needed, path, message, code)
end

---Waits for what is being written, before the directory is left; a failure is a warning.
function Saves:leave()
  local done, problem = pcall(self.join, self)
  if not done then self.screen:warn("%s", tostring(problem)) end
  if self.saver then self.saver:close() end
end

return { new = new }

-- training.lua - what open runs ask of the models that are made meanwhile; the run that was opened last decides.

local scratch = require("seqrun.base.scratch")

local WEAK = { __mode = "k" }

---Leaves that were made by hand, and stores of parameters, as long as someone holds them.
local training = { leaves = setmetatable({}, WEAK), stores = setmetatable({}, WEAK) }

---@class seqrun.Training
---@field ranks integer that share the moments of parameters
---@field before_weights fun(model: seqrun.Model) refuses a model that the run cannot train
---@field dry? boolean a dry run: files that are made for it are not kept

---@field first? boolean of this module: the first update of a run is under way, whose values may be looked at

---@type seqrun.Training[]
local open = {}

---A run is open.
---@param one seqrun.Training
---@return seqrun.Training one
function training.expect(one)
  open[#open + 1] = one
  return one
end

---It is closed, perhaps once more.
---@param one? seqrun.Training
function training.forget(one)
  for i = #open, 1, -1 do
    if open[i] == one then table.remove(open, i) end
  end
end

---@return seqrun.Training|nil
function training.current() return open[#open] end

---Where files go that a dry run makes; nil if the run that is open may keep them.  Closing it removes them.
---@return seqrun.Scratch|nil
function training.scratch()
  local run = training.current()
  if not run or not run.dry then return nil end
  return scratch()
end

return training

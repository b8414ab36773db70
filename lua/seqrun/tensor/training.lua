-- training.lua - what open runs ask of the models that are made meanwhile; the run that was opened last decides.

local core = require("seqrun.core.tensor")
local scratch = require("seqrun.base.scratch")

local WEAK = { __mode = "k" }

---Leaves that were made by hand, and stores of parameters, as long as someone holds them.
local training = { leaves = setmetatable({}, WEAK), stores = setmetatable({}, WEAK) }

---@class seqrun.Training
---@field ranks integer that share the moments of parameters
---@field before_weights fun(model: seqrun.Model) refuses a model that the run cannot train
---@field dry? boolean a dry run: files that are made for it are not kept
---@field without_id? boolean the run was begun before runs had ids

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

---The stores of parameters whose memory has not been released, in no order.
---@return seqrun.Params[]
function training.live_stores()
  local list = {}
  for store in pairs(training.stores) do
    if pcall(store.core.grad, store.core) then list[#list + 1] = store end -- a finalizer may keep a released one
  end
  return list
end

local backward = core.methods.backward

---The first update of a run is under way, so that ops may look at values: calls `begin` with the tensor that a backward
---pass begins at.  nil: no longer.
---@param begin? fun(root: any)
function training.look(begin)
  training.first = begin ~= nil
  core.methods.backward = begin and function(root, ...)
    begin(root)
    backward(root, ...)
  end or backward
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

-- average.lua - methods of an optimizer that keeps an exponential moving average of the weights.
--
--   local opt = sr.optim.adamw(bert.params, { average = 0.9999 })
--   ...
--   do
--     local average <close> = opt:use_average()    -- the model has the averaged weights until here
--     print(held_out_loss(bert))
--   end
--
-- The average moves in the pass that moves the weights, after each applied update.  With t the number of averaged
-- updates it is the mean of the weights after each, weighed by decay^(t - i): Adam's bias correction (Kingma and Ba
-- 2014), so that neither the initial weights count nor the decay needs a warmup.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")

local average = {}

---Checks the option.
---@param decay any
---@return number
function average.check(decay)
  check.value("optim: average", decay, "number")
  if not (decay > 0 and decay < 1) then
    check.fail("optim: average is %g; it is the decay of the moving average of the weights, above 0 and below 1, such "
      .. "as 0.9999", decay)
  end
  return decay
end

---@class seqrun.Optimizer
local methods = {}

---Whether later updates move the average, as they do unless this was called.
---@param on boolean
function methods:set_averaging(on)
  check.value("optim: set_averaging", on, "boolean")
  self.core:set_averaging(on)
end

---Updates that the average is of; 0 while it has not begun, or if the optimizer keeps none.
---@return integer
function methods:averaged()
  self:read_results()
  return (select(4, self.core:counts()))
end

---The average of a parameter, as a view into the store; nil if there is none yet, if this optimizer owns only a part of
---it, or if it is frozen.
---@param name string
---@return seqrun.Tensor?
function methods:average(name)
  local i = self.params.index[name]
  if not i then check.fail("optim: no parameter named '%s'", tostring(name)) end
  if self:averaged() == 0 then return nil end
  local piece, first, last = self.core:average_piece(i)
  local whole = piece and last - first == self.params:get(name):numel()
  return whole and piece:view(self.params:shape(name)) or nil
end

---Whether a state has an average that this optimizer continues with.
---@param values table of state()
---@return boolean
function methods:takes_average(values)
  return self.options.average ~= nil and math.type(values.averaged) == "integer" and values.averaged > 0
end

---The weights and their average change places.
local function swap(self)
  local ok, message, code = (self.sharded or self.core):swap_average()
  if not ok then failure.raise(code, "%s", message) end
  self.swapped = not self.swapped
end

---The model has the averaged weights until the result is closed; no step can be made meanwhile.  Before the first
---averaged update, and without an average, the weights stay.  All ranks call it.
---@return { given: boolean } # to be closed; given: whether they are the average
function methods:use_average()
  if self.swapped then check.fail("optim: use_average: the model has the averaged weights already") end
  local given = self:averaged() > 0
  if given then swap(self) end
  return setmetatable({ given = given }, { __close = function() if self.swapped then swap(self) end end })
end

average.methods = methods

return average

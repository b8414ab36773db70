-- recorded.lua - a loop over micro-batches whose work on the device is recorded and queued as one piece at its end.

local core = require("seqrun.core.tensor")
local failure = require("seqrun.base.failure")

---What was recorded is dropped if the loop ends early.
local Dropped = { __close = function() core.capture("drop") end }

---@param each fun(): seqrun.Batch?
---@return fun(): seqrun.Batch?
---@return nil
---@return nil
---@return table # closed by the generic `for`
return function(each)
  local begun = false
  return function()
    if not begun then failure.must(core.capture("begin")) end
    begun = true
    local batch = each()
    if not batch then failure.must(core.capture("run")) end
    return batch
  end, nil, nil, setmetatable({}, Dropped)
end

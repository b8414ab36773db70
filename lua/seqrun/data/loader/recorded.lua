-- recorded.lua - a loop over micro-batches whose work on the device is recorded and queued as one piece at its end.

local check = require("seqrun.base.check")
local core = require("seqrun.core.tensor")
local failure = require("seqrun.base.failure")

---Left early, the loop drops what was recorded: no gradient is there, and a step would take the last one's.
local Recording = {
  __close = function(self, err)
    if self.queued then return end
    core.capture("drop")
    if err == nil then
      check.fail("%s", "update:batches: the loop ended before its last micro-batch; with cuda_graph=true its work "
        .. "starts at its end, so go through all of them, or leave cuda_graph out")
    end
  end,
}

---@param each fun(): seqrun.Batch?
---@return fun(): seqrun.Batch?
---@return nil
---@return nil
---@return table # closed by the generic `for`
return function(each)
  local recording = setmetatable({ begun = false, queued = false }, Recording)
  return function()
    if not recording.begun then failure.must(core.capture("begin")) end
    recording.begun = true
    local batch = each()
    if not batch then
      failure.must(core.capture("run"))
      recording.queued = true
    end
    return batch
  end, nil, nil, recording
end

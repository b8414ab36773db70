-- precision.lua - what `precision: auto` means on this device: the dtype in which a layer is faster.

local core = require("seqrun.core.tensor")
local devices = require("seqrun.tensor.devices")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local precision = {}

local SECONDS = 0.5
local ROWS, SIZE = 512, 768 -- of the layer that is timed

---One linear layer with GELU, forward and backward, in a dtype.
---@param dtype "f32"|"bf16"
---@return fun(): number seconds
local function layer(dtype)
  local ops = require("seqrun.tensor.ops")
  local function made(shape, seed)
    return tensor.randn(shape, { seed = seed }):to(dtype):keep()
  end
  local x, w, b = made({ ROWS, SIZE }, 1), made({ SIZE, SIZE }, 2), made({ SIZE }, 3)
  x:requires_grad_()
  w:requires_grad_()
  return function()
    local scope <close> = tensor.scope()
    local began = sys.now()
    ops.linear(x, w, b, { act = "gelu" }):to("f32"):sum():backward()
    core.synchronize()
    return sys.now() - began
  end
end

---The best time of a layer in each dtype, taken in turns for half a second.
---@return table<"f32"|"bf16", number> seconds
local function probe()
  local layers, best, ends = { f32 = layer("f32"), bf16 = layer("bf16") }, {}, sys.now() + SECONDS
  repeat
    for dtype, time in pairs(layers) do best[dtype] = math.min(best[dtype] or math.huge, time()) end
  until sys.now() > ends
  return best
end

---The faster dtype on the current device.
---@return "f32"|"bf16"
---@return string reason in a few words
function precision.faster()
  local name = core.device():gsub(":.*", "")
  if name ~= "cpu" and name ~= "cuda" then return "f32", ("auto: %s is for checks, not for speed"):format(name) end
  local best = probe()
  local bf16 = best.bf16 < best.f32
  return bf16 and "bf16" or "f32", ("auto: a layer takes %.2f ms in bf16, %.2f ms in f32, with %s"):format(
    best.bf16 * 1e3, best.f32 * 1e3, devices.instructions())
end

---Replaces `auto` in the config of a run that is being opened.
---@param cfg table
---@param before table|nil the values of the run that is resumed
---@return string|nil reason
function precision.resolve(cfg, before)
  if cfg.precision ~= "auto" then return nil end
  local reason
  cfg.precision = before and before.precision
  if cfg.precision then return "auto: as before the stop" end
  cfg.precision, reason = precision.faster()
  return reason
end

return precision

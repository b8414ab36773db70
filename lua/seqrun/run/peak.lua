-- peak.lua - the rate of multiply-adds that this machine reaches in registers, and its share that a run reaches.

local core = require("seqrun.core.tensor")
local sys = require("seqrun.core.sys")

local peak = {}

local SECONDS, ROUNDS = 0.02, 20000

---FLOP/s of all threads of the current device in a dtype, the best of some 20 ms; nil if it has no probe.
---@param dtype? "f32"|"bf16"
---@return number|nil
function peak.measure(dtype)
  if core.device() ~= "cpu" then return nil end
  local best, ends = 0, sys.now() + SECONDS
  repeat
    local began = sys.now()
    local flops = core.burst(ROUNDS, dtype)
    if not flops or flops == 0 then return nil end
    best = math.max(best, flops / (sys.now() - began))
  until sys.now() > ends
  return best
end

---The config's `peak_flops`, or as measured.
---@param cfg table
---@return number|nil
function peak.of(cfg)
  return cfg.peak_flops or peak.measure(cfg.precision == "bf16" and "bf16" or "f32")
end

return peak

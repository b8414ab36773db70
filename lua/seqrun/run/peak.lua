-- peak.lua - the rate of multiply-adds that this machine reaches in registers, and its share that a run reaches.

local core = require("seqrun.core.tensor")
local sys = require("seqrun.core.sys")

local peak = {}

local SECONDS, LEAST = 0.03, 8
local ROUNDS = 400000 -- nearly a millisecond: waking a thread takes a tenth of one

---FLOP/s of all threads of the current device in a dtype, the best of at least 8 tries and 30 ms; nil if it has no
---probe.
---@param dtype? "f32"|"bf16"
---@return number|nil
function peak.measure(dtype)
  if core.device() ~= "cpu" then return nil end
  local best, tries, ends = 0, 0, sys.now() + SECONDS
  repeat
    tries = tries + 1
    local began = sys.now()
    local flops = core.burst(ROUNDS, dtype)
    if not flops or flops == 0 then return nil end
    best = math.max(best, flops / (sys.now() - began))
  until tries >= LEAST and sys.now() > ends
  return best
end

---The config's `peak_flops`, or as measured.
---@param cfg table
---@return number|nil
function peak.of(cfg)
  return cfg.peak_flops or peak.measure(cfg.precision == "bf16" and "bf16" or "f32")
end

---Whether a run exceeds a peak that was measured, beside other programs, not given.
---@param run seqrun.Run
---@param share? number of the peak
---@return boolean
function peak.is_too_low(run, share) return not run.config.peak_flops and (share or 0) > 1 end

return peak

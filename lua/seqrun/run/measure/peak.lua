-- peak.lua - the rate of multiply-adds that this machine reaches in registers, and its share that a run reaches.

local core = require("seqrun.core.tensor")
local sys = require("seqrun.core.sys")

local peak = {}

local SECONDS, LEAST = 0.03, 8
local LONG = 0.0005 -- seconds of a try: waking a thread takes a fifth of it
local ROUNDS = 12500 -- of the first try; a round of AMX takes as long as 32 of vectors

---FLOP/s of all threads of the current device in a dtype, the best of at least 8 tries and 30 ms; nil if it has no
---probe.
---@param dtype? "f32"|"bf16"
---@return number|nil
function peak.measure(dtype)
  if core.device() ~= "cpu" then return nil end
  local best, rounds, tries, ends = 0, ROUNDS, 0, sys.now() + SECONDS
  repeat
    local began = sys.now()
    local flops = core.burst(rounds, dtype)
    if not flops or flops == 0 then return nil end
    local seconds = sys.now() - began
    best = math.max(best, flops / seconds)
    if seconds < LONG then
      rounds = 2 * rounds
    else
      tries = tries + 1
    end
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
---@param given? number the config's `peak_flops`
---@param share? number of the peak
---@return boolean
function peak.is_too_low(given, share) return not given and (share or 0) > 1 end

return peak

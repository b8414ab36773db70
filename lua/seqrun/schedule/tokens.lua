-- tokens.lua - a learning rate that decays by tokens: curricula and token dropping change the tokens of a step, and a
-- decay by steps would then end too early or too late.
--
-- The warmup is in steps, since it is there to fill the optimizer's moments.  The decay begins at the tokens of the
-- first step after it; that mark is state, saved with the run.

local check = require("seqrun.base.check")
local counters = require("seqrun.schedule.counters")

---@class seqrun.TokenRate
---@field peak number
---@field floor number
---@field warmup number in units of warmup_by
---@field total number where the rate reaches floor, in units of by
---@field by string
---@field warmup_by string
---@field decay string
---@field mark number? value of the counter where the decay began
local Rate = {}
Rate.__index = Rate
Rate.__name = "seqrun.TokenRate"

---The part of peak - floor that is left after a part of the decay.
local DECAYS = {
  linear = function(part) return 1 - part end,
  cosine = function(part) return 0.5 * (math.cos(math.pi * part) + 1) end,
  constant = function() return 1 end,
}

local OPTIONS = { peak = true, floor = true, warmup = true, warmup_by = true, total = true, by = true, decay = true }

local function number_of(t, key, otherwise)
  local x = t[key]
  if x == nil then x = otherwise end
  if math.type(x) == nil or x ~= x or x < 0 or x == math.huge then
    check.fail("schedule.tokens: '%s' must be a non-negative number, got %s", key, check.show(x))
  end
  return x
end

---Warmup to `peak`, then decay to `floor` where the counter `by` reaches `total`.
---@param t { peak: number, floor?: number, warmup?: number, warmup_by?: string, total: number, by?: string,
---  decay?: "linear"|"cosine"|"constant" } by: effective_tokens by default; warmup_by: "step" by default
---@return seqrun.TokenRate # called with the counters of an update
local function new(t)
  check.options("schedule.tokens", t, OPTIONS)
  local self = setmetatable({
    peak = number_of(t, "peak"), floor = number_of(t, "floor", 0), warmup = number_of(t, "warmup", 0),
    total = number_of(t, "total"), by = t.by or "effective_tokens", warmup_by = t.warmup_by or "step",
    decay = t.decay or "linear",
  }, Rate)
  check.choice("schedule.tokens: by", self.by, counters.NAMES)
  check.choice("schedule.tokens: warmup_by", self.warmup_by, { "step", self.by })
  check.choice("schedule.tokens: decay", self.decay, { "linear", "cosine", "constant" })
  if self.floor > self.peak then check.fail("schedule.tokens: floor %g exceeds peak %g", self.floor, self.peak) end
  if self.total <= (self.warmup_by == self.by and self.warmup or 0) then
    check.fail("schedule.tokens: total is %g %s; it must exceed the warmup", self.total, self.by)
  end
  return self
end

local function read(at, by)
  local x = type(at) == "table" and counters.read(at, by)
  if not x then check.fail("schedule.tokens: the counters have no '%s'; pass update.counters", by) end
  return x
end

---The rate during the warmup, and the mark at its end; nil after it.
local function warming(self, at, tokens)
  local x = read(at, self.warmup_by)
  if self.warmup_by == self.by then
    self.mark = self.warmup
  elseif x >= self.warmup and not self.mark then
    self.mark = self.warmup > 0 and tokens or 0
  end
  return x <= self.warmup and self.warmup > 0 and self.peak * x / self.warmup or nil
end

---@param at seqrun.Counters
---@return number
function Rate:__call(at)
  local tokens = read(at, self.by)
  local rate = warming(self, at, tokens)
  if rate then return rate end
  if tokens > self.total then return self.floor end
  local part = (tokens - self.mark) / (self.total - self.mark)
  return self.floor + DECAYS[self.decay](part) * (self.peak - self.floor)
end

---A plain table for restore().
function Rate:state() return { mark = self.mark } end

---Continues where state() was taken.
function Rate:restore(state) self.mark = state.mark end

function Rate:__tostring()
  return ("peak %g after %g %s, %s decay to %g at %g %s"):format(self.peak, self.warmup, self.warmup_by, self.decay,
    self.floor, self.total, self.by)
end

return new

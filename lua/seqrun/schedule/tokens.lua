-- tokens.lua - a learning rate that decays by tokens: curricula and token dropping change the tokens of a step, and a
-- decay by steps would then end too early or too late.
--
-- The warmup is in steps, since it is there to fill the optimizer's moments.  The decay begins at the tokens of the
-- first step after it; that mark is state, saved with the run.

local check = require("seqrun.base.check")
local counters = require("seqrun.schedule.counters")
local decays = require("seqrun.schedule.decays")

---@class seqrun.TokenRate
---@field peak number
---@field floor number
---@field warmup number in units of warmup_by
---@field total number where the rate reaches floor, in units of by
---@field by string
---@field warmup_by string
---@field decay string
---@field last number? length of the decay, at the end, in units of by
---@field mark number? value of the counter where the decay began
local Rate = {}
Rate.__index = Rate
Rate.__name = "seqrun.TokenRate"

local OPTIONS = {
  peak = true, floor = true, warmup = true, warmup_by = true, total = true, by = true, decay = true, last = true,
}

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
---  decay?: "linear"|"cosine"|"1-sqrt"|"constant", last?: number } by: effective_tokens by default; warmup_by: "step"
---  by default; last: the decay takes so much of the counter, before total; by default it begins where the warmup ends
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
  check.choice("schedule.tokens: decay", self.decay, decays.NAMES)
  self.last = t.last and number_of(t, "last") or nil
  if self.floor > self.peak then check.fail("schedule.tokens: floor %g exceeds peak %g", self.floor, self.peak) end
  if self.total <= (self.warmup_by == self.by and self.warmup or 0) then
    check.fail("schedule.tokens: total is %g %s; it must exceed the warmup", self.total, self.by)
  end
  local before = self.warmup_by == self.by and self.warmup or 0
  if self.last and (self.last <= 0 or before + self.last > self.total) then
    check.fail("schedule.tokens: last is %g of %g %s; it must be positive, and leave room for the warmup",
      self.last, self.total, self.by)
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
  local from = self.last and math.max(self.mark, self.total - self.last) or self.mark
  if self.last and tokens <= from then return self.peak end
  local part = (tokens - from) / (self.total - from)
  return self.floor + decays.SHAPES[self.decay](part) * (self.peak - self.floor)
end

---A plain table for restore().
function Rate:state() return { mark = self.mark } end

---Continues where state() was taken.
---@param state table
function Rate:restore(state) self.mark = state.mark end

function Rate:__tostring()
  local over = self.last and (" in the last %g"):format(self.last) or ""
  return ("peak %g after %g %s, %s decay%s to %g at %g %s"):format(self.peak, self.warmup, self.warmup_by, self.decay,
    over, self.floor, self.total, self.by)
end

return new

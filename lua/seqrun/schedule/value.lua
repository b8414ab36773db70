-- value.lua - one kind of schedule for everything that changes during training: sequence length, percentile of a
-- metric, fraction of kept tokens, masking rate, batch size.
--
--     local length = sr.schedule.new { kind = "length", min = 64, max = 512, total = 1000, quantum = 8 }
--     length:at(500)        -- stateless
--     length:advance(500)   -- also sets length.value, which state() saves
--
-- A schedule never leaves min..max and reaches max at `total`.  With `faithful` it equals the public reference
-- implementation with its oddities: it may start below min, reach max after `total`, and `advance` stops for ever
-- at the first value that is not below max.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local counters = require("seqrun.schedule.counters")
local formulas = require("seqrun.schedule.formulas")

---@class seqrun.ScheduleOptions
---@field name? string config key, for messages
---@field type? "linear"|"root"|"proportional"|"discrete"|"custom"|"constant" linear by default
---@field min? number value at 0; of linear, root and proportional
---@field max? number value from `total` on
---@field total? number where max is reached, in units of `by`
---@field quantum? number values are multiples of it; none: not rounded
---@field degree? number of root: 2 is the square root
---@field values? number[] of discrete
---@field upto? number[] of discrete: where each value but the last ends
---@field fn? fun(at: number|seqrun.Counters): number of custom; gets what at() and advance() were given
---@field value? number of constant
---@field by? string counter that it is a function of (counters.lua), "step" by default
---@field down? boolean from max down to min; of linear and root
---@field kind? "length"|"percentile"|"fraction"|"count" what the value is, which limits it
---@field faithful? boolean reproduce the reference implementation

---@class seqrun.ValueSchedule: seqrun.ScheduleOptions
---@field value number after the last advance(); before the first, the initial value
local Schedule = {}
Schedule.__index = Schedule
Schedule.__name = "seqrun.ValueSchedule"

local OPTIONS = {
  name = true, type = true, min = true, max = true, total = true, quantum = true, degree = true, values = true,
  upto = true, fn = true, value = true, by = true, down = true, kind = true, faithful = true,
}

local TYPES = { "linear", "root", "proportional", "discrete", "custom", "constant" }

---Options that only some types have.
local OWN = {
  total = { linear = true, root = true, proportional = true },
  quantum = { linear = true, root = true, proportional = true }, degree = { root = true },
  values = { discrete = true }, upto = { discrete = true }, fn = { custom = true }, value = { constant = true },
  down = { linear = true, root = true },
}

local function refuse(s, format, ...) check.fail("%s: " .. format, s.name or "schedule.new", ...) end

local function is_number(x) return math.type(x) ~= nil and x == x and x ~= math.huge and x ~= -math.huge end

---A finite number, which may be missing if `optional`.
local function number_of(s, key, optional)
  local x = s[key]
  if x == nil and optional then return nil end
  if x == nil then refuse(s, "'%s' is missing; a %s schedule needs it", key, s.type) end
  if not is_number(x) then refuse(s, "'%s' must be a number, got %s", key, check.show(x)) end
  return x
end

local function positive(s, key, optional)
  local x = number_of(s, key, optional)
  if x and x <= 0 then refuse(s, "'%s' must be positive, got %g", key, x) end
  return x
end

local function check_range(s)
  number_of(s, "min")
  number_of(s, "max")
  if s.min > s.max and not s.faithful then
    refuse(s, "min %g exceeds max %g; swap them, and set down to go from max to min", s.min, s.max)
  end
end

local function check_list(s, key)
  local list = s[key]
  if type(list) ~= "table" or #list == 0 and key == "values" then
    refuse(s, "'%s' must be a list of numbers", key)
  end
  for i, x in ipairs(list) do
    if not is_number(x) then refuse(s, "%s[%d] must be a number, got %s", key, i, check.show(x)) end
  end
end

---What each type needs.
local CHECKS = {}

function CHECKS.linear(s)
  check_range(s)
  positive(s, "total")
  positive(s, "quantum", not s.faithful)
  s.degree = 1
end

function CHECKS.root(s)
  check_range(s)
  positive(s, "total")
  positive(s, "quantum", not s.faithful)
  if number_of(s, "degree") <= 0 and not (s.faithful and s.degree ~= 0) then
    refuse(s, "'degree' must be positive, got %g", s.degree)
  end
end

function CHECKS.proportional(s)
  check_range(s)
  positive(s, "min")
  positive(s, "total")
  s.quantum = positive(s, "quantum", true) or 1
  if s.faithful then refuse(s, "'faithful' does not apply to type proportional; leave it out") end
  if (s.max - s.min) % s.quantum ~= 0 then
    refuse(s, "min %g and max %g differ by no multiple of quantum %g", s.min, s.max, s.quantum)
  end
end

function CHECKS.discrete(s)
  check_list(s, "values")
  check_list(s, "upto")
  if #s.values ~= #s.upto + 1 then
    refuse(s, "%d values need %d ends in 'upto', got %d; the last value has no end", #s.values, #s.values - 1, #s.upto)
  end
  if s.faithful then return check_range(s) end
  for i = 2, #s.upto do
    if s.upto[i] <= s.upto[i - 1] then
      refuse(s, "upto must ascend, but %g follows %g: values[%d] would never be used", s.upto[i], s.upto[i - 1], i)
    end
  end
  s.min, s.max = s.min or math.min(table.unpack(s.values)), s.max or math.max(table.unpack(s.values))
  check_range(s)
  for i, x in ipairs(s.values) do
    if x < s.min or x > s.max then refuse(s, "values[%d] is %g, outside min %g to max %g", i, x, s.min, s.max) end
  end
end

function CHECKS.custom(s)
  if not check.is_callable(s.fn) then
    refuse(s, "'fn' must be a function that returns the value, got %s", check.show(s.fn))
  end
  if s.faithful then return check_range(s) end
  number_of(s, "min", true)
  number_of(s, "max", true)
  if s.min and s.max then check_range(s) end
end

function CHECKS.constant(s)
  s.min, s.max = number_of(s, "value"), s.value
end

local function is_whole(x) return x == nil or x % 1 == 0 end

---Lowest and highest value of each kind; whole: integers only.
local KINDS = {
  length = { low = 1, whole = true, what = "a sequence length" },
  count = { low = 1, whole = true, what = "a count" },
  percentile = { low = 1, high = 100, whole = true, what = "a percentile" },
  fraction = { low = 0, high = 1, what = "a fraction" },
}

---Refuses what a value of this kind cannot be.
local function check_kind(s)
  local kind = KINDS[s.kind]
  if not kind then return end
  for _, key in ipairs { "max", "min" } do
    local x = s[key]
    if x and (x < kind.low or x > (kind.high or math.huge) or s.kind == "fraction" and x == 0) then
      refuse(s, "%s is %g; %s must be %s", key, x, kind.what, kind.high == 1 and "above 0 and at most 1"
        or kind.high and ("%d to %d"):format(kind.low, kind.high) or "at least " .. kind.low)
    end
    if kind.whole and not is_whole(x) then refuse(s, "%s is %g; %s must be an integer", key, x, kind.what) end
  end
  for i, x in ipairs(kind.whole and s.values or {}) do
    if not is_whole(x) then refuse(s, "values[%d] is %g; %s must be an integer", i, x, kind.what) end
  end
  if kind.whole and not is_whole(s.quantum) then
    refuse(s, "quantum is %g; %s must be an integer", s.quantum, kind.what)
  end
end

---Lengths are multiples of the quantum; rounding min down would start below it, rounding max down would never reach it.
local function check_multiples(s)
  if s.kind ~= "length" or not s.quantum or s.faithful then return end
  for _, key in ipairs { "min", "max" } do
    local x, q = s[key], s.quantum
    if x % q ~= 0 then
      refuse(s, "%s is %g, which is not a multiple of quantum %g; use %g or %g, or a quantum that divides it", key, x,
        q, math.max(q, x - x % q), x + q - x % q)
    end
  end
end

---Checks the options and makes a schedule.
---@param t seqrun.ScheduleOptions
---@return seqrun.ValueSchedule
local function new(t)
  if type(t) ~= "table" then check.fail("schedule.new: expected { min =, max =, total = }, got %s", check.show(t)) end
  check.options(t.name or "schedule.new", t, OPTIONS)
  local s = setmetatable({}, Schedule)
  for key, value in pairs(t) do s[key] = value end
  s.by, s.type = s.by or "step", s.type or "linear"
  local what = s.name or "schedule.new"
  check.choice(what .. ": type", s.type, TYPES)
  check.choice(what .. ": by", s.by, counters.NAMES)
  if s.kind then check.choice(what .. ": kind", s.kind, { "length", "percentile", "fraction", "count" }) end
  for key, types in pairs(OWN) do
    if s[key] ~= nil and not types[s.type] then
      refuse(s, "'%s' does not apply to type %s; leave it out", key, s.type)
    end
  end
  if s.faithful and s.down then refuse(s, "'down' does not exist in the reference; leave out faithful") end
  CHECKS[s.type](s)
  check_kind(s)
  check_multiples(s)
  s.whole = s.kind and KINDS[s.kind].whole or is_whole(s.quantum or 0.5)
  s.value = s.down and s.max or s.min or nil
  if s.type == "discrete" and not s.faithful then s.value = s.values[1] end
  return s
end

local function whole(s, value) return s.whole and math.tointeger(value) or value end

---The value of a custom function; an error names the key and where it happened.
local function called(s, at, x)
  local ok, value = pcall(s.fn, at)
  if ok and is_number(value) then return value end
  if s.by == "step" and type(at) == "table" then x = at.step end -- that of the run
  local name, where = s.name or "schedule", ("%s %s"):format(s.by, tostring(x))
  if not ok then
    failure.raise("schedule", "%s: the custom function failed at %s: %s; correct it and resume the run", name, where,
      tostring(value))
  end
  failure.raise("schedule", "%s: the custom function returned %s at %s; it must return a finite number; correct it and "
    .. "resume the run", name, check.show(value), where)
end

local function limited(s, value)
  if s.faithful then return value end
  value = math.max(s.min or -math.huge, math.min(s.max or math.huge, value))
  return s.whole and math.floor(value) or value
end

---The value at x, kept inside min..max.
local function clamped(s, x)
  local value
  if s.total and x >= s.total then
    value = s.max
  else
    value = math.max(s.min, math.min(s.max, formulas[s.type](s, math.max(0, x))))
  end
  return s.down and s.max + s.min - value or value
end

---The value at a number, or at counters: stateless.
---@param at number|seqrun.Counters
---@return number
function Schedule:at(at)
  local x = counters.read(at, self.by)
  if self.type == "custom" then return limited(self, called(self, at, x)) end
  if not is_number(x) then
    refuse(self, "it depends on %s, which these counters do not have; got %s", self.by, check.show(at))
  end
  return whole(self, self.faithful and formulas[self.type](self, x) or not self.faithful and clamped(self, x))
end

Schedule.__call = Schedule.at

---Whether `advance` no longer changes the value.
local function latched(s) return s.faithful and s.value ~= nil and s.value >= s.max end

---Moves to a number, or to counters, and returns the value there, which is kept as `value`.
---@param at number|seqrun.Counters
---@return number
function Schedule:advance(at)
  if not latched(self) then
    self.value, self.reached = self:at(at), counters.read(at, self.by)
  end
  return self.value
end

---A plain table for restore().
---@return { value: number, reached: number?, latched: boolean }
function Schedule:state()
  return { value = self.value, reached = self.reached, latched = latched(self) or false }
end

---Continues where state() was taken.
---@param state { value: number, reached: number?, latched: boolean }
function Schedule:restore(state)
  local fresh = type(state) == "table" and state.value == nil and self.type == "custom" -- saved before it was used
  if type(state) ~= "table" or not fresh and not is_number(state.value) then
    refuse(self, "restore: expected what state() returned, got %s", check.show(state))
  end
  if state.latched and not latched { faithful = self.faithful, value = state.value, max = self.max } then
    refuse(self, "restore: the saved schedule ended at %g, but this one continues to %g; use the same settings",
      state.value, self.max)
  end
  self.value, self.reached = state.value, state.reached
end

function Schedule:__tostring()
  local name = self.name and self.name .. ": " or ""
  if self.type == "constant" then return ("%sconstant %g"):format(name, self.max) end
  if self.type == "custom" then return name .. "custom function of " .. self.by end
  local from, upto = self.min, self.max
  if self.down then from, upto = upto, from end
  local total = self.total or self.upto[#self.upto]
  return ("%s%s, %g to %g over %g %s%s"):format(name, self.type, from, upto, total or 0, self.by,
    self.by == "step" and "s" or "")
end

return new

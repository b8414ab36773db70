-- rates.lua - learning rates as functions of the step, or of another counter of the run.
--
-- A schedule is a plain function: rate(step) for step 1, 2, ...; steps may be fractional, since the number of
-- sequences in updates of packs varies (`update.schedule_step`).  `warmup` is a number of steps, or a fraction of
-- `total` if it is between 0 and 1.  Any callable of a step can be used instead.
--
-- Called with the counters of an update, rate(update.counters), it uses the counter named by the option `by`
-- (counters.lua; the default is "step"); `warmup`, `total` and so on are then in units of that counter.

local check = require("seqrun.base.check")
local counters = require("seqrun.schedule.counters")
local decays = require("seqrun.schedule.decays")

local schedule = {}

local function refuse(name, format, ...) check.fail("schedule.%s: " .. format, name, ...) end

local function number_of(name, t, key, otherwise)
  local x = t[key]
  if x == nil then x = otherwise end
  if x == nil then refuse(name, "'%s' is missing", key) end
  if type(x) ~= "number" or x ~= x or x < 0 or x == math.huge then
    refuse(name, "'%s' must be a non-negative number, got %s", key, check.show(x))
  end
  return x
end

local function check_keys(name, t, ...)
  if type(t) ~= "table" then refuse(name, "expected a table, such as { peak = 1e-4, warmup = 100, total = 1000 }") end
  local known = { by = true }
  for _, key in ipairs { ... } do known[key] = true end
  check.options("schedule." .. name, t, known)
end

---Warmup steps, checked against the total if there is one.
local function warmup_of(name, t, total)
  local warmup = number_of(name, t, "warmup", 0)
  if warmup > 0 and warmup < 1 then
    if not total then refuse(name, "warmup is %g, a fraction, but total is missing; give steps", warmup) end
    warmup = math.floor(warmup * total + 0.5)
  end
  if warmup ~= math.floor(warmup) then refuse(name, "warmup must be an integer number of steps, got %g", warmup) end
  if total and warmup >= total then
    refuse(name, "warmup is %d of %d steps; lower warmup or raise total", warmup, total)
  end
  return math.floor(warmup)
end

local function total_of(name, t)
  local total = number_of(name, t, "total")
  if total < 1 or total ~= math.floor(total) then
    refuse(name, "total must be a positive integer, got %g", total)
  end
  return math.floor(total)
end

---`rate` as a function of a number, or of counters.
local function measured(name, t, rate)
  local by = t.by or "step"
  if not counters.FIELDS[by] then
    refuse(name, "by is '%s'; choose %s", tostring(by), table.concat(counters.NAMES, ", "))
  end
  local function schedule_of(at)
    local value = counters.read(at, by)
    if not value then refuse(name, "the counters have no '%s'; pass update.counters", counters.FIELDS[by]) end
    return rate(value)
  end
  counters.OF[schedule_of] = by
  return schedule_of
end

---Linear warmup to `peak`, then `after`.
local function warmed(name, t, peak, warmup, after)
  return measured(name, t, function(step)
    if step <= warmup then return peak * step / warmup end
    return after(step)
  end)
end

---@alias seqrun.Schedule fun(step: number|seqrun.Counters): number

---Warmup to `peak`, then polynomial decay to `floor` at `total`.  The decay begins at the end of the warmup, or with
---`from_start` at step 0, as in the published BERT code, where the rate drops abruptly when the warmup ends.
---@param t { peak: number, warmup?: number, total: integer, power?: number, floor?: number, from_start?: boolean,
---  by?: string }
---@return seqrun.Schedule
function schedule.poly(t)
  check_keys("poly", t, "peak", "warmup", "total", "power", "floor", "from_start")
  local peak, total = number_of("poly", t, "peak"), total_of("poly", t)
  local warmup, power = warmup_of("poly", t, total), number_of("poly", t, "power", 1)
  local floor, first = number_of("poly", t, "floor", 0), t.from_start and 0 or warmup
  return warmed("poly", t, peak, warmup, function(step)
    return floor + (peak - floor) * math.max(0, (total - step) / (total - first)) ^ power
  end)
end

---Warmup to `peak`, then linear decay to `floor` at `total`.
---@param t { peak: number, warmup?: number, total: integer, floor?: number, by?: string }
---@return seqrun.Schedule
function schedule.linear(t)
  check_keys("linear", t, "peak", "warmup", "total", "floor")
  local peak, total = number_of("linear", t, "peak"), total_of("linear", t)
  local warmup, floor = warmup_of("linear", t, total), number_of("linear", t, "floor", 0)
  return warmed("linear", t, peak, warmup, function(step)
    return floor + (peak - floor) * math.max(0, (total - step) / (total - warmup))
  end)
end

---Warmup to `peak`, then cosine decay to `floor` at `total`.
---@param t { peak: number, warmup?: number, total: integer, floor?: number, by?: string }
---@return seqrun.Schedule
function schedule.cosine(t)
  check_keys("cosine", t, "peak", "warmup", "total", "floor")
  local peak, total = number_of("cosine", t, "peak"), total_of("cosine", t)
  local warmup, floor = warmup_of("cosine", t, total), number_of("cosine", t, "floor", 0)
  return warmed("cosine", t, peak, warmup, function(step)
    local part = math.min(1, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * part))
  end)
end

---Warmup to `peak`, then constant.
---@param t { peak: number, warmup?: integer, by?: string }
---@return seqrun.Schedule
function schedule.constant(t)
  check_keys("constant", t, "peak", "warmup")
  local peak, warmup = number_of("constant", t, "peak"), warmup_of("constant", t)
  return warmed("constant", t, peak, warmup, function() return peak end)
end

---Warmup to `peak`, then peak * sqrt(warmup / step).
---@param t { peak: number, warmup: integer, by?: string }
---@return seqrun.Schedule
function schedule.inverse_sqrt(t)
  check_keys("inverse_sqrt", t, "peak", "warmup")
  local peak, warmup = number_of("inverse_sqrt", t, "peak"), warmup_of("inverse_sqrt", t)
  if warmup < 1 then refuse("inverse_sqrt", "warmup must be at least 1 step: the decay is relative to it") end
  return warmed("inverse_sqrt", t, peak, warmup, function(step) return peak * math.sqrt(warmup / step) end)
end

---The steps of a decay at the end, which may be a fraction of the total.
local function decay_of(name, t, total, warmup, otherwise)
  local decay = number_of(name, t, "decay", otherwise)
  if decay < 1 then decay = math.floor(decay * total + 0.5) end
  if warmup + decay > total then
    refuse(name, "warmup %d and decay %d exceed the %d steps; lower one or raise total", warmup, decay, total)
  end
  return decay
end

---Warmup, stable, decay: `peak` until `decay` steps before `total`, then decay to `floor`: linear, along a cosine, or
---by one minus the square root of its part ("1-sqrt").
---@param t { peak: number, warmup?: number, total: integer, decay: number, floor?: number,
---  shape?: "linear"|"cosine"|"1-sqrt", by?: string }
---@return seqrun.Schedule
function schedule.wsd(t)
  check_keys("wsd", t, "peak", "warmup", "total", "decay", "floor", "shape")
  local peak, total = number_of("wsd", t, "peak"), total_of("wsd", t)
  local warmup, floor = warmup_of("wsd", t, total), number_of("wsd", t, "floor", 0)
  local shape = check.choice("schedule.wsd: shape", t.shape or "linear", { "linear", "cosine", "1-sqrt" })
  local decay = decay_of("wsd", t, total, warmup)
  return warmed("wsd", t, peak, warmup, function(step)
    if decay == 0 or step <= total - decay then return peak end
    local left = math.max(0, (total - step) / decay)
    return floor + (peak - floor) * (shape == "linear" and left or decays.SHAPES[shape](1 - left))
  end)
end

---Warmup, half of a cosine from `peak` towards `bend * peak`, and from `cosine` steps after the warmup on, where it is
---half way down, an inverse square root that continues it with the same slope; with `decay` the last steps fall
---linearly to `floor`, which needs a total.
---@param t { peak: number, warmup?: number, cosine: number, bend?: number, total?: integer, decay?: number,
---  floor?: number, by?: string } bend: above 0 and below 1, default 0.1
---@return seqrun.Schedule
function schedule.cosine_inverse_sqrt(t)
  local name = "cosine_inverse_sqrt"
  check_keys(name, t, "peak", "warmup", "cosine", "bend", "total", "decay", "floor")
  local peak, total = number_of(name, t, "peak"), t.total and total_of(name, t)
  local warmup, floor = warmup_of(name, t, total), number_of(name, t, "floor", 0)
  local length, bend = number_of(name, t, "cosine"), number_of(name, t, "bend", 0.1)
  if length <= 0 then refuse(name, "cosine is %g; it must be the positive length of the cosine", length) end
  if bend <= 0 or bend >= 1 then refuse(name, "bend is %g; it must be above 0 and below 1", bend) end
  if t.decay and t.decay > 0 and not total then refuse(name, "a decay at the end needs the total") end
  local decay = total and decay_of(name, t, total, warmup, 0) or 0
  local shape = decays.cosine_inverse_sqrt(bend, length)
  return warmed(name, t, peak, warmup, function(step)
    if decay == 0 or step <= total - decay then return peak * shape(step - warmup) end
    local top = peak * shape(total - decay - warmup)
    return floor + (top - floor) * math.max(0, (total - step) / decay)
  end)
end

---Linear interpolation between points { step, rate }; constant before the first and after the last.
---@param t number[][] steps ascending; optionally `by`
---@return seqrun.Schedule
function schedule.points(t)
  if type(t) ~= "table" or #t == 0 then refuse("points", "expected a list of { step, rate }") end
  local points = {}
  for i, point in ipairs(t) do
    local step, rate = point[1], point[2]
    if type(step) ~= "number" or type(rate) ~= "number" then
      refuse("points", "point %d is not { step, rate }", i)
    end
    if i > 1 and step <= points[i - 1][1] then
      refuse("points", "step %g follows step %g; steps must ascend", step, points[i - 1][1])
    end
    points[i] = { step, rate }
  end
  return measured("points", t, function(step)
    if step <= points[1][1] then return points[1][2] end
    for i = 2, #points do
      local a, b = points[i - 1], points[i]
      if step <= b[1] then return a[2] + (b[2] - a[2]) * (step - a[1]) / (b[1] - a[1]) end
    end
    return points[#points][2]
  end)
end

---A schedule of your own: `fn` gets the step, or with `by` another counter, and returns the rate.
---@param fn fun(step: number): number
---@param by? string counter: "step" by default, "real_tokens", "seconds", ...
---@return seqrun.Schedule
function schedule.custom(fn, by)
  if type(fn) ~= "function" then
    refuse("custom", "expected a function, such as function(step) return 1e-3 / step end; got %s", check.show(fn))
  end
  return measured("custom", { by = by }, function(at)
    local rate = fn(at)
    if type(rate) ~= "number" then refuse("custom", "the rate at %s must be a number, got %s", at, check.show(rate)) end
    return rate
  end)
end

return schedule

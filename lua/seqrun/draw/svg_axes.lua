-- svg_axes.lua - the axes of charts: round ticks, short labels, and where a value lies.

local axes = {}

---@class seqrun.svg.Axis
---@field label string what it shows, with its unit
---@field low? number
---@field high? number
---@field log? boolean
---@field even? boolean it begins and ends at round numbers
---@field ticks? { at: number, label: string }[] instead of round numbers

---Round numbers between two others, at most `most` of them.
---@param low number
---@param high number
---@param most integer
---@return number[] ticks
---@return number step
function axes.ticks(low, high, most)
  local range = high - low
  if not (range > 0) then return { low }, 1 end
  local power = 10.0 ^ math.floor(math.log(range / most, 10))
  local step = power * 10
  for _, part in ipairs { 1, 2, 5 } do
    if range / (part * power) <= most + 1e-9 then
      step = part * power
      break
    end
  end
  local list, first = {}, math.ceil(low / step - 1e-9)
  for i = first, math.floor(high / step + 1e-9) do list[#list + 1] = i * step end
  return list, step
end

---1, 2 and 5 of every power of ten; 1 only over many.
local function log_ticks(low, high)
  local list, first, last = {}, math.floor(math.log(low, 10)), math.ceil(math.log(high, 10))
  local every = math.max(1, (last - first) // 5)
  for power = first, last, every do
    for _, part in ipairs(last - first <= 3 and { 1, 2, 5 } or { 1 }) do
      local at = part * 10.0 ^ power
      if at >= low * 0.999 and at <= high * 1.001 then list[#list + 1] = at end
    end
  end
  return list
end

local LARGE = { { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" }, { 1e4, "k", 1e3 } }
local RAISED = { ["-"] = "⁻", ["0"] = "⁰", ["1"] = "¹", ["2"] = "²", ["3"] = "³", ["4"] = "⁴", ["5"] = "⁵",
  ["6"] = "⁶", ["7"] = "⁷", ["8"] = "⁸", ["9"] = "⁹" }

---What all labels of an axis are divided by: the divisor, what follows a number, what the label of the axis adds.
local function unit_of(most)
  for _, unit in ipairs(LARGE) do
    if most >= unit[1] and most < 1e15 then return unit[3] or unit[1], unit[2], "" end
  end
  if most >= 0.01 and most < 1e15 or most <= 0 then return 1, "", "" end
  local power = 3 * math.floor(math.log(most, 10) / 3)
  return 10.0 ^ power, "", " ×10" .. ("%d"):format(power):gsub(".", RAISED)
end

local function labelled(list, step)
  local most = 0
  for _, at in ipairs(list) do most = math.max(most, math.abs(at)) end
  local divisor, suffix, more = unit_of(most)
  local decimals = step and math.max(0, math.ceil(-math.log(step / divisor, 10) - 1e-9)) or nil
  local ticks = {}
  for i, at in ipairs(list) do
    local number = decimals and ("%.*f"):gsub("%*", tostring(math.min(decimals, 9))):format(at / divisor)
      or ("%.6g"):format(at / divisor)
    ticks[i] = { at = at, label = (at == 0 and "0" or number .. suffix) }
  end
  return ticks, more
end

---Where the axis begins and ends: at ticks if it is `even`; an axis of one value gets room around it.
local function limits(spec, low, high, most)
  low, high = spec.low or low, spec.high or high
  if not (high - low > 1e-9 * math.max(math.abs(low), math.abs(high), 1e-280)) then
    local room = math.max(math.abs(low) * 0.1, 1e-9)
    low, high = low - (spec.low and 0 or room), high + room
  end
  if not spec.even or spec.log then return low, high end
  local first, last = low, high
  local _, step = axes.ticks(first, last, most)
  repeat -- a wider range may have wider steps; the range only grows, so this ends
    local used = step
    first, last = math.floor(first / used + 1e-9) * used, math.ceil(last / used - 1e-9) * used
    _, step = axes.ticks(first, last, most)
  until step <= used
  return first, last
end

---An axis over a range: { label, ticks, scale }; scale(first, last) gives the function from a value to a position.
---@param spec seqrun.svg.Axis
---@param low number
---@param high number
---@param most integer ticks
function axes.new(spec, low, high, most)
  low, high = limits(spec, low, high, most)
  local log = spec.log and low > 0
  local list, step, more
  if log then list = log_ticks(low, high) else list, step = axes.ticks(low, high, most) end
  local ticks = spec.ticks
  if not ticks then ticks, more = labelled(list, step) end
  local a, b = log and math.log(low) or low, log and math.log(high) or high
  return {
    label = spec.label .. (more or ""), ticks = ticks,
    scale = function(first, last)
      return function(value)
        if log then value = math.log(math.max(value, low * 1e-3)) end
        return first + (last - first) * (value - a) / (b - a)
      end
    end,
  }
end

return axes

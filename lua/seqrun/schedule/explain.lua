-- explain.lua - where a schedule changes, as a table and as a picture.

local check = require("seqrun.base.check")
local counters = require("seqrun.schedule.counters")
local commas = require("seqrun.base.format").commas

---Rows of the table before it is shortened, and the size of the picture.
local MOST, COLUMNS, ROWS = 24, 60, 8

---Where the picture and the table end, unless the caller says.
local function end_of(s)
  if s.total then return s.total end
  if s.type == "discrete" then return math.max(1, (s.upto[#s.upto] or 0) * 1.25) end
  return 1000
end

---Where the value that holds at x ends: the first whole number with another one, at most `last`.
local function next_change(s, x, last)
  local value = s:at(x)
  if s:at(last) == value then return nil end
  local low, high = x, last
  while high - low > 1 do
    local middle = (low + high) // 2
    if s:at(middle) == value then low = middle else high = middle end
  end
  return high
end

---{ x, value } wherever a rising or falling schedule of steps changes.
local function changes_of(s, last)
  local list, x = {}, 0
  repeat
    list[#list + 1] = { x, s:at(x) }
    x = next_change(s, x, last)
  until not x
  return list
end

---{ x, value } of a schedule of lists, or at regular places of one that changes everywhere.
local function places_of(s, last)
  local list = {}
  if s.type == "discrete" then
    list[1] = { 0, s:at(0) }
    for _, upto in ipairs(s.upto) do list[#list + 1] = { math.floor(upto) + 1, s:at(math.floor(upto) + 1) } end
    return list
  end
  for i = 0, 8 do
    local x = math.floor(last * i / 8)
    if i == 0 or x > list[#list][1] then list[#list + 1] = { x, s:at(x) } end
  end
  return list
end

---Values where it changes, from 0 to `last`.
---@param s seqrun.ValueSchedule
---@param last? number
---@return { [1]: number, [2]: number }[]
local function changes(s, last)
  last = math.ceil(last or end_of(s))
  if s.type == "constant" then return { { 0, s:at(0) } } end
  if s.quantum and s.type ~= "discrete" then return changes_of(s, last) end
  return places_of(s, last)
end

local function number(x) return x % 1 == 0 and commas(math.tointeger(x) or x) or ("%.4g"):format(x) end

local function table_of(s, list)
  local lines = {}
  for i, place in ipairs(list) do
    if #list <= MOST or i <= MOST // 2 or i > #list - MOST // 2 then
      lines[#lines + 1] = ("  from %s %14s  %s"):format(s.by, number(place[1]), number(place[2]))
    elseif i == MOST // 2 + 1 then
      lines[#lines + 1] = ("  ... %d more changes ..."):format(#list - 2 * (MOST // 2))
    end
  end
  return lines
end

local EIGHTHS = { [0] = " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }

---Columns of a bar chart of the values from 0 to `last`.
local function picture(s, last)
  local values, least, most = {}, math.huge, -math.huge
  for i = 1, COLUMNS do
    local value = s:at(math.floor(last * (i - 1) / (COLUMNS - 1)))
    values[i], least, most = value, math.min(least, value), math.max(most, value)
  end
  local lines, range = {}, most > least and most - least or 1
  for row = ROWS, 1, -1 do
    local cells = {}
    for i, value in ipairs(values) do
      local level = 1 + (value - least) / range * (8 * ROWS - 1)
      cells[i] = EIGHTHS[math.floor(math.max(0, math.min(8, level - 8 * (row - 1))))]
    end
    local label = row == ROWS and number(most) or row == 1 and number(least) or ""
    lines[#lines + 1] = ("  %10s │%s"):format(label, table.concat(cells))
  end
  lines[#lines + 1] = ("  %10s └%s"):format("", ("─"):rep(COLUMNS))
  lines[#lines + 1] = ("  %10s  0%s%s"):format("", (" "):rep(COLUMNS - 2 - #number(last)), " " .. number(last))
  return lines
end

local Rate = { __tostring = function() return "learning rate" end }
Rate.__index = Rate

function Rate:at(x) return self.rate(x) end

---A learning rate, which is a function, as a schedule of values.
local function of_rate(rate, last)
  if not last then check.fail("schedule.explain: give the last step of a learning rate, as in explain(rate, 1000)") end
  return setmetatable({ rate = rate, type = "custom", by = "step" }, Rate)
end

---A schedule as text: what it is, where it changes, a picture.
---@param s seqrun.ValueSchedule|seqrun.Schedule
---@param last? number end of the picture and the table; by default the end of the schedule; needed for a learning rate
---@return string
local function explain(s, last)
  if type(s) == "function" then s = of_rate(s, last) end
  local lines, list = { tostring(s) }, changes(s, last)
  table.move(table_of(s, list), 1, #list, 2, lines)
  if s.type ~= "constant" then
    local drawn = picture(s, math.ceil(last or end_of(s)))
    table.move(drawn, 1, #drawn, #lines + 1, lines)
  end
  if not counters.FIELDS[s.by] or s.by == "seconds" then
    lines[#lines + 1] = "  depends on time: a resumed run is exact only for updates that were already drawn"
  end
  return table.concat(lines, "\n")
end

---Steps of a smooth schedule in a table.
local LEVELS = 256

---Counters that workers know, whatever updates they are ahead.
local WORKERS = { "step", "sequences", "raw_tokens", "real_tokens" }

---Whether workers can look the values of a schedule up.
---@param s seqrun.ValueSchedule
---@return boolean
local function by_workers(s)
  for _, name in ipairs(WORKERS) do
    if s.by == name then return true end
  end
  return false
end

---A table { by =, { from, value }, ... } of a schedule, for what workers compute: the option mask.rates of a loader.
---Values of a smooth schedule are rounded down to 1/256 of its range; a custom one is called for all values up to
---`last`.
---@param s seqrun.ValueSchedule
---@param last? integer of a custom schedule: the last step
---@return table
local function rates(s, last)
  check.choice((s.name or "schedule.rates") .. ": by", s.by, WORKERS)
  local list = { by = s.by }
  if s.type == "custom" then
    for x = 0, last or 0 do
      local value = s:at(x)
      if x == 0 or value ~= list[#list][2] then list[#list + 1] = { x, value } end
    end
    return list
  end
  local levels = s
  if not s.quantum and s.max > s.min and s.type ~= "discrete" then
    local unit = (s.max - s.min) / LEVELS
    levels = { at = function(_, x) return s.min + math.floor((s:at(x) - s.min) / unit + 1e-9) * unit end,
               quantum = unit, type = s.type, total = s.total }
  end
  for i, place in ipairs(changes(levels)) do list[i] = { place[1], place[2] } end
  return list
end

return { explain = explain, changes = changes, rates = rates, by_workers = by_workers }

-- common.lua - helpers of the benchmarks: arguments, timing, tables.

local sys = require("seqrun.core.sys")

local common = {}

---Parses `key=value` arguments; a value has the type of its default.
---@param defaults table<string, string|number|boolean>
---@param arguments string[]
---@return table
function common.options(defaults, arguments)
  local options = {}
  for key, value in pairs(defaults) do options[key] = value end
  for _, argument in ipairs(arguments) do
    local key, value = argument:match("^([%w_]+)=(.*)$")
    local default = key and defaults[key]
    if default == nil then
      local known = {}
      for name in pairs(defaults) do known[#known + 1] = name end
      table.sort(known)
      error(("bench: invalid argument '%s'; use key=value with: %s"):format(argument, table.concat(known, ", ")), 0)
    end
    if type(default) == "number" then
      value = tonumber(value) or error(("bench: %s must be a number, got '%s'"):format(key, value), 0)
    elseif type(default) == "boolean" then
      value = value == "true"
    end
    options[key] = value
  end
  return options
end

---The minimum time in seconds of `count` calls, after one warm-up call.
---@param fn fun()
---@param count integer
---@param clock? fun(): number
---@return number
function common.best(fn, count, clock)
  local least, now = math.huge, clock or sys.now
  fn()
  for _ = 1, count do
    local begin = now()
    fn()
    least = math.min(least, now() - begin)
  end
  return least
end

---@param list number[]
---@return number
function common.sum(list)
  local total = 0
  for _, value in ipairs(list) do total = total + value end
  return total
end

---@param list number[]
---@return number
function common.median(list)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  return (sorted[(#sorted + 1) // 2] + sorted[#sorted // 2 + 1]) / 2
end

---Prints rows as aligned columns.
---@param rows (string|number)[][] the first is the heading
function common.print_table(rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #tostring(cell)) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      cells[i] = (i == 1 and "%-" or "%") .. widths[i] .. "s"
      cells[i] = cells[i]:format(cell)
    end
    print(table.concat(cells, "  "))
  end
end

---Prints what arms did in turns, as medians over the turns: tokens and units per second, ratio to the first arm.
---@param order string[] names of the arms; those that were not measured are left out
---@param seconds table<string, number[]> of each turn
---@param tokens integer[] of each turn
---@param unit string what a turn does `count` of
---@param count integer
function common.versus(order, seconds, tokens, unit, count)
  local rows, first = { { "arrangement", "real tokens/s", unit .. "/s", order[1] .. " is" } }, order[1]
  for _, how in ipairs(order) do
    local speeds, units, ratios = {}, {}, {}
    for turn, s in ipairs(seconds[how]) do
      speeds[turn], units[turn], ratios[turn] = tokens[turn] / s, count / s, s / seconds[first][turn]
    end
    if #speeds > 0 then
      rows[#rows + 1] = {
        how, ("%.0f"):format(common.median(speeds)), ("%.2f"):format(common.median(units)),
        how == first and "-" or ("%.2f times as fast"):format(common.median(ratios)),
      }
    end
  end
  common.print_table(rows)
end

---The processor, instruction class, threads, device and date, to be reported with every figure.
---@return string
function common.machine()
  local sr, instructions = require("seqrun"), require("seqrun.core.tensor").instructions()
  return ("%s, %s, %d threads, %s, %s"):format(sys.machine().cpu, instructions, sr.threads(), sr.device(),
    os.date("%Y-%m-%d"))
end

return common

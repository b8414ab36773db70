-- common.lua - what the benchmarks share: arguments, a clock, tables.

local sys = require("seqrun.core.sys")

local common = {}

---`key=value` arguments over defaults, of the default's type.
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
      error(("bench: '%s' is not understood; give key=value with: %s"):format(argument, table.concat(known, ", ")), 0)
    end
    if type(default) == "number" then
      value = tonumber(value) or error(("bench: %s wants a number, not '%s'"):format(key, value), 0)
    elseif type(default) == "boolean" then
      value = value == "true"
    end
    options[key] = value
  end
  return options
end

---The least seconds of `count` calls, after one that is not counted.
---@param fn fun()
---@param count integer
---@return number
function common.best(fn, count)
  fn()
  local least = math.huge
  for _ = 1, count do
    local begin = sys.now()
    fn()
    least = math.min(least, sys.now() - begin)
  end
  return least
end

---Prints columns of text and numbers, as wide as they need to be.
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

---The processor, threads and date that every figure needs beside it.
---@return string
function common.machine()
  local sr, instructions = require("seqrun"), require("seqrun.core.tensor").instructions()
  return ("%s, %s, %d threads, %s, %s"):format(sys.machine().cpu, instructions, sr.threads(), sr.device(),
    os.date("%Y-%m-%d"))
end

return common

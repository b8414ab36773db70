-- plot.lua - curves in the terminal: numbers, a tensor, a schedule, or the metrics of a run, in braille dots.

local check = require("seqrun.check")
local sys = require("seqrun.core.sys")

local plot = {}

local OPTIONS = { width = true, height = true, title = true, key = true, steps = true, log = true }
local ROWS, LABEL = 12, 11
local DOTS = { { 0x01, 0x02, 0x04, 0x40 }, { 0x08, 0x10, 0x20, 0x80 } } -- of a braille character, by column and row
local SAMPLES = 400 -- of a function

-- ---- what to draw: lists of x and y ------------------------------------------------------------------

local function of_list(list)
  local xs, ys = {}, {}
  for i, y in ipairs(list) do
    if type(y) == "table" then xs[i], ys[i] = y[1], y[2] else xs[i], ys[i] = i, y end
    if not tonumber(xs[i]) or not tonumber(ys[i]) then
      check.fail("plot: element %d must be a number or { x, y }, got %s", i, check.show(y))
    end
  end
  return xs, ys
end

local function of_function(fn, steps)
  local xs, ys = {}, {}
  for i = 1, SAMPLES do
    local x = math.floor((i - 1) * steps / (SAMPLES - 1))
    if x ~= xs[#xs] then xs[#xs + 1], ys[#ys + 1] = x, fn(x) end
  end
  return xs, ys
end

---A key of the training lines of a run's metrics.
local function of_run(path, key)
  local lines, message, code = require("seqrun.metrics").read(path)
  if not lines then require("seqrun.failure").raise(code, "plot: %s", message) end
  local xs, ys = {}, {}
  for _, line in ipairs(lines) do
    if line.type == "train" and type(line[key]) == "number" then xs[#xs + 1], ys[#ys + 1] = line.step, line[key] end
  end
  if #xs == 0 then require("seqrun.failure").raise("data", "plot: %s has no '%s'", path, key) end
  return xs, ys
end

local function points_of(values, options)
  if type(values) == "string" then return of_run(values, options.key or "loss") end
  if type(values) == "userdata" then return of_list(values:reshape(-1):totable()) end
  local meta = type(values) == "table" and getmetatable(values)
  if type(values) == "table" and values.at then
    return of_function(function(x) return values:at(x) end, options.steps or values.total or 1000)
  end
  if type(values) == "function" or meta and meta.__call then
    return of_function(values, options.steps or type(values) == "table" and values.total or 1000)
  end
  if type(values) == "table" then return of_list(values) end
  check.fail("plot: expected numbers, a tensor, a function of the step or a run, got %s", check.show(values))
end

-- ---- drawing ------------------------------------------------------------------------------------------

local function bounds(list)
  local least, most = math.huge, -math.huge
  for _, v in ipairs(list) do
    if v == v and math.abs(v) < math.huge then least, most = math.min(least, v), math.max(most, v) end
  end
  return least, most
end

local function number(x)
  if x % 1 == 0 and math.abs(x) < 1e9 then return ("%d"):format(x) end
  return ("%.4g"):format(x)
end

---A canvas of width x height characters, as a table of bits for each.
local function dots(xs, ys, width, height)
  local cells = {}
  local left, right = bounds(xs)
  local low, high = bounds(ys)
  local function place(v, least, most, count)
    return most > least and math.floor((v - least) / (most - least) * (count - 1) + 0.5) or 0
  end
  local function set(column, row)
    local key = (row // 4) * width + column // 2
    cells[key] = (cells[key] or 0) | DOTS[column % 2 + 1][row % 4 + 1]
  end
  local before
  for i, y in ipairs(ys) do
    if y == y and math.abs(y) < math.huge then
      local column = place(xs[i], left, right, 2 * width)
      local row = 4 * height - 1 - place(y, low, high, 4 * height)
      local steps = before and math.max(math.abs(column - before[1]), math.abs(row - before[2])) or 0
      for s = 0, steps do
        local part = steps > 0 and s / steps or 1
        local from = before or { column, row }
        set((from[1] + (column - from[1]) * part + 0.5) // 1 | 0, (from[2] + (row - from[2]) * part + 0.5) // 1 | 0)
      end
      before = { column, row }
    else
      before = nil -- a gap
    end
  end
  return cells
end

---Draws values as a curve.
---@param values number[]|table|seqrun.Tensor|function|string numbers, pairs { x, y }, a schedule or a function of the
---  step, or the directory of a run
---@param options? { width?: integer, height?: integer, title?: string, key?: string, steps?: integer, log?: boolean }
---  key: of a run's metrics, default loss; steps: how far to draw a function; log: a logarithmic y axis
---@return string
function plot.plot(values, options)
  options = check.options("plot", options, OPTIONS)
  local xs, ys = points_of(values, options)
  if #xs == 0 then check.fail("plot: there is nothing to draw") end
  local width = math.max(20, (options.width or math.min(sys.columns(1), 100)) - LABEL - 2)
  local height = math.max(2, options.height or ROWS)
  local low, high = bounds(ys)
  if low > high then check.fail("plot: all values are NaN or infinite") end
  if options.log then
    if low <= 0 then check.fail("plot: a logarithmic axis needs positive values, got %s", number(low)) end
    for i, y in ipairs(ys) do ys[i] = math.log(y) end
  end
  local cells, lines = dots(xs, ys, width, height), {}
  if options.title then lines[1] = (" "):rep(LABEL + 2) .. options.title end
  for row = 0, height - 1 do
    local line = {}
    for column = 0, width - 1 do line[#line + 1] = utf8.char(0x2800 + (cells[row * width + column] or 0)) end
    local label = row == 0 and number(high) or row == height - 1 and number(low) or ""
    lines[#lines + 1] = ("%" .. LABEL .. "s │%s"):format(label, table.concat(line))
  end
  lines[#lines + 1] = (" "):rep(LABEL + 1) .. "└" .. ("─"):rep(width)
  local left, right = bounds(xs)
  local first, last = number(left), number(right)
  lines[#lines + 1] = (" "):rep(LABEL + 2) .. first .. (" "):rep(width - #first - #last) .. last
  return table.concat(lines, "\n")
end

return plot

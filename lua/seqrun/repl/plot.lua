-- plot.lua - curves in the terminal: numbers, a tensor, a schedule, or the metrics of a run, in braille dots.

local canvas = require("seqrun.draw.canvas")
local check = require("seqrun.base.check")
local sys = require("seqrun.core.sys")

local plot = {}

local OPTIONS = { width = true, height = true, title = true, key = true, steps = true, log = true }
local ROWS = 12
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
  local lines, message, code = require("seqrun.history.metrics").read(path)
  if not lines then require("seqrun.base.failure").raise(code, "plot: %s", message) end
  local xs, ys = {}, {}
  for _, line in ipairs(lines) do
    if line.type == "train" and type(line[key]) == "number" then xs[#xs + 1], ys[#ys + 1] = line.step, line[key] end
  end
  if #xs == 0 then require("seqrun.base.failure").raise("data", "plot: %s has no '%s'", path, key) end
  return xs, ys
end

local function points_of(values, options)
  if type(values) == "string" then return of_run(values, options.key or "loss") end
  if type(values) == "userdata" then return of_list(values:reshape(-1):totable()) end
  if type(values) == "table" and values.at then
    return of_function(function(x) return values:at(x) end, options.steps or values.total or 1000)
  end
  if check.is_callable(values) then
    return of_function(values, options.steps or type(values) == "table" and values.total or 1000)
  end
  if type(values) == "table" then return of_list(values) end
  check.fail("plot: expected numbers, a tensor, a function of the step or a run, got %s", check.show(values))
end

-- ---- drawing ------------------------------------------------------------------------------------------

---Draws values as a curve.
---@param values number[]|table|seqrun.Tensor|function|string numbers, pairs { x, y }, a schedule or a function of the
---  step, or the directory of a run
---@param options? { width?: integer, height?: integer, title?: string, key?: string, steps?: integer, log?: boolean }
---  key: of a run's metrics, default loss; steps: how far to draw a function; log: a logarithmic y axis
---@return string
function plot.plot(values, options)
  options = check.options("plot", options, OPTIONS)
  local xs, ys = points_of(values, options)
  if #xs == 0 then check.fail("plot: nothing to draw") end
  local width = math.max(20, (options.width or math.min(sys.columns(1), 100)) - canvas.MARGIN)
  local height = math.max(2, options.height or ROWS)
  local low, high = canvas.bounds { ys }
  if not low then check.fail("plot: all values are NaN or infinite") end
  if options.log and low <= 0 then
    check.fail("plot: a logarithmic axis needs positive values, got %s", canvas.number(low))
  end
  local left, right = canvas.bounds { xs }
  local frame = canvas.new {
    width = width, height = height, left = left or 0, right = right or 0, low = low, high = high, log = options.log,
  }
  frame:curve(xs, ys)
  local lines = frame:lines()
  if options.title then table.insert(lines, 1, (" "):rep(canvas.MARGIN) .. options.title) end
  return table.concat(lines, "\n")
end

---Prints the drawing of plot.plot, with `out` if that is given.
function plot.show(values, options, out) (out or print)(plot.plot(values, options)) end

return plot

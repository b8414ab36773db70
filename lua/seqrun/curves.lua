-- curves.lua - several curves in one frame of the terminal, in colours or, without them, in letters.

local ansi = require("seqrun.ansi")
local canvas = require("seqrun.canvas")
local sys = require("seqrun.core.sys")

local curves = {}

---@class seqrun.Curve
---@field name string
---@field xs number[] in ascending order
---@field ys number[]

---Means of groups of neighbours, at most `count`: so many points fit into the frame.
local function averaged(curve, count)
  local n = #curve.xs
  if n <= count then return curve.xs, table.move(curve.ys, 1, n, 1, {}) end
  local xs, ys = {}, {}
  for i = 1, count do
    local first, last, x, y, good = (i - 1) * n // count + 1, i * n // count, 0, 0, 0
    for k = first, last do
      local value = curve.ys[k]
      if math.abs(value) < math.huge then x, y, good = x + curve.xs[k], y + value, good + 1 end -- not NaN
    end
    xs[i], ys[i] = good > 0 and x / good or curve.xs[first], good > 0 and y / good or 0 / 0
  end
  return xs, ys
end

---What part of the values is drawn if the rest would squeeze them into less than half of the frame.
local MOST = 0.95

---Replaces values far above the others by gaps; returns the largest that is left.
local function clip(lists, low, high)
  local all = {}
  for _, ys in ipairs(lists) do
    for _, y in ipairs(ys) do
      if math.abs(y) < math.huge then all[#all + 1] = y end
    end
  end
  table.sort(all)
  local limit = all[math.ceil(MOST * #all)]
  if high - low <= 2 * (limit - low) or limit <= low then return high end
  for _, ys in ipairs(lists) do
    for i, y in ipairs(ys) do
      if y > limit then ys[i] = 0 / 0 end
    end
  end
  return limit
end

---The sign of a curve where there are no colours.
local function letter(i) return string.char(("a"):byte() + (i - 1) % 26) end

---Draws curves of the same kind; the names are below.  More points than fit are averaged.
---@param list seqrun.Curve[]
---@param options { title?: string, width?: integer, height?: integer, colours?: boolean, log?: boolean }
---@return string|nil text nil if there is no finite value
function curves.draw(list, options)
  local width = math.max(20, math.min(options.width or sys.columns(1) - 1, 110) - canvas.MARGIN)
  local all, drawn = { x = {}, y = {} }, {}
  for i, curve in ipairs(list) do
    local xs, ys = averaged(curve, width)
    drawn[i], all.x[i], all.y[i] = { xs, ys }, xs, ys
  end
  local low, high = canvas.bounds(all.y)
  if not low or options.log and low <= 0 then return nil end
  local left, right = canvas.bounds(all.x)
  local top = options.log and high or clip(all.y, low, high)
  local frame = canvas.new {
    width = width, height = options.height or 14, left = left, right = right, low = low, high = top, log = options.log,
  }
  for i, one in ipairs(drawn) do frame:curve(one[1], one[2], i) end
  local coloured = options.colours
  if coloured == nil then coloured = ansi.colours(1) end
  coloured = coloured and #list <= ansi.COUNT
  local function mark(dots, i) return coloured and ansi.paint(dots, i) or letter(i) end
  local lines = frame:lines(#list > 1 and mark or nil)
  local above = top < high and (" (up to %s outside)"):format(canvas.number(high)) or ""
  if options.title then table.insert(lines, 1, (" "):rep(canvas.MARGIN) .. options.title .. above) end
  for i, curve in ipairs(#list > 1 and list or {}) do
    local sign = coloured and ansi.paint("──", i) or letter(i)
    lines[#lines + 1] = (" "):rep(canvas.MARGIN) .. sign .. "  " .. curve.name
  end
  return table.concat(lines, "\n")
end

return curves

-- curves.lua - several curves in one frame of the terminal, in colours or, without them, in letters.

local ansi = require("seqrun.draw.ansi")
local canvas = require("seqrun.draw.canvas")
local grid = require("seqrun.draw.grid")
local sys = require("seqrun.core.sys")

local curves = {}

---@class seqrun.Curve
---@field name string
---@field xs number[] in ascending order
---@field ys number[]

local function finite(y) return y == y and math.abs(y) < math.huge end

---Means of the points of each of `count` stretches between `left` and `right`; of few points nothing is averaged.
local function averaged(curve, count, left, right)
  local n = #curve.xs
  if n <= count then return curve.xs, table.move(curve.ys, 1, n, 1, {}) end
  local xs, ys, sum, good, at = {}, {}, 0, 0, nil
  local width = math.max((right - left) / count, 1e-300)
  local function close()
    if at then xs[#xs + 1], ys[#ys + 1] = left + (at + 0.5) * width, good > 0 and sum / good or 0 / 0 end
    sum, good = 0, 0
  end
  for i, x in ipairs(curve.xs) do
    local here = math.min(count - 1, (x - left) // width)
    if here ~= at then close() end
    at = here
    if finite(curve.ys[i]) then sum, good = sum + curve.ys[i], good + 1 end
  end
  close()
  return xs, ys
end

---What part of the values is drawn if the rest would squeeze them into less than half of the frame.
local MOST = 0.95

---Replaces values far above the others by gaps; returns the largest that is left.
local function clip(lists, low, high)
  local all = {}
  for _, ys in ipairs(lists) do
    for _, y in ipairs(ys) do
      if finite(y) then all[#all + 1] = y end
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
  local columns = options.width or sys.columns(1) - 1
  local width = math.max(20, math.min(columns, 110) - canvas.MARGIN)
  local all, drawn = { x = {}, y = {} }, {}
  for i, curve in ipairs(list) do all.x[i] = curve.xs end
  local left, right = canvas.bounds(all.x)
  for i, curve in ipairs(list) do
    local xs, ys = averaged(curve, width, left or 0, right or 0)
    drawn[i], all.y[i] = { xs, ys }, ys
  end
  local low, high = canvas.bounds(all.y)
  if not low or options.log and low <= 0 then return nil end
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
    lines[#lines + 1] = (" "):rep(canvas.MARGIN) .. sign .. "  "
      .. grid.tail(curve.name, math.max(12, columns - canvas.MARGIN - 4))
  end
  return table.concat(lines, "\n")
end

return curves

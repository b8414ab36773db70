-- svg.lua - charts as SVG text: lines, dots, bars and bands over labelled axes, for reports and for files.
--
--     svg.chart {
--       title = "loss", x = { label = "step" }, y = { label = "nats" },
--       series = { { name = "train", points = { { 1, 9.1 }, { 2, 8.7 } } } },
--     }
--
-- Colours are variables of the style sheet, so one picture serves light and dark pages: `svg.STYLE` belongs into the
-- page, or `svg.page` makes a file of its own.

local axes = require("seqrun.draw.svg_axes")
local mended = require("seqrun.base.mended")
local sorted = require("seqrun.base.sorted")

local svg = {}

---Colours 1 to 8 differ also without red and green, with at least 3:1 of contrast to the page.
svg.STYLE = [[
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b2430; --faint: #5b6675; --rule: #e3e7ec;
  --bar: #7fa8cc; --c1: #0069a8; --c2: #c75000; --c3: #00805c; --c4: #a83279; --c5: #8a6d00; --c6: #5b4bb5;
  --c7: #4a5563; --c8: #a3262a }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #14181f; --ink: #e4e8ee; --faint: #9aa5b4;
  --rule: #2b323d; --bar: #3f6f98; --c1: #5cb3f0; --c2: #f58b45; --c3: #35c496; --c4: #ea8cc4; --c5: #dcbc3c;
  --c6: #a99cf5; --c7: #b6c0cc; --c8: #f08080 } }
svg.chart { display: block; width: 100%; height: auto; font: 11px system-ui, sans-serif; overflow: visible }
.chart text { fill: var(--faint) } .chart .head { fill: var(--ink); font-size: 13px; font-weight: 600 }
.chart .name { fill: var(--ink) } .chart .end { text-anchor: end } .chart .mid { text-anchor: middle }
.chart .grid { stroke: var(--rule) } .chart .axis { stroke: var(--faint) } .chart .mark { stroke: var(--faint);
  stroke-dasharray: 2 3 } .chart path { fill: none; stroke-linejoin: round; stroke-linecap: round; stroke-width: 1.7 }
.chart .thin { stroke-width: 1; opacity: .35 } .chart .dash { stroke-dasharray: 5 4; stroke-width: 1.3 }
.chart .dots { stroke-dasharray: .1 4; stroke-width: 1.6 }
.chart .band { stroke: none; opacity: .16 } .chart .bad { stroke: var(--c8); stroke-width: 1.6 }
.s1 { stroke: var(--c1); color: var(--c1) } .s2 { stroke: var(--c2); color: var(--c2) }
.s3 { stroke: var(--c3); color: var(--c3) } .s4 { stroke: var(--c4); color: var(--c4) }
.s5 { stroke: var(--c5); color: var(--c5) } .s6 { stroke: var(--c6); color: var(--c6) }
.s7 { stroke: var(--c7); color: var(--c7) } .s8 { stroke: var(--c8); color: var(--c8) }
.chart .fill { fill: currentColor; stroke: none } .chart .bar { fill: var(--bar); stroke: none; color: inherit }
.chart .pale { fill: var(--rule); stroke: none }]]

local COLOURS = 8

---The class of colour number i; they repeat after eight.
---@param i integer
---@return string
function svg.colour(i) return "s" .. (i - 1) % COLOURS + 1 end

local NAMED = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

---A value as text for XML and HTML; what is not valid in them becomes U+FFFD.
---@param value any
---@return string
function svg.escape(value)
  local text = mended(tostring(value), function() return "\u{FFFD}" end)
  return (text:gsub("[&<>\"']", NAMED):gsub("[%z\1-\8\11-\31\127]", "\u{FFFD}")
    :gsub("\xC2[\x80-\x9F]", "\u{FFFD}"))
end

local function coordinate(x) return (("%.1f"):format(x):gsub("%.0$", "")) end

---An element; attributes are sorted by name, numbers have one decimal.
---@param name string
---@param attributes table<string, string|number>
---@param content? string markup
---@return string
function svg.element(name, attributes, content)
  local parts = { "<" .. name }
  for _, key in ipairs(sorted(attributes)) do
    local value = attributes[key]
    parts[#parts + 1] = (' %s="%s"'):format(key, type(value) == "number" and coordinate(value) or svg.escape(value))
  end
  parts[#parts + 1] = content and (">%s</%s>"):format(content, name) or "/>"
  return table.concat(parts)
end

local element = svg.element

local function text(x, y, class, content)
  return element("text", { x = x, y = y, class = class }, svg.escape(content))
end

local function rule(x1, y1, x2, y2, class)
  return element("line", { x1 = x1, y1 = y1, x2 = x2, y2 = y2, class = class })
end

---Whether a number can be drawn.
local function finite(v) return type(v) == "number" and math.abs(v) < 1e300 end

---Points thinned to about `most`: the least and the largest value of each stretch stay, and gaps.
---@param points { [1]: number, [2]: number? }[]
---@param most integer
---@return table[]
function svg.thin(points, most)
  if #points <= most then return points end
  local list, size = {}, #points / (most // 2)
  for i = 0, most // 2 - 1 do
    local kept, low, high, gap = {}, nil, nil, nil
    for k = math.floor(i * size) + 1, math.floor((i + 1) * size) do
      local y = points[k][2]
      if not finite(y) then
        gap = gap or k
      elseif not low then
        low, high = k, k
      else
        low, high = y < points[low][2] and k or low, y > points[high][2] and k or high
      end
    end
    for _, k in ipairs { low or gap, high or gap, gap or high } do kept[#kept + 1] = k end
    table.sort(kept)
    for k, at in ipairs(kept) do
      if kept[k - 1] ~= at then list[#list + 1] = points[at] end
    end
  end
  return list
end

-- ---- series: each draws its points with the scales of the chart ------------------------------------------

local draw = {}

---The path of some points, with gaps where they have no number.
local function path_of(points, at_x, at_y)
  local parts, broken = {}, true
  for _, point in ipairs(points) do
    if finite(point[2]) then
      parts[#parts + 1] = (broken and "M" or "L") .. coordinate(at_x(point[1])) .. " " .. coordinate(at_y(point[2]))
    end
    broken = not finite(point[2])
  end
  return table.concat(parts)
end

---Crosses at the top where values were NaN or infinite.
local function bad_marks(out, points, at_x, frame)
  local before = -math.huge
  for _, point in ipairs(points) do
    local x = at_x(point[1])
    if not finite(point[2]) and x - before > 6 then
      local d = ("M%s %dl6 6m-6 0l6-6"):format(coordinate(x - 3), frame.top + 2)
      out[#out + 1] = element("path", { class = "bad", d = d }, element("title", {}, "not a finite number"))
      before = x
    end
  end
end

local function dot(x, y, class) return element("circle", { class = "fill " .. class, cx = x, cy = y, r = 2.6 }) end

function draw.line(out, one, at_x, at_y, frame)
  local points = svg.thin(one.points, one.most or 2000)
  if points[1] and points[1][3] then
    local edges = {}
    local function within(y) return math.max(frame.top, math.min(frame.bottom, at_y(y))) end
    for i, point in ipairs(points) do edges[i] = { point[1], point[2] + point[3] } end
    for i = #points, 1, -1 do edges[#edges + 1] = { points[i][1], points[i][2] - points[i][3] } end
    out[#out + 1] = element("path", { class = "fill band " .. one.class, d = path_of(edges, at_x, within) .. "Z" })
  end
  local class = one.class .. (one.style and " " .. one.style or "")
  out[#out + 1] = element("path", { class = class, d = path_of(points, at_x, at_y) })
  if one.style ~= "thin" then bad_marks(out, one.points, at_x, frame) end
  local alone = #points == 1 and one.kind ~= "dots" and points[1] -- which no line shows
  if alone and finite(alone[2]) then out[#out + 1] = dot(at_x(alone[1]), at_y(alone[2]), one.class) end
end

---Dots without a line.
function draw.points(out, one, at_x, at_y)
  for _, point in ipairs(one.points) do
    if finite(point[2]) then
      out[#out + 1] = dot(at_x(point[1]), at_y(point[2]), one.class)
    end
  end
end

function draw.dots(out, one, at_x, at_y, frame)
  draw.line(out, one, at_x, at_y, frame)
  if #one.points <= 60 then draw.points(out, one, at_x, at_y) end
end

---A horizontal line at y.
function draw.level(out, one, _, at_y, frame)
  out[#out + 1] = element("path", {
    class = one.class .. " dots", d = ("M%s %sH%s"):format(coordinate(frame.left), coordinate(at_y(one.y)),
      coordinate(frame.right)),
  })
end

---Bars: points are { first x, last x, height, label? }.
function draw.bars(out, one, at_x, at_y, frame)
  for _, bar in ipairs(one.points) do
    local left, right, top = at_x(bar[1]), at_x(bar[2]), at_y(bar[3])
    local gap = right - left > 4 and (one.gap or 1) or 0
    if bar[3] > 0 then
      out[#out + 1] = element("rect", {
        class = one.class or "bar", x = left + gap / 2, y = math.min(top, frame.bottom - 0.7),
        width = math.max(0.4, right - left - gap), height = math.max(0.7, frame.bottom - top),
      })
    end
    if bar[4] then out[#out + 1] = text((left + right) / 2, math.max(frame.top + 9, top - 3), "mid", bar[4]) end
  end
end

-- ---- the chart ---------------------------------------------------------------------------------------

---About as wide as a text is drawn.
local function width_of(label) return 6 * (utf8.len(label) or #label) end

---A piece of a series for the legend.
local function sample(one, x, y)
  if one.kind == "bars" then
    return element("rect", { class = one.class or "bar", x = x, y = y - 8, width = 14, height = 9 })
  end
  local style = one.kind == "level" and "dots" or one.style
  local class = one.class .. (style and " " .. style or "")
  return element("path", { class = class, d = ("M%s %sh14"):format(coordinate(x), coordinate(y - 4)) })
end

---The names of the series above the plot, in as many rows as they need; returns its height.
local function legend(out, series, x0, x1, y)
  local x, rows = x0, 0
  for _, one in ipairs(series) do
    if one.name then
      local wide = 24 + width_of(one.name)
      if x + wide > x1 and x > x0 then x, rows = x0, rows + 1 end
      local row = y + 16 * rows
      if one.kind ~= "points" then out[#out + 1] = sample(one, x, row) end
      if one.kind == "dots" or one.kind == "points" then out[#out + 1] = dot(x + 7, row - 4, one.class) end
      out[#out + 1] = text(x + 19, row, "name", one.name)
      x = x + wide + 12
    end
  end
  return x > x0 and 16 * (rows + 1) or 0
end

---Least and largest x and y of the series; bands are cut off.
local function extent(series)
  local x0, x1, y0, y1 = math.huge, -math.huge, math.huge, -math.huge
  local function see(x, y)
    if finite(x) then x0, x1 = math.min(x0, x), math.max(x1, x) end
    if finite(y) then y0, y1 = math.min(y0, y), math.max(y1, y) end
  end
  for _, one in ipairs(series) do
    if one.kind == "level" then see(nil, one.y) end
    for _, point in ipairs(one.points or {}) do
      if one.kind == "bars" then
        see(point[1], 0)
        see(point[2], point[3])
      else
        see(point[1], point[2])
      end
    end
  end
  return x0, x1, y0, y1
end

local function draw_axes(out, x, y, frame, o)
  for _, tick in ipairs(y.ticks) do
    local at = y.place(tick.at)
    out[#out + 1] = rule(frame.left, at, frame.right, at, "grid")
    out[#out + 1] = text(frame.left - 6, at + 4, "end", tick.label)
  end
  for _, tick in ipairs(x.ticks) do
    out[#out + 1] = text(x.place(tick.at), frame.bottom + 15, "mid", tick.label)
  end
  for _, mark in ipairs(o.marks or {}) do
    local at = x.place(mark.x)
    if at >= frame.left and at <= frame.right then
      out[#out + 1] = element("line", { class = "mark", x1 = at, x2 = at, y1 = frame.top, y2 = frame.bottom },
        element("title", {}, svg.escape(mark.name)))
    end
  end
  out[#out + 1] = rule(frame.left, frame.bottom, frame.right, frame.bottom, "axis")
  out[#out + 1] = text(0, frame.top - 11, "unit", y.label)
  out[#out + 1] = text(frame.right, frame.bottom + 30, "end", x.label)
end

local serial = 0

---Title and description for readers of screens, tied to the picture.
local function described(o)
  serial = serial + 1
  local id = "chart-" .. serial
  local parts = element("title", { id = id }, svg.escape(o.title))
  if o.desc then parts = parts .. element("desc", { id = id .. "-desc" }, svg.escape(o.desc)) end
  return parts, o.desc and id .. " " .. id .. "-desc" or id
end

---@class seqrun.svg.Series
---@field kind? "line"|"dots"|"points"|"level"|"bars" line by default; dots: with a line, points: without
---@field name? string for the legend
---@field class? string a colour, as of svg.colour
---@field style? "thin"|"dash"|"dots"
---@field points? number[][] { x, y } or { x, y, half of a band }; of bars { first x, last x, height, label }
---@field y? number of a level

---A chart; nil if its series have no numbers.
---@param o { title: string, desc?: string, heading?: string, width?: number, height?: number, at?: number[],
---  x: seqrun.svg.Axis, y: seqrun.svg.Axis, series: seqrun.svg.Series[], marks?: { x: number, name: string }[] }
---  heading: a visible title; at: the position in another picture; marks: vertical lines
---@return string? svg
function svg.chart(o)
  local x0, x1, y0, y1 = extent(o.series)
  if x0 > x1 or y0 > y1 then return nil end
  local width, height, out = o.width or 440, o.height or 240, {}
  local y = axes.new(o.y, y0, y1, 5)
  local left = 12
  for _, tick in ipairs(y.ticks) do left = math.max(left, 12 + width_of(tick.label)) end
  local top = 14
  if o.heading then
    out[#out + 1] = text(0, top, "head", o.heading)
    top = top + 20
  end
  top = top + legend(out, o.series, 0, width, top)
  local x = axes.new(o.x, x0, x1, (width - left) // 62)
  local frame = { left = left, right = width - 12, top = top + 16, bottom = height - 34 }
  x.place, y.place = x.scale(frame.left, frame.right), y.scale(frame.bottom, frame.top)
  draw_axes(out, x, y, frame, o)
  for _, one in ipairs(o.series) do draw[one.kind or "line"](out, one, x.place, y.place, frame) end
  local head, names = described(o)
  return element("svg", {
    class = "chart", role = "img", viewBox = ("0 0 %d %d"):format(width, height),
    width = width, height = height, x = o.at and o.at[1] or 0, y = o.at and o.at[2] or 0,
    ["aria-labelledby"] = names,
  }, head .. table.concat(out))
end

---A file of its own: charts that were given their places.
---@param width number
---@param height number
---@param parts string[]
---@param title string
---@return string
function svg.page(width, height, parts, title)
  return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="-16 -8 %d %d">\n'):format(width + 32,
    height + 16, width + 32, height + 16) .. element("title", {}, svg.escape(title)) .. "\n<style>" .. svg.STYLE
    .. "\nsvg.chart { width: auto }</style>\n"
    .. '<rect x="-16" y="-8" width="100%" height="100%" style="fill: var(--paper)"/>\n' .. table.concat(parts, "\n")
    .. "\n</svg>\n"
end

return svg

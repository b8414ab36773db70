-- efficiency_svg.lua - the curves of recipes/bench/efficiency.lua as a picture: held-out loss against effective tokens,
-- raw tokens and CPU seconds, the mean over seeds as a line and its 95 % interval as a band.

local arms = require("efficiency_arms")
local report = require("efficiency_report")

local svg = {}

---Colours that people tell apart who see red and green alike (Okabe and Ito).
local COLOURS = {
  baseline = "#000000", length = "#e69f00", rarity = "#56b4e9", length_rarity = "#009e73", ltd = "#d55e00",
  composed = "#cc79a7", random = "#999999", reversed = "#0072b2",
}

local PANELS = {
  { key = "effective_tokens", title = "effective tokens (millions)", scale = 1e-6 },
  { key = "raw_tokens", title = "raw tokens (millions)", scale = 1e-6 },
  { key = "train_seconds", title = "CPU seconds (thousands)", scale = 1e-3 },
}

local WIDTH, HEIGHT, LEFT, TOP, GAP, LEGEND = 300, 240, 56, 40, 52, 20

---Points of a mean curve.
local POINTS = 40

---The loss of one run at x, between its evaluations.
local function loss_at(curve, key, x)
  for i = 2, #curve do
    local a, b = curve[i - 1], curve[i]
    if x <= b[key] and b[key] > a[key] then
      return a.mlm_loss + (x - a[key]) / (b[key] - a[key]) * (b.mlm_loss - a.mlm_loss)
    end
  end
  return curve[#curve].mlm_loss
end

---The mean of some curves where all of them are: { x, mean, half }, half nil for one curve.
---@param curves table[][]
---@param key string
---@return number[][]
function svg.mean(curves, key)
  local first, last, points = -math.huge, math.huge, {}
  for _, curve in ipairs(curves) do
    first, last = math.max(first, curve[1][key]), math.min(last, curve[#curve][key])
  end
  if not (last > first) then return points end
  for i = 0, POINTS do
    local x, losses = first + (last - first) * i / POINTS, {}
    for k, curve in ipairs(curves) do losses[k] = loss_at(curve, key, x) end
    local mean, half = report.interval(losses)
    points[i + 1] = { x, mean, half }
  end
  return points
end

---Where ticks are: at most six round numbers.
local function ticks(low, high)
  local step = 10 ^ math.floor(math.log(math.max(high - low, 1e-9), 10))
  for _, part in ipairs { 0.1, 0.2, 0.5, 1, 2 } do
    if (high - low) / (step * part) <= 6 then
      step = step * part
      break
    end
  end
  local list = {}
  for i = math.ceil(low / step), math.floor(high / step) do list[#list + 1] = i * step end
  return list
end

local function text(x, y, content, more)
  return ('<text x="%.1f" y="%.1f"%s>%s</text>'):format(x, y, more or "", content)
end

local function line(x1, y1, x2, y2, colour)
  return ('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>'):format(x1, y1, x2, y2, colour)
end

---One panel: axes, and the lines of all arms.
local function draw(out, panel, curves, x0, y0, y_low, y_high)
  local most = 0
  for _, list in pairs(curves) do
    for _, point in ipairs(list) do most = math.max(most, point[1]) end
  end
  local function at_x(x) return x0 + WIDTH * x / most end
  local function at_y(y) return y0 + HEIGHT * (y_high - math.max(y_low, math.min(y_high, y))) / (y_high - y_low) end
  for _, y in ipairs(ticks(y_low, y_high)) do
    out[#out + 1] = line(x0, at_y(y), x0 + WIDTH, at_y(y), "#ddd")
    out[#out + 1] = text(x0 - 6, at_y(y) + 4, ("%g"):format(y), ' text-anchor="end"')
  end
  for _, x in ipairs(ticks(0, most * panel.scale)) do
    out[#out + 1] = text(at_x(x / panel.scale), y0 + HEIGHT + 16, ("%g"):format(x), ' text-anchor="middle"')
  end
  out[#out + 1] = line(x0, y0 + HEIGHT, x0 + WIDTH, y0 + HEIGHT, "#333")
  out[#out + 1] = text(x0 + WIDTH / 2, y0 + HEIGHT + 32, panel.title, ' text-anchor="middle"')
  for _, name in ipairs(arms.NAMES) do
    local list, upper, lower = curves[name] or {}, {}, {}
    for i, point in ipairs(list) do
      local half = point[3] or 0
      upper[i] = ("%.1f,%.1f"):format(at_x(point[1]), at_y(point[2] + half))
      lower[#list - i + 1] = ("%.1f,%.1f"):format(at_x(point[1]), at_y(point[2] - half))
    end
    if list[1] and list[1][3] then
      out[#out + 1] = ('<polygon points="%s %s" fill="%s" fill-opacity="0.12"/>'):format(table.concat(upper, " "),
        table.concat(lower, " "), COLOURS[name])
    end
    for i, point in ipairs(list) do upper[i] = ("%.1f,%.1f"):format(at_x(point[1]), at_y(point[2])) end
    if #list > 0 then
      out[#out + 1] = ('<polyline points="%s" fill="none" stroke="%s" stroke-width="%g"/>'):format(
        table.concat(upper, " "), COLOURS[name], name == "baseline" and 2.4 or 1.6)
    end
  end
end

---The mean curves of a share of the tokens by panel and arm, and the range of their losses.
local function means(runs, share)
  local by_arm, panels, low, high = {}, {}, math.huge, -math.huge
  for _, run in ipairs(runs) do
    local curve = run.share == share and report.curve(run.folder) or {}
    if #curve > 1 then
      by_arm[run.arm] = by_arm[run.arm] or {}
      table.insert(by_arm[run.arm], curve)
    end
  end
  for i, panel in ipairs(PANELS) do
    panels[i] = {}
    for name, curves in pairs(by_arm) do
      panels[i][name] = svg.mean(curves, panel.key)
      for _, point in ipairs(panels[i][name]) do low, high = math.min(low, point[2]), math.max(high, point[2]) end
    end
  end
  return next(by_arm) and panels or nil, low, high
end

local function legend(out, x, y, names)
  for i, name in ipairs(names) do
    local row = y + (i - 1) // 4 * LEGEND
    local at = x + (i - 1) % 4 * 265
    out[#out + 1] = ('<rect x="%.1f" y="%.1f" width="18" height="4" fill="%s"/>'):format(at, row - 6, COLOURS[name])
    out[#out + 1] = text(at + 24, row, arms.TITLES[name])
  end
end

---The picture; nil without a run of two evaluations.
---@param runs table[] as for report.print
---@param shares number[]
---@return string?
function svg.draw(runs, shares)
  local out, y, seen = {}, TOP, {}
  local width = LEFT + #PANELS * (WIDTH + GAP)
  for _, share in ipairs(shares) do
    local panels, low, high = means(runs, share)
    if panels then
      local title = ("held-out loss, %g %% of the tokens"):format(100 * share)
      out[#out + 1] = text(LEFT, y - 12, title, ' class="t"')
      local margin = math.max(0.02, 0.05 * (high - low))
      for i, panel in ipairs(PANELS) do
        draw(out, panel, panels[i], LEFT + (i - 1) * (WIDTH + GAP), y, low - margin, high + margin)
      end
      for name in pairs(panels[1]) do seen[name] = true end
      y = y + HEIGHT + TOP + 36
    end
  end
  if #out == 0 then return nil end
  local names = {}
  for _, name in ipairs(arms.NAMES) do names[#names + 1] = seen[name] and name or nil end
  legend(out, LEFT, y, names)
  local height = y + ((#names + 3) // 4) * LEGEND
  return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">\n'):format(width, height,
    width, height) .. "<style>text{font:12px sans-serif;fill:#333}.t{font-size:14px;font-weight:bold}</style>\n"
    .. '<rect width="100%" height="100%" fill="#fff"/>\n' .. table.concat(out, "\n") .. "\n</svg>\n"
end

return svg

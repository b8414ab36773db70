-- efficiency_svg.lua - the curves of recipes/bench/efficiency.lua as a picture: held-out loss against effective tokens,
-- raw tokens and CPU seconds, the mean over seeds as a line and its 95 % interval as a band.

local arms = require("efficiency_arms")
local drawing = require("seqrun.draw.svg")
local report = require("efficiency_report")

local svg = {}

---Colours of the arms, by number; the baseline is grey.
local COLOURS = {
  baseline = 7, length = 5, rarity = 1, length_rarity = 3, token_drop = 2, composed = 4, random = 8, reversed = 6,
}

local PANELS = {
  { key = "effective_tokens", title = "effective tokens (millions)", scale = 1e-6 },
  { key = "raw_tokens", title = "raw tokens (millions)", scale = 1e-6 },
  { key = "train_seconds", title = "CPU seconds", scale = 1 },
}

local WIDTH, HEIGHT, GAP = 400, 400, 24

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

---One panel: the lines of all arms.
local function panel_of(panel, curves, at, title)
  local series = {}
  for _, name in ipairs(arms.NAMES) do
    if curves[name] and #curves[name] > 0 then
      local points = {}
      for i, p in ipairs(curves[name]) do points[i] = { p[1] * panel.scale, p[2], p[3] } end
      series[#series + 1] = { points = points, class = drawing.colour(COLOURS[name]), name = arms.TITLES[name] }
    end
  end
  return drawing.chart {
    title = title, heading = title, width = WIDTH, height = HEIGHT, at = at, series = series,
    x = { label = panel.title, low = 0 }, y = { label = "nats", even = true },
  }
end

---The mean curves of a share of the tokens by panel and arm; nil without any.
local function means(runs, share)
  local by_arm, panels = {}, {}
  for _, run in ipairs(runs) do
    local curve = run.share == share and report.curve(run.folder) or {}
    if #curve > 1 then
      by_arm[run.arm] = by_arm[run.arm] or {}
      table.insert(by_arm[run.arm], curve)
    end
  end
  for i, panel in ipairs(PANELS) do
    panels[i] = {}
    for name, curves in pairs(by_arm) do panels[i][name] = svg.mean(curves, panel.key) end
  end
  return next(by_arm) and panels or nil
end

---The picture; nil without a run of two evaluations.
---@param runs table[] as for report.print
---@param shares number[]
---@return string?
function svg.draw(runs, shares)
  local charts, rows = {}, 0
  for _, share in ipairs(shares) do
    local panels = means(runs, share)
    for i, panel in ipairs(panels and PANELS or {}) do
      local title = ("held-out loss, %g %% of the tokens"):format(100 * share)
      charts[#charts + 1] = panel_of(panel, panels[i], { (i - 1) * (WIDTH + GAP), rows * (HEIGHT + GAP) }, title)
    end
    rows = rows + (panels and 1 or 0)
  end
  if #charts == 0 then return nil end
  return drawing.page(#PANELS * (WIDTH + GAP) - GAP, rows * (HEIGHT + GAP) - GAP, charts, "data efficiency")
end

return svg

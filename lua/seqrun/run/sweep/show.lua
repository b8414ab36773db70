-- show.lua - a sweep as a table and as a picture.

local grid = require("seqrun.draw.grid")
local live = require("seqrun.draw.live")
local overview = require("seqrun.history.overview")
local results = require("seqrun.run.sweep.results")
local svg = require("seqrun.draw.svg")
local text = require("seqrun.base.format")

local show = {}

---The keys that are swept, in order, and the value of each in a trial.
local function keys_of(trial)
  local keys, values = {}, {}
  for i, word in ipairs(trial.words) do
    keys[i], values[i] = word:match("^([^=]*)=(.*)$")
  end
  return keys, values
end

local function number(x) return x and ("%.4f"):format(x) or "-" end

---By how much a trial differs from the first row's at equal seeds, with half of the 95 % interval; "-" unless both have
---all seeds.
local function paired(row, first, seeds)
  if row == first or seeds < 2 or #row.values ~= seeds or #first.values ~= seeds then return "-" end
  local differences = {}
  for i, value in ipairs(row.values) do differences[i] = value - first.values[i] end
  local found = results.spread(differences)
  return ("%+.4f ± %.4f"):format(found.mean, found.half)
end

---"rate.peak=1e-4 batch.sequences=16"
local function name_of(row) return table.concat(row.trial.words, " ") end

---How trials are compared: "f1 (larger is better), mean over 3 seeds, 95 % interval of the mean".
---@param sweep seqrun.Sweep
---@return string
function show.rule(sweep)
  local metric = sweep.metric or "loss"
  return ("%s (%s is better), %s"):format(metric, overview.smaller_is_better(metric) and "smaller" or "larger",
    sweep.seeds > 1 and ("mean over %d seeds, 95 %% interval of the mean"):format(sweep.seeds)
    or "one seed, so no interval; use --seeds 3")
end

---The rows of the table, its head first.
---@param sweep seqrun.Sweep
---@param rows seqrun.SweepRow[]
---@return string[][]
function show.cells(sweep, rows)
  local head = keys_of(rows[1].trial)
  local count = #head
  local figures = {
    sweep.metric or "metric", "interval", "less the first's", "deviation", "seeds", "step", "time", "state",
  }
  table.move(figures, 1, #figures, count + 1, head)
  local cells = { head }
  for i, row in ipairs(rows) do
    local _, line = keys_of(row.trial)
    table.move({
      number(row.mean), row.half and ("%.4f to %.4f"):format(row.mean - row.half, row.mean + row.half) or "-",
      paired(row, rows[1], sweep.seeds), number(row.deviation), ("%d"):format(#row.values), ("%d"):format(row.step),
      text.duration(row.seconds), row.state,
    }, 1, 8, count + 1, line)
    cells[i + 1] = line
  end
  return cells
end

---The table in a sentence: the best trial, and the trials that its interval overlaps.
---@param sweep seqrun.Sweep
---@param rows seqrun.SweepRow[]
---@return string
function show.verdict(sweep, rows)
  local found, alike = results.best(rows)
  if not found then return "no trial has finished, so none is the best" end
  local line = ("best: %s with %s %.4f%s"):format(name_of(found), sweep.metric, found.mean,
    found.half and (" +- %.4f"):format(found.half) or "")
  if alike > 0 then
    line = line .. ("; its interval overlaps that of %s, so more seeds may choose another"):format(
      alike == 1 and "one other" or alike .. " others")
  end
  local deciding = results.deciding(sweep.trials, sweep.dev ~= nil)
  if #deciding > 0 then
    line = line .. ("\nnote: the trials differ in %s, and so in their held-out text or masks: their scores are not "
      .. "comparable"):format(table.concat(deciding, ", "))
  end
  return ("%s\nruns of the best: %s/%s"):format(line, sweep.folder, found.trial.name)
end

---The lines of the table, and below them why trials failed.
---@param sweep seqrun.Sweep
---@param rows seqrun.SweepRow[]
---@return string[]
function show.lines(sweep, rows)
  local lines = grid.lines(show.cells(sweep, rows), { left = { true }, cut = { true } })
  for _, row in ipairs(rows) do
    if row.reason then lines[#lines + 1] = live.fit_output(("failed: %s: %s"):format(name_of(row), row.reason)) end
  end
  return lines
end

-- ---- the picture ---------------------------------------------------------------------------------

---The first key whose values are all numbers, and at least two; nil if there is none.
local function axis_of(rows)
  for i, key in ipairs((keys_of(rows[1].trial))) do
    local seen, count, good = {}, 0, true
    for _, row in ipairs(rows) do
      local _, values = keys_of(row.trial)
      local x = tonumber(values[i])
      good = good and x ~= nil
      if x and not seen[x] then seen[x], count = true, count + 1 end
    end
    if good and count > 1 then return i, key end
  end
end

---What a trial sets beside the key of the axis: the name of its curve.
local function curve_of(row, axis)
  local words = {}
  for i, word in ipairs(row.trial.words) do
    if i ~= axis then words[#words + 1] = word end
  end
  return table.concat(words, " ")
end

---Means with their intervals, a series for each combination of the other keys, and the values of the seeds as dots.
local function series_of(rows, axis, metric)
  local by_name, series, dots = {}, {}, {}
  for place, row in ipairs(rows) do
    local _, values = keys_of(row.trial)
    local x = axis and tonumber(values[axis]) or place
    for _, y in ipairs(row.values) do dots[#dots + 1] = { x, y } end
    local name = axis and curve_of(row, axis) or metric
    if row.mean and not by_name[name] then
      by_name[name] = { name = name ~= "" and name or "mean and 95 % interval", points = {},
        class = svg.colour(#series + 1), kind = not axis and "dots" or nil }
      series[#series + 1] = by_name[name]
    end
    if row.mean then table.insert(by_name[name].points, { x, row.mean, row.half }) end
  end
  for _, one in ipairs(series) do table.sort(one.points, function(a, b) return a[1] < b[1] end) end
  series[#series + 1] = { kind = "points", name = "seeds", class = svg.colour(7), points = dots }
  return series
end

---A picture of the sweep: the metric by the first key that has numbers, or by rank.
---@param sweep seqrun.Sweep
---@param rows seqrun.SweepRow[]
---@return string|nil # an SVG file; nil if there is nothing to draw
function show.picture(sweep, rows)
  local axis, key = axis_of(rows)
  local series, low, high = series_of(rows, axis, sweep.metric or "metric"), math.huge, -math.huge
  for _, point in ipairs(series[#series].points) do low, high = math.min(low, point[1]), math.max(high, point[1]) end
  if #series < 2 then return nil end
  local title = "sweep: " .. show.rule(sweep)
  local chart = svg.chart {
    title = title, heading = title, width = 720, height = 360, at = { 0, 0 }, series = series,
    x = { label = key or "rank", log = low > 0 and high >= 10 * low or nil }, y = { label = sweep.metric, even = true },
  }
  return chart and svg.page(720, 360, { chart }, title)
end

return show

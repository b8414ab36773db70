-- curves.lua - the charts of a report: losses by head, scores, rate, gradient norm, speed, schedules; one run, or
-- several in one picture.

local comparison = require("seqrun.history.comparison")
local history = require("seqrun.history.runs")
local interval = require("seqrun.base.interval")
local metrics = require("seqrun.history.metrics")
local svg = require("seqrun.draw.svg")

local curves = {}

---What the horizontal axis may be, and its label.
curves.AXES = {
  step = { key = "step", label = "step" }, tokens = { key = "real_tokens", label = "tokens trained on" },
  seconds = { key = "seconds", label = "seconds of training" }, raw = { key = "raw_tokens", label = "raw tokens" },
  effective = { key = "effective_tokens", label = "effective tokens" },
}

---Runs beyond which the single lines under the running means are left out.
local FEW = 3

---Lines of training that a running mean is over, as a part of all.
local WINDOW = 40

-- ---- points ------------------------------------------------------------------------------------

---The points of a metric over the chosen axis.
local function points_of(rows, key, axis)
  local points = history.points(rows, key)
  if axis.key == "step" then return points end
  local at, list = {}, {}
  for _, row in ipairs(rows) do at[row.step] = type(row[axis.key]) == "number" and row[axis.key] or nil end
  for _, point in ipairs(points) do
    if at[point[1]] then list[#list + 1] = { at[point[1]], point[2] } end
  end
  return list
end

---The mean around each point; a gap stays a gap.
local function running_mean(points)
  local half = #points // WINDOW // 2
  if half < 1 then return nil end
  local sums, counts, list = { [0] = 0 }, { [0] = 0 }, {}
  for i, point in ipairs(points) do
    sums[i] = sums[i - 1] + (point[2] or 0)
    counts[i] = counts[i - 1] + (point[2] and 1 or 0)
  end
  for i, point in ipairs(points) do
    local wide = math.min(half, i - 1, #points - i)
    local first, last = i - wide - 1, i + wide
    local count = counts[last] - counts[first]
    list[i] = { point[1], point[2] and (sums[last] - sums[first]) / count or nil }
  end
  return list
end

---The colour of a run: that of its arm, where some runs differ in their seeds alone.
local function colour_of(runs, i) return svg.colour(runs[i].arm or i) end

---The mean over the seeds of an arm at each x that all of them have, and half of its interval.
local function mean_of(view, arm, key)
  local values, xs = {}, {}
  for _, i in ipairs(arm.runs) do
    for _, point in ipairs(points_of(view.runs[i].history.evals, key, view.axis)) do
      if point[2] and not values[point[1]] then values[point[1]], xs[#xs + 1] = {}, point[1] end
      if point[2] then table.insert(values[point[1]], point[2]) end
    end
  end
  table.sort(xs)
  local points = {}
  for _, x in ipairs(xs) do
    if #values[x] == #arm.runs then
      local found = interval(values[x])
      points[#points + 1] = { x, found.mean, found.half }
    end
  end
  return points
end

---The held-out curves: of each run, or where runs differ in their seeds alone, the mean of each arm with its band.
local function held_out(view, key)
  local list = {}
  for g, arm in ipairs(view.runs.arms) do
    local points = mean_of(view, arm, key)
    if #points > 0 then
      local says = ("%s, mean over %d seeds"):format(arm.name, #arm.runs)
      list[#list + 1] = { points = points, class = svg.colour(g), says = says }
    end
  end
  for i, run in ipairs(#list == 0 and view.runs or {}) do
    local points = points_of(run.history.evals, key, view.axis)
    if #points > 0 then
      list[#list + 1] = { kind = "dots", style = "dash", points = points, class = colour_of(view.runs, i),
        says = run.name .. ", held-out" }
    end
  end
  return list
end

---Adds a noisy metric: its values thin, their running mean over them.
local function add_noisy(series, points, class, name, bare)
  if #points == 0 then return end
  local mean = running_mean(points)
  if mean and not bare then series[#series + 1] = { points = points, class = class, style = "thin", most = 1200 } end
  series[#series + 1] = { points = mean or points, class = class, name = name, most = 600 }
end

-- ---- one chart -----------------------------------------------------------------------------------

---Where a single run was resumed, or changed from outside.
local function marks_of(runs, axis)
  local marks = {}
  if #runs > 1 or axis.key ~= "step" then return marks end
  for _, step in ipairs(runs[1].resumes) do marks[#marks + 1] = { x = step, name = "resumed at step " .. step } end
  for _, event in ipairs(runs[1].history.events) do
    if event.event == "rate" or event.event == "weights" then
      marks[#marks + 1] = { x = event.step, name = event.event .. " changed from an attached prompt" }
    end
  end
  return marks
end

---The last x of a run.
local function end_of(run, axis)
  local high = 0
  for _, rows in ipairs { run.history.train, run.history.evals } do
    local last = rows[#rows] and rows[#rows][axis.key]
    if type(last) == "number" then high = math.max(high, last) end
  end
  return high
end

---Where all charts of a metric end: at the last x of the runs that have it.
local function end_of_all(view, key)
  local high = 0
  for _, run in ipairs(view.runs) do
    local found = run.history
    if #history.points(found.train, key) + #history.points(found.evals, key) > 0 then
      high = math.max(high, end_of(run, view.axis))
    end
  end
  return high > 0 and high or nil
end

---The first and the last value of each series in words, for those who do not see the picture.
local function in_words(series)
  local parts = {}
  for _, one in ipairs(series) do
    local first, last = one.points and one.points[1], one.points and one.points[#one.points]
    if one.y then
      parts[#parts + 1] = ("%s %.4g"):format(one.name or one.says or "level", one.y)
    elseif one.style ~= "thin" and first and first[2] and last[2] then
      parts[#parts + 1] = ("%s from %.4g at %.6g to %.4g at %.6g"):format(one.name or one.says or "values", first[2],
        first[1], last[2], last[1])
    end
  end
  return table.concat(parts, "; ")
end

local function chart(view, key, title, unit, series, more)
  more = more or {}
  local x = { label = view.axis.label, low = 0, high = end_of_all(view, key) }
  local y = { label = unit, even = not more.log, log = more.log, low = more.low }
  local function draw(width, height)
    return svg.chart {
      title = title, desc = in_words(series), x = x, y = y, series = series, marks = view.marks, width = width,
      height = height,
    }
  end
  local picture = draw(440, 240)
  if not picture then return nil end
  return { title = title, svg = picture, wide = more.wide and draw(980, 330) or nil }
end

---Whether a run was evaluated often enough for a curve.
local function has_eval_curve(runs, key)
  for _, run in ipairs(runs) do
    if #history.points(run.history.evals, key) >= 3 then return true end
  end
  return false
end

---The last value of a metric in some lines.
---@param rows table[]
---@param key string
---@return number|nil
function curves.last_of(rows, key)
  for i = #rows, 1, -1 do
    local value = rows[i][key]
    if type(value) == "number" and math.abs(value) < 1 << 53 then return value end
  end
end

---Levels of a baseline: one line if all runs have the same, one for each otherwise.
local function add_levels(series, runs, key, name)
  local values, same = {}, true
  for i, run in ipairs(runs) do
    values[i] = curves.last_of(run.history.evals, key)
    same = same and values[i] == values[1]
  end
  for i, run in ipairs(runs) do
    local class = same and "s7" or colour_of(runs, i)
    local label = name .. (same and "" or ", " .. run.name)
    if values[i] and (not same or i == 1) then
      series[#series + 1] = { kind = "level", y = values[i], class = class, name = same and label or nil, says = label }
    end
  end
end

---A metric that both training and evaluations have.
---@param baseline? { key: string, name: string }
local function both(view, key, title, unit, baseline, wide)
  local runs, charts = view.runs, {}
  local single, apart = #runs == 1, #runs > 1 and has_eval_curve(runs, key)
  local train, eval = {}, held_out(view, key)
  for i, run in ipairs(runs) do
    local class = colour_of(runs, i)
    local found = points_of(run.history.train, key, view.axis)
    add_noisy(train, found, class, single and "training" or nil, #runs > FEW)
    if #found > 0 then train[#train].says = run.name .. ", training" end
  end
  if single and eval[1] then eval[1].class, eval[1].name = "s2", "held-out" end
  if not apart then table.move(eval, 1, #eval, #train + 1, train) end
  if baseline then add_levels(apart and eval or train, runs, baseline.key, baseline.name) end
  if not apart then return { chart(view, key, title, unit, train, { wide = wide }) } end
  charts[#charts + 1] = chart(view, key, title .. ", training", unit, train, { wide = wide })
  charts[#charts + 1] = chart(view, key, title .. ", held-out", unit, eval, { wide = wide })
  return charts
end

---A metric of one type of line, for all runs.
local function simple(view, kind, key, title, unit, more)
  local series = kind == "evals" and held_out(view, key) or {}
  for i, run in ipairs(kind == "evals" and {} or view.runs) do
    local class, found = colour_of(view.runs, i), points_of(run.history[kind], key, view.axis)
    if more and more.noisy then
      add_noisy(series, found, class, nil, #view.runs > FEW)
      if #found > 0 then series[#series].says = run.name end
    elseif #found > 0 then
      series[#series + 1] = { points = found, class = class, says = run.name }
    end
  end
  return chart(view, key, title, unit, series, more)
end

-- ---- which charts --------------------------------------------------------------------------------

---Names of heads as people write them.
local TITLES = { mlm = "MLM", nsp = "NSP", sop = "SOP" }

---@param name string
---@return string
function curves.head_title(name) return TITLES[name] or name end

local BASELINES = { mlm = { key = "unigram_loss", name = "unigram model" } }

local SCORES = {
  matthews = "Matthews correlation", f1 = "F1", f1_macro = "F1, macro average", f1_micro = "F1, micro average",
  f1_at_half = "F1 at one half", f1_macro_at_half = "F1, macro average, at one half", roc_auc = "ROC-AUC",
  accuracy_at_half = "accuracy at one half",
}

---A score as a title.
---@param key string
---@return string
function curves.score_title(key) return SCORES[key] or (key:gsub("_", " ")) end

---Whether a metric of the training lines is ever other than `usual`.
local function varies(runs, key, usual)
  for _, run in ipairs(runs) do
    for _, point in ipairs(history.points(run.history.train, key)) do
      if point[2] and math.abs(point[2] - usual) > 1e-3 then return true end
    end
  end
  return false
end

---Titles and units of what schedules and curricula give.
local SCHEDULES = {
  token_drop = { "tokens kept by middle layers", "tokens" }, ltd = { "tokens kept by middle layers", "tokens" },
  mask_rate = { "mask rate", "masked / all tokens" },
  curriculum_length = { "curriculum: length", "tokens" },
  curriculum_unlocked = { "curriculum: sequences to draw from", "sequences" },
}

---Training metrics that not every run has: values of schedules and curricula.
local function schedule_keys(runs)
  local known, list = { step = true }, {}
  for _, key in ipairs(metrics.TRAIN) do known[key] = true end
  for _, run in ipairs(runs) do
    for _, row in ipairs { run.history.train[1] or {}, run.history.train[#run.history.train] or {} } do
      for key, value in pairs(row) do
        if type(value) == "number" and not known[key] and not key:find("_loss$") and not key:find("_accuracy$") then
          known[key], list[#list + 1] = true, key
        end
      end
    end
  end
  table.sort(list)
  return list
end

---Whether a metric spans so much that a logarithmic axis is better.
local function spans(runs, key)
  local low, high = math.huge, 0
  for _, run in ipairs(runs) do
    for _, point in ipairs(history.points(run.history.train, key)) do
      if point[2] and point[2] > 0 then low, high = math.min(low, point[2]), math.max(high, point[2]) end
    end
  end
  return high > 30 * low
end

---Charts of the losses: of all heads, the first one large.
---@param runs seqrun.report.Run[]
---@param by string of curves.AXES
---@return { title: string, svg: string, wide?: string }[]
function curves.losses(runs, by)
  local view = { runs = runs, axis = curves.AXES[by], marks = marks_of(runs, curves.AXES[by]) }
  local list = {}
  local function add(charts) table.move(charts, 1, #charts, #list + 1, list) end
  local heads = comparison.union(runs, "heads")
  for i, name in ipairs(heads) do
    add(both(view, name .. "_loss", curves.head_title(name) .. " loss", "nats", BASELINES[name], i == 1))
  end
  if #heads == 0 then list[1] = simple(view, "train", "loss", "loss", "nats", { noisy = true, wide = true }) end
  for _, name in ipairs(heads) do
    add(both(view, name .. "_accuracy", curves.head_title(name) .. " accuracy", "correct / all"))
  end
  for _, key in ipairs(comparison.union(runs, "scores")) do
    if has_eval_curve(runs, key) then
      list[#list + 1] = simple(view, "evals", key, curves.score_title(key) .. ", held-out", "score")
    end
  end
  return list
end

---Charts of how training went: rate, gradient norm, speed, schedules.
---@param runs seqrun.report.Run[]
---@param by string
---@return { title: string, svg: string }[]
function curves.training(runs, by)
  local view = { runs = runs, axis = curves.AXES[by], marks = marks_of(runs, curves.AXES[by]) }
  local list = {}
  local function add(key, title, unit, more) list[#list + 1] = simple(view, "train", key, title, unit, more) end
  add("lr", "learning rate", "rate", { low = 0 })
  add("grad_norm", "gradient norm, before clipping", "L2 norm", { noisy = true, log = spans(runs, "grad_norm") })
  add("real_tokens_per_s", "speed, real tokens", "tokens / s", { noisy = true, low = 0 })
  add("efficiency", "packing efficiency", "real tokens / slots", { noisy = true })
  add("mfu", "model FLOP utilisation", "MFU", { noisy = true, low = 0 })
  if varies(runs, "imbalance", 1) then
    add("imbalance", "imbalance", "most expensive / mean micro-batch", { noisy = true })
  end
  if varies(runs, "skipped", 0) then add("skipped", "skipped updates", "updates", { low = 0 }) end
  for _, key in ipairs(schedule_keys(runs)) do
    local known = SCHEDULES[key] or { (key:gsub("^curriculum_", "curriculum: "):gsub("_", " ")), "value" }
    add(key, known[1], known[2])
  end
  return list
end

return curves

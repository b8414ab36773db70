-- saving_report.lua - what the runs of recipes/papers/saving.lua show: each arm beside the baseline at equal effective
-- tokens, equal raw tokens and equal steps, and what it needs for the baseline's loss.

local common = require("common")
local experiment = require("experiment")
local sys = require("seqrun.core.sys")

local report = {}

local shown = experiment.shown

---The loss of baselines that were trained to other ends, at this x: a line in log x through the two nearest.
---@param points { [1]: number, [2]: number }[] x and loss, at least one
---@param x number
---@return number? loss nil with fewer than two points, unless x is one of them
---@return boolean? outside beyond the points
function report.at(points, x)
  table.sort(points, function(a, b) return a[1] < b[1] end)
  for _, point in ipairs(points) do
    if math.abs(point[1] - x) <= 0.005 * x then return point[2], false end
  end
  if #points < 2 then return nil end
  local i = 1
  while i < #points - 1 and x > points[i + 1][1] do i = i + 1 end
  local a, b = points[i], points[i + 1]
  local part = (math.log(x) - math.log(a[1])) / (math.log(b[1]) - math.log(a[1]))
  return a[2] + part * (b[2] - a[2]), x < points[1][1] or x > points[#points][1]
end

---Where an arm that was trained to several ends has this loss: a line in log x through the two nearest.
---@param points { [1]: number, [2]: number }[] x and loss
---@param loss number
---@return number? x nil with fewer than two points, or where the loss does not fall
---@return boolean? outside beyond the points
function report.where(points, loss)
  table.sort(points, function(a, b) return a[1] < b[1] end)
  if #points < 2 then return nil end
  local i = 1
  while i < #points - 1 and loss < points[i + 1][2] do i = i + 1 end
  local a, b = points[i], points[i + 1]
  if b[2] >= a[2] then return nil end
  local part = (loss - a[2]) / (b[2] - a[2])
  return a[1] * (b[1] / a[1]) ^ part, part < 0 or part > 1
end

local BASELINES = { { "effective", "effective_tokens" }, { "raw", "raw_tokens" }, { "steps", "step" } }

---Differences to the baseline of the same seed, at equal values of a counter.
local function differences(runs, name, share, key)
  local list, outside = {}, false
  for _, run in ipairs(runs) do
    if run.arm == name and run.share == share then
      local points = {}
      for _, other in ipairs(runs) do
        if other.arm == "baseline" and other.seed == run.seed then points[#points + 1] = { other[key], other.loss } end
      end
      local loss, beyond = report.at(points, run[key])
      if loss then list[#list + 1], outside = run.loss - loss, outside or beyond end
    end
  end
  return list, outside
end

---Where the mean of an arm over these seeds has the loss that the mean of the baseline has at its end: how many times
---less of the counter.
local function saving_of(runs, name, key, seeds)
  local base, points, by_share = { x = 0, loss = 0 }, {}, {}
  for _, seed in ipairs(seeds) do
    for _, run in ipairs(runs[seed]) do
      if run.arm == "baseline" and run.share == 1 then base.x, base.loss = base.x + run[key], base.loss + run.loss end
      if run.arm == name then
        local point = by_share[run.share] or { 0, 0, 0 }
        by_share[run.share] = { point[1] + run[key], point[2] + run.loss, point[3] + 1 }
      end
    end
  end
  for _, point in pairs(by_share) do
    if point[3] == #seeds then points[#points + 1] = { point[1] / #seeds, point[2] / #seeds } end
  end
  local x, outside = report.where(points, base.loss / #seeds)
  return x and base.x / #seeds / x, outside
end

local RESAMPLED = 2000

---How many times less of a counter an arm needs for the baseline's loss, and its 95 % interval: percentiles of 2,000
---bootstrap samples of the seeds.  Source: Efron and Tibshirani 1993, chapter 13.
---@param runs table[]
---@param name string
---@param key string
---@return { factor: number, low?: number, high?: number, outside: boolean }? # nil where the curves do not meet
function report.saving(runs, name, key)
  local by_seed, seeds = {}, {}
  for _, run in ipairs(runs) do
    if not by_seed[run.seed] then by_seed[run.seed], seeds[#seeds + 1] = {}, run.seed end
    table.insert(by_seed[run.seed], run)
  end
  local factor, outside = saving_of(by_seed, name, key, seeds)
  if not factor then return nil end
  local found, list, state = { factor = factor, outside = outside }, {}, 1
  for i = 1, #seeds > 1 and RESAMPLED or 0 do
    local drawn = {}
    for k = 1, #seeds do
      state = (state * 6364136223846793005 + 1442695040888963407)
      drawn[k] = seeds[1 + (state >> 33) % #seeds]
    end
    list[i] = saving_of(by_seed, name, key, drawn) or 0 -- never reached
  end
  table.sort(list)
  found.low, found.high = list[RESAMPLED // 40], list[RESAMPLED - RESAMPLED // 40]
  return found
end

local function marked(list, format, mark) return shown(list, format) .. (mark and #list > 0 and "*" or "") end

local function column(runs, name, share, key, scale)
  local list = {}
  for _, run in ipairs(runs) do
    if run.arm == name and run.share == share and run[key] then list[#list + 1] = run[key] * (scale or 1) end
  end
  return list
end

---Differences of the scores to those of the baseline of the same seed and share, in percent.
local function scores(runs, name, share)
  local list = {}
  for _, run in ipairs(runs) do
    for _, base in ipairs(run.arm == name and run.share == share and runs or {}) do
      local same = base.arm == "baseline" and base.share == share and base.seed == run.seed
      if same and run.accuracy and base.accuracy then list[#list + 1] = 100 * (run.accuracy - base.accuracy) end
    end
  end
  return list
end

---The table of one share of the tokens.
---@param runs { arm: string, share: number, seed: integer, loss: number, accuracy: number? }[] and counters
---@param share number
---@param part { names: string[], titles: table<string, string> }
---@return string[][]
function report.rows(runs, share, part)
  local title = ("%d %% of the tokens"):format(math.floor(share * 100 + 0.5))
  local rows = { { title, "runs", "held-out loss", "at equal effective", "equal raw", "equal steps",
     "score, %", "to baseline", "raw M", "steps", "CPU s" } }
  for _, name in ipairs(part.names) do
    local losses = column(runs, name, share, "loss")
    if #losses > 0 then
      local row = { part.titles[name], tostring(#losses), shown(losses, "%.3f") }
      for _, entry in ipairs(BASELINES) do
        local list, outside = differences(runs, name, share, entry[2])
        row[#row + 1] = name == "baseline" and "0" or marked(list, "%+.3f", outside)
      end
      row[#row + 1] = shown(column(runs, name, share, "accuracy", 100), "%.1f")
      row[#row + 1] = name == "baseline" and "0" or shown(scores(runs, name, share), "%+.1f")
      local function mean(format, ...)
        return format:format(experiment.interval(column(runs, name, share, ...)).mean)
      end
      row[#row + 1] = mean("%.2f", "raw_tokens", 1e-6)
      row[#row + 1] = mean("%.0f", "step")
      row[#row + 1] = mean("%.0f", "train_seconds")
      rows[#rows + 1] = row
    end
  end
  return rows
end

local SAVED = { { "effective tokens", "effective_tokens" }, { "raw tokens", "raw_tokens" }, { "steps", "step" },
  { "CPU seconds", "train_seconds" } }

---How many times less an arm needs for the loss of the baseline at its end, by counter.
---@param runs table[]
---@param part { names: string[], titles: table<string, string> }
---@return string[][]
function report.saved(runs, part)
  local rows = { { "times less for the baseline's loss" } }
  for i, entry in ipairs(SAVED) do rows[1][i + 1] = entry[1] end
  for _, name in ipairs(part.names) do
    local row, any = { part.titles[name] }, false
    for i, entry in ipairs(SAVED) do
      local one = report.saving(runs, name, entry[2])
      row[i + 1] = one and ("%.2f%s"):format(one.factor, one.outside and "*" or "") or "-"
      if one and one.low then row[i + 1] = ("%s (%.2f to %.2f)"):format(row[i + 1], one.low, one.high) end
      any = any or one ~= nil
    end
    if any and name ~= "baseline" then rows[#rows + 1] = row end
  end
  return rows
end

---All evaluations of all runs, for plotting: loss against effective tokens, raw tokens, steps and CPU seconds.
---@param path string
---@param runs table[]
---@param part { y: { key: string } }
function report.write_curves(path, runs, part)
  local lines = { "arm\tshare\tseed\tstep\teffective_tokens\traw_tokens\tcpu_seconds\t" .. part.y.key }
  for _, run in ipairs(runs) do
    for _, line in ipairs(run.curve) do
      lines[#lines + 1] = ("%s\t%g\t%d\t%d\t%.0f\t%d\t%.1f\t%.5f"):format(run.arm, run.share, run.seed, line.step,
        line.effective_tokens, line.raw_tokens, line.train_seconds, line[part.y.key] or 0 / 0)
    end
  end
  assert(sys.write_file(path, table.concat(lines, "\n") .. "\n"))
end

---Colours of the arms, by number; the baseline is grey.
local COLOURS = {
  baseline = 7, length = 5, rarity = 1, loss = 1, length_rarity = 3, token_drop = 2, composed = 4, random = 8,
  reversed = 6,
}

local AXES = {
  { key = "effective_tokens", label = "effective tokens (millions)", scale = 1e-6 },
  { key = "raw_tokens", label = "raw tokens (millions)", scale = 1e-6 },
  { key = "train_seconds", label = "CPU seconds" },
}

---Charts of held-out data, a row for each share of the tokens.
---@param runs table[]
---@param shares number[]
---@param part seqrun.papers.Part
---@return seqrun.bench.Panel[]
function report.panels(runs, shares, part)
  local panels = {}
  for _, share in ipairs(shares) do
    local series = {}
    for i, name in ipairs(part.names) do
      local curves = {}
      for _, run in ipairs(runs) do
        if run.arm == name and run.share == share then curves[#curves + 1] = run.curve end
      end
      series[i] = { name = part.titles[name], curves = curves, colour = COLOURS[name] }
    end
    for _, x in ipairs(AXES) do
      panels[#panels + 1] = { title = ("held out, %g %% of the tokens"):format(100 * share), x = x, y = part.y,
        series = series }
    end
  end
  return panels
end

---Prints everything.
---@param runs table[]
---@param shares number[]
---@param part seqrun.papers.Part
function report.print(runs, shares, part)
  for _, share in ipairs(shares) do
    common.print_table(report.rows(runs, share, part))
    print()
  end
  local saved = report.saved(runs, part)
  if #saved > 1 then
    common.print_table(saved)
    print()
  end
  print("Mean ± half width of the 95 % interval (Student's t) over seeds.  Differences are in nats, to the baseline")
  print("of the same seed at equal effective tokens, raw tokens or steps, interpolated in log x between its runs; *")
  print("marks extrapolation.  Held-out loss is at full length, without dropping.  What is saved is read off the line")
  print("in log x through the means of an arm's own runs; in brackets 95 % of bootstrap samples of the seeds.")
end

return report

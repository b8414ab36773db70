-- efficiency_report.lua - what the runs of recipes/bench/efficiency.lua show: means, intervals, and each arm beside the
-- baseline at equal effective tokens, equal raw tokens and equal steps.

local arms = require("efficiency_arms")
local common = require("common")
local json = require("seqrun.core.json")
local metrics = require("seqrun.history.metrics")
local sys = require("seqrun.core.sys")

local report = {}

---97.5 % quantiles of Student's t by degrees of freedom; beyond them the normal one.
local T = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228 }

---Mean and half width of its 95 % interval; no width for one value.
---@param list number[]
---@return number? mean
---@return number? half
function report.interval(list)
  if #list == 0 then return nil end
  local mean, squares = common.sum(list) / #list, 0
  for _, x in ipairs(list) do squares = squares + (x - mean) ^ 2 end
  if #list == 1 then return mean end
  return mean, (T[#list - 1] or 1.96) * math.sqrt(squares / (#list - 1) / #list)
end

---The evaluations of a run, with the processor seconds spent on training before each: experiments of many hours share
---their machine, so time on the clock says little.
---@param folder string
---@return table[]
function report.curve(folder)
  local list, seconds, steps = {}, 0, 0
  for _, line in ipairs(metrics.read(folder) or {}) do
    if line.type == "train" and line.cpu_ms and line.cpu_ms ~= json.null then
      seconds, steps = seconds + (line.step - steps) * line.cpu_ms / 1000, line.step
    elseif line.type == "eval" then
      line.train_seconds = seconds
      list[#list + 1] = line
    end
  end
  return list
end

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

local function shown(list, format, mark)
  local mean, half = report.interval(list)
  if not mean then return "-" end
  local text = half and (format .. " ± " .. format:gsub("+", "")):format(mean, half) or format:format(mean)
  return text .. (mark and "*" or "")
end

local function column(runs, name, share, key, scale)
  local list = {}
  for _, run in ipairs(runs) do
    if run.arm == name and run.share == share and run[key] then list[#list + 1] = run[key] * (scale or 1) end
  end
  return list
end

---The table of one share of the tokens.
---@param runs { arm: string, share: number, seed: integer, loss: number, accuracy: number? }[] and counters
---@param share number
---@return string[][]
function report.rows(runs, share)
  local title = ("%d %% of the tokens"):format(math.floor(share * 100 + 0.5))
  local rows = { { title, "runs", "held-out loss", "at equal effective", "equal raw", "equal steps",
     "accuracy, %", "raw M", "steps", "CPU s" } }
  for _, name in ipairs(arms.NAMES) do
    local losses = column(runs, name, share, "loss")
    if #losses > 0 then
      local row = { arms.TITLES[name], tostring(#losses), shown(losses, "%.3f") }
      for _, entry in ipairs(BASELINES) do
        local list, outside = differences(runs, name, share, entry[2])
        row[#row + 1] = name == "baseline" and "0" or shown(list, "%+.3f", outside)
      end
      row[#row + 1] = shown(column(runs, name, share, "accuracy", 100), "%.1f")
      row[#row + 1] = ("%.2f"):format((report.interval(column(runs, name, share, "raw_tokens", 1e-6))))
      row[#row + 1] = ("%.0f"):format((report.interval(column(runs, name, share, "step"))))
      row[#row + 1] = ("%.0f"):format((report.interval(column(runs, name, share, "train_seconds"))))
      rows[#rows + 1] = row
    end
  end
  return rows
end

---All evaluations of all runs, for plotting: loss against effective tokens, raw tokens, steps and CPU seconds.
---@param path string
---@param runs table[]
function report.write_curves(path, runs)
  local lines = { "arm\tshare\tseed\tstep\teffective_tokens\traw_tokens\tcpu_seconds\tmlm_loss" }
  for _, run in ipairs(runs) do
    for _, line in ipairs(report.curve(run.folder)) do
      lines[#lines + 1] = ("%s\t%g\t%d\t%d\t%.0f\t%d\t%.1f\t%.5f"):format(run.arm, run.share, run.seed, line.step,
        line.effective_tokens, line.raw_tokens, line.train_seconds, line.mlm_loss)
    end
  end
  assert(sys.write_file(path, table.concat(lines, "\n") .. "\n"))
end

---Prints everything.
---@param runs table[]
---@param shares number[]
function report.print(runs, shares)
  for _, share in ipairs(shares) do
    common.print_table(report.rows(runs, share))
    print()
  end
  print("Mean ± half width of the 95 % interval (Student's t) over seeds.  Differences are in nats, to the baseline of")
  print("the same seed at equal effective tokens, raw tokens or steps, interpolated in log x between its runs; * marks")
  print("extrapolation.  Held-out loss is at full length, without dropping.")
end

return report

-- show.lua - the table of a suite: the score of each task over its seeds, and the average of each suite.

local formats = require("seqrun.draw.formats")
local grid = require("seqrun.draw.grid")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local results = require("seqrun.run.sweep.results")
local text = require("seqrun.base.format")

local show = {}

---@class seqrun.SuiteAverage
---@field suite string
---@field name string "GLUE average", or "average of 5 of 9 GLUE tasks" where some are missing
---@field complete boolean
---@field values number[] of each seed
---@field mean? number
---@field deviation? number

---The suites of some tasks, in their order.
local function suites_of(tasks)
  local names, seen = {}, {}
  for _, task in ipairs(tasks) do
    if not seen[task.suite] then seen[task.suite], names[#names + 1] = true, task.suite end
  end
  return names
end

---The mean over the tasks of a suite that have a score, seed by seed.
---@param suite seqrun.Suite
---@param rows seqrun.SweepRow[]
---@param all seqrun.SuiteTask[] of all suites, those that were not asked for too
---@return seqrun.SuiteAverage[]
function show.averages(suite, rows, all)
  local list = {}
  for _, name in ipairs(suites_of(suite.tasks)) do
    local average, count, whole = { suite = name, values = {} }, 0, 0
    for i, row in ipairs(rows) do
      if suite.tasks[i].suite == name and row.mean then
        count = count + 1
        for k, value in ipairs(row.values) do average.values[k] = (average.values[k] or 0) + value end
      end
    end
    for _, task in ipairs(all) do whole = whole + (task.suite == name and 1 or 0) end
    average.complete, average.tasks = count == whole, count
    average.name = average.complete and name .. " average"
      or ("average of %d of %d %s tasks"):format(count, whole, name)
    if count > 0 then
      list[#list + 1] = average
      for k, value in ipairs(average.values) do average.values[k] = value / count end
      for key, value in pairs(results.spread(average.values)) do average[key] = value end
    end
  end
  return list
end

local function percent(x) return x and ("%.2f"):format(100 * x) or "-" end

---The mean of each metric: "f1 88.12, accuracy 83.20".
local function parts_of(task, row)
  local words = {}
  for i, name in ipairs(task.metrics) do
    local sum = 0
    for _, parts in ipairs(row.parts) do sum = sum + parts[name] end
    local shown = row.mean and #task.metrics > 1 and " " .. percent(sum / #row.parts) or ""
    words[i] = name .. shown
  end
  return table.concat(words, ", ")
end

---The rows of the table, its head first.
---@param suite seqrun.Suite
---@param rows seqrun.SweepRow[]
---@param averages seqrun.SuiteAverage[]
---@return string[][]
function show.cells(suite, rows, averages)
  local cells = { { "task", "metrics", "score", "deviation", "seeds", "time", "state" } }
  local several = #suites_of(suite.tasks) > 1
  for i, row in ipairs(rows) do
    local task = suite.tasks[i]
    cells[#cells + 1] = {
      several and ("%s %s"):format(task.suite, task.name) or task.name, parts_of(task, row), percent(row.mean),
      percent(row.deviation), ("%d"):format(#row.values), text.duration(row.seconds), row.state,
    }
  end
  for _, average in ipairs(averages) do
    cells[#cells + 1] = {
      average.name, "mean of the scores", percent(average.mean), percent(average.deviation),
      ("%d"):format(#average.values), "", "",
    }
  end
  return cells
end

---The same as plain values.
local function plain(suite, rows, averages, whole)
  local list, missing = json.array {}, json.array {}
  for i, row in ipairs(rows) do
    local task, seeds = suite.tasks[i], json.array {}
    for k, value in ipairs(row.values) do
      seeds[k] = { score = value, metrics = row.parts[k], folder = ("%s/%s/seed-%d"):format(suite.folder,
        row.trial.name, k) }
    end
    list[i] = {
      suite = task.suite, task = task.name, settings = json.array(row.trial.words), score = row.mean,
      deviation = row.deviation, seeds = seeds, seconds = row.seconds, state = row.state, reason = row.reason,
    }
  end
  for i, task in ipairs(suite.missing) do missing[i] = ("%s %s"):format(task.suite, task.name) end
  for _, average in ipairs(averages) do average.values = json.array(average.values) end
  return { tasks = list, averages = json.array(averages), missing = missing, complete = whole }
end

---The table as a person reads it, and below it what failed and what is missing.
local function lines_of(suite, rows, averages)
  local lines = grid.lines(show.cells(suite, rows, averages), { left = { true, true }, cut = { [2] = true } })
  for i, row in ipairs(rows) do
    if row.reason then
      lines[#lines + 1] = live.fit_output(("failed: %s: %s"):format(suite.tasks[i].name, row.reason))
    end
  end
  local names, failed = {}, false
  for i, row in ipairs(rows) do failed = failed or row.state == "failed" and not suite.trials[i].wrong end
  if failed then lines[#lines + 1] = "retry=true repeats what failed" end
  for i, task in ipairs(suite.missing) do names[i] = ("%s %s"):format(task.suite, task.name) end
  if #names > 0 then lines[#lines + 1] = live.fit_output("not found: " .. table.concat(names, ", ")) end
  local note = "scores are percent of the development sets after the last epoch, means over %s; a task with several "
    .. "metrics counts with their mean"
  lines[#lines + 1] = live.fit_output(note:format(text.counted(suite.seeds, "seed")))
  return lines
end

---The suite in some format, as one text.
---@param suite seqrun.Suite
---@param rows seqrun.SweepRow[]
---@param t { all: seqrun.SuiteTask[], whole: boolean, format: "table"|"csv"|"markdown"|"json" }
---@return string
function show.text(suite, rows, t)
  local averages = show.averages(suite, rows, t.all)
  if t.format == "json" then return json.encode(plain(suite, rows, averages, t.whole)) end
  local lines = t.format == "table" and lines_of(suite, rows, averages)
    or formats.lines(show.cells(suite, rows, averages), t.format)
  return table.concat(lines, "\n")
end

---What would be run, a line each.
---@param suite seqrun.Suite
---@return string
function show.plan(suite)
  local lines = {}
  for i, trial in ipairs(suite.trials) do
    lines[#lines + 1] = trial.wrong and ("%s: failed: %s"):format(suite.tasks[i].name, trial.wrong)
      or ("%s, %s: %s"):format(suite.tasks[i].name, text.counted(suite.seeds, "seed"), table.concat(trial.words, " "))
  end
  return table.concat(lines, "\n")
end

return show

-- results.lua - what the runs of a sweep reached: mean over the seeds of each trial, its interval, the best.

local comparison = require("seqrun.history.comparison")
local failure = require("seqrun.base.failure")
local history = require("seqrun.history.runs")
local json_file = require("seqrun.base.json_file")
local overview = require("seqrun.history.overview")
local packed = require("seqrun.base.packed")

local results = {}

results.spread = require("seqrun.base.interval")

---The means over the folds of a run (data.folds), with the step of the first.
local function of_folds(folder, folds)
  local line, past = results.last(folder .. "/fold-1")
  if not line then return nil end
  local means = { step = line.step }
  for name, one in pairs(folds.metrics or {}) do means[name] = one.mean end
  return means, past
end

---The last evaluation of a run, and the run; nil if there is none.  Raises if the run cannot be read: that does not
---mean that it has failed.
---@param folder string
---@return table|nil line
---@return seqrun.History|nil
function results.last(folder)
  local folds, message, code = json_file.read(folder .. "/folds.json")
  if message then failure.raise(code, "%s", message) end
  if folds then return of_folds(folder, folds) end
  if not history.is_run(folder) then return nil end
  local past = failure.must(history.open(folder, 1 << 20))
  return past.evals[#past.evals], past
end

---The metric that says most about a run.
---@param line table
---@param past seqrun.History
---@return string|nil
function results.headline(line, past)
  local found = overview.headline(line, history.value(past.config, "save.best"))
  return found and found.name
end

---Raises if the data that trials are compared on are a test set by their name.
---@param path string|nil
function results.refuse_test(path)
  local name = path and packed.bare(path):match("[^/]*$"):lower():gsub("%.%w+$", "")
  if name and (name:find("^test%f[^%w]") or name:find("[_%-%.]test$") or name == "test") then
    failure.raise("config", "sweep: data.dev=%s is a test set by its name, and a choice made on it does not "
      .. "generalise; use a development set, and score the chosen run once with seqrun eval", path)
  end
end

---@class seqrun.SweepRow
---@field trial seqrun.SweepTrial
---@field values number[] of the seeds that have one
---@field parts table<string, number>[] where the trial has several metrics: these of the same seeds
---@field step integer of the evaluations
---@field seconds number of training, all seeds
---@field state "done"|"dropped"|"open"|"failed"
---@field reason? string
---@field mean? number
---@field deviation? number
---@field half? number

---How far a trial came; all that are done came to their end, whatever its step is.
local function reached(row) return row.state == "done" and math.huge or row.step end

---@param a seqrun.SweepRow
---@param b seqrun.SweepRow
---@param smaller boolean
local function before(a, b, smaller)
  if (a.mean ~= nil) ~= (b.mean ~= nil) then return a.mean ~= nil end
  if reached(a) ~= reached(b) then return reached(a) > reached(b) end
  if a.mean and a.mean ~= b.mean then return (a.mean < b.mean) == smaller end
  return a.trial.name < b.trial.name
end

---Sorts rows, the best first; those that came further before those that were dropped.
---@param rows seqrun.SweepRow[]
---@param metric string
function results.sort(rows, metric)
  local smaller = overview.smaller_is_better(metric)
  table.sort(rows, function(a, b) return before(a, b, smaller) end)
end

---The swept keys that decide what is held out or how it is masked: scores of trials that differ in them do not compare.
---@param trials seqrun.SweepTrial[]
---@param fixed boolean they are all evaluated on one file, data.dev
---@return string[]
function results.deciding(trials, fixed)
  local held, values, list = comparison.deciding(fixed), {}, {}
  for _, trial in ipairs(trials) do
    for _, word in ipairs(trial.words) do
      local key, value = word:match("^([%w_.]+)=(.*)$")
      if key and held[key] then
        if values[key] and values[key] ~= value and values[key] ~= list then
          values[key], list[#list + 1] = list, key -- different ones
        end
        values[key] = values[key] or value
      end
    end
  end
  return list
end

---The best row, and how many others its interval overlaps.
---@param rows seqrun.SweepRow[] sorted
---@return seqrun.SweepRow|nil best of those that are done
---@return integer alike
function results.best(rows)
  local best, alike = nil, 0
  for _, row in ipairs(rows) do
    if row.state == "done" and row.mean then
      if not best then
        best = row
      elseif best.half and row.half and math.abs(row.mean - best.mean) <= best.half + row.half then
        alike = alike + 1
      end
    end
  end
  return best, alike
end

return results

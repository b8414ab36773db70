-- results.lua - what the runs of a sweep reached: mean over the seeds of each trial, its interval, the best.

local failure = require("seqrun.base.failure")
local history = require("seqrun.history.runs")
local overview = require("seqrun.history.overview")

local results = {}

---Two-sided 95 % points of Student's t by degrees of freedom; beyond them that of the normal distribution.
local T95 = {
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
  2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

---Mean, standard deviation (n - 1), and half of the 95 % interval of the mean; of one value no interval.
---@param values number[]
---@return { mean: number, deviation?: number, half?: number }
function results.spread(values)
  local n, sum, squares = #values, 0.0, 0.0
  for _, value in ipairs(values) do sum = sum + value end
  local mean = sum / n
  for _, value in ipairs(values) do squares = squares + (value - mean) ^ 2 end
  if n < 2 then return { mean = mean } end
  local deviation = math.sqrt(squares / (n - 1))
  return { mean = mean, deviation = deviation, half = (T95[n - 1] or 1.96) * deviation / math.sqrt(n) }
end

---The last evaluation of a run, and its step; nil if there is none.
---@param folder string
---@return table|nil line
---@return seqrun.History|nil
function results.last(folder)
  if not history.is_run(folder) then return nil end
  local past = history.open(folder, 1 << 20)
  return past and past.evals[#past.evals], past
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
  local name = path and path:match("[^/]*$"):lower():gsub("%.gz$", ""):gsub("%.%w+$", "")
  if name and (name:find("^test%f[^%w]") or name:find("[_%-%.]test$") or name == "test") then
    failure.raise("config", "sweep: data.dev=%s is a test set by its name: what is chosen on it says nothing about new "
      .. "data; give a development set, and score the chosen run once with seqrun eval", path)
  end
end

---@class seqrun.SweepRow
---@field trial seqrun.SweepTrial
---@field values number[] of the seeds that have one
---@field step integer of the evaluations
---@field seconds number of training, all seeds
---@field state "done"|"dropped"|"open"|"failed"
---@field reason? string
---@field mean? number
---@field deviation? number
---@field half? number

---@param a seqrun.SweepRow
---@param b seqrun.SweepRow
---@param smaller boolean
local function before(a, b, smaller)
  if (a.mean ~= nil) ~= (b.mean ~= nil) then return a.mean ~= nil end
  if a.step ~= b.step then return a.step > b.step end
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

---The best row, and how many others its interval does not tell it apart from.
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

-- seeds.lua - one run for each seed or fold, one after the other, and the mean and deviation of their last evaluations.
--
-- Each run is a process of its own in OUT/seed-N or OUT/fold-N; those that have ended are not repeated.

local again = require("seqrun.run.again")
local failure = require("seqrun.base.failure")
local interval = require("seqrun.base.interval")
local json = require("seqrun.core.json")
local json_file = require("seqrun.base.json_file")
local metrics = require("seqrun.history.metrics")
local overview = require("seqrun.history.overview")
local sys = require("seqrun.core.sys")

local seeds = {}

---The numbers of the last evaluation in a directory; of folds their means.
local function last_evaluation(folder)
  local last, folds = {}, failure.there(json_file.read(folder .. "/folds.json"))
  for name, one in pairs(folds and folds.metrics or {}) do last[name] = one.mean end
  if folds then return last end
  for _, line in ipairs(failure.must(metrics.read(folder))) do
    if line.type == "eval" then last = line end
  end
  return last
end

---Mean and standard deviation (n - 1) of a metric over lines.
local function spread(lines, name)
  local values = json.array()
  for i, line in ipairs(lines) do
    if type(line[name]) ~= "number" then return nil end
    values[i] = line[name]
  end
  local found = interval(values)
  return { mean = found.mean, deviation = found.deviation or 0.0, values = values }
end

---Whether a field counts something or depends on the clock, so that its deviation means nothing.
local function is_counter(name) return metrics.TOTALS[name] or metrics.CLOCK[name] or name == "masked" end

---Whether a head's accuracy is what the task calls its accuracy.
local function is_twice(lines, name)
  if name == "accuracy" or not name:find("_accuracy$") then return false end
  for _, line in ipairs(lines) do
    if line[name] ~= line.accuracy then return false end
  end
  return true
end

---The metrics that all evaluations have, with their spread.
---@param lines table[]
---@return table<string, { mean: number, deviation: number, values: number[] }>
function seeds.spreads(lines)
  local result = {}
  for name in pairs(lines[1] or {}) do
    if not is_counter(name) and not is_twice(lines, name) then result[name] = spread(lines, name) end
  end
  return result
end

---The names of metrics: what says most, other scores, losses.
---@param spreads table<string, table>
---@param best? string save.best of the config
---@return string[]
function seeds.order(spreads, best)
  local means, names = {}, {}
  for name, one in pairs(spreads) do means[name], names[#names + 1] = one.mean, name end
  if best and not means[best] and best:find("_accuracy$") then best = "accuracy" end -- of which it is another name
  local first = (overview.headline(means, best) or {}).name
  local function rank(name) return name == first and 0 or overview.smaller_is_better(name) and 2 or 1 end
  table.sort(names, function(a, b)
    if rank(a) ~= rank(b) then return rank(a) < rank(b) end
    return a < b
  end)
  return names
end

local function tell(list, spreads, plural, best)
  print(("%d %s: %s"):format(#list, plural, table.concat(list, ", ")))
  for _, name in ipairs(seeds.order(spreads, best)) do
    local s, values = spreads[name], {}
    for i, value in ipairs(s.values) do values[i] = ("%.4f"):format(value) end
    print(("  %-20s %.4f +- %.4f  (%s)"):format(name, s.mean, s.deviation, table.concat(values, ", ")))
  end
end

---The settings of one of several runs.
local WORDS = {
  seed = function(n) return { "seeds=none", "seed=" .. n } end,
  fold = function(n) return { "data.fold=" .. n } end,
}

---Runs the recipe once for each seed or fold, reports, and ends the program.
---@param request table of run.options
---@param folder string
---@param list integer[]
---@param kind "seed"|"fold"
---@param best? string save.best of the config
function seeds.run(request, folder, list, kind, best)
  local lines, plural = {}, kind .. "s"
  for i, number in ipairs(list) do
    local own = ("%s/%s-%d"):format(folder, kind, number)
    again.must(("the run of %s %d"):format(kind, number), request, own, {}, WORDS[kind](number))
    lines[i] = last_evaluation(own)
  end
  local spreads = seeds.spreads(lines)
  local report = json.encode { [plural] = json.array(list), metrics = spreads }
  failure.must(sys.write_file(("%s/%s.json"):format(folder, plural), report .. "\n"))
  tell(list, spreads, plural, best)
  failure.raise("ok", "")
end

return seeds

-- seeds.lua - one run for each seed, one after the other, and the mean and deviation of their last evaluations.
--
-- Each run is a process of its own in OUT/seed-N; those that have ended are not repeated.

local again = require("seqrun.run.again")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local metrics = require("seqrun.history.metrics")
local sys = require("seqrun.core.sys")

local seeds = {}

---The numbers of the last evaluation in a directory.
local function last_evaluation(folder)
  local last = {}
  for _, line in ipairs(failure.must(metrics.read(folder))) do
    if line.type == "eval" then last = line end
  end
  return last
end

---Mean and standard deviation (n - 1) of a metric over lines.
local function spread(lines, name)
  local values, sum = json.array(), 0
  for i, line in ipairs(lines) do
    if type(line[name]) ~= "number" then return nil end
    values[i], sum = line[name], sum + line[name]
  end
  local mean, squares = sum / #values, 0
  for _, value in ipairs(values) do squares = squares + (value - mean) ^ 2 end
  return { mean = mean, deviation = #values > 1 and math.sqrt(squares / (#values - 1)) or 0.0, values = values }
end

local HIDDEN = { step = true, seconds = true, type = true, masked = true }

---The metrics that all evaluations have, with their spread.
---@param lines table[]
---@return table<string, { mean: number, deviation: number, values: number[] }>
function seeds.spreads(lines)
  local result = {}
  for name in pairs(lines[1] or {}) do
    if not HIDDEN[name] then result[name] = spread(lines, name) end
  end
  return result
end

local function tell(list, spreads)
  local names = {}
  for name in pairs(spreads) do names[#names + 1] = name end
  table.sort(names)
  print(("%d seeds: %s"):format(#list, table.concat(list, ", ")))
  for _, name in ipairs(names) do
    local s, values = spreads[name], {}
    for i, value in ipairs(s.values) do values[i] = ("%.4f"):format(value) end
    print(("  %-20s %.4f +- %.4f  (%s)"):format(name, s.mean, s.deviation, table.concat(values, ", ")))
  end
end

---Runs the recipe once for each seed, reports, and ends the program.
---@param request table of run.options
---@param folder string
---@param list integer[]
function seeds.run(request, folder, list)
  local lines = {}
  for i, seed in ipairs(list) do
    local own = ("%s/seed-%d"):format(folder, seed)
    again.must("the run of seed " .. seed, request, own, {}, { "seeds=none", "seed=" .. seed })
    lines[i] = last_evaluation(own)
  end
  local spreads = seeds.spreads(lines)
  local report = json.encode { seeds = json.array(list), metrics = spreads }
  failure.must(sys.write_file(folder .. "/seeds.json", report .. "\n"))
  tell(list, spreads)
  failure.raise("ok", "")
end

return seeds

-- comparison.lua - what several runs have in common and what not: configs, machines, scores, curves.

local baselines = require("seqrun.history.baselines")
local history = require("seqrun.history.runs")
local overview = require("seqrun.history.overview")
local sorted = require("seqrun.base.sorted")
local totals = require("seqrun.history.metrics").TOTALS

local comparison = {}

---@class seqrun.RunComparison
---@field pasts seqrun.History[]
---@field runs seqrun.RunOverview[] with `metrics`, the numbers of the last evaluation, `raw_tokens`, `effective_tokens`
---  and `beside_first`, the headline of the first run less that of its evaluations at equal counters
---@field names string[] short and different
---@field differences { key: string, values: (string|nil)[], only_some: boolean }[] only_some: those that have it agree
---@field notes string[] why figures may not be comparable

---Keys that decide what is held out and how it is masked.
local HELD = {
  "seed", "data.file", "data.train", "data.dev", "data.held", "data.max_len", "data.short_seq_prob", "data.nsp",
  "mask.prob", "mask.max", "mask.whole_word",
}

---Those of them that matter where one file is held out, data.dev.
local FIXED = { ["data.dev"] = true, ["data.max_len"] = true }

---Keys that decide what the scores of a task are computed on.
---@param fixed boolean data.dev is the same file for all
---@return table<string, boolean>
function comparison.deciding(fixed)
  local keys = {}
  for _, key in ipairs(HELD) do
    keys[key] = not fixed and key ~= "seed" or key == "data.dev" or key:find("^mask") ~= nil
  end
  return keys
end

---Of the environment.
local MACHINE = { "machine.cpu", "instructions", "build.version", "build.git", "ranks" }

---Paths without the directories that all have in common.
---@param pasts { dir: string }[] such as runs
---@return string[]
function comparison.short_names(pasts)
  local common = pasts[1].dir:match("^(.*/)") or ""
  for _, past in ipairs(pasts) do
    while past.dir:sub(1, #common) ~= common do common = common:gsub("[^/]*/$", "") end
  end
  local names = {}
  for i, past in ipairs(pasts) do names[i] = past.dir:sub(#common + 1) end
  return names
end

---No value: a key that is missing, none, or an empty list.
local EMPTY = { none = true, ["[]"] = true }

---Adds a key whose values are not all the same.
local function add_difference(list, key, values, count)
  local seen, kinds, missing = {}, 0, false
  for i = 1, count do
    local value = values[i]
    if value == nil then
      missing = true
    else
      value = EMPTY[value] and "none" or value
      if not seen[value] then seen[value], kinds = true, kinds + 1 end
    end
  end
  if kinds == 1 and seen.none or kinds == 1 and not missing or kinds == 0 then return end
  list[#list + 1] = { key = key, values = values, only_some = kinds == 1 }
end

---The union of lists of names in some objects, in their order.
---@param objects table[]
---@param field string of each, a list
---@return string[]
function comparison.union(objects, field)
  local seen, names = {}, {}
  for _, object in ipairs(objects) do
    for _, name in ipairs(object[field]) do
      if not seen[name] then seen[name], names[#names + 1] = true, name end
    end
  end
  return names
end

local function differences_of(pasts)
  local list = {}
  local function add(field, key)
    local values = {}
    for i, past in ipairs(pasts) do values[i] = history.value(past[field] or {}, key) end
    add_difference(list, key, values, #pasts)
  end
  for _, key in ipairs(comparison.union(pasts, "keys")) do add("config", key) end
  for _, key in ipairs(MACHINE) do add("environment", key) end
  return list
end

---Whether the unigram model, which a run does not change, has another loss in another run.
local function unigrams_differ(pasts)
  local least, most = math.huge, -math.huge
  for _, past in ipairs(pasts) do
    local loss = (past.evals[#past.evals] or {}).unigram_loss
    if type(loss) == "number" then least, most = math.min(least, loss), math.max(most, loss) end
  end
  return most - least > 1e-6
end

---Whether all runs are evaluated on files that their configs name.
local function have_files(pasts)
  for _, past in ipairs(pasts) do
    if not history.value(past.config, "data.dev") then return false end
  end
  return true
end

---Why scores may not be comparable.
local function notes_of(differences, pasts)
  local different, notes, found, files = {}, {}, {}, have_files(pasts)
  for _, difference in ipairs(differences) do different[difference.key] = true end
  for _, key in ipairs(HELD) do
    if different[key] and (FIXED[key] or not files) then found[#found + 1] = key end
  end
  if #found > 0 then
    local some = table.concat(found, ", ", 1, math.min(#found, 4)) .. (#found > 4 and ", ..." or "")
    notes[1] = ("scores are not of the same held-out examples or masks: %s %s"):format(some,
      #found == 1 and "differs" or "differ")
  elseif unigrams_differ(pasts) then
    notes[1] = "scores are not of the same held-out examples or masks: the unigram model's losses differ, "
      .. "so the data set has changed between the runs"
  end
  if different["machine.cpu"] then notes[#notes + 1] = "speeds are not of the same machine" end
  return notes
end

local function metrics_of(past)
  local metrics = {}
  for name, value in pairs(past.evals[#past.evals] or {}) do
    if type(value) == "number" and not totals[name] and name ~= "masked" then metrics[name] = value end
  end
  return metrics
end

---@param pasts seqrun.History[] at least one
---@return seqrun.RunComparison
function comparison.of(pasts)
  local runs = {}
  for i, past in ipairs(pasts) do
    runs[i] = overview.of(past)
    runs[i].metrics = metrics_of(past)
    local last = past.train[#past.train] or {}
    runs[i].raw_tokens, runs[i].effective_tokens = last.raw_tokens, last.effective_tokens
  end
  for i = 2, runs[1].held and #runs or 0 do
    runs[i].beside_first = baselines.beside(pasts[i], pasts[1], runs[1].held.name)
  end
  local differences = differences_of(pasts)
  return { pasts = pasts, runs = runs, names = comparison.short_names(pasts), differences = differences,
    notes = notes_of(differences, pasts) }
end

---Names of the numbers that the lines of runs have, each once.
---@param pasts seqrun.History[]
---@param kinds ("train"|"evals")[]
---@return string[]
function comparison.keys(pasts, kinds)
  local names = {}
  local function add(row)
    for name, value in pairs(row) do
      if type(value) == "number" then names[name] = true end
    end
  end
  for _, past in ipairs(pasts) do
    for _, kind in ipairs(kinds) do
      for _, row in ipairs(past[kind]) do add(row) end
    end
  end
  return sorted(names)
end

---A metric over steps, seconds or tokens, one curve for each run that has it.
---@param self seqrun.RunComparison
---@param key string
---@param by string a key of the same lines
---@param kind "train"|"evals"
---@return seqrun.Curve[]
function comparison.curves(self, key, by, kind)
  local list = {}
  for i, past in ipairs(self.pasts) do
    local xs, ys = {}, {}
    for _, row in ipairs(past[kind]) do
      if type(row[key]) == "number" and type(row[by]) == "number" then
        xs[#xs + 1], ys[#ys + 1] = row[by], row[key]
      end
    end
    if #xs > 0 then list[#list + 1] = { name = self.names[i], xs = xs, ys = ys } end
  end
  return list
end

return comparison

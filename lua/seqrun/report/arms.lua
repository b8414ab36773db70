-- arms.lua - runs that differ in their seeds alone are one arm of an experiment: means, and paired differences.

local checks = require("seqrun.run.repro.checks")
local history = require("seqrun.history.runs")
local interval = require("seqrun.base.interval")

local arms = {}

---The keys of the configs whose values differ: { key, values of all runs }.
---@param runs { history: seqrun.History }[]
---@return { key: string, values: string[] }[]
function arms.differences(runs)
  local list, seen = {}, {}
  for _, run in ipairs(runs) do
    for _, key in ipairs(run.history.keys) do
      local values, differ = {}, false
      for i, other in ipairs(runs) do
        values[i] = history.value(other.history.config, key) or "-"
        differ = differ or values[i] ~= values[1]
      end
      if differ and not seen[key] then list[#list + 1] = { key = key, values = values } end
      seen[key] = true
    end
  end
  return list
end

---@class seqrun.report.Arm
---@field name string what it sets; "" if all runs are one arm
---@field runs integer[] one for each seed
---@field seeds table<string, integer> the run of each seed

---The arms of some runs, those of a sweep for example: of each a mean has a meaning.
---@param runs { history: seqrun.History }[]
---@return seqrun.report.Arm[] # [] if no arm has two seeds
---@return integer[] of # the arm of each run
function arms.of(runs)
  local groups, places, of, any = {}, {}, {}, false
  local differences = #runs > 1 and arms.differences(runs) or {}
  for i, run in ipairs(runs) do
    local parts = {}
    for _, one in ipairs(differences) do
      local same = one.key == "seed" or one.key == "seeds" or checks.is_harmless(one.key)
      if not same then parts[#parts + 1] = one.key .. "=" .. one.values[i] end
    end
    local name = table.concat(parts, " ")
    if not places[name] then
      groups[#groups + 1] = { name = name, runs = {}, seeds = {} }
      places[name] = #groups
    end
    of[i] = places[name]
    local group, seed = groups[of[i]], history.value(run.history.config, "seed") or "none"
    if not group.seeds[seed] then -- a run again counts once
      table.insert(group.runs, i)
      group.seeds[seed] = i
    end
    any = any or #group.runs > 1
  end
  if not any then return {}, {} end
  return groups, of
end

---The mean of a score over the seeds of each arm, and by how much it differs from that of the first arm: the mean over
---the seeds that both have, whose data and masks are the same.
---@param groups seqrun.report.Arm[]
---@param score fun(run: integer): number?
---@return { mean?: number, half?: number, count: integer, less?: { mean: number, half?: number, count: integer } }[]
function arms.scores(groups, score)
  local list = {}
  for g, group in ipairs(groups) do
    local values, differences = {}, {}
    for seed, run in pairs(group.seeds) do
      local value, other = score(run), g > 1 and groups[1].seeds[seed]
      local first = other and score(other)
      if value then values[#values + 1] = value end
      if value and first then differences[#differences + 1] = value - first end
    end
    table.sort(values) -- pairs has no order: sums have
    table.sort(differences)
    list[g] = values[1] and interval(values) or {}
    list[g].count = #values
    if differences[1] then
      list[g].less = interval(differences)
      list[g].less.count = #differences
    end
  end
  return list
end

---"-0.0123 ± 0.0040", with the half of the 95 % interval; "-" of nothing.
---@param found { mean?: number, half?: number, count: integer }|nil
---@param signed? boolean
---@return string
function arms.text(found, signed)
  if not found or not found.mean then return "-" end
  return (signed and "%+.4f%s" or "%.4f%s"):format(found.mean, found.half and (" ± %.4f"):format(found.half) or "")
end

return arms

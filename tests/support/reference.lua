-- reference.lua - which examples DeepSpeed's data sampler unlocks, on index tables in memory: for comparisons.
--
-- Rows are those of an index: { value = metric value, ids = uids in stored order }, by ascending value.
-- seqrun's own sampler (seqrun.curriculum) unlocks the same sets as long as difficulties do not fall.

local check = require("seqrun.base.check")

local reference = {}

---@class tests.IndexRow
---@field value number
---@field ids integer[]

local function by_value(rows, from, to)
  local picked = {}
  for _, row in ipairs(rows) do
    if row.value > from and row.value <= to then table.move(row.ids, 1, #row.ids, #picked + 1, picked) end
  end
  return picked
end

---Percentile units are max(count // max); the last one takes the remainder.
local function by_percentile(rows, from, to, max)
  local all = {}
  for _, row in ipairs(rows) do table.move(row.ids, 1, #row.ids, #all + 1, all) end
  local each = #all // max
  local first, last = math.floor(each * from), to == max and #all or math.floor(each * to)
  if last <= first then return {} end
  return table.move(all, first + 1, math.min(last, #all), 1, {})
end

---The uids between two difficulties, in stored order: values in (from, to], or percentiles in [from, to).
---@param rows tests.IndexRow[]
---@param kind "value"|"percentile"
---@param from number -math.huge for the first value, 0 for the first percentile
---@param to number
---@param max? integer of percentiles: the maximum difficulty
---@return integer[]
function reference.select(rows, kind, from, to, max)
  if kind == "value" then return by_value(rows, from, to) end
  if kind ~= "percentile" then check.fail("curriculum: kind is '%s'; choose value or percentile", kind) end
  return by_percentile(rows, from, to, max)
end

---@class tests.ReferenceMetric
---@field name string
---@field kind? "value"|"percentile"
---@field rows? tests.IndexRow[]
---@field max? number maximum difficulty
---@field single? boolean a metric that selects nothing (single_cluster), such as a truncation length

---@class tests.ReferenceClusters
---@field metrics tests.ReferenceMetric[]
---@field count integer
---@field clusters integer[][]
local Clusters = {}
Clusters.__index = Clusters

---The clusters of examples that DeepSpeed's curriculum unlocks as the difficulties of metrics rise, for comparison.
---@param count integer examples of the data set
---@param metrics tests.ReferenceMetric[]
---@return tests.ReferenceClusters
function reference.clusters(count, metrics)
  return setmetatable({ count = count, metrics = metrics, clusters = {}, current = {}, selecting = {} }, Clusters)
end

local function everything(count)
  local all = {}
  for uid = 0, count - 1 do all[#all + 1] = uid end
  return all
end

local function start_of(metric) return metric.kind == "percentile" and 0 or -math.huge end

---What several metrics have all unlocked, without what is in a cluster already.
local function intersection(self, selecting)
  local hits, found = {}, {}
  for _, metric in ipairs(selecting) do
    local to = self.current[metric.name]
    for _, uid in ipairs(reference.select(metric.rows, metric.kind, start_of(metric), to, metric.max)) do
      hits[uid] = (hits[uid] or 0) + 1
    end
  end
  for _, cluster in ipairs(self.clusters) do
    for _, uid in ipairs(cluster) do hits[uid] = nil end
  end
  for uid, n in pairs(hits) do
    if n == #selecting then found[#found + 1] = uid end
  end
  table.sort(found)
  return found
end

local function new_cluster(self, before)
  local selecting = {}
  for _, metric in ipairs(self.metrics) do
    if not metric.single then selecting[#selecting + 1] = metric end
  end
  if #selecting > 1 then return intersection(self, selecting) end
  if #selecting == 0 then return #self.clusters == 0 and everything(self.count) or {} end
  local metric = selecting[1]
  local from, to = before[metric.name] or start_of(metric), self.current[metric.name]
  return reference.select(metric.rows, metric.kind, from, to, metric.max)
end

---One update: a new cluster if any difficulty has changed and it is not empty.
---@param difficulties table<string, number> of every metric
---@return integer[]? cluster
function Clusters:advance(difficulties)
  local before, changed = self.current, false
  self.current = {}
  for _, metric in ipairs(self.metrics) do
    self.current[metric.name] = difficulties[metric.name]
    changed = changed or before[metric.name] ~= difficulties[metric.name]
  end
  local cluster = changed and new_cluster(self, before) or {}
  if #cluster == 0 then return nil end
  self.clusters[#self.clusters + 1] = cluster
  return cluster
end

---Every uid that is in a cluster, once, ascending.
---@return integer[]
function Clusters:unlocked()
  local seen, all = {}, {}
  for _, cluster in ipairs(self.clusters) do
    for _, uid in ipairs(cluster) do
      if not seen[uid] then
        seen[uid] = true
        all[#all + 1] = uid
      end
    end
  end
  table.sort(all)
  return all
end

return reference

-- plans.lua - the packing plans of a run, from its newest checkpoint: figures, how deep packs are, some of the packs.

local history = require("seqrun.history.runs")
local json = require("seqrun.core.json")
local pack = require("seqrun.pack")
local sys = require("seqrun.core.sys")

local plans = {}

---@class seqrun.report.Plan
---@field name? string of the loader, where there are several
---@field plan seqrun.Plan
---@field lengths integer[] sequences of each length
---@field depths table<integer, integer> packs by their number of sequences
---@field tokens table<integer, integer> packs by their number of tokens
---@field samples integer[][] the lengths in some packs, spread evenly over the plan

---Packs that are drawn.
local SAMPLES = 24

---Every n-th pack of the patterns, the fullest first.
local function samples_of(patterns, packs)
  local list, before, wanted = {}, 0, {}
  local count = math.min(SAMPLES, packs)
  for i = 1, count do wanted[i] = math.floor((i - 0.5) * packs / count) + 1 end
  local at = 1
  for _, pattern in ipairs(patterns) do
    before = before + pattern.count
    while at <= count and wanted[at] <= before do list[at], at = table.move(pattern, 1, #pattern, 1, {}), at + 1 end
  end
  return list
end

local function examine(plan, name)
  local self = { name = name, plan = plan, lengths = plan:hist():counts(), depths = {}, tokens = {} }
  local patterns = plan:patterns()
  for _, pattern in ipairs(patterns) do
    local tokens = 0
    for _, length in ipairs(pattern) do tokens = tokens + length end
    self.depths[#pattern] = (self.depths[#pattern] or 0) + pattern.count
    self.tokens[tokens] = (self.tokens[tokens] or 0) + pattern.count
  end
  self.samples = samples_of(patterns, plan.packs)
  return self
end

---The plans of a run; none before its first checkpoint.
---@param found seqrun.History
---@return seqrun.report.Plan[]
---@return string? problem why some of them are left out
function plans.of(found)
  local list, newest = {}, history.newest(found)
  if not newest then return list end
  local files, problem = sys.list(newest.path .. "/trainer")
  for _, file in ipairs(files or {}) do
    local name, plan, why = file:match("^plan%-(.+)%.txt$"), nil, nil
    if name or file == "plan.txt" then plan, why = pack.load(newest.path .. "/trainer/" .. file) end
    if plan and plan.packs > 0 then list[#list + 1] = examine(plan, name) end
    problem = problem or not plan and why or nil
  end
  return list, problem
end

---Counts by number as lists of { number, count }.
local function pairs_of(counts)
  local list = json.array()
  for number, count in pairs(counts) do list[#list + 1] = json.array { number, count } end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

---For JSON.
---@param list seqrun.report.Plan[]
---@return table[]
function plans.plain(list)
  local out = json.array()
  for i, one in ipairs(list) do
    local facts = one.plan:json()
    facts.name, facts.depths, facts.pack_tokens = one.name or json.null, pairs_of(one.depths), pairs_of(one.tokens)
    out[i] = facts
  end
  return out
end

return plans

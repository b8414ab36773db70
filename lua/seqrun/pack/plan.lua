-- plan.lua - a plan: its figures, patterns, drawings and file.

local check = require("seqrun.base.check")
local core = require("seqrun.core.pack")
local show = require("seqrun.pack.show")

local plans = {}

---@class seqrun.Plan
---@field solver string
---@field sequences integer
---@field tokens integer
---@field max_len integer
---@field max_seqs? integer nil when any number is allowed
---@field packs integer
---@field strategies integer different patterns
---@field efficiency number tokens / (packs * max_len)
---@field factor number sequences / packs
---@field padding_tokens integer
---@field lower_bound integer no packing needs fewer packs
---@field bound_kind "tokens"|"count"|"l2"|"lp"
---@field gap_packs integer
---@field deepest integer most sequences of any pack
---@field unfilled integer slots that rounding left empty
---@field milliseconds number
---@field reason? string why this depth, when max_seqs was "auto"
---@field core seqrun.core.pack.pack_plan
local Plan = {}
Plan.__index = Plan
require("seqrun.base.strict").seal(Plan, "the plan", {
  "solver", "sequences", "tokens", "max_len", "max_seqs", "packs", "strategies", "efficiency", "factor",
  "padding_tokens", "lower_bound", "bound_kind", "gap_packs", "deepest", "unfilled", "milliseconds", "reason", "core",
})
Plan.__name = "seqrun.Plan"

---The plan of a core plan, with more figures.
---@param plan seqrun.core.pack.pack_plan
---@param extra? table
---@return seqrun.Plan
function plans.wrap(plan, extra)
  local self = plan:info()
  for key, value in pairs(extra or {}) do self[key] = value end
  self.core = plan
  return setmetatable(self, Plan)
end

---The same of what the core returned, which may be nil, message, code.
local function wrapped(plan, message, code)
  if not plan then return nil, message, code end
  return plans.wrap(plan)
end

function Plan:__tostring() return show.plan(self) end

---All patterns, { count = packs, length, length, ... } each, the most frequent first.
---@return table[]
function Plan:patterns()
  local list = {}
  for i = 1, self.strategies do list[i] = self.core:pattern(i) end
  local place = {}
  for i, pattern in ipairs(list) do place[pattern] = i end
  table.sort(list, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return place[a] < place[b]
  end)
  return list
end

---The histogram that the plan packs.
---@return seqrun.core.pack.pack_histogram
function Plan:hist() return self.core:histogram() end

---A drawing of pack i, from 1, in the order of the plan; with instances, of pack i of an epoch.
---@param i? integer
---@param packing? seqrun.core.pack.packing see Plan:packing()
---@param epoch? integer
---@return string
function Plan:view(i, packing, epoch)
  i = i or 1
  if math.type(i) ~= "integer" or i < 1 or i > self.packs then
    check.fail("view: pack %s is out of range; the plan has %d, numbered from 1", tostring(i), self.packs)
  end
  if packing then
    local uids, pattern = packing:at(epoch or 0, i)
    return show.pack(self, i, self.core:pattern(pattern), uids)
  end
  local before = 0
  for p = 1, self.strategies do
    local pattern = self.core:pattern(p)
    before = before + pattern.count
    if i <= before then return show.pack(self, i, pattern) end
  end
end

---Binds the plan to the lengths it was made from: `packing:at(epoch, i)` is any pack of any epoch.  A plan that
---split sequences requires the lengths of the pieces: see pack.split().
---@param lengths integer[]
---@param seed? integer
---@return seqrun.core.pack.packing? packing
---@return string? message
---@return string? code
function Plan:packing(lengths, seed) return core.packing(self.core, lengths, seed) end

---A certificate of the lower bound for these lengths and this depth.
---@return seqrun.core.pack.Certificate? certificate
---@return string? message
---@return string? code
function Plan:prove() return core.prove(self:hist(), { max_seqs = self.max_seqs }) end

---The plan file as a string, for loaders.
---@return string
function Plan:text() return self.core:text() end

---@param path string
---@return true? done
---@return string? message
---@return string? code
function Plan:save(path) return self.core:save(path) end

---The figures for a JSON object; null means no limit on depth.
---@return table
function Plan:json()
  local object = self.core:info()
  object.max_seqs = self.max_seqs or require("seqrun.core.json").null
  object.milliseconds, object.reason = self.milliseconds, self.reason
  return object
end

---Reads a plan file.
---@param path string
---@return seqrun.Plan? plan
---@return string? message
---@return string? code
function plans.load(path) return wrapped(core.load(path)) end

---Reads a plan from its text, such as a loader's plan_text().
---@param text string
---@param name? string for messages
---@return seqrun.Plan? plan
---@return string? message
---@return string? code
function plans.parse(text, name) return wrapped(core.parse(text, name)) end

return plans

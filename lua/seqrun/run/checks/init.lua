-- checks - what is looked at before a run starts: the memory it needs, where it ends, settings that look like mistakes.

local amounts = require("seqrun.run.loaders.amounts")
local failure = require("seqrun.base.failure")
local goals = require("seqrun.run.checks.goals")
local held = require("seqrun.run.checks.held")
local memory = require("seqrun.run.checks.memory")
local sanity = require("seqrun.run.checks.sanity")
local text = require("seqrun.base.format")
local training = require("seqrun.tensor.training")

local SETTLED = 5 -- steps until the speed is known

---@class seqrun.Checks
---@field config table
---@field schema table of the config
---@field ranks seqrun.RunRanks
---@field screen seqrun.Screen
---@field schedule_total? integer steps of the schedule, where the recipe gives them
---@field expects seqrun.Training refuses a model that does not fit, while the run is open
---@field parts? seqrun.MemoryParts
---@field goals? table<string, number> totals that end the run, by counter
---@field timed integer steps that were timed
local Checks = {}
Checks.__index = Checks

---@param t { config: table, schema: table, ranks: seqrun.RunRanks, screen: seqrun.Screen, dry?: boolean } config:
---  without `auto`
---@return seqrun.Checks
local function new(t)
  local expects = memory.expect { config = t.config, ranks = t.ranks, dry = t.dry, without_id = t.without_id }
  return setmetatable({
    config = t.config, schema = t.schema, ranks = t.ranks, screen = t.screen, expects = expects, timed = 0,
  }, Checks)
end

---The schedules of the run, and those that decide what the loader draws.
local function schedules_of(t)
  local list, order = {}, t.loader.options and t.loader.options.order
  for _, schedule in pairs(t.schedules or {}) do list[schedule] = schedule end
  if type(order) ~= "table" then order = {} end
  for _, key in ipairs(order.schedules or {}) do
    if order[key] then list[order[key]] = order[key] end
  end
  for _, metric in pairs(order.metrics or {}) do list[metric.schedule] = metric.schedule end
  return list
end

---Warns of settings that are probably mistakes.
local function warn(self, t, last, total)
  local cfg, loader, list = self.config, t.loader:summary(), sanity.rates(self.config)
  list[#list + 1] = sanity.heads(t)
  list[#list + 1] = sanity.forgetting(t, cfg)
  list[#list + 1] = held.warning { config = cfg, loader = t.loader, held = t.held }
  list[#list + 1] = sanity.simt(t.model.params:count(), loader)
  list[#list + 1] = sanity.epochs(amounts.epochs(cfg.batch, loader, last) or 0, sanity.length_key(cfg, self.schema))
  list[#list + 1] = sanity.rows(cfg.batch, t.loader)
  list[#list + 1] = sanity.unknown(t.loader.data)
  if self.ranks.leads then list[#list + 1] = sanity.text(t.loader) end
  local unit = loader.schedule_steps -- of an update: `total` is of updates, schedules count steps
  local ends = { step = total < text.UNLIMITED and (total + 1) * unit or nil }
  for name, value in pairs(self.goals) do ends[name] = value end
  list[#list + 1] = sanity.average(cfg.optimizer, ends[cfg.rate.by or "step"])
  table.move(sanity.schedules(schedules_of(t), ends), 1, 100, #list + 1, list)
  for _, warning in ipairs(list) do self.screen:warn("%s", warning) end
end

---Fails if the run cannot work with these parts, and warns of what is unusual.
---@param t { model: table, optimizer: table, loader: seqrun.Loader, loaders: table<string, seqrun.Loader>,
---  held?: table, schedules?: table<string, seqrun.ValueSchedule>, baselines: string[], total?: integer,
---  max_steps?: integer, counted: boolean, resumes: boolean } total: steps of the schedule; counted: the data sets have
---  counted words
---@return integer total updates of the run
---@return integer last the one at which this process stops
function Checks:start(t)
  self.parts = { model = t.model, optimizer = t.optimizer, loader = t.loader, config = self.config, ranks = self.ranks }
  memory.check(self.parts)
  local problem = goals.no_words(self.config, t.counted) or not t.resumes and sanity.one_label(t.loader)
  if problem then failure.raise("config", "%s", problem) end
  local total = goals.updates(self.config, t.loader:summary(), t.total)
  self.schedule_total = t.total
  local last = math.min(total, t.max_steps or math.huge)
  self.goals = goals.of(self.config)
  sanity.check_metrics { config = self.config, model = t.model, held = t.held, baselines = t.baselines }
  warn(self, t, last, total)
  return total, last
end

---Updates until the schedule has ended, by its steps so far; nil where the number of updates is known beforehand.
---@param at number
---@return integer|nil
function Checks:updates_left(at)
  return goals.updates_left(self.config, self.parts.loader:summary(), self.schedule_total, at)
end

---The counter that has reached its total; nil while none has.
---@param totals seqrun.Counters
---@return string|nil
function Checks:reached(totals) return goals.reached(self.goals, totals) end

---"until effective_tokens reaches 1.20M"; nil if only steps end the run.
---@return string|nil
function Checks:goals_text() return goals.text(self.goals) end

---What the ranks keep in memory; all of them call it.
---@return string
function Checks:memory_of_ranks() return memory.of_ranks(self.parts) end

---The memory of a dry run.
---@param rows? integer that were measured, if not a whole micro-batch
---@return string
function Checks:memory_text(rows) return memory.text(self.parts, rows) end

---Warns if the rest of the run takes very long.
---@param seconds number
function Checks:duration(seconds)
  local long = sanity.duration(seconds, sanity.length_key(self.config, self.schema))
  if long then self.screen:warn("%s", long) end
end

---Counts a step, and warns once, when the speed is known, if the run will take very long.
---@param step integer
---@param last integer
function Checks:watch_duration(step, last)
  self.timed = self.timed + 1
  if self.timed == SETTLED and last < text.UNLIMITED then self:duration(self.screen:estimate(last - step) or 0) end
end

---Warns once if the loop trains nothing or passes on no losses.
---@param norm number|nil of the gradient
---@param tallied boolean
function Checks:watch_loop(norm, tallied)
  if self.looped then return end
  self.looped = true
  if norm == 0 then self.screen:warn("the gradient is zero, so nothing is trained") end
  if tallied then return end
  self.screen:warn("the loop does not call run:tally(batch, losses), so the metrics have no losses")
end

---The run is closed; perhaps once more.
function Checks:close() training.forget(self.expects) end

return { new = new }

-- extras.lua - what the loop of a run does beside the model: schedules move, and what the config switches on takes part
-- (token dropping, the gate of experts, a teacher), without an `if` in the recipe.
--
-- A recipe that has made such a part itself, with sr.run.token_drop and the like, keeps it, and calls it itself.

local contracts = require("seqrun.run.checks.contracts")
local failure = require("seqrun.base.failure")
local parts = require("seqrun.tasks.shared.parts")

---@class seqrun.RunExtras
---@field by_name table<string, seqrun.ValueSchedule> all schedules, for metrics and checkpoints
---@field list table[] what is called before each update
---@field source table gives the losses, and may have begin(update) and finish(ranks)
---@field needs { before?: string, losses?: string } the key for which the loop must call run:before, run:losses
---@field update? seqrun.Update the last that run:before has got
local Extras = {}
Extras.__index = Extras

---A schedule that nothing else moves.
local function moving(schedule)
  return { before = function(_, update) schedule:advance(update.counters) end }
end

---What the config switches on in the encoder, unless the recipe has done so.
local function switch_on(self, cfg, given, steps)
  local model = given.model
  local encoder = type(model.encoder) == "table" and model.encoder or {}
  local function add(key, part, name)
    if not part then return end
    self.list[#self.list + 1], self.needs.before = part, key
    if name then self.by_name[name] = part.schedule end
  end
  if not encoder.token_drop then add("token_drop.keep", parts.token_drop(cfg, model, steps), "token_drop") end
  if not encoder.gate then add("gate.temperature", parts.gate(cfg, model, steps), "gate") end
  if encoder.teacher then return end
  local teacher = parts.teacher(cfg, model, given.corpus, steps)
  add("distill.from", teacher)
  if teacher then self.source, self.needs.losses = teacher, "distill.from" end
end

---@param cfg table
---@param given table parts of run:start
---@return seqrun.RunExtras
local function new(cfg, given)
  local self = setmetatable({ list = {}, needs = {}, by_name = {}, source = given.objective or given.model }, Extras)
  local schedules, steps = given.schedules or {}, given.total or cfg.steps or cfg.rate.total
  if schedules.by_name then -- of a task
    if not schedules.token_drop then schedules:drop(given.model, given.total) end
    self.list[1] = schedules
    if schedules.token_drop then self.needs.before = "token_drop.keep" end
  end
  for name, schedule in pairs(schedules.by_name or schedules) do
    self.by_name[name] = schedule
    local moves = not schedules.by_name and type(schedule) == "table" and schedule.advance
    if moves then self.list[#self.list + 1] = moving(schedule) end
  end
  switch_on(self, cfg, given, steps)
  return self
end

---@param update seqrun.Update
function Extras:before(update)
  self.update = update
  for _, part in ipairs(self.list) do part:before(update) end
  if self.source.begin then self.source:begin(update) end
end

---@param batch seqrun.Batch
---@return seqrun.Losses
function Extras:losses(batch)
  self.asked = true
  local losses = self.source:losses(batch)
  contracts.check_losses(losses, "run:losses", self.source)
  return losses
end

---The last micro-batch of an update has been computed.
---@param update seqrun.Update
---@param ranks seqrun.RunRanks
function Extras:ended(update, ranks)
  if self.update == update and self.source.finish then self.source:finish(ranks) end
end

---Fails where the loop of a recipe leaves out what the config asks for.
function Extras:check_loop()
  local key, call = not self.update and self.needs.before, "run:before(update)"
  if not key then key, call = not self.asked and self.needs.losses, "run:losses(batch)" end
  if not key then return end
  failure.raise("config", "%s: the loop of this recipe does not call %s, so the key would change nothing; add it, as "
    .. "recipes/pretrain.lua does", key, call)
end

return new

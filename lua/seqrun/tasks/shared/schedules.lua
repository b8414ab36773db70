-- schedules.lua - what follows schedules in a run: lengths, examples, kept tokens, masks and sizes of updates.
--
--     local schedules = new(cfg, 1000)
--     schedules:draw(options_of_the_loader, counters) ... run:start { schedules = schedules, ... }
--
-- run:start sets up token dropping, and run:before calls schedules:before(update).

local keys = require("seqrun.curriculum.keys")
local parts = require("seqrun.tasks.shared.parts")
local schedule = require("seqrun.schedule")

---@class seqrun.Schedules
---@field config table
---@field length? seqrun.ValueSchedule
---@field size? seqrun.ValueSchedule of the batch
---@field mask? seqrun.ValueSchedule looked up by workers
---@field decided_mask? seqrun.ValueSchedule of another counter: decided with the updates, a window at a time
---@field metrics table<string, table> for sr.curriculum
---@field token_drop? seqrun.TokenDropSchedule
---@field by_name table<string, seqrun.ValueSchedule> for run:start
local Schedules = {}
Schedules.__index = Schedules

---What changes during the run of a config; groups of keys that a task does not have change nothing.
---@param cfg table
---@param steps? integer of the run, of which a `total` of at most 1 is a fraction
---@return seqrun.Schedules
local function new(cfg, steps)
  local function read(group, name, kind) return schedule.read(group, { name = name, kind = kind, steps = steps }) end
  local self = setmetatable({
    config = cfg, steps = steps, metrics = {}, by_name = {},
    length = read(cfg.curriculum.length, "curriculum.length", "length"),
    size = read(cfg.batch.ramp, "batch.ramp", "count"), mask = read((cfg.mask or {}).rate, "mask.rate", "fraction"),
  }, Schedules)
  for _, name in ipairs(keys.metrics(cfg.curriculum)) do
    local metric = cfg.curriculum[name]
    self.metrics[name] = {
      metric = metric.file or keys.measured(cfg.curriculum, name), kind = metric.kind,
      max = metric.kind == "percentile" and metric.parts or nil,
      schedule = read(metric, "curriculum." .. name, keys.kind(metric)),
    }
  end
  if self.mask and not schedule.by_workers(self.mask) then
    self.decided_mask, self.mask = self.mask, nil
  end
  self.by_name["mask.rate"] = self.mask
  return self
end

---Whether updates are drawn by a curriculum; else they are those of every run.
local function draws(self)
  return self.length or self.size or self.decided_mask or self.config.batch.tokens or next(self.metrics) ~= nil
end

---The curriculum that decides the updates; nil if nothing about them changes.
---@param counters? fun(): table of the run, for schedules that depend on them
---@return seqrun.Curriculum?
function Schedules:curriculum(counters)
  if not draws(self) then return nil end
  local cfg, tokens = self.config, self.config.batch.tokens ~= nil
  local size = self.size or cfg.batch.tokens or cfg.batch.sequences
  return require("seqrun.curriculum") {
    sequences = not tokens and size or nil, tokens = tokens and size or nil, length = self.length,
    mask = self.decided_mask, metrics = self.metrics, order = cfg.curriculum.order, cut = cfg.curriculum.cut,
    window = cfg.curriculum.window, examples = cfg.curriculum.examples, counters = counters,
  }
end

---Lets the curriculum, if there is one, decide the updates of a loader.
---@param options table for sr.data.loader
---@param counters? fun(): table of the run
function Schedules:draw(options, counters)
  options.order = self:curriculum(counters)
  if options.order then options.by, options.sequences, options.adjust, options.plan = nil, nil, nil, nil end
end

---Sets up token dropping on a model.
---@param bert seqrun.Bert
---@param steps? integer of the run, where they were not known before
---@return seqrun.Schedules
function Schedules:drop(bert, steps)
  self.token_drop = parts.token_drop(self.config, bert, self.steps or steps)
  self.by_name.token_drop = self.token_drop and self.token_drop.schedule
  return self
end

---What changes in the model and in what metrics report, before the first batch of an update.
---@param update seqrun.Update
function Schedules:before(update)
  local length = update.window and update.window.max_len
  if self.mask then self.mask:advance(update.counters) end
  if self.token_drop then self.token_drop:before(update, length and length > 0 and length or nil) end
end

---The rate for an update of this size: see the key batch.scale.
---@param rate number
---@param update seqrun.Update
---@return number
function Schedules:scaled(rate, update)
  local how, part = self.config.batch.scale, update.sequences / self.config.batch.sequences
  if how == "none" then return rate end
  return rate * (how == "sqrt" and math.sqrt(part) or part)
end

---All schedules as text, each with a picture.
---@return string
function Schedules:explain()
  local texts = {}
  for _, key in ipairs { "length", "size", "mask", "decided_mask" } do
    if self[key] then texts[#texts + 1] = schedule.explain(self[key]) end
  end
  for _, name in ipairs(keys.metrics(self.config.curriculum)) do
    texts[#texts + 1] = schedule.explain(self.metrics[name].schedule)
  end
  return table.concat(texts, "\n\n")
end

return new

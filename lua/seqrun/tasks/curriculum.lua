-- curriculum.lua - pretraining in which lengths, examples, kept tokens, masks and batches follow schedules.
--
--     local course = task.course(cfg)
--     loader(task.train_options(cfg, corpus, course)) ... course:drop(bert)
--     for step, update in run:steps(train) do
--       course:before(update)
--       ... optimizer:step { rate = course:scaled(rate(update.counters), update) }

local c = require("seqrun.config")
local keys = require("seqrun.tasks.shared.efficiency_keys")
local pretraining = require("seqrun.tasks.pretraining")
local schedule = require("seqrun.schedule")

local curriculum = setmetatable({}, { __index = pretraining })

curriculum.keys = c.merge(c.map(pretraining.keys), c.map(keys.keys)).fields
curriculum.rules = table.move(keys.rules, 1, #keys.rules, #pretraining.rules + 1,
  table.move(pretraining.rules, 1, #pretraining.rules, 1, {}))

---@class seqrun.Course
---@field config table
---@field length? seqrun.ValueSchedule
---@field size? seqrun.ValueSchedule of the batch
---@field mask? seqrun.ValueSchedule looked up by workers
---@field decided_mask? seqrun.ValueSchedule of another counter: decided with the updates, a window at a time
---@field metrics table<string, table> for sr.curriculum
---@field token_drop? seqrun.TokenDropSchedule
---@field schedules table<string, seqrun.ValueSchedule> for run:start
local Course = {}
Course.__index = Course

---What changes during the run of a config.
---@param cfg table
---@return seqrun.Course
function curriculum.course(cfg)
  local steps = cfg.steps or cfg.rate.by == "step" and cfg.rate.total or nil
  local function read(group, name, kind) return schedule.read(group, { name = name, kind = kind, steps = steps }) end
  local self = setmetatable({
    config = cfg, steps = steps, metrics = {}, schedules = {},
    length = read(cfg.curriculum.length, "curriculum.length", "length"),
    size = read(cfg.batch.ramp, "batch.ramp", "count"), mask = read(cfg.mask.rate, "mask.rate", "fraction"),
  }, Course)
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
  self.schedules["mask.rate"] = self.mask
  return self
end

---Whether updates are drawn by a curriculum; else they are those of every run.
local function draws(self)
  return self.length or self.size or self.decided_mask or self.config.batch.tokens or next(self.metrics) ~= nil
end

---The curriculum that decides the updates; nil if nothing about them changes.
---@param counters? fun(): table of the run, for schedules that depend on them
---@return seqrun.Curriculum?
function Course:curriculum(counters)
  if not draws(self) then return nil end
  local cfg, tokens = self.config, self.config.batch.tokens ~= nil
  local size = self.size or cfg.batch.tokens or cfg.batch.sequences
  return require("seqrun.curriculum") {
    sequences = not tokens and size or nil, tokens = tokens and size or nil, length = self.length,
    mask = self.decided_mask, metrics = self.metrics, order = cfg.curriculum.order, cut = cfg.curriculum.cut,
    window = cfg.curriculum.window, examples = cfg.curriculum.examples, counters = counters,
  }
end

---Options for sr.data.loader of the training part.
---@param cfg table
---@param corpus seqrun.Corpus
---@param course seqrun.Course
---@param counters? fun(): table of the run
---@param plan? string a saved plan
---@return table
function curriculum.train_options(cfg, corpus, course, counters, plan)
  local options = pretraining.loader_options(cfg, corpus, "train", plan)
  if course.mask then
    options.mask = {
      prob = course.mask.max or 1, max = cfg.mask.max, whole_word = cfg.mask.whole_word,
      rates = schedule.rates(course.mask, course.steps),
    }
  end
  if course.decided_mask then
    options.mask = { prob = course.decided_mask.max or 1, max = cfg.mask.max, whole_word = cfg.mask.whole_word }
  end
  options.order = course:curriculum(counters)
  if options.order then options.by, options.sequences, options.adjust, options.plan = nil, nil, nil, nil end
  return options
end

---Sets up token dropping on a model.
---@param bert seqrun.Bert
---@return seqrun.Course
function Course:drop(bert)
  self.token_drop = require("seqrun.curriculum.token_drop").new(self.config.token_drop,
    { max_len = self.config.data.max_len, steps = self.steps, model = bert })
  self.schedules.token_drop = self.token_drop and self.token_drop.schedule
  return self
end

---What changes in the model and in what metrics report, before the first batch of an update.
---@param update seqrun.Update
function Course:before(update)
  local length = update.window and update.window.max_len
  if self.mask then self.mask:advance(update.counters) end
  if self.token_drop then self.token_drop:before(update, length and length > 0 and length or nil) end
end

---The rate for an update of this size: see the key batch.scale.
---@param rate number
---@param update seqrun.Update
---@return number
function Course:scaled(rate, update)
  local how, part = self.config.batch.scale, update.sequences / self.config.batch.sequences
  if how == "none" then return rate end
  return rate * (how == "sqrt" and math.sqrt(part) or part)
end

---All schedules as text, each with a picture.
---@return string
function Course:explain()
  local parts = {}
  for _, key in ipairs { "length", "size", "mask", "decided_mask" } do
    if self[key] then parts[#parts + 1] = schedule.explain(self[key]) end
  end
  for _, name in ipairs(keys.metrics(self.config.curriculum)) do
    parts[#parts + 1] = schedule.explain(self.metrics[name].schedule)
  end
  return table.concat(parts, "\n\n")
end

return curriculum

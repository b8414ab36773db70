-- curriculum.lua - pretraining in which lengths, examples, kept tokens, masks and batches follow schedules.
--
--     local schedules = task.schedules(cfg)
--     loader(task.train_options(cfg, corpus, schedules)) ... run:start { schedules = schedules, ... }
--     for step, update in run:steps(train) do
--       run:before(update)
--       ... optimizer:step { rate = schedules:scaled(rate(update.counters), update) }

local c = require("seqrun.config")
local new_schedules = require("seqrun.tasks.shared.schedules")
local keys = require("seqrun.curriculum.keys")
local pretraining = require("seqrun.tasks.pretraining")
local schedule = require("seqrun.schedule")

local curriculum = setmetatable({ recipe = "recipes/curriculum.lua" }, { __index = pretraining })

curriculum.keys = c.merge(c.map(pretraining.keys), c.map(keys.keys)).fields
curriculum.rules = table.move(keys.rules, 1, #keys.rules, #pretraining.rules + 1,
  table.move(pretraining.rules, 1, #pretraining.rules, 1, {}))

---What changes during the run of a config.
---@param cfg table
---@return seqrun.Schedules
function curriculum.schedules(cfg)
  return new_schedules(cfg, cfg.steps or cfg.rate.by == "step" and cfg.rate.total or nil)
end

---Options for sr.data.loader of the training part.
---@param cfg table
---@param corpus seqrun.Corpus
---@param schedules seqrun.Schedules
---@param counters? fun(): table of the run
---@param plan? string a saved plan
---@return table
function curriculum.train_options(cfg, corpus, schedules, counters, plan)
  local options = pretraining.loader_options(cfg, corpus, "train", plan)
  if schedules.mask then
    options.mask = {
      prob = schedules.mask.max or 1, max = cfg.mask.max, whole_word = cfg.mask.whole_word,
      rates = schedule.rates(schedules.mask, schedules.steps),
    }
  end
  if schedules.decided_mask then
    options.mask = { prob = schedules.decided_mask.max or 1, max = cfg.mask.max, whole_word = cfg.mask.whole_word }
  end
  schedules:draw(options, counters)
  return options
end

return curriculum

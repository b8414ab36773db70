-- pretrain.lua - a small BERT on packed sequences: the recipe to copy and change.
--
-- bert_phase1.lua and bert_phase2.lua run this file with other settings.  To add config keys:
-- sr.run.open { ..., keys = { { "top_k", sr.config.integer { default = 3, doc = "..." } } } }.
--
--     seqrun recipes/pretrain.lua --dry-run
--     seqrun recipes/pretrain.lua optimizer.betas=[0.9,0.95] --max-steps 100

local sr = require "seqrun"
local task = sr.tasks.pretraining

local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config

-- data, and the plan of its packs
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local function loader(part)
  return sr.must(sr.data.loader(task.loader_options(cfg, corpus, part, run:saved_plan())))
end

-- model: sr.nn.bert, or any object with params, training and losses(batch)
local bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)
bert.recompute = cfg.model.recompute

-- optimizer
local train = loader("train")
local optimizer = sr.optim[cfg.optimizer.name](bert.params, task.optimizer_options(cfg, bert, train))
local rate = sr.run.schedule(cfg) -- or your own: sr.schedule.custom(function(step) return 1e-3 / step end)

local held = cfg.data.held > 0 and loader("held") or nil

run:start { corpus = corpus, loader = train, held = held, model = bert, optimizer = optimizer, rate = rate }

-- loop: between iterations, `run` saves checkpoints, evaluates and handles signals
for step, update in run:steps(train) do
  run:before(update) -- what the config switches on: token dropping, a gate of experts, a teacher
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = run:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(update.counters), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end

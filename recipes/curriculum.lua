-- curriculum.lua - BERT pretraining with curricula, token dropping, and masks and batches that change; see the keys
-- curriculum, token_drop, mask.rate, batch.ramp, batch.tokens, batch.scale, rate.by and stop.
--
--     seqrun recipes/curriculum.lua preset=composed --dry-run
--     seqrun recipes/curriculum.lua token_drop.keep=0.5 stop.effective_tokens=2e6

local sr = require "seqrun"
local task = sr.tasks.curriculum

local run <close> = sr.run.open { recipe = arg, task = task }
local cfg, schedules = run.config, task.schedules(run.config)

-- data: the updates of the training part follow the schedules, the held-out part stays as it is
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local function counters() return run:totals() end
local train = sr.must(sr.data.loader(task.train_options(cfg, corpus, schedules, counters, run:saved_plan())))
local held = cfg.data.held > 0 and sr.must(sr.data.loader(task.loader_options(cfg, corpus, "held"))) or nil

local bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)
bert.recompute = cfg.model.recompute

local optimizer = sr.optim[cfg.optimizer.name](bert.params, task.optimizer_options(cfg, bert, train))
local rate = sr.run.schedule(cfg)

run:start {
  corpus = corpus, loader = train, held = held, model = bert, optimizer = optimizer, rate = rate,
  schedules = schedules,
}

for step, update in run:steps(train) do
  run:before(update)
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = run:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = schedules:scaled(rate(update.counters), update), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end

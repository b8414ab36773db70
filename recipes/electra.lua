-- electra.lua - a discriminator on packed sequences: it detects replaced tokens, which come from a generator, or from
-- its own predictions in the previous epoch (SAS).
--
--     seqrun recipes/electra.lua
--     seqrun recipes/electra.lua electra.by=itself
--     seqrun export runs/electra OUT                           ElectraForPreTraining, to fine-tune
--     seqrun export runs/electra OUT --network generator       ElectraForMaskedLM

local sr = require "seqrun"
local task = sr.tasks.electra

local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config

-- data, and the plan of its packs
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local function loader(part)
  return sr.must(sr.data.loader(task.loader_options(cfg, corpus, part, run:saved_plan())))
end
local train, held = loader("train"), cfg.data.held > 0 and loader("held") or nil

-- networks and optimizer
local model = task.model(cfg, corpus)
model:restore(run:saved_file("trainer/predictions.bin"))
local optimizer = sr.optim[cfg.optimizer.name](model.params, task.optimizer_options(cfg, train))
local rate = sr.run.schedule(cfg)

run:start { corpus = corpus, loader = train, held = held, model = model, optimizer = optimizer, rate = rate }

for step, update in run:steps(train) do
  run:before(update)
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = run:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(update.counters), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end

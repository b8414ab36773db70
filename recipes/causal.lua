-- causal.lua - a causal language model on packed sequences, of GPT-2's family: each token from those before it.
--
--     seqrun recipes/causal.lua
--     seqrun recipes/causal.lua fim.rate=0.5 fim.tokens=[...]        fill-in-the-middle of half of the sequences
--     seqrun recipes/causal.lua causal.share=0.5                     half of the sequences masked, in both directions
--     seqrun fill --causal runs/causal --text "She was"

local sr = require "seqrun"
local task = sr.tasks.causal

local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config

-- data, and the plan of its packs
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local function loader(part)
  return sr.must(sr.data.loader(task.loader_options(cfg, corpus, part, run:saved_plan())))
end
local train, held = loader("train"), cfg.data.held > 0 and loader("held") or nil

-- model and optimizer
local model = task.model(cfg, corpus)
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

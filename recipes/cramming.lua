-- cramming.lua - the best encoder within a given time, which determines the amount of text, the batch sizes and the
-- learning rates.
--
--     seqrun recipes/cramming.lua                                  as many updates as the YAML sets
--     seqrun recipes/cramming.lua cramming.hours=0.1               as many as fit into six minutes on this machine
--     seqrun recipes/cramming.lua cramming.hours=24 preset=day data.file=runs/data/corpus.sqr

local sr = require "seqrun"
local task = sr.tasks.cramming

local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config

-- model, and the time as a number of updates
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local bert = task.model(cfg, corpus)
local plan = task.plan(run, corpus, bert)

-- data: sorted by how well it compresses
local train = sr.must(sr.data.loader(task.train_options(cfg, corpus, plan)))
local held = cfg.data.held > 0 and sr.must(sr.data.loader(task.loader_options(cfg, corpus, "held"))) or nil

local optimizer = sr.optim[cfg.optimizer.name](bert.params, task.optimizer_options(cfg, bert))
local function rate(at) return plan.pace:rate(at) end

run:start {
  corpus = corpus, loader = train, held = held, model = bert, optimizer = optimizer, rate = rate,
  total = cfg.rate.total, notes = task.notes(plan),
}

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
task.report(run, plan)

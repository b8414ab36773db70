-- concept.lua - a BERT that learns concepts first (CCM): words and phrases are masked as a whole, first the nouns of
-- WordNet that have the most relations, then those that are related to them, stage by stage.
--
--     seqrun recipes/concept.lua
--     seqrun recipes/concept.lua concept.share=0 --out runs/random            the same with random masks
--     seqrun recipes/concept.lua concept.file=terms.tsv                       concepts of your own, with their stages

local sr = require "seqrun"
local task = sr.tasks.concept

local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config

-- data: concepts, and how the training part masks them; the held-out part has random masks
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local concepts = task.concepts(cfg, corpus, run:saved_file("trainer/concepts.tsv"))
local train = sr.must(sr.data.loader(task.train_options(cfg, corpus, concepts, run:saved_plan())))
local held = cfg.data.held > 0 and sr.must(sr.data.loader(task.loader_options(cfg, corpus, "held"))) or nil
local stage = task.stage(cfg, concepts)

-- model and optimizer
local bert = task.model(cfg, corpus, concepts)
local optimizer = sr.optim[cfg.optimizer.name](bert.params, task.optimizer_options(cfg, bert, train))
local rate = sr.run.schedule(cfg)

run:start {
  corpus = corpus, loader = train, held = held, model = bert, optimizer = optimizer, rate = rate,
  schedules = { ["concept.stage"] = stage },
  notes = concepts and concepts:notes(),
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

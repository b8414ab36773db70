-- bert_phase2.lua - phase 2 of BERT pretraining: long, packed sequences.  Settings: bert_phase2.yaml.
--
-- Starts from the weights (and, with init.carry, the moments) of the run named by init.from.
--
--     seqrun recipes/bert_phase2.lua preset=demo

local sr = require "seqrun"

local run <close> = sr.run.open { recipe = arg, schema = sr.run.schema, rules = sr.run.rules }
local cfg = run.config

-- data, and the plan of its packs
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local function loader(part)
  return sr.must(sr.data.loader(sr.run.loader_options(cfg, corpus, part, run:saved_plan())))
end

-- model
local bert = sr.nn.bert(sr.run.model_options(cfg, corpus)):initialise(cfg.seed)
bert.recompute = cfg.model.recompute

-- optimizer
local train = loader("train")
local optimizer = sr.optim[cfg.optimizer.name](bert.params, sr.run.optimizer_options(cfg, train))
local rate = sr.run.schedule(cfg)

local held = cfg.data.held > 0 and loader("held") or nil

run:start { corpus = corpus, loader = train, held = held, model = bert, optimizer = optimizer, rate = rate }

-- loop
for step, update in run:steps(train) do
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = bert:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(update.schedule_step), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end

-- equivalence_arm.lua - recipes/pretrain.lua with what a packed batch needs left out; recipes/papers/equivalence.lua
-- runs it.
--
--     build/seqrun recipes/papers/equivalence_arm.lua arm=unmasked data.file=runs/data/novels.sqr --out runs/one
--
-- What is left out is left out in training only: held-out sequences are always evaluated each by itself.

local packs = require("equivalence_packs")
local sr = require("seqrun")
local task = sr.tasks.pretraining

local run <close> = sr.run.open {
  recipe = arg, task = task,
  keys = {
    { "arm", sr.config.enum({ "right", "unmasked", "unreset", "joined" }, { default = "right",
      doc = "unmasked: tokens attend to their whole pack; unreset: positions run on in a pack; joined: both" }) },
    { "power", sr.config.boolean { default = true,
      doc = "with batch.adjust=betas: betas^factor; false: the betas as they are" } },
  },
}
local cfg = run.config

local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local train = sr.must(sr.data.loader(task.loader_options(cfg, corpus, "train", run:saved_plan())))
local held_options = task.loader_options(cfg, corpus, "held")
held_options.adjust = "batch" -- all arms are evaluated on the same sequences
local held = sr.must(sr.data.loader(held_options))

local bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)
local options = task.optimizer_options(cfg, bert, train)
if not cfg.power then options.power = 1 end
local optimizer = sr.optim[cfg.optimizer.name](bert.params, options)
local rate = sr.run.schedule(cfg)

run:start { corpus = corpus, loader = train, held = held, model = bert, optimizer = optimizer, rate = rate }

local pack_of = cfg.arm ~= "right" and packs.reader(task.loader_options(cfg, corpus, "train")) or nil

for step, update in run:steps(train) do
  local in_packs = pack_of and pack_of(update)
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = in_packs and packs.losses(bert, batch, cfg.arm, in_packs) or bert:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(update.counters), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end

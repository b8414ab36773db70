-- embed.lua - trains an encoder to make vectors of texts: pairs, triplets with hard negatives, scored pairs, or a
-- teacher's vectors.
--
--     seqrun recipes/embed.lua init.from=DIR data.train=pairs.csv         columns anchor, positive[, negative...]
--     seqrun recipes/embed.lua init.from=DIR data.train=scored.csv        columns sentence1, sentence2, score
--     seqrun encode runs/embed texts.txt --out vectors.safetensors

local sr = require "seqrun"
local task = sr.tasks.embed

local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config

-- data: an update is batch.sequences rows, whose texts are packed inside the update
local data = task:data(cfg)
local schedules = task:schedules(cfg, data) -- token_drop.*: what changes during the run
local train, updates = task:loader(cfg, data, "train")
local dev = data.dev and task:loader(cfg, data, "dev")

-- model: the encoder of init.from; its vectors as sentence-transformers describes them
local model = task:model(cfg, data)
local contrast = task:contrast(model)
local optimizer = sr.optim[cfg.optimizer.name](model.params, task:optimizer_options(cfg, model))
local rate, total = task:schedule(cfg, updates)

run:start {
  corpus = data.train, loader = train, held = dev, model = model, optimizer = optimizer, rate = rate, total = total,
  fresh = task:fresh(cfg, model), notes = data.notes, epoch = updates,
  schedules = schedules, objective = contrast,
}

-- loop: run:before encodes the texts of all micro-batches, without a tape; the loss is over all of them
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

-- finetune.lua - fine-tunes an encoder for a task.  finetune_classify.lua, finetune_tokens.lua and the others run this
-- file with a task, and have settings beside them.
--
--     seqrun recipes/finetune_classify.lua data.train=train.csv data.dev=dev.csv init.from=runs/demo/phase2

local sr = require "seqrun"
local task = ...
if not task then sr.must(nil, "finetune.lua has no task; run finetune_classify.lua, for example", "config") end

local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config

-- data: files or data sets; an update is batch.sequences examples, packed inside the update
local data = task:data(cfg)
local train, updates = task:loader(cfg, data, "train")
local dev = data.dev and task:loader(cfg, data, "dev")

-- model: the encoder of init.from with the head of the task
local model = task:model(cfg, data)
local optimizer = sr.optim[cfg.optimizer.name](model.params, task:optimizer_options(cfg, model))
local rate, total = task:schedule(cfg, updates)
local ltd = sr.run.ltd(cfg, model, total) -- nil unless ltd.keep is set

run:start {
  corpus = data.train, loader = train, held = dev, model = model, optimizer = optimizer, rate = rate, total = total,
  fresh = task:fresh(cfg, model), notes = data.notes, epoch = updates,
  schedules = { ltd = ltd and ltd.schedule },
}

for step, update in run:steps(train) do
  if ltd then ltd:before(update) end
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = model:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(update.counters), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end

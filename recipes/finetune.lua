-- finetune.lua - fine-tunes an encoder for a task, one that ships or your own.
--
--     seqrun recipes/finetune.lua --help                  the tasks, with examples; with task=NAME its keys
--     seqrun recipes/finetune.lua task=classify data.train=train.csv data.dev=dev.csv init.from=runs/demo/phase2

local sr = require "seqrun"

-- the task: that of the words, or that of a recipe that runs this file, as finetune_own.lua does
local own = ...
local task = type(own) == "table" and own or sr.tasks.choose(arg)
local name = task ~= own and "finetune_" .. task.name or nil

local run <close> = sr.run.open { recipe = arg, task = task, name = name }
local cfg = run.config

-- data: files or data sets; an update is batch.sequences examples, packed inside the update
local data = task:data(cfg)
local schedules = task:schedules(cfg, data) -- curriculum.* and token_drop.*: what changes during the run
local train, updates = task:loader(cfg, data, "train", schedules, function() return run:totals() end)
local dev = data.dev and task:loader(cfg, data, "dev")

-- model: the encoder of init.from with the head of the task
local model = task:model(cfg, data)
local optimizer = sr.optim[cfg.optimizer.name](model.params, task:optimizer_options(cfg, model))
local rate, total = task:schedule(cfg, updates)

run:start {
  corpus = data.train, loader = train, held = dev, model = model, optimizer = optimizer, rate = rate, total = total,
  fresh = task:fresh(cfg, model), notes = data.notes, epoch = updates,
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
  optimizer:step { rate = rate(update.counters), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end

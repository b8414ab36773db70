-- rank_memory.lua - a run whose parameters are most of its memory: what the run says it keeps, beside what the process
-- has grown by; run by mpirun (sharded_spec.lua).  The recipe pretrain.lua, with a line at the end.
--
-- Prints "R: SAID GREW" of each rank, in bytes.

local memory = require("seqrun.run.checks.memory")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task = sr.tasks.pretraining

local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local train = sr.must(sr.data.loader(task.loader_options(cfg, corpus, "train")))
local before = sys.memory()
local bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)
local optimizer = sr.optim[cfg.optimizer.name](bert.params, task.optimizer_options(cfg, bert, train))
run:start { corpus = corpus, loader = train, model = bert, optimizer = optimizer, rate = sr.run.schedule(cfg) }
for step, update in run:steps(train) do
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = bert:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = cfg.rate.peak, clip = cfg.optimizer.clip }
  run:log(step, optimizer)
  if step == cfg.steps then
    local _, said = memory.owners(run)
    for rank, values in ipairs(run.ranks:gather { said, (sys.memory()) - before }) do
      print(("%d: %d %d"):format(rank - 1, values[1], values[2])) -- on rank 0: the others are silent
    end
  end
end

-- layouts_step.lua - times steps of one layout; layouts.lua runs it under mpirun, and reads the line it prints.
--
--     mpirun -n 2 seqrun recipes/bench/layouts_step.lua data.file=runs/data/novels.sqr batch.micro_packs=4 timed=5 \
--         --threads 1 --out runs/one

local json = require("seqrun.core.json")
local sr = require "seqrun"
local sys = require("seqrun.core.sys")
local task = sr.tasks.pretraining

local run <close> = sr.run.open {
  recipe = arg, task = task,
  keys = { { "timed", sr.config.integer { default = 4, min = 1, doc = "steps to time, after two that are not" } } },
}
local cfg, ranks = run.config, run.ranks

local corpus = sr.must(sr.data.open(cfg.data.file, { held = 0 }))
local train = sr.must(sr.data.loader(task.loader_options(cfg, corpus, "train")))
local bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)
bert.recompute = cfg.model.recompute
local optimizer = sr.optim[cfg.optimizer.name](bert.params, task.optimizer_options(cfg, bert, train))
local rate = sr.run.schedule(cfg)

run:start { corpus = corpus, loader = train, model = bert, optimizer = optimizer, rate = rate }

---What one rank measured, as JSON.
local function report(seconds, tokens)
  local _, peak = sys.memory()
  return json.encode { seconds = seconds, tokens = tokens, memory = peak, parameters = bert.params:count() }
end

local seconds, tokens = {}, {}
for step, update in run:steps(train) do
  local began = sys.now()
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = bert:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(update.counters), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
  sr.synchronize()
  if step > 2 then seconds[step - 2], tokens[step - 2] = sys.now() - began, update.tokens end
  if step >= 2 + cfg.timed then break end
end

local all = ranks:gather(report(seconds, tokens))
if ranks.leads then print("LAYOUT [" .. table.concat(all, ",") .. "]") end

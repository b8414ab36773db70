-- mlperf.lua - BERT-Large under the rules of MLPerf Training: from the initial checkpoint (init.from) until the
-- masked-LM accuracy on 10,000 fixed sequences reaches 0.720, evaluated at fixed intervals of samples.
--
-- Its keys and its log are in recipes/mlperf/.  RUN/result_0.txt is the log of events; the result is the time
-- from run_start to run_stop.
--
--     seqrun recipes/mlperf.lua init.from=checkpoints/phase1 data.file=wiki.sqr mlperf.eval_file=eval_10k.sqr
--     mpirun -n 8 seqrun recipes/mlperf.lua preset=b3072 init.from=checkpoints/phase1 mlperf.division=closed

local sr = require "seqrun"
local task = dofile((arg[0]:gsub("[^/]*$", "mlperf/task.lua")))

local log <close> = task.log() -- the initialization begins
local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config

local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local train = sr.must(sr.data.loader(task.loader_options(cfg, corpus, "train", run:saved_plan())))
local held = sr.must(sr.data.loader(task.eval_options(cfg, corpus)))

local bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)
bert.recompute = cfg.model.recompute
local optimizer = sr.optim[cfg.optimizer.name](bert.params, task.optimizer_options(cfg, bert, train))
local rate = sr.run.schedule(cfg)

run:start {
  corpus = corpus, loader = train, held = held, model = bert, optimizer = optimizer, rate = rate, watch = log,
}
log:begin(run, train, held) -- the timed part

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

-- task.lua - pretraining under the rules of MLPerf's BERT: from a given checkpoint until the masked-LM accuracy on
-- fixed sequences reaches a target, evaluated after fixed numbers of samples, with a log of events.

local c = require("seqrun.config")
local evaluations = require("seqrun.run.evaluation.evaluations")
local failure = require("seqrun.base.failure")
local pretraining = require("seqrun.tasks.pretraining")
local sr_data = require("seqrun.data")
local vocabulary = require("seqrun.checkpoint.vocabulary")

local mllog = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "log.lua")

local mlperf = setmetatable({}, { __index = pretraining })

---Seed of the evaluation: its pairs and masks are the same in all runs.
local EVAL_SEED = 12345

---Largest difference of the accuracy of the initial checkpoint from mlperf.initial.
local TOLERANCE = 0.002

local keys = c.map {
  { "eval_file", c.path { optional = true,
    doc = "data set to evaluate on; none: the held-out part of data.file" } },
  { "eval_sequences", c.integer { default = 10000, min = 1, doc = "sequences to evaluate on, in keyed order" } },
  { "initial", c.number { optional = true, min = 0, max = 1,
    doc = "accuracy that the initial checkpoint must have, checked before the run; 0.34085 for the published one" } },
  { "division", c.enum({ "closed", "open" }, { default = "open", doc = "division of the submission" }) },
  { "org", c.string { default = "", doc = "organization that submits" } },
  { "platform", c.string { default = "", doc = "name of the system" } },
  { "status", c.enum({ "onprem", "cloud", "preview", "research" }, { default = "research",
    doc = "availability of the system" }) },
  { "cache_cleared", c.boolean { default = false,
    doc = "the system's caches were cleared before the run; it is logged, not done" } },
}

mlperf.keys = c.merge(c.map(pretraining.keys), c.map { { "mlperf", keys } }).fields

mlperf.rules = table.move({
  {
    keys = { "init.from" },
    check = function(from)
      if from then return nil end
      return "MLPerf's BERT starts from a given checkpoint; set init.from to it"
    end,
  },
  {
    keys = { "eval.metric", "eval.samples" },
    check = function(metric, samples)
      if metric and samples ~= 0 then return nil end
      return "set eval.metric and eval.target, which end the run, and eval.samples, after which it is evaluated"
    end,
  },
  {
    keys = { "mlperf.eval_file", "data.held" },
    check = function(file, held)
      if file or held > 0 then return nil end
      return "give mlperf.eval_file, or hold out a part of the data: data.held=0.05"
    end,
  },
  {
    keys = { "mlperf.division", "optimizer.name", "eval.metric", "eval.target" },
    check = function(division, name, metric, target)
      if division == "open" or name == "lamb" and metric == "mlm_accuracy" and target == 0.72 then return nil end
      return "the closed division requires optimizer.name=lamb, eval.metric=mlm_accuracy and eval.target=0.72; or set "
        .. "mlperf.division=open"
    end,
  },
}, 1, 4, #pretraining.rules + 1, table.move(pretraining.rules, 1, #pretraining.rules, 1, {}))

---The data set to evaluate on, and its part.
local function eval_data(cfg, corpus)
  local file = cfg.mlperf.eval_file
  if not file then return corpus, "held" end
  local other = failure.must(sr_data.open(file, { held = 0 }))
  local difference = vocabulary.difference(other:tokenizer(), corpus:tokenizer())
  if difference then
    failure.raise("data", "mlperf.eval_file: the tokenizer of %s differs from that of %s (%s); prepare both with the "
      .. "same vocab.file", file, corpus:info().path, difference)
  end
  return other, "train"
end

---Options of the loader to evaluate with: one update that has all sequences of the evaluation.
---@param cfg table
---@param corpus seqrun.Corpus
---@return table
function mlperf.eval_options(cfg, corpus)
  local data, part = eval_data(cfg, corpus)
  local options = pretraining.loader_options(cfg, data, part)
  options.by, options.sequences, options.adjust = "sequences", cfg.mlperf.eval_sequences, nil
  options.epochs, options.prefetch, options.seed = 1, 0, EVAL_SEED
  options.weights, options.temperature = nil, nil
  return options
end

---Fails if the data has too few sequences to evaluate on.
local function check_sequences(run, held)
  local want, have = run.config.mlperf.eval_sequences, held:examples()
  if have >= want then return end
  local way = run.config.mlperf.eval_file and "a larger mlperf.eval_file" or "a larger data.held"
  failure.raise("config", "mlperf.eval_sequences is %d, but only %d sequences are held out; lower it, or use %s", want,
    have, way)
end

---Evaluates the initial checkpoint, if its accuracy is known.
local function check_initial(run)
  local want = run.config.mlperf.initial
  if not want or run.step > 0 then return end
  local line = run:evaluate()
  local got = line and line.mlm_accuracy
  if got and math.abs(got - want) > TOLERANCE then
    failure.raise("config", "the initial checkpoint has a masked-LM accuracy of %.5f, expected %.5f (mlperf.initial): "
      .. "check init.from, the vocabulary and the data set to evaluate on", got, want)
  end
end

---What the rules want logged of a config.
local function log_config(log, cfg, steps, accumulated)
  local o, own = cfg.optimizer, cfg.mlperf
  local events = {
    { "submission_benchmark", "bert" }, { "submission_org", own.org }, { "submission_division", own.division },
    { "submission_status", own.status }, { "submission_platform", own.platform }, { "cache_clear", own.cache_cleared },
    { "seed", cfg.seed }, { "global_batch_size", cfg.batch.sequences }, { "opt_name", o.name },
    { "opt_base_learning_rate", cfg.rate.peak }, { "opt_epsilon", o.eps }, { "opt_lamb_epsilon", o.eps },
    { "opt_lamb_beta_1", o.betas[1] }, { "opt_lamb_beta_2", o.betas[2] }, { "opt_lamb_weight_decay_rate", o.decay },
    { "opt_lamb_learning_rate_decay_poly_power", cfg.rate.power },
    { "opt_learning_rate_training_steps", cfg.rate.total }, { "opt_learning_rate_warmup_steps", cfg.rate.warmup },
    { "num_warmup_steps", cfg.rate.warmup }, { "start_warmup_step", -cfg.rate.from },
    { "gradient_accumulation_steps", accumulated }, { "max_sequence_length", cfg.data.max_len },
    { "max_predictions_per_seq", cfg.mask.max }, { "train_samples", steps * cfg.batch.sequences },
    { "eval_samples", own.eval_sequences },
  }
  for _, event in ipairs(events) do
    local lamb = event[1]:find("^opt_lamb_")
    if not lamb or o.name == "lamb" then log:event(event[1], event[2]) end
  end
end

---Micro-batches of an update on each rank, on average.
local function accumulated(run, loader, ranks)
  local plan = loader:summary()
  return math.ceil(plan.packs / (math.min(plan.packs, run.config.batch.micro_packs) * ranks))
end

---A run's log, for run:start { watch = log } and, after it, log:begin(run).
---@class seqrun.MlperfLog
local Log = {}
Log.__index = Log

---@return seqrun.MlperfLog
function mlperf.log() return setmetatable({ lines = mllog.new() }, Log) end

function Log:evaluating() self.lines:evaluating(self.run and self.run:totals().sequences or 0) end

function Log:evaluated(line)
  local run = self.run
  if run then self.lines:evaluated(line[run.config.eval.metric], evaluations.reached(run.config, line)) end
end

---Checks the evaluation, and begins the timed part of the run in RUN/result_0.txt.
---@param run seqrun.Run
---@param train seqrun.Loader
---@param held seqrun.Loader
function Log:begin(run, train, held)
  check_sequences(run, held)
  if run.request.dry_run then return end
  check_initial(run)
  if not run.ranks.leads then return end
  local cfg = run.config
  self.run = run
  log_config(self.lines, cfg, cfg.rate.total, accumulated(run, train, run.ranks.size))
  self.lines:start(run.folder .. "/result_0.txt", {
    samples = run:totals().sequences, every = evaluations.interval(cfg.eval.samples, cfg.batch.sequences),
  })
end

function Log:close() self.lines:close() end

Log.__close = Log.close

return mlperf

-- recipes/mlperf.lua: from a checkpoint until an accuracy is reached, evaluated by samples, with MLPerf's log.

local config = require("seqrun.config")
local evaluations = require("seqrun.run.evaluation.evaluations")
local json = require("seqrun.core.json")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local folder, corpus = small.folder()
local first = folder .. "/first"

local function words(...)
  local list = small.words(corpus, "init.from=" .. first, "mlperf.eval_sequences=8", "eval.samples=100",
    "batch.shares=2", ...)
  list[1] = "recipes/mlperf.lua"
  return list
end

local function run(...) return program.all(words(...)) end

---The events of a log, and those of each key.
local function events_of(out)
  local list, by_key = {}, {}
  for line in io.lines(out .. "/result_0.txt") do
    local event = assert(json.decode(assert(line:match("^:::MLLOG (.*)$"))))
    list[#list + 1] = event
    by_key[event.key] = by_key[event.key] or {}
    table.insert(by_key[event.key], event)
  end
  return list, by_key
end

local ONCE = {
  "submission_benchmark", "submission_org", "submission_division", "submission_status", "submission_platform",
  "cache_clear", "init_start", "init_stop", "run_start", "run_stop", "seed", "global_batch_size", "train_samples",
  "eval_samples", "gradient_accumulation_steps", "opt_name", "opt_base_learning_rate", "opt_lamb_epsilon",
  "opt_lamb_beta_1", "opt_lamb_beta_2", "opt_lamb_weight_decay_rate", "opt_learning_rate_training_steps",
  "opt_learning_rate_warmup_steps", "num_warmup_steps", "start_warmup_step", "max_sequence_length",
  "max_predictions_per_seq",
}

---The rules of the published checker that concern order and fields.
local function check_log(list, by_key)
  for _, key in ipairs(ONCE) do assert.equal(1, by_key[key] and #by_key[key], key) end
  local time, order = 0, {}
  for _, event in ipairs(list) do
    assert.equal("", event.namespace)
    assert.is_true(math.type(event.time_ms) == "integer" and event.time_ms >= time)
    assert.is_true(type(event.metadata.file) == "string" and math.type(event.metadata.lineno) == "integer")
    time = event.time_ms
    local kind = event.key:match("_start$") and "INTERVAL_START" or event.key:match("_stop$") and "INTERVAL_END"
    assert.equal(kind or "POINT_IN_TIME", event.event_type)
    if kind then order[#order + 1] = event.key end
  end
  local text = table.concat(order, " ")
  assert.is_truthy(text:find("^init_start init_stop run_start block_start "), text)
  assert.is_truthy(text:find("block_stop eval_start eval_stop run_stop$") or text:find("block_stop run_stop$"), text)
  for _, key in ipairs { "block_start", "block_stop" } do
    for _, event in ipairs(by_key[key]) do
      assert.is_true(event.metadata.epoch_count == 100 and event.metadata.first_epoch_num >= 0)
    end
  end
  for _, event in ipairs(by_key.eval_accuracy) do assert.is_true(event.metadata.epoch_num >= 100) end
end

setup(function()
  works(program.run(small.words(corpus, "--out", first, "--max-steps", "3", "eval.updates=0")))
end)

describe("MLPerf's BERT", function()
  it("is evaluated after the numbers of samples of the rules", function()
    for batch, want in pairs { [96] = 150000, [448] = 150000, [2048] = 150000, [3072] = 175000, [4608] = 200000,
      [8192] = 225000 } do
      assert.equal(want, evaluations.interval("auto", batch))
    end
    assert.equal(1600, evaluations.interval(1600, 448))
  end)

  it("has the settings that submissions published for their batch sizes", function()
    for preset, want in pairs {
      none = { 448, 4.25e-4, 0.9, 0.999, 0.01, 6700 }, b96 = { 96, 1.75e-4, 0.9, 0.999, 0.01, 37500 },
      b768 = { 768, 9.6e-4, 0.60466, 0.85437, 0.1, 3680 }, b3072 = { 3072, 2.0992e-3, 0.60466, 0.85437, 0.1, 1059 },
      toy = { 32, 2e-3, 0.9, 0.999, 0.01, 600 },
    } do
      local schema, rules = require("seqrun.run").schema(dofile("recipes/mlperf/task.lua"))
      local v = assert(config.load { schema = schema, rules = rules, file = "recipes/mlperf.yaml",
        arguments = { "preset=" .. preset, "init.from=x" } }).values
      assert.same(want, { v.batch.sequences, v.rate.peak, v.optimizer.betas[1], v.optimizer.betas[2],
        v.optimizer.decay, v.rate.total })
      assert.same({ "sequences", "mlm_accuracy", "lamb", 1e-6, 1 },
        { v.batch.by, v.eval.metric, v.optimizer.name, v.optimizer.eps, v.eval.updates })
      if preset ~= "toy" then
        assert.same({ 0.72, "auto", 512, 76, 10000, 24, 1024 }, { v.eval.target, v.eval.samples, v.data.max_len,
          v.mask.max, v.mlperf.eval_sequences, v.model.num_hidden_layers, v.model.hidden_size })
      end
    end
  end)

  it("stops when the accuracy is reached, and logs the run", function()
    local out = folder .. "/reached"
    works(run("--out", out, "eval.target=0.02", "mlperf.org=somebody", "rate.warmup=0"))
    local list, by_key = events_of(out)
    check_log(list, by_key)
    assert.equal("success", by_key.run_stop[1].metadata.status)
    local last = by_key.eval_accuracy[#by_key.eval_accuracy]
    assert.is_true(last.value >= 0.02 and by_key.run_stop[1].metadata.epoch_num == last.metadata.epoch_num)
    assert.same({ "bert", "somebody", "open", 24, "lamb", 8, 48 }, {
      by_key.submission_benchmark[1].value, by_key.submission_org[1].value, by_key.submission_division[1].value,
      by_key.global_batch_size[1].value, by_key.opt_name[1].value, by_key.eval_samples[1].value,
      by_key.max_sequence_length[1].value,
    })
    local lines = small.metrics(out, "eval")
    assert.equal(#by_key.eval_accuracy, #lines)
    assert.equal(last.value, lines[#lines].mlm_accuracy)
    assert.is_truthy(sys.read_file(out .. "/run.log"):find("mlm_accuracy has reached 0.02", 1, true))
  end)

  it("evaluates by samples, aborts at the end of its steps, and resumes its log", function()
    local out = folder .. "/aborted"
    works(run("--out", out, "eval.target=0.99", "--max-steps", "7"))
    local list, by_key = events_of(out)
    check_log(list, by_key)
    assert.equal("aborted", by_key.run_stop[1].metadata.status)
    local at = {}
    for i, event in ipairs(by_key.eval_accuracy) do at[i] = event.metadata.epoch_num end
    assert.same({ 120, 168 }, at) -- the first update past 100, and the last
    works(run("--out", out, "eval.target=0.99", "--max-steps", "18", "--resume"))
    list, by_key = events_of(out)
    check_log(list, by_key)
    at = {}
    for i, event in ipairs(by_key.eval_accuracy) do at[i] = event.metadata.epoch_num end
    assert.same({ 120, 168, 216, 312, 408, 432 }, at)
  end)

  mpi.tests(it, pending)("has the same evaluations on two ranks, and one log", function()
    local logs = {}
    for ranks = 1, 2 do
      local out = ("%s/ranks-%d"):format(folder, ranks)
      works(mpi.run(ranks, words("--out", out, "eval.target=0.99", "--max-steps", "6", "threads=1")))
      local list, by_key = events_of(out)
      check_log(list, by_key)
      logs[ranks] = {}
      for i, event in ipairs(by_key.eval_accuracy) do logs[ranks][i] = { event.value, event.metadata.epoch_num } end
      assert.equal(6 // ranks, by_key.gradient_accumulation_steps[1].value)
    end
    assert.equal(2, #logs[1])
    assert.same(logs[1], logs[2])
  end)

  it("checks the initial checkpoint, and what the rules require", function()
    exits(2, "accuracy of 0.%d+, expected 0.90000 %(mlperf.initial%)",
      run("--out", folder .. "/a", "mlperf.initial=0.9"))
    exits(2, "set init%.from to it", run("--out", folder .. "/b", "init.from=none"))
    exits(2, "the closed division requires", run("--out", folder .. "/c", "mlperf.division=closed", "eval.target=0.5"))
    exits(2, "but only %d+ sequences are held out", run("--out", folder .. "/d", "mlperf.eval_sequences=5000"))
    exits(2, "belong together", run("--out", folder .. "/e", "eval.metric=none"))
    works(run("--dry-run", "mlperf.eval_file=" .. corpus, "data.held=0"))
  end)
end)

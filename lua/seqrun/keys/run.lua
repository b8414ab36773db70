-- run.lua - the config keys of a run itself: where it begins, what it keeps, evaluates, checks and reports.

local c = require("seqrun.config")

local MANY = 1 << 30
local later = true

local init = c.map {
  { "from", c.path { optional = true, doc = "run or checkpoint to initialize from; none: random weights" } },
  { "carry", c.enum({ "weights", "moments" }, { default = "weights",
    doc = "weights: load the weights; moments: load the optimizer moments as well" }) },
  { "tile", c.boolean { default = false,
    doc = "enlarge a smaller checkpoint: repeat its layers, and repeat its tensors outwards from the centre" } },
  { "average", c.boolean { default = false,
    doc = "start from the moving average of the weights, present if the checkpoint's run had optimizer.average" } },
  { "heads", c.enum({ "load", "new" }, { default = "load",
    doc = "load: load the heads that the checkpoint has; new: initialize all heads, for other labels" }) },
}

local at = c.map {
  { "words", c.list(c.integer { min = 1 }, { optional = true, min = 1, changeable = later, same_bits = true,
    doc = "numbers of words trained on, such as [1_000_000, 2_000_000]: the model is kept in RUN/chck_1M when it "
      .. "reaches each, as a Hugging Face directory" }) },
  { "steps", c.list(c.integer { min = 1 }, { optional = true, min = 1, changeable = later, same_bits = true,
    doc = "steps whose model is kept, in RUN/chck_step_100" }) },
}

local save = c.map {
  { "every", c.integer { default = 0, min = 0, changeable = later, same_bits = true,
    doc = "steps between checkpoints; 0: by time only" } },
  { "minutes", c.number { default = 30, min = 0, changeable = later, same_bits = true,
    doc = "minutes between checkpoints; 0: by steps only" } },
  { "keep", c.integer { default = 2, min = 2, max = MANY, changeable = later, same_bits = true,
    doc = "number of checkpoints to keep" } },
  { "background", c.boolean { default = true, changeable = later, same_bits = true,
    doc = "write checkpoints in the background, from a copy of the state; false: training waits for the disk" } },
  { "grace", c.duration { default = 20.0, min = 0, changeable = later, same_bits = true,
    doc = "seconds to finish the current step after a signal" } },
  { "best", c.string { optional = true, changeable = later, same_bits = true,
    doc = "metric of the evaluations, such as f1, by which the best checkpoint is kept in RUN/best; larger is better, "
      .. "except of losses" } },
  { "at", at },
  { "max_failures", c.integer { default = 3, min = 1, max = MANY, changeable = later, same_bits = true,
    doc = "stop after this many consecutive failed checkpoints (disk full)" } },
}

local alert = c.map {
  { "spike", c.number { default = 10, min = 0, changeable = later, same_bits = true,
    doc = "warn when the gradient norm exceeds this multiple of the median of the last steps, or the loss rises by "
      .. "this multiple of its usual change between lines, or far above the first; 0: never" } },
  { "stall", c.duration { default = 60.0, min = 0, changeable = later, same_bits = true,
    doc = "warn when a step waits this long for its data, or lasts this long and 10 times as long as earlier ones; "
      .. "0: never" } },
  { "disk", c.size { default = 1 << 30, min = 0, changeable = later, same_bits = true,
    doc = "warn when fewer bytes are free on the run's disk, such as 20G; 0: never" } },
  { "dropped", c.number { default = 0.2, min = 0, max = 1, changeable = later, same_bits = true,
    doc = "warn when experts drop more than this share of the tokens' choices because of their capacity; 1: "
      .. "never" } },
  { "run", c.string { optional = true, changeable = later, same_bits = true, runs = true,
    doc = "shell command for each alert, run in the background, with SEQRUN_ALERT (its kind), SEQRUN_MESSAGE, "
      .. "SEQRUN_STEP and SEQRUN_RUN in its environment" } },
  { "stop", c.boolean { default = false, changeable = later, same_bits = true,
    doc = "true: an alert ends the run, with exit code 1" } },
}

local eval = c.map {
  { "every", c.integer { default = 0, min = 0, changeable = later,
    doc = "steps between evaluations; 0: at the end only" } },
  { "updates", c.integer { default = 0, min = 0, changeable = later,
    doc = "held-out updates to evaluate; 0: all" } },
  { "average", c.boolean { default = false, changeable = later,
    doc = "evaluate the moving average of the weights, once it has begun; RUN/best then has these weights" } },
  { "samples", c.integer { default = 0, min = 0, word = "auto", changeable = later,
    doc = "sequences between evaluations, in addition to eval.every; 0: none; auto: the interval of MLPerf's "
      .. "BERT" } },
  { "metric", c.string { optional = true, changeable = later,
    doc = "metric of the evaluations, such as mlm_accuracy, that ends the run when it reaches eval.target" } },
  { "target", c.number { optional = true, changeable = later, doc = "value of eval.metric that ends the run" } },
  { "patience", c.integer { optional = true, min = 1, changeable = later,
    doc = "stop after this many evaluations in which save.best has not improved" } },
}

local verify = c.map {
  { "every", c.integer { default = 0, min = 0, changeable = later, same_bits = true,
    doc = "steps between checked steps, which are computed twice and compared to the bit, with hashes in metrics.jsonl "
      .. "for seqrun verify; 0: none" } },
  { "action", c.enum({ "stop", "retry", "continue" }, { default = "stop", changeable = later, same_bits = true,
    doc = "action on a difference, which is always recorded; stop: end the run; retry: compute the step a third "
      .. "time, which needs a second copy of the state; continue: continue training" }) },
}

local log = c.map {
  { "every", c.integer { default = 10, min = 1, same_bits = true, doc = "steps between lines of metrics.jsonl" } },
  { "seconds", c.number { default = 30, min = 0, changeable = later, same_bits = true,
    doc = "minimum seconds between progress lines" } },
}

local ranks = c.map {
  { "reduce", c.enum({ "exact", "library" }, { default = "exact", changeable = later,
    doc = "how ranks sum gradients; exact: the same bits with any number of ranks; library: as MPI or NCCL does" }) },
  { "overlap", c.boolean { default = true, changeable = later, same_bits = true,
    doc = "exchange the gradients of finished layers during the backward pass; the bits are the same without" } },
  { "bucket", c.number { default = 16.0, above = 0, changeable = later, same_bits = true,
    doc = "MiB of gradients that ranks send together; parameters are not cut" } },
  { "engine", c.enum({ "auto", "mpi", "nccl" }, { default = "auto", changeable = later, same_bits = true,
    doc = "transport between ranks; auto: nccl on cuda where it is found, else mpi" }) },
  { "timeout", c.duration { default = 1800.0, min = 0, changeable = later, same_bits = true,
    doc = "seconds to wait for a rank that does not answer before the run ends; 0: no limit" } },
  { "bind", c.boolean { default = true, changeable = later, same_bits = true,
    doc = "split the processors of a machine among its ranks where the launcher has not" } },
}

local keys = {
  { "steps", c.integer { optional = true, min = 1,
    doc = "updates of this run; none: until the end of the schedule" } },
  { "seed", c.integer { default = 42, min = 0, doc = "random seed" } },
  { "seeds", c.list(c.integer { min = 0 }, { optional = true, min = 1, max = 1000, distinct = true,
    doc = "run once for each of these seeds, in OUT/seed-N, and report mean and deviation" }) },
  { "phases", c.list(c.string {}, { optional = true, min = 1, max = 100,
    doc = "phases to run in turn, in OUT/NAME, each from weights and moments of the previous one: a list of NAME "
      .. "key=value key=value ...; the command line overrides them" }) },
  { "attach", c.boolean { default = true, changeable = later, same_bits = true,
    doc = "listen on a local socket, for this user only, so that seqrun attach DIR opens a prompt inside the run" } },
  { "budget", c.duration { optional = true, changeable = later, same_bits = true,
    doc = "time limit, such as 2h; the run then stops and can be resumed" } },
  { "peak_flops", c.number { optional = true, min = 1, changeable = later, same_bits = true,
    doc = "peak FLOP/s of the device, needed to report MFU" } },
  { "init", init }, { "save", save }, { "eval", eval }, { "log", log }, { "verify", verify }, { "alert", alert },
  { "ranks", ranks },
}

local rules = {
  {
    keys = { "init.tile", "init.from", "init.carry" },
    check = function(tile, from, carry)
      if not tile then return nil end
      if not from then return "init.tile needs init.from, the checkpoint of a smaller model" end
      if carry ~= "weights" then return "init.tile makes weights of another shape; init.carry must be weights" end
    end,
  },
  {
    keys = { "init.average", "init.from", "init.tile" },
    check = function(average, from, tile)
      if not average then return nil end
      if not from then return "init.average needs init.from, the checkpoint that has an average" end
      if tile then return "init.average cannot be tiled; export the average with seqrun export --average first" end
    end,
  },
  {
    keys = { "optimizer.average", "optimizer.average_from", "eval.average" },
    check = function(average, from, evaluated)
      if average >= 1 then return ("optimizer.average is %g; a decay is below 1, such as 0.9999"):format(average) end
      if average > 0 then return nil end
      if from > 0 then return "optimizer.average_from needs optimizer.average, the decay of the average" end
      return evaluated and "eval.average needs optimizer.average, the decay of the average" or nil
    end,
  },
  {
    keys = { "eval.patience", "save.best" },
    check = function(patience, best)
      if not patience or best then return nil end
      return "eval.patience needs save.best, the metric that must improve"
    end,
  },
  {
    keys = { "eval.metric", "eval.target" },
    check = function(metric, target)
      if (metric == nil) == (target == nil) then return nil end
      return "eval.metric and eval.target belong together, such as eval.metric=mlm_accuracy eval.target=0.72"
    end,
  },
}

return { keys = keys, rules = rules }

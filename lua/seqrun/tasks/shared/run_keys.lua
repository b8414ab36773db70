-- run_keys.lua - the config keys that every training run has, with types, defaults and purposes.
--
--     local schema, rules = sr.run.schema(sr.tasks.pretraining, { keys = { { "top_k", c.integer { default = 3 } } } })
--
-- A task adds its own (seqrun/tasks), a recipe adds its own to both: see run.open.  `changeable` keys may
-- differ between a run and its resumption; all others are part of what makes a resumed run the same run.  Keys of
-- `same_bits` change no bit of a training.

local c = require("seqrun.config")
local check = require("seqrun.base.check")
local counted = require("seqrun.base.format").counted
local counters = require("seqrun.schedule.counters")
local rate_rules = require("seqrun.tasks.shared.rate_rules")

local MANY = 1 << 30
local later = true

local function goal(unit)
  return c.number { optional = true, min = 0, changeable = later, doc = "end the run when it reaches this " .. unit }
end

local stop = c.map {
  { "sequences", goal "number of sequences" },
  { "raw_tokens", goal "number of tokens, before sequences are truncated" },
  { "real_tokens", goal "number of tokens, without padding" },
  { "masked_tokens", goal "number of masked tokens" },
  { "words", goal "number of words, as white space separates them" },
  { "layer_tokens", goal "number of tokens processed by layers, summed over layers" },
  { "effective_tokens", goal "number of layer tokens divided by the number of layers" },
  { "flops", goal "model FLOP" },
  { "seconds", goal "time, in seconds" },
}

local data = c.map {
  { "file", c.path { required = true, doc = "data set (.sqr), as written by recipes/prepare.lua" } },
  { "held", c.number { default = 0.05, min = 0, max = 0.5,
    doc = "fraction of the tokens held out for evaluation, from the end of the data set" } },
  { "max_len", c.integer { default = 128, min = 8, max = 65535,
    doc = "maximum sequence length, and length of a pack" } },
  { "too_long", c.enum({ "error", "truncate", "split" }, { default = "error",
    doc = "what to do with fixed examples longer than max_len" }) },
  { "prefetch", c.integer { default = 2, min = 0, max = 64, changeable = later, same_bits = true,
    doc = "updates prepared ahead by worker threads" } },
  { "workers", c.integer { default = 1, min = 0, max = 64, changeable = later, same_bits = true,
    doc = "worker threads that prepare updates; 0: none, the loop waits for each" } },
}

local pack = c.map {
  { "arrange", c.enum({ "packed", "padded", "single" }, { default = "packed",
    doc = "packed: several sequences per row; padded: one per row; single: one per micro-batch" }) },
  { "solver", c.string { default = "optimal",
    doc = "packing algorithm, built in or added by sr.pack.register(); see seqrun pack --compare" } },
  { "max_seqs", c.integer { optional = true, min = 1, max = 65535, word = "auto",
    doc = "maximum sequences per pack; none: no limit; auto: the lowest limit that packs almost as well as none" } },
}

local batch = c.map {
  { "sequences", c.integer { default = 32, min = 1, max = MANY,
    doc = "global batch size: sequences per update, on average (by: packs) or exactly (by: sequences)" } },
  { "by", c.enum({ "packs", "sequences" }, { default = "packs",
    doc = "packs: whole packs of the epoch's plan; sequences: exactly batch.sequences, packed inside the update" }) },
  { "micro_packs", c.integer { default = 8, min = 1, max = MANY, word = "auto",
    doc = "packs per micro-batch; gradients accumulate over the micro-batches of an update; auto: as many as fit the "
      .. "memory and are of use, which the run stores" } },
  { "shares", c.integer { optional = true, min = 1, max = 4096,
    doc = "parts of an update of equal cost, summed in a fixed tree, which ranks share; none: one per micro-batch, "
      .. "at most 8" } },
  { "adjust", c.enum({ "batch", "betas" }, { default = "batch",
    doc = "batch: fewer packs per update; betas: batch.sequences packs, and betas^factor" }) },
  { "loss", c.enum({ "token", "sequence" }, { default = "token",
    doc = "token: mean over the items of a loss (masked tokens); sequence: over sequences" }) },
}

local muon = c.map({
  { "momentum", c.number { default = 0.95, min = 0, below = 1, doc = "momentum of matrices" } },
  { "nesterov", c.boolean { default = true, doc = "Nesterov's momentum" } },
  { "scale", c.enum({ "rms", "shape" }, { default = "rms",
    doc = "factor on updates of matrices; rms: 0.2 sqrt(max(rows, columns)), which suits rates of adamw; shape: "
      .. "sqrt(max(1, rows / columns)), as published first" }) },
  { "matrix_rate", c.number { default = 1, min = 0,
    doc = "factor on the rate of matrices; scale=shape needs about 50" } },
  { "split", c.boolean { default = true, changeable = later,
    doc = "q, k and v that a family keeps in one matrix, and the two halves of a gated block, are matrices of their "
      .. "own; false: one matrix, as in runs before this key, which resume with it" } },
}, { doc = "optimizer.name=muon: the matrices of hidden layers" })

local optimizer = c.map {
  { "name", c.enum({ "adamw", "lamb", "stable_adamw", "muon" }, { default = "adamw",
    doc = "optimizer; lamb is for very large batches; stable_adamw lowers the rate of tensors with sudden gradients, "
      .. "and needs no clip; muon makes updates of the matrices of hidden layers orthogonal, and adamw elsewhere" }) },
  { "betas", c.list(c.number { min = 0, below = 1 }, { default = { 0.9, 0.999 }, min = 2, max = 2,
    doc = "decay rates of the two moments (beta1, beta2)" }) },
  { "eps", c.number { default = 1e-6, min = 0, doc = "added to the denominator for numerical stability" } },
  { "decay", c.number { default = 0.01, min = 0, doc = "weight decay; not applied to biases and LayerNorm" } },
  { "decay_by", c.enum({ "rate", "peak" }, { default = "rate",
    doc = "rate: weights shrink by rate * decay an update; peak: by rate / rate.peak * decay, fully decoupled" }) },
  { "muon", muon },
  { "average", c.number { default = 0, min = 0,
    doc = "decay of an exponential moving average of the weights, such as 0.9999, kept beside them; 0: none" } },
  { "average_from", c.number { default = 0, min = 0,
    doc = "units of rate.by after which averaging begins" } },
  { "clip", c.number { default = 1.0, min = 0, doc = "maximum gradient norm; 0: no clipping" } },
  { "max_skipped", c.integer { default = 10, min = 1, max = MANY,
    doc = "stop after this many consecutive updates with NaN or infinity" } },
  { "shard", c.boolean { default = true, changeable = later,
    doc = "with several ranks, each keeps the optimizer state of its part of the parameters and updates that part "
      .. "(ZeRO-1); the results have the same bits" } },
}

local rate = c.map {
  { "peak", c.number { required = true, min = 0, doc = "peak learning rate, at the end of the warmup" } },
  { "warmup", c.integer { default = 0, min = 0, doc = "steps of linear warmup; units of rate.warmup_by" } },
  { "warmup_by", c.enum(counters.NAMES, { default = "step",
    doc = "counter that the warmup depends on: step, or that of rate.by" }) },
  { "total", c.integer { required = true, min = 1,
    doc = "steps of the schedule, of batch.sequences sequences each; the rate reaches zero there; units of rate.by" } },
  { "by", c.enum(counters.NAMES, { default = "step",
    doc = "counter that the decay depends on; unless it is step, the run ends where it reaches rate.total" }) },
  { "floor", c.number { default = 0, min = 0, doc = "rate at the end of the decay" } },
  { "decay", c.enum({ "poly", "linear", "cosine", "1-sqrt", "constant", "cosine_inverse_sqrt" }, { default = "poly",
    doc = "shape of the decay; poly: by steps, see rate.power, and linear by other counters; 1-sqrt: one minus the "
      .. "square root of its part; cosine_inverse_sqrt: half a cosine, then an inverse square root" }) },
  { "last", c.number { optional = true, min = 0,
    doc = "units of rate.by that the decay takes, before rate.total: the rate is constant until then (WSD), or follows "
      .. "the inverse square root; none: it begins where the warmup ends" } },
  { "cosine", c.number { optional = true, min = 0,
    doc = "decay=cosine_inverse_sqrt: units of rate.by from the warmup to where the inverse square root begins" } },
  { "bend", c.number { default = 0.1, min = 0, max = 1,
    doc = "decay=cosine_inverse_sqrt: fraction of rate.peak that the cosine falls towards; it turns half way" } },
  { "from", c.integer { default = 0, min = 0, doc = "steps of the schedule completed by an earlier phase" } },
  { "power", c.number { default = 1.0, min = 0, doc = "power of the polynomial decay: 1 linear, 0.5 square root" } },
  { "decay_from", c.enum({ "warmup", "start" }, { default = "warmup",
    doc = "where the decay begins; start: step 0, as in the published BERT code" }) },
}

local init = c.map {
  { "from", c.path { optional = true, doc = "run or checkpoint to initialize from; none: random weights" } },
  { "carry", c.enum({ "weights", "moments" }, { default = "weights",
    doc = "weights: load the weights; moments: load the optimizer moments as well" }) },
  { "tile", c.boolean { default = false,
    doc = "the checkpoint is of a smaller model: layers are repeated, tensors stand in the middle of larger ones and "
      .. "are repeated outwards" } },
  { "average", c.boolean { default = false,
    doc = "start from the moving average of the weights, which the checkpoint has if its run had optimizer.average" } },
  { "heads", c.enum({ "load", "new" }, { default = "load",
    doc = "load: load the heads that the checkpoint has; new: initialize all heads, for other labels" }) },
}

local at = c.map {
  { "words", c.list(c.integer { min = 1 }, { optional = true, min = 1, changeable = later, same_bits = true,
    doc = "numbers of words trained on, such as [1_000_000, 2_000_000]: the first model that has seen so many is kept "
      .. "for good in RUN/chck_1M, as a Hugging Face directory" }) },
  { "steps", c.list(c.integer { min = 1 }, { optional = true, min = 1, changeable = later, same_bits = true,
    doc = "steps whose model is kept for good, in RUN/chck_step_100" }) },
}

local save = c.map {
  { "every", c.integer { default = 0, min = 0, changeable = later, same_bits = true,
    doc = "steps between checkpoints; 0: by time only" } },
  { "minutes", c.number { default = 30, min = 0, changeable = later, same_bits = true,
    doc = "minutes between checkpoints; 0: by steps only" } },
  { "keep", c.integer { default = 2, min = 2, max = MANY, changeable = later, same_bits = true,
    doc = "number of checkpoints to keep" } },
  { "background", c.boolean { default = true, changeable = later, same_bits = true,
    doc = "write a copy of the state while training goes on; false: training waits for the disk" } },
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
    doc = "tell of a gradient norm of so many times the median of the last steps, and of a loss that rises by so many "
      .. "times the usual change between lines, or far above the first; 0: of neither" } },
  { "stall", c.duration { default = 60.0, min = 0, changeable = later, same_bits = true,
    doc = "tell of a step that waits so long for its data, or lasts so long and 10 times as long as those before; 0: "
      .. "never" } },
  { "disk", c.size { default = 1 << 30, min = 0, changeable = later, same_bits = true,
    doc = "tell when fewer bytes are free where the run is, such as 20G; 0: never" } },
  { "dropped", c.number { default = 0.2, min = 0, max = 1, changeable = later, same_bits = true,
    doc = "tell when the capacity of experts drops more than this share of the tokens' choices; 1: never" } },
  { "run", c.string { optional = true, changeable = later, same_bits = true, runs = true,
    doc = "shell command for each alert, run beside the training, with SEQRUN_ALERT (its kind), SEQRUN_MESSAGE, "
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
    doc = "sequences between evaluations, besides eval.every; 0: none; auto: the interval of MLPerf's BERT" } },
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
    doc = "what a difference does, which is always recorded: stop: the run ends; retry: the step is computed a third "
      .. "time, which takes a second copy of the state; continue: training goes on" }) },
}

local log = c.map {
  { "every", c.integer { default = 10, min = 1, same_bits = true, doc = "steps between lines of metrics.jsonl" } },
  { "seconds", c.number { default = 30, min = 0, changeable = later, same_bits = true,
    doc = "minimum seconds between progress lines" } },
}

local keys = {
  { "steps", c.integer { optional = true, min = 1,
    doc = "updates of this run; none: until the end of the schedule" } },
  { "seed", c.integer { default = 42, min = 0, doc = "random seed" } },
  { "seeds", c.list(c.integer { min = 0 }, { optional = true, min = 1, max = 1000,
    doc = "run once for each of these seeds, in OUT/seed-N, and report mean and deviation" }) },
  { "phases", c.list(c.string {}, { optional = true, min = 1, max = 100,
    doc = "phases to run one after the other, in OUT/NAME, each from weights and moments of the one before: a list of "
      .. "NAME key=value key=value ..., where values of the command line win" }) },
  { "device", c.string { default = "auto",
    doc = "device to train on: auto (cuda if it can be used, else cpu), cpu, cuda, cuda:N, ref, simt" } },
  { "precision", c.enum({ "f32", "bf16", "auto" }, { default = "f32",
    doc = "dtype of activations and weights in ops; master weights, gradients and moments stay f32; auto: the "
      .. "faster of the two here, which the run stores" }) },
  { "instructions", c.enum({ "auto", "plain", "avx2", "avx512", "avx512_bf16", "amx", "ref", "simt" }, {
    default = "auto", changeable = later, like = "^%l[%w_]* [%w_.]*$", example = "cuda sm_90",
    doc = "instruction set of the device; auto: the best, which the run stores. Bits are the same within one only, "
      .. "so a run warns, with the reason, if it cannot use the one of the config" }) },
  { "tf32", c.boolean { default = false,
    doc = "cuda: products of f32 round their operands to TF32, which is faster; false: f32 throughout" } },
  { "deterministic", c.boolean { default = true, changeable = later,
    doc = "true: a step has the same bits whenever it is run; false, on cuda: embedding gradients are added in any "
      .. "order, by atomic operations, which may be faster and changes the last bits from run to run" } },
  { "cuda_graph", c.boolean { default = false, changeable = later,
    doc = "cuda: the launches of an update are recorded and run as one graph, for small batches" } },
  { "threads", c.integer { optional = true, min = 1, max = 1024, changeable = later, same_bits = true,
    doc = "CPU threads; none: all that are available" } },
  { "balance", c.enum({ "cost", "random" }, { default = "cost",
    removed = { lpt = "cost", snake = "cost", strided = "cost" },
    doc = "how packs of an update are assigned to micro-batches and so to ranks: cost: longest first by tokens and "
      .. "squared lengths, then swaps; random: as drawn, the baseline" }) },
  { "attach", c.boolean { default = true, changeable = later, same_bits = true,
    doc = "listen on a local socket, for this user only, so that seqrun attach DIR gives a prompt inside the run" } },
  { "budget", c.duration { optional = true, changeable = later, same_bits = true,
    doc = "time limit, such as 2h; the run then stops and can be resumed" } },
  { "peak_flops", c.number { optional = true, min = 1, changeable = later, same_bits = true,
    doc = "peak FLOP/s of the device, needed to report MFU" } },
  { "data", data }, { "pack", pack }, { "batch", batch }, { "optimizer", optimizer }, { "rate", rate },
  { "stop", stop }, { "init", init }, { "save", save }, { "eval", eval }, { "log", log },
  { "verify", verify },
  { "alert", alert },
  { "ranks", require("seqrun.tasks.shared.rank_keys") },
}

local rules = {
  {
    keys = { "device" },
    check = function(name) return require("seqrun.tensor.devices").problem(name) end,
  },
  {
    keys = { "pack.solver" },
    check = function(name) return select(2, require("seqrun.pack").check_solver(name)) end,
  },
  {
    keys = { "batch.by", "batch.adjust" },
    check = function(by, adjust)
      if by == "packs" or adjust == "batch" then return nil end
      return "batch.adjust=betas requires batch.by=packs; set it, or leave out batch.adjust"
    end,
  },
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
  rate_rules.power,
  rate_rules.shape,
  {
    keys = { "rate.by", "rate.decay", "rate.from", "rate.decay_from" },
    check = function(by, decay, from, decay_from)
      if by ~= "step" and from ~= 0 then return "rate.from applies to rate.by=step only; leave it out" end
      if decay_from == "warmup" or decay == "poly" and by == "step" then return nil end
      return "rate.decay_from=start applies to rate.decay=poly by steps only; leave it out"
    end,
  },
  {
    keys = { "rate.warmup", "rate.last", "rate.total", "rate.by", "rate.warmup_by" },
    check = function(warmup, last, total, by, warmup_by)
      if not last or (by == warmup_by and warmup or 0) + last <= total then return nil end
      return ("rate.warmup %g and rate.last %g exceed the %g %s of rate.total"):format(warmup, last, total,
        by == "step" and "steps" or by)
    end,
  },
  {
    keys = { "rate.warmup_by", "rate.by" },
    check = function(warmup_by, by)
      if warmup_by == "step" or warmup_by == by then return nil end
      local text = "rate.warmup_by is %s, but rate.by is %s; the warmup is in steps or in units of rate.by"
      return text:format(warmup_by, by)
    end,
  },
  {
    keys = { "rate.warmup", "rate.total", "rate.by", "rate.warmup_by" },
    check = function(warmup, total, by, warmup_by)
      if by ~= warmup_by or warmup < total then return nil end
      return ("warmup is %d of %d %s; lower rate.warmup or raise rate.total"):format(warmup, total,
        by == "step" and "steps" or by)
    end,
  },
  {
    keys = { "rate.from", "rate.total", "steps", "rate.by" },
    check = function(from, total, steps, by)
      if by ~= "step" or from + (steps or 1) <= total then return nil end
      return ("%s after the first %d exceed the %d of the schedule; raise rate.total"):format(
        counted(steps or 1, "step"), from, total)
    end,
  },
  {
    keys = { "optimizer.betas" },
    check = function(betas)
      if betas[1] < 1 and betas[2] < 1 then return nil end
      return ("betas must be below 1, not %g and %g"):format(betas[1], betas[2])
    end,
  },
  {
    keys = { "optimizer.name", "optimizer.decay_by" },
    check = function(name, by)
      if name ~= "lamb" or by == "rate" then return nil end
      return "optimizer.decay_by=peak does not apply to lamb, whose trust ratio scales its decay; leave it out"
    end,
  },
  {
    keys = { "optimizer.muon.matrix_rate" },
    check = function(factor) return factor == 0 and "matrices would not be trained; use a positive factor" or nil end,
  },
  {
    keys = { "optimizer.eps" },
    check = function(eps)
      if eps > 0 then return nil end
      return "eps must be positive, such as 1e-6: it keeps the update finite where the second moment is zero"
    end,
  },
}

---@class seqrun.Keys
---@field keys? table[] { name, type }, as for config.map
---@field rules? table[] as for config.load
---@field settings? table other defaults of keys, as { batch = { sequences = 16 } }
---@field without? string[] keys of every run that a task does not have, or has with another type

---Rules of every run, without those about keys that a task leaves out.
local function remaining(without)
  local gone, list = {}, {}
  for _, path in ipairs(without) do gone[path] = true end
  for _, rule in ipairs(rules) do
    local good = true
    for _, path in ipairs(rule.keys) do good = good and not gone[path] end
    if good then list[#list + 1] = rule end
  end
  return list
end

---The keys of a run: those of every run, and those of each part.
---@param ... seqrun.Keys of a task, of a recipe
---@return table schema
---@return table[] rules
return function(...)
  for i = 1, select("#", ...) do
    local part = select(i, ...)
    if part ~= nil then check.value(("run.schema: argument %d"):format(i), part, "table") end
  end
  local without = (... or {}).without or {}
  local schema, all = c.without(c.map(keys), without), remaining(without)
  for i = 1, select("#", ...) do
    local part = select(i, ...) or {}
    schema = c.merge(schema, c.map(part.keys or {}))
    table.move(part.rules or {}, 1, #(part.rules or {}), #all + 1, all)
    if part.settings then schema = c.defaults(schema, part.settings) end
  end
  return schema, all
end

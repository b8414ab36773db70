-- schema.lua - every key of a pretraining run, with its type, default and purpose.
--
-- `changeable` keys may differ between a run and its resumption; all others are part of what makes a
-- resumed run the same run.

local c = require("seqrun.config")

local solvers = require("seqrun.core.pack").solvers() -- loaders plan on threads, where no Lua runs
local MANY = 1 << 30 -- more than anybody means
local later = true -- a resumed run may change it

local data = c.map {
  { "file", c.path { required = true, doc = "data set made by recipes/prepare.lua" } },
  { "held", c.number { default = 0.05, min = 0, max = 0.5, doc = "share of the documents held back, at the end" } },
  { "max_len", c.integer { default = 128, min = 8, max = 65535, doc = "tokens in a pack, and at most in a sequence" } },
  { "short_seq_prob", c.number { default = 0.1, min = 0, max = 1, doc = "share of pairs cut to a random length" } },
  { "too_long", c.enum({ "error", "truncate", "split" }, { default = "error",
    doc = "given examples of more than max_len tokens" }) },
  { "nsp", c.boolean { default = true, doc = "draw sentence pairs and learn whether B follows A" } },
  { "prefetch", c.integer { default = 2, min = 0, max = 64, changeable = later, doc = "updates made ahead" } },
}

local mask = c.map {
  { "prob", c.number { default = 0.15, min = 0.01, max = 0.9, doc = "share of tokens to predict" } },
  { "max", c.integer { default = 20, min = 1, max = 65535, doc = "predictions a sequence, at most" } },
  { "whole_word", c.boolean { default = false, doc = "mask all pieces of a word together" } },
}

local pack = c.map {
  { "arrange", c.enum({ "packed", "padded" }, { default = "packed", doc = "packed, or one sequence a row" }) },
  { "solver", c.enum(solvers, { default = "optimal", doc = "see seqrun pack --compare" }) },
  { "max_seqs", c.integer { optional = true, min = 1, max = 65535, word = "auto",
    doc = "sequences a pack, at most; auto: as few as pack nearly as well as any number" } },
}

local batch = c.map {
  { "sequences", c.integer { default = 32, min = 1, max = MANY, doc = "sequences an update is to have, on average" } },
  { "micro_packs", c.integer { default = 8, min = 1, max = MANY,
    doc = "packs in memory at a time; an update adds up as many as it needs" } },
  { "adjust", c.enum({ "batch", "betas" }, { default = "batch",
    doc = "batch: fewer packs; betas: as many packs as sequences, betas^factor" }) },
  { "loss", c.enum({ "token", "sequence" }, { default = "token",
    doc = "mean over masked tokens, or over sequences" }) },
}

local model = c.map {
  { "hidden_size", c.integer { default = 768, min = 1, max = 65536, doc = "width of what stands for a token" } },
  { "num_hidden_layers", c.integer { default = 12, min = 1, max = 1024, doc = "layers" } },
  { "num_attention_heads", c.integer { default = 12, min = 1, max = 1024, doc = "heads; they divide hidden_size" } },
  { "intermediate_size", c.integer { default = 3072, min = 1, max = 1 << 20,
    doc = "width between the two products of a layer" } },
  { "hidden_act", c.enum({ "gelu", "gelu_new", "relu" }, { default = "gelu",
    doc = "between them; gelu is the one with erf, gelu_new with tanh" }) },
  { "hidden_dropout_prob", c.number { default = 0.1, min = 0, max = 0.9,
    doc = "share of outputs that training drops" } },
  { "attention_probs_dropout_prob", c.number { default = 0.1, min = 0, max = 0.9,
    doc = "share of attention that training drops" } },
  { "max_position_embeddings", c.integer { default = 512, min = 8, max = 65536,
    doc = "tokens of the longest sequence" } },
  { "type_vocab_size", c.integer { default = 2, min = 2, max = 65536, doc = "segments that are told apart" } },
  { "initializer_range", c.number { default = 0.02, min = 0, doc = "deviation of a fresh model's weights" } },
  { "layer_norm_eps", c.number { default = 1e-12, min = 0, doc = "added to the variance" } },
  { "recompute", c.boolean { default = false, changeable = later,
    doc = "keep no activations inside a layer; exact, slower" } },
}

local optimizer = c.map {
  { "name", c.enum({ "adamw", "lamb" }, { default = "adamw", doc = "lamb: for very large updates" }) },
  { "betas", c.list(c.number { min = 0, max = 1 }, { default = { 0.9, 0.999 }, min = 2, max = 2,
    doc = "what the two moments keep at a step" }) },
  { "eps", c.number { default = 1e-6, min = 0, doc = "added to the root of the second moment" } },
  { "decay", c.number { default = 0.01, min = 0, doc = "of weights; biases and norms have none" } },
  { "clip", c.number { default = 1.0, min = 0, doc = "largest norm of the whole gradient; 0: none" } },
  { "max_skipped", c.integer { default = 10, min = 1, max = MANY,
    doc = "updates in a row that are not finite, then the run ends" } },
}

local rate = c.map {
  { "peak", c.number { required = true, min = 0, doc = "learning rate at the end of the warm-up" } },
  { "warmup", c.integer { default = 0, min = 0, doc = "steps of linear warm-up" } },
  { "total", c.integer { required = true, min = 1,
    doc = "steps of the schedule, batch.sequences sequences each; the rate ends at zero there" } },
  { "from", c.integer { default = 0, min = 0, doc = "steps of the schedule that an earlier phase has used" } },
  { "power", c.number { default = 1.0, min = 0, doc = "of the decay: 1 is linear, 0.5 a square root" } },
  { "decay_from", c.enum({ "warmup", "start" }, { default = "warmup",
    doc = "start: the decay counts from step 0, as the published BERT codes do" }) },
}

local init = c.map {
  { "from", c.path { optional = true, doc = "run or checkpoint to start from" } },
  { "carry", c.enum({ "weights", "moments" }, { default = "weights", doc = "what is taken from it" }) },
}

local save = c.map {
  { "every", c.integer { default = 0, min = 0, changeable = later,
    doc = "steps between checkpoints; 0: by time only" } },
  { "minutes", c.number { default = 30, min = 0, changeable = later,
    doc = "minutes between checkpoints; 0: by steps only" } },
  { "keep", c.integer { default = 2, min = 2, max = MANY, changeable = later, doc = "checkpoints to keep" } },
  { "grace", c.duration { default = 20.0, min = 0, changeable = later,
    doc = "time that a signal leaves to the step under way" } },
  { "max_failures", c.integer { default = 3, min = 1, max = MANY, changeable = later,
    doc = "failed checkpoints in a row (a full disk) that end the run" } },
}

local eval = c.map {
  { "every", c.integer { default = 0, min = 0, changeable = later,
    doc = "steps between evaluations; 0: at the end only" } },
  { "updates", c.integer { default = 0, min = 0, changeable = later, doc = "held-back updates to score; 0: all" } },
}

local log = c.map {
  { "every", c.integer { default = 10, min = 1, doc = "steps a line of metrics.jsonl covers" } },
  { "seconds", c.number { default = 30, min = 0, changeable = later,
    doc = "between progress lines, where there is no terminal" } },
}

local schema = c.map {
  { "steps", c.integer { optional = true, min = 1,
    doc = "updates of this run; none: as many as what is left of rate.total takes" } },
  { "seed", c.integer { default = 42, min = 0, doc = "key of every random decision" } },
  { "device", c.string { default = "cpu", doc = "one of sr.devices()" } },
  { "threads", c.integer { optional = true, min = 1, max = 1024, changeable = later,
    doc = "none: what the machine allows" } },
  { "budget", c.duration { optional = true, changeable = later, doc = "stop, resumable, after this time" } },
  { "peak_flops", c.number { optional = true, min = 1, changeable = later,
    doc = "of the device, a second; then MFU is known" } },
  { "data", data }, { "mask", mask }, { "pack", pack }, { "batch", batch }, { "model", model },
  { "optimizer", optimizer }, { "rate", rate }, { "init", init }, { "save", save }, { "eval", eval }, { "log", log },
}

local rules = {
  {
    keys = { "model.num_attention_heads", "model.hidden_size" },
    check = function(heads, hidden)
      if hidden % heads == 0 then return nil end
      return ("hidden_size %d = %d x %d + %d; heads must divide it"):format(
        hidden, heads, hidden // heads, hidden % heads)
    end,
  },
  {
    keys = { "data.max_len", "model.max_position_embeddings" },
    check = function(max_len, positions)
      if max_len <= positions then return nil end
      return ("max_len %d is more than the %d positions of the model; raise model.max_position_embeddings"):format(
        max_len, positions)
    end,
  },
  {
    keys = { "rate.warmup", "rate.total" },
    check = function(warmup, total)
      if warmup < total then return nil end
      return ("the warm-up takes %d of %d steps; lower rate.warmup or raise rate.total"):format(warmup, total)
    end,
  },
  {
    keys = { "rate.from", "rate.total", "steps" },
    check = function(from, total, steps)
      if from + (steps or 1) <= total then return nil end
      return ("%d steps after the first %d are more than the %d of the schedule; raise rate.total"):format(
        steps or 1, from, total)
    end,
  },
  {
    keys = { "optimizer.betas" },
    check = function(betas)
      if betas[1] < 1 and betas[2] < 1 then return nil end
      return ("betas are below 1, not %g and %g"):format(betas[1], betas[2])
    end,
  },
  {
    keys = { "optimizer.eps" },
    check = function(eps)
      if eps > 0 then return nil end
      return "eps is above 0, such as 1e-6: a moment of zero is divided by it"
    end,
  },
}

return { schema = schema, rules = rules }

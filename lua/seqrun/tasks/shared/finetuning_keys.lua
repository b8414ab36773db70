-- finetuning_keys.lua - the config keys of fine-tuning runs.

local c = require("seqrun.config")
local deciding = require("seqrun.tasks.shared.deciding")
local efficiency = require("seqrun.curriculum.keys")
local rate_keys = require("seqrun.schedule.rate_keys")
local token_drop = require("seqrun.curriculum.token_drop")
local readers = require("seqrun.data.readers.keys")

---Keys of every run that fine-tuning does not have, or has with another meaning.
local without = {
  "data.file", "data.held", "data.max_len", "data.too_long", "batch.by", "batch.adjust", "init.from", "init.carry",
  "rate.peak", "rate.warmup", "rate.total", "rate.from", "rate.decay_from",
}

local batch = c.map {
  { "by", c.enum({ "sequences", "packs" }, { default = "sequences",
    doc = "sequences: exactly batch.sequences, packed inside the update; packs: whole packs of the epoch's plan" }) },
  { "evaluation", c.integer { default = 64, min = 1, max = 1 << 20, changeable = true,
    doc = "sequences per update of an evaluation, on average" } },
}

local rate = c.map {
  { "peak", c.number { default = 5e-5, min = 0, doc = "peak learning rate, at the end of the warmup" } },
  { "warmup", c.number { default = 0.1, min = 0,
    doc = "steps of linear warmup, or units of rate.warmup_by; below 1: a fraction of all steps, or of rate.total" } },
  { "total", c.number { optional = true, min = 1,
    doc = "unless rate.by is step: where the decay and the run end, in units of rate.by" } },
}

local init = c.map {
  { "from", c.path { required = true,
    doc = "run, checkpoint or Hugging Face directory: encoder, vocabulary and, for the same task, head" } },
  { "carry", c.enum({ "weights", "none" }, { default = "weights",
    doc = "weights: load the weights; none: only the config and the vocabulary, with random weights" }) },
}

local function dropout(what)
  return c.number { optional = true, min = 0, below = 1, doc = what .. "; none: as in the checkpoint" }
end

local model = c.map {
  { "hidden_dropout_prob", dropout "dropout probability of embeddings and layer outputs" },
  { "attention_probs_dropout_prob", dropout "attention dropout probability" },
  { "classifier_dropout", dropout "dropout probability before the head" },
  { "dropout", dropout "DistilBERT: dropout probability of embeddings and layer outputs" },
  { "attention_dropout", dropout "DistilBERT, ModernBERT, EuroBERT: attention dropout probability" },
  { "embedding_dropout", dropout "ModernBERT: embedding dropout probability" },
  { "mlp_dropout", dropout "ModernBERT: dropout probability inside the feed-forward block" },
  { "classifier_pooling", c.string { optional = true,
    doc = "pooling of sequence heads: cls or mean in ModernBERT; bos, mean or late in EuroBERT; none: as in the "
      .. "checkpoint" } },
  { "recompute", c.boolean { default = false, changeable = true,
    doc = "recompute the activations of each layer in the backward pass: less memory, more time, same results" } },
}

local eval = c.map {
  { "epochs", c.number { default = 1, min = 0, changeable = true,
    doc = "epochs between evaluations; 0: every eval.every steps, and at the end" } },
}

local tune = c.map {
  { "layer_decay", c.number { default = 1, min = 0.01, max = 1,
    doc = "factor on the learning rate from each layer to the one below; 1: the same rate for all" } },
  { "freeze_embeddings", c.boolean { default = false, doc = "do not train the embeddings" } },
  { "freeze_layers", c.integer { default = 0, min = 0, max = 1024,
    doc = "number of lowest layers to freeze, together with the embeddings; 0: train all" } },
  { "freeze", c.list(c.string {}, { optional = true, min = 1, one = true,
    doc = "parameters to freeze: parts of their names, as in [embeddings,layer.0,LayerNorm]; * matches any "
      .. "characters" }) },
  { "label_smoothing", c.number { default = 0, min = 0, below = 1,
    doc = "share of each label spread over all classes in the training loss; 0: none" } },
  { "class_weights", c.list(c.string {}, { optional = true, min = 1, one = true,
    doc = "weight of each class in the training loss, in the order of the labels; balanced: the inverse of its "
      .. "frequency in data.train, 1 on average; none: equal weights" }) },
  { "reinit_layers", c.integer { default = 0, min = 0, max = 1024,
    doc = "reinitialize the pooler and this number of top layers; 0: keep all" } },
}

local keys = {
  { "arrange", c.enum({ "packed", "padded", "single" }, { optional = true, doc = "short for pack.arrange" }) },
  { "epochs", c.number { default = 3, min = 0.001, max = 1e6,
    doc = "passes over the training data; unless rate.by is step, rate.total ends the run" } },
  { "batch", batch }, { "rate", rate }, { "init", init }, { "model", model }, { "tune", tune }, { "eval", eval },
  deciding.key, token_drop.key, efficiency.curriculum,
}
table.move(readers.keys, 1, #readers.keys, #keys + 1, keys)

local rules = {
  deciding.rules[1], deciding.rules[2], token_drop.rule, rate_keys.shared[1], rate_keys.shared[2],
  {
    keys = { "batch.by", "data.weights", "data.temperature" },
    check = function(by, weights, temperature)
      if by ~= "packs" or not weights and not temperature then return nil end
      return ("batch.by=packs draws whole packs, but data.%s a number of sequences; leave one of them out"):format(
        weights and "weights" or "temperature")
    end,
  },
  {
    keys = { "rate.by", "rate.total" },
    check = function(by, total)
      if by ~= "step" and not total then
        return ("rate.by=%s needs rate.total, where the decay and the run end"):format(by)
      end
      if by == "step" and total then return "rate.total requires rate.by; by steps, epochs ends the run" end
    end,
  },
  {
    keys = { "rate.by", "rate.warmup_by", "rate.warmup", "rate.total" },
    check = function(by, warmup_by, warmup, total)
      if by == "step" or not total then return nil end
      if warmup_by == "step" and warmup > 0 and warmup < 1 then
        local text = "rate.warmup is %g, a fraction of steps whose number is not known with rate.by=%s; give steps, or "
          .. "set rate.warmup_by=%s"
        return text:format(warmup, by, by)
      end
      if warmup_by == by and warmup >= total then
        return ("rate.warmup is %g of %g %s; lower it, or raise rate.total"):format(warmup, total, by)
      end
    end,
  },
}
table.move(efficiency.curriculum_rules, 1, #efficiency.curriculum_rules, #rules + 1, rules)
table.move(readers.rules or {}, 1, #(readers.rules or {}), #rules + 1, rules)

return { keys = keys, rules = rules, without = without }

-- pretraining.lua - pretraining of an encoder: masked LM, and for BERT next-sentence prediction.

local c = require("seqrun.config")
local configs = require("seqrun.nn.config")
local distill = require("seqrun.tasks.shared.distill")
local experts = require("seqrun.tasks.shared.experts")
local failure = require("seqrun.base.failure")
local model_keys = require("seqrun.tasks.shared.model_keys")
local models = require("seqrun.tasks.shared.models")
local token_drop = require("seqrun.curriculum.token_drop")
local parts = require("seqrun.tasks.shared.parts")

local pretraining = {}

local data = c.map {
  { "short_seq_prob", c.number { default = 0.1, min = 0, max = 1,
    doc = "probability that a sentence pair gets a random shorter length" } },
  { "short_seq_by", c.enum({ "sequence", "document" }, { default = "sequence", before = "document",
    doc = "sequence: in documents of more than 8 max_len tokens each sequence draws its length; document: all "
      .. "sequences of a document have one, as in older runs" }) },
  { "nsp", c.boolean { default = true,
    doc = "next-sentence prediction: sample sentence pairs and train the NSP head, in families that have one" } },
}

local mask = c.map {
  { "prob", c.number { default = 0.15, min = 0.01, max = 0.9, doc = "fraction of the tokens to mask" } },
  { "max", c.integer { default = 20, min = 1, max = 65535, doc = "maximum masked tokens per sequence" } },
  { "whole_word", c.boolean { default = false, doc = "whole-word masking" } },
}

local model = model_keys("bert", { more = experts.model_keys, own = {
  { "hidden_size", c.integer { default = 768, min = 1, max = 1 << 30, doc = "hidden size" } },
  { "num_hidden_layers", c.integer { default = 12, min = 1, max = 1024, doc = "number of layers" } },
  { "num_attention_heads", c.integer { default = 12, min = 1, max = 1 << 20,
    doc = "number of attention heads; must divide hidden_size" } },
  { "intermediate_size", c.integer { default = 3072, min = 1, max = 1 << 30,
    doc = "inner size of the feed-forward block" } },
  { "hidden_act", c.enum({ "gelu", "gelu_new", "relu" }, { default = "gelu",
    doc = "activation function; gelu: exact (erf), gelu_new: tanh approximation" }) },
  { "hidden_dropout_prob", c.number { default = 0.1, min = 0, below = 1,
    doc = "dropout probability of embeddings and layer outputs" } },
  { "attention_probs_dropout_prob", c.number { default = 0.1, min = 0, below = 1,
    doc = "attention dropout probability" } },
  { "max_position_embeddings", c.integer { default = 512, min = 8, max = 65536,
    doc = "number of position embeddings: the maximum sequence length of the model" } },
  { "type_vocab_size", c.integer { default = 2, min = 2, max = 65536, doc = "number of token types (segments)" } },
  { "initializer_range", c.number { default = 0.02, min = 0, doc = "standard deviation of the initial weights" } },
  { "initializer", c.enum({ "normal", "depth", "local" }, { default = "normal",
    doc = "initial weights; normal: as published; depth: matrices that add to the hidden state are divided by sqrt(2 "
      .. "* layers); local: sinusoidal positions, and half of the heads start by attending to neighbouring tokens: "
      .. "small models on little text learn in a fraction of the time" }) },
  { "layer_norm_eps", c.number { default = 1e-12, min = 0, doc = "epsilon of LayerNorm" } },
} })

pretraining.recipe = "recipes/pretrain.lua"

---Keys that other tasks have too.
pretraining.shared = { data = { "data", data }, mask = { "mask", mask } }

pretraining.keys = {
  pretraining.shared.data, pretraining.shared.mask, { "model", model }, token_drop.key, experts.key, distill.key,
}

pretraining.rules = {
  token_drop.rule, experts.rules[1], experts.rules[2], distill.rule,
  models.family_rule(false, "the family %s is causal: train it with recipes/causal.lua"),
  {
    keys = { "model.num_attention_heads", "model.hidden_size" },
    check = function(heads, hidden)
      if hidden % heads == 0 then return nil end
      return ("hidden_size %d is not a multiple of num_attention_heads %d"):format(hidden, heads)
    end,
  },
  {
    keys = { "data.max_len", "model.max_position_embeddings", "init.from" },
    check = function(max_len, positions, from)
      if max_len <= positions then return nil end
      local way = "raise model.max_position_embeddings"
      if from then way = ("set data.max_len=%d, or, of a model with rotary positions, %s"):format(positions, way) end
      return ("max_len %d exceeds the %d position embeddings of the model; %s"):format(max_len, positions, way)
    end,
  },
}

---What the forward pass of a config's model reads, and whether it predicts next sentences.
local function design_of(cfg)
  local design, _, heads = configs.design(models.encoder_keys(cfg.model))
  return design, cfg.data.nsp and heads.nsp ~= nil
end

---Share of the layers in which all tokens of a sequence attend to each other.
local function global_share(design)
  local count = 0
  for i = 0, design.layers - 1 do
    if not (design.window and design.window(i)) then count = count + 1 end
  end
  return count / design.layers
end

---The column of next-sentence labels that fixed examples may have: 1 if B does not follow A.
local NEXT = "next_sentence"

---The target of the next-sentence head: pairs drawn from text, or the labels of fixed examples.
---@param corpus seqrun.Corpus
---@return string|seqrun.TargetOptions|nil # nil: the data set has neither
function pretraining.next_sentence(corpus)
  if corpus:info().kind == "text" then return "nsp" end
  return corpus:known(NEXT) and { name = "nsp", column = NEXT } or nil
end

---Options for sr.data.loader.
---@param cfg table
---@param corpus seqrun.Corpus
---@param part "train"|"held"
---@param plan? string a saved plan, used for its epoch
---@return table
function pretraining.loader_options(cfg, corpus, part, plan)
  local design, nsp = design_of(cfg)
  local target = nsp and pretraining.next_sentence(corpus) or nil
  if nsp and not target then
    failure.raise("config", "%s contains fixed examples without a column %s, not text to sample sentence pairs from; "
      .. "set data.nsp=false", corpus:info().path, NEXT)
  end
  local options = parts.loader_options(cfg, corpus, part, plan)
  options.mask, options.nsp = cfg.mask, target == "nsp"
  options.short_seq_prob, options.short_seq_by = cfg.data.short_seq_prob, cfg.data.short_seq_by
  if type(target) == "table" then options.targets = { "mlm", target } end
  options.per_square = global_share(design) / (6 * design.hidden) -- FLOP per len^2 over those per token
  return options
end

---The config for sr.nn.bert.
---@param cfg table
---@param corpus seqrun.Corpus
---@return table
function pretraining.model_options(cfg, corpus) return models.options(cfg, corpus) end

---Options for the optimizer of the config; parameters that no loss of this config reaches are frozen.
---@param cfg table
---@param bert seqrun.Bert
---@param loader seqrun.Loader
---@return table
function pretraining.optimizer_options(cfg, bert, loader)
  local options = parts.optimizer_options(cfg, loader)
  options.groups = bert:frozen(cfg.data.nsp and bert:head("nsp") and { "mlm", "nsp" } or { "mlm" })
  return options
end

return pretraining

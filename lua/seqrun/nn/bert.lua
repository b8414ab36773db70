-- bert.lua - BERT for pretraining, composed from coarse ops.
--
-- Post-LN encoder with learned positions, a masked-LM head tied to the word embeddings and a
-- next-sentence head on [CLS].  Names, shapes and config keys are those of Hugging Face's
-- BertForPreTraining, so a checkpoint needs no conversion.  Heads run on gathered rows only.
--
-- Source: Devlin et al. 2018, arXiv:1810.04805.

local ops = require("seqrun.ops")
local params = require("seqrun.params")

local Bert = {}
Bert.__index = Bert

---What a config may leave out; the values of BERT-base, as published.
local DEFAULTS = {
  vocab_size = 30522,
  hidden_size = 768,
  num_hidden_layers = 12,
  num_attention_heads = 12,
  intermediate_size = 3072,
  hidden_act = "gelu",
  hidden_dropout_prob = 0.1,
  attention_probs_dropout_prob = 0.1,
  max_position_embeddings = 512,
  type_vocab_size = 2,
  initializer_range = 0.02,
  layer_norm_eps = 1e-12,
  pad_token_id = 0,
}

---Hugging Face's names of activations, and ours.
local ACTIVATIONS = {
  gelu = "gelu",
  gelu_new = "gelu_tanh",
  gelu_pytorch_tanh = "gelu_tanh",
  relu = "relu",
}

---Rows of the vocabulary are padded in the store to a multiple of this, and stripped on save.
local VOCAB_MULTIPLE = 8

---Keys of Hugging Face that would make another model of it, with the only values that this one has.
local ONLY = {
  position_embedding_type = "absolute", tie_word_embeddings = true, is_decoder = false, add_cross_attention = false,
}

local function check(config)
  for key, value in pairs(ONLY) do
    if config[key] ~= nil and config[key] ~= value then
      local text = "bert: '%s: %s' is another model; this one has %s"
      error(text:format(key, tostring(config[key]), tostring(value)), 3)
    end
  end
  local hidden, heads = config.hidden_size, config.num_attention_heads
  if hidden % heads ~= 0 then
    local fix = "choose num_attention_heads so that it divides hidden_size"
    error(("bert: hidden_size %d is not a multiple of %d heads; %s"):format(hidden, heads, fix), 3)
  end
  if not ACTIVATIONS[config.hidden_act] then
    local known = "gelu, gelu_new, gelu_pytorch_tanh or relu"
    error(("bert: hidden_act '%s' is not known; use %s"):format(config.hidden_act, known), 3)
  end
end

-- ---- parameters ------------------------------------------------------------------------------

---A list of parameters that knows the shapes in use: `weight` and `bias` of a linear map, and a norm.
local function builder(std)
  local list = {}
  local add = {}
  function add.weight(name, shape, more)
    local spec = { name = name, shape = shape, init = "normal", std = std, group = "decay" }
    for key, value in pairs(more or {}) do spec[key] = value end
    list[#list + 1] = spec
  end
  function add.bias(name, shape, more)
    local spec = { name = name, shape = shape, init = "zeros", group = "no_decay" }
    for key, value in pairs(more or {}) do spec[key] = value end
    list[#list + 1] = spec
  end
  function add.linear(name, outputs, inputs)
    add.weight(name .. ".weight", { outputs, inputs })
    add.bias(name .. ".bias", { outputs })
  end
  function add.norm(name, size)
    list[#list + 1] = { name = name .. ".weight", shape = { size }, init = "ones", group = "no_decay" }
    add.bias(name .. ".bias", { size })
  end
  return list, add
end

---Query, key and value are three tensors that stand side by side, so that one product makes all.
local function add_attention(add, prefix, hidden)
  for _, part in ipairs { "weight", "bias" } do
    for _, name in ipairs { "query", "key", "value" } do
      local shape = part == "weight" and { hidden, hidden } or { hidden }
      add[part](("%s.self.%s.%s"):format(prefix, name, part), shape, { fuse = prefix .. ".self.qkv." .. part })
    end
  end
  add.linear(prefix .. ".output.dense", hidden, hidden)
  add.norm(prefix .. ".output.LayerNorm", hidden)
end

---The parameters of a config, in the order of the path of a token.
---@param config table Hugging Face keys
---@return table[] # for sr.params.new
local function specs(config)
  local hidden, inner = config.hidden_size, config.intermediate_size
  local list, add = builder(config.initializer_range)
  local embeddings = "bert.embeddings."
  local padded = { pad_rows_to = VOCAB_MULTIPLE }
  add.weight(embeddings .. "word_embeddings.weight", { config.vocab_size, hidden }, padded)
  add.weight(embeddings .. "position_embeddings.weight", { config.max_position_embeddings, hidden })
  add.weight(embeddings .. "token_type_embeddings.weight", { config.type_vocab_size, hidden })
  add.norm(embeddings .. "LayerNorm", hidden)
  for i = 0, config.num_hidden_layers - 1 do
    local layer = ("bert.encoder.layer.%d."):format(i)
    add_attention(add, layer .. "attention", hidden)
    add.linear(layer .. "intermediate.dense", inner, hidden)
    add.linear(layer .. "output.dense", hidden, inner)
    add.norm(layer .. "output.LayerNorm", hidden)
  end
  add.linear("bert.pooler.dense", hidden, hidden)
  add.linear("cls.predictions.transform.dense", hidden, hidden)
  add.norm("cls.predictions.transform.LayerNorm", hidden)
  add.bias("cls.predictions.bias", { config.vocab_size }, padded)
  add.linear("cls.seq_relationship", 2, hidden)
  return list
end

-- ---- the path of a token ---------------------------------------------------------------------

---@class seqrun.Bert
---@field config table Hugging Face keys
---@field params seqrun.Params
---@field training boolean dropout falls only while this is true
---@field recompute boolean run each layer again in the backward pass instead of keeping its activations

---A BERT for pretraining on the current device, parameters not yet initialised.
---@param config table keys of Hugging Face's config.json; what is left out is BERT-base
---@return seqrun.Bert
local function new(config)
  config = setmetatable(config or {}, nil)
  local whole = {}
  for key, value in pairs(DEFAULTS) do whole[key] = value end
  for key, value in pairs(config) do whole[key] = value end
  check(whole)
  local self = setmetatable({ config = whole, training = true, recompute = false }, Bert)
  self.params = params.new(specs(whole))
  return self
end

---The published initialisation: truncated normal weights, zero biases, unit norms.
---@param seed integer
---@return seqrun.Bert
function Bert:initialise(seed)
  self.params:initialise(seed)
  return self
end

function Bert:linear(x, name, options)
  local p = self.params
  return ops.linear(x, p:get(name .. ".weight"), p:get(name .. ".bias"), options)
end

function Bert:norm(x, residual, name, options)
  local p = self.params
  options.eps = self.config.layer_norm_eps
  return ops.residual_norm(x, residual, p:get(name .. ".weight"), p:get(name .. ".bias"), options)
end

function Bert:embed(batch)
  local p, config = self.params, self.config
  local tables = {
    word = p:get("bert.embeddings.word_embeddings.weight"),
    position = p:get("bert.embeddings.position_embeddings.weight"),
    type = p:get("bert.embeddings.token_type_embeddings.weight"),
    gamma = p:get("bert.embeddings.LayerNorm.weight"),
    beta = p:get("bert.embeddings.LayerNorm.bias"),
  }
  local dropout = self.training and config.hidden_dropout_prob or 0
  return ops.embed(batch.ids, batch.types, tables, batch.layout, { eps = config.layer_norm_eps, dropout = dropout })
end

---One encoder layer: attention, then the feed-forward block, each with residual and norm.
---@param x seqrun.Tensor (T, H)
---@param layout seqrun.Layout
---@param i integer layer, from 0 as in the names
---@param needed? { layout: seqrun.Layout, rows: seqrun.Tensor } go on with these rows after attention
---@return seqrun.Tensor # (T, H), or the needed rows of it
function Bert:layer(x, layout, i, needed)
  local config, p = self.config, self.params
  local name = ("bert.encoder.layer.%d."):format(i)
  local hidden_dropout = self.training and config.hidden_dropout_prob or 0

  local fused = name .. "attention.self.qkv."
  local qkv = ops.linear(x, p:fused(fused .. "weight"), p:fused(fused .. "bias"))
  local mixed = (self.attention or ops.attention)(qkv, layout, {
    heads = config.num_attention_heads,
    dropout = self.training and config.attention_probs_dropout_prob or 0,
    layer = i,
  })
  if needed then
    mixed, x = ops.gather_rows(mixed, needed.rows), ops.gather_rows(x, needed.rows)
    layout = needed.layout
  end
  local projected = self:linear(mixed, name .. "attention.output.dense")
  local attended = self:norm(projected, x, name .. "attention.output.LayerNorm", {
    dropout = hidden_dropout, layer = i, site = "projection", layout = layout,
  })

  local inner = self:linear(attended, name .. "intermediate.dense", { act = ACTIVATIONS[config.hidden_act] })
  local outer = self:linear(inner, name .. "output.dense")
  return self:norm(outer, attended, name .. "output.LayerNorm", {
    dropout = hidden_dropout, layer = i, site = "feed", layout = layout,
  })
end

---The last hidden state of every row, or of the rows that are needed: after the attention of the last
---layer nothing reads the others, and three quarters of its products come after it.
---@param batch { ids: seqrun.Tensor, types: seqrun.Tensor, layout: seqrun.Layout }
---@param needed? { layout: seqrun.Layout, rows: seqrun.Tensor }
---@return seqrun.Tensor # (T, H), or the needed rows of it
function Bert:encode(batch, needed)
  local layout, x = batch.layout, self:embed(batch)
  local last = self.config.num_hidden_layers - 1
  for i = 0, last do
    local function layer(input) return self:layer(input, layout, i, i == last and needed or nil) end
    x = self.recompute and self.training and ops.recompute(layer, x) or layer(x)
  end
  return x
end

---What the decoder sees of the masked rows: transform, activation, norm.
---@param hidden seqrun.Tensor (T, H)
---@param rows seqrun.Tensor (M) i32
---@return seqrun.Tensor # (M, H)
function Bert:transform(hidden, rows)
  local act = ACTIVATIONS[self.config.hidden_act]
  local x = self:linear(ops.gather_rows(hidden, rows), "cls.predictions.transform.dense", { act = act })
  return self:norm(x, nil, "cls.predictions.transform.LayerNorm", {})
end

---Vocabulary scores of some rows; for looking and for tests, since the loss never keeps them.
---@param hidden seqrun.Tensor (T, H)
---@param rows seqrun.Tensor (M) i32
---@return seqrun.Tensor # (M, V)
function Bert:mlm_logits(hidden, rows)
  local p = self.params
  local word = p:get("bert.embeddings.word_embeddings.weight")
  return ops.linear(self:transform(hidden, rows), word, p:get("cls.predictions.bias"))
end

---Next-sentence scores of the [CLS] rows.
---@param hidden seqrun.Tensor (T, H)
---@param rows seqrun.Tensor (N) i32
---@return seqrun.Tensor # (N, 2)
function Bert:nsp_logits(hidden, rows)
  local pooled = self:linear(ops.gather_rows(hidden, rows), "bert.pooler.dense", { act = "tanh" })
  return self:linear(pooled, "cls.seq_relationship")
end

---The losses of a micro-batch.  Weights carry the denominators of the whole update, so the losses of
---an update are the sums over its micro-batches.
---@param batch seqrun.Batch
---@return table # total, mlm, nsp (scalars); mlm_nll, mlm_correct (M); nsp_correct (N)
function Bert:losses(batch)
  local hidden = self:encode(batch, batch.last)
  local rows = batch.last and "places" or "rows"
  local losses = {}
  local mlm, nsp = batch.targets.mlm, batch.targets.nsp
  if mlm then
    local p = self.params
    local word = p:get("bert.embeddings.word_embeddings.weight")
    local x = self:transform(hidden, mlm[rows])
    losses.mlm, losses.mlm_nll, losses.mlm_correct =
      ops.mlm_loss(x, word, p:get("cls.predictions.bias"), mlm.labels, mlm.weights)
    losses.total = losses.mlm
  end
  if nsp then
    local logits = self:nsp_logits(hidden, nsp[rows])
    losses.nsp, losses.nsp_nll, losses.nsp_correct = ops.cross_entropy(logits, nsp.labels, nsp.weights)
    losses.total = losses.total and losses.total + losses.nsp or losses.nsp
  end
  return losses
end

---What it is, in a line; params has them all by name.
function Bert:__tostring()
  local c = self.config
  return ("bert: %d layers of %d, %d heads, %d words, %d parameters"):format(c.num_hidden_layers, c.hidden_size,
    c.num_attention_heads, c.vocab_size, self.params:count())
end

return { new = new, specs = specs, defaults = DEFAULTS }

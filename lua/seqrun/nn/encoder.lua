-- encoder.lua - the encoder of BERT: embeddings and post-LN layers, composed from coarse ops.
--
-- Names, shapes and config keys are those of Hugging Face's BertModel.  It can be used alone or as a part of
-- a model; heads read a `States`: the last hidden state of the rows that they need.
--
-- Source: Devlin et al. 2018, arXiv:1810.04805.

local check = require("seqrun.base.check")
local configs = require("seqrun.nn.config")
local ops = require("seqrun.tensor.ops")
local part = require("seqrun.nn.model.part")
local specs = require("seqrun.nn.model.specs")
local tensor = require("seqrun.tensor")

---@class seqrun.Encoder: seqrun.Part
---@field config table Hugging Face keys
---@field prefix string of the names of its parameters
---@field frozen? integer this number of lowest layers, and the embeddings, get no gradients
---@field token_drop? seqrun.TokenDrop drops tokens from layers in training
local Encoder = part.class()

---Rows of the vocabulary are padded in the store to a multiple of this, and stripped on save.
Encoder.VOCAB_MULTIPLE = 8

---Other programs save such padding.
Encoder.PADDED = { why = "vocabulary padded in the file", most = 127 }

-- ---- parameters ------------------------------------------------------------------------------

---Query, key and value are three contiguous tensors, so that one product computes all.
local function add_attention(add, prefix, hidden)
  for _, kind in ipairs { "weight", "bias" } do
    for _, name in ipairs { "query", "key", "value" } do
      local shape = kind == "weight" and { hidden, hidden } or { hidden }
      add[kind](("%s.self.%s.%s"):format(prefix, name, kind), shape, { fuse = prefix .. ".self.qkv." .. kind })
    end
  end
  add.linear(prefix .. ".output.dense", hidden, hidden)
  add.norm(prefix .. ".output.LayerNorm", hidden)
end

---The parameters of a config, in the order of the forward pass.
local function list_specs(config, prefix, pooler)
  local hidden, inner = config.hidden_size, config.intermediate_size
  local list, add = specs.new(config.initializer_range)
  local embeddings = prefix .. "embeddings."
  add.weight(embeddings .. "word_embeddings.weight", { config.vocab_size, hidden }, {
    pad_rows_to = Encoder.VOCAB_MULTIPLE, longer = Encoder.PADDED, tied = {},
  })
  add.weight(embeddings .. "position_embeddings.weight", { config.max_position_embeddings, hidden },
    { longer = { why = "the model is shorter" } })
  add.weight(embeddings .. "token_type_embeddings.weight", { config.type_vocab_size, hidden })
  add.norm(embeddings .. "LayerNorm", hidden)
  for i = 0, config.num_hidden_layers - 1 do
    local layer = ("%sencoder.layer.%d."):format(prefix, i)
    add_attention(add, layer .. "attention", hidden)
    add.linear(layer .. "intermediate.dense", inner, hidden)
    add.linear(layer .. "output.dense", hidden, inner)
    add.norm(layer .. "output.LayerNorm", hidden)
  end
  if pooler then add.linear(prefix .. "pooler.dense", hidden, hidden) end
  return list
end

local OPTIONS = { pooler = true, prefix = true }

---An encoder on the current device, parameters not yet initialised.
---@param config table keys of Hugging Face's config.json; missing keys: BERT-base; precision: "f32" or "bf16";
---  initializer: "normal" or "local"
---@param options? { pooler?: boolean, prefix?: string } pooler: add the pooling layer; prefix: of
---  parameter names, default "bert."
---@return seqrun.Encoder
function Encoder.new(config, options)
  options = options or {}
  check.options("nn.encoder", options, OPTIONS)
  local whole = configs.whole(config, 4)
  if whole.heads ~= nil then check.fail("nn.encoder: an encoder has no heads; use sr.nn.bert") end
  local prefix, precision = options.prefix or "bert.", whole.precision
  local initializer = whole.initializer
  whole.precision, whole.initializer = nil, nil
  return setmetatable({
    name = "encoder", config = whole, prefix = prefix, specs = list_specs(whole, prefix, options.pooler),
    has_pooler = options.pooler or false, precision = precision, initializer = initializer,
  }, Encoder)
end

---The published initialisation: truncated normal weights, zero biases, unit norms; `initializer = "local"` changes it.
---@param seed integer
---@return seqrun.Encoder
function Encoder:initialise(seed)
  self.params:initialise(seed)
  self:initialised()
  return self
end

---What a part does once its model has its initial values.
function Encoder:initialised()
  if self.initializer == "local" then require("seqrun.nn.local_init")(self) end
end

---The word embeddings, which tied heads read too.
---@return seqrun.Tensor # (V, H)
function Encoder:words() return self.params:get(self.prefix .. "embeddings.word_embeddings.weight") end

---Files repeat the word embeddings under this name, as the decoder of a head that is tied to them.
---@param name string
function Encoder:tie_words(name) table.insert(self.specs[1].tied, name) end

-- ---- the forward pass -----------------------------------------------------------------------

function Encoder:activation() return configs.ACTIVATIONS[self.config.hidden_act] end

---LayerNorm with this config's epsilon.
function Encoder:norm(x, residual, name, options)
  options.eps = self.config.layer_norm_eps
  return part.norm(self, x, residual, name, options)
end

local function embed(self, batch)
  local p, config, embeddings = self.params, self.config, self.prefix .. "embeddings."
  local tables = {
    word = self:words(),
    position = p:get(embeddings .. "position_embeddings.weight"),
    type = p:get(embeddings .. "token_type_embeddings.weight"),
    gamma = p:get(embeddings .. "LayerNorm.weight"),
    beta = p:get(embeddings .. "LayerNorm.bias"),
  }
  local dropout = self.training and config.hidden_dropout_prob or 0
  return ops.embed(batch.ids, batch.types, tables, batch.layout, { eps = config.layer_norm_eps, dropout = dropout })
end

---One layer: attention, then the feed-forward block, each with residual and norm.
---@param x seqrun.Tensor (T, H)
---@param layout seqrun.Layout
---@param i integer layer, from 0 as in the names
---@param needed? { layout: seqrun.Layout, rows: seqrun.Tensor } go on with these rows after attention
---@return seqrun.Tensor # (T, H), or the needed rows of it
function Encoder:layer(x, layout, i, needed)
  local config, p = self.config, self.params
  local name = ("%sencoder.layer.%d."):format(self.prefix, i)
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

  local inner = self:linear(attended, name .. "intermediate.dense", { act = self:activation() })
  local outer = self:linear(inner, name .. "output.dense")
  return self:norm(outer, attended, name .. "output.LayerNorm", {
    dropout = hidden_dropout, layer = i, site = "feed", layout = layout,
  })
end

---fn(...), without recording it if no gradient is wanted.
local function unrecorded_if(unwanted, fn, ...)
  if not unwanted then return fn(...) end
  local no_grad <close> = tensor.no_grad()
  return (fn(...))
end

---Whether a parameter belongs to the layers of `frozen`, or to the embeddings below them.
---@param name string
---@return boolean
function Encoder:is_frozen(name)
  if not self.frozen then return false end
  local rest = name:sub(#self.prefix + 1)
  local layer = tonumber(rest:match("^encoder%.layer%.(%d+)%."))
  return rest:find("^embeddings%.") ~= nil or layer ~= nil and layer < self.frozen
end

---Layer i, as `frozen` and `recompute` ask for.
local function run_layer(self, x, layout, i, needed)
  local function layer(input) return self:layer(input, layout, i, needed) end
  local frozen = self.frozen or -1
  if self.recompute and self.training and i >= frozen then return (ops.recompute(layer, x)) end
  return unrecorded_if(i < frozen, layer, x)
end

---Layer i on the rows that it keeps, in place: no op saves the hidden state between layers.
local function run_on_kept(self, x, kept, i, needed)
  local function layer(taken) return run_layer(self, taken, kept.layout, i) end
  x = ops.on_rows(x, kept.rows[i], layer, { count = kept.layout:rows(), in_place = true })
  return needed and ops.gather_rows(x, needed.rows) or x
end

---The last hidden state of all rows, or only of the needed ones: the others are dropped after the attention of the
---last layer, which saves three quarters of the products of that layer.
---@param batch { ids: seqrun.Tensor, types: seqrun.Tensor, layout: seqrun.Layout }
---@param needed? { layout: seqrun.Layout, rows: seqrun.Tensor }
---@return seqrun.Tensor # (T, H), or the needed rows of it
function Encoder:encode(batch, needed)
  local last = self.config.num_hidden_layers - 1
  if self.frozen then check.integer("encoder.frozen, a number of layers,", self.frozen, 0, last + 1) end
  local kept = self.token_drop and self.training and self.token_drop:draw(batch, last + 1) or nil
  local x = unrecorded_if((self.frozen or -1) >= 0, embed, self, batch)
  for i = 0, last do
    local run = kept and kept.rows[i] and run_on_kept or run_layer
    x = run(self, x, run == run_layer and batch.layout or kept, i, i == last and needed or nil)
  end
  batch.kept = kept
  return x
end

---The pooled output of sequences: tanh of a linear layer over [CLS].
---@param x seqrun.Tensor (N, H) rows of [CLS]
---@return seqrun.Tensor # (N, H)
function Encoder:pool(x) return self:linear(x, self.prefix .. "pooler.dense", { act = "tanh" }) end

---The hidden states that heads read.
---@class seqrun.States
---@field encoder seqrun.Encoder
---@field x seqrun.Tensor (T, H), or the rows of batch.last
---@field key "rows"|"places" index of a target's rows in x
---@field layout seqrun.Layout of the rows of x
local States = {}
States.__index = States

---The hidden state of a target's rows.
---@param target seqrun.Target
---@return seqrun.Tensor # (M, H); spans: (M, 2, H), their first and last rows
function States:rows(target)
  local rows = target[self.key]
  if target.reads ~= "spans" then return ops.gather_rows(self.x, rows) end
  return ops.gather_rows(self.x, rows:reshape(-1)):reshape(rows:size(1), 2, -1)
end

---The pooled hidden state of a target's rows.
---@param target seqrun.Target
---@return seqrun.Tensor # (M, H)
function States:pooled(target) return self.encoder:pool(self:rows(target)) end

---Dropout of one state per item of a target: keyed by the item's sequence and its row in it.
---@param y seqrun.Tensor (M, H) such as rows(target) or pooled(target)
---@param target seqrun.Target
---@param options { p: number, site?: "head"|"user", layer?: integer }
---@return seqrun.Tensor # (M, H)
function States:drop(y, target, options)
  if y:size(1) == self.x:size(1) then return ops.dropout(y, self.layout, options) end
  local rows = target[self.key]
  local all = ops.put_rows(tensor.zeros(self.x:size(1), y:size(2), { dtype = y:dtype() }), rows, y)
  return ops.gather_rows(ops.dropout(all, self.layout, options), rows)
end

---Encodes a batch for heads: the last layer computes only the rows that targets read.
---@param batch seqrun.Batch
---@return seqrun.States
function Encoder:states(batch)
  local last = batch.last
  local x = self:encode(batch, last)
  return setmetatable({
    encoder = self, x = x, key = last and "places" or "rows", layout = last and last.layout or batch.layout,
  }, States)
end

-- ---- cost and config -------------------------------------------------------------------------

---Tokens that the layers process, in all layers together; those that a layer drops do not count.
---@param batch seqrun.Batch as encoded last
---@return integer
function Encoder:layer_tokens(batch)
  local layers, kept = self.config.num_hidden_layers, batch.kept
  return kept and kept:layer_tokens(batch, layers) or layers * batch.layout:tokens()
end

---FLOP of forward and backward: the tokens that layers process in every product, and 12 H sum(len^2) per layer for
---attention.
---@param batch seqrun.Batch as encoded last
---@return number
function Encoder:flops(batch)
  local c, kept = self.config, batch.kept
  local h, layers = c.hidden_size, c.num_hidden_layers
  local squares = kept and kept:layer_squares(batch, layers) or layers * batch.layout:squares()
  return 6 * (4 * h * h + 2 * h * c.intermediate_size) * self:layer_tokens(batch) + 12 * h * squares
end

---A lower bound of the bytes of activations that training keeps for this number of rows.
---@param rows integer
---@param recompute? boolean
---@return integer
function Encoder:activation_bytes(rows, recompute)
  local c, layers = self.config, self.config.num_hidden_layers
  local layer = 6 * c.hidden_size + c.intermediate_size
  local whole = layers -- layers of all rows
  if self.token_drop then
    local first, last = self.token_drop:range(layers)
    whole = layers - (last - first + 1) * (1 - self.token_drop.keep)
  end
  local kept = recompute and whole * c.hidden_size + layer or whole * layer
  return math.floor(rows * kept) * (self.precision == "bf16" and 2 or 4)
end

---config.json of Hugging Face.
---@param architecture? string "BertModel"
---@return table
function Encoder:hf_config(architecture)
  local dtype = self.params:get(self.specs[1].name):dtype()
  local whole = {
    architectures = require("seqrun.core.json").array { architecture or "BertModel" }, model_type = "bert",
    dtype = dtype == "f64" and "float64" or "float32", tie_word_embeddings = true,
  }
  for key, value in pairs(self.config) do
    if whole[key] == nil then whole[key] = value end
  end
  return whole
end

function Encoder:__tostring()
  local c = self.config
  return ("encoder: %d layers, hidden size %d, %d attention heads, %d tokens"):format(c.num_hidden_layers,
    c.hidden_size, c.num_attention_heads, c.vocab_size)
end

return Encoder

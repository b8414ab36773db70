-- nn - models composed of the fused ops.

local check = require("seqrun.base.check")
local guess = require("seqrun.base.guess")
local kinds = require("seqrun.base.kinds")

local nn = {}

---The config of a BERT: keys of Hugging Face's config.json, those of BERT-base by default.  Other families have their
---own keys.
---@class seqrun.BertOptions
---@field family? string|seqrun.Family "bert"; another of sr.nn.family_names(), or a table of your own
---@field vocab_size? integer 30522
---@field hidden_size? integer 768
---@field num_hidden_layers? integer 12
---@field num_attention_heads? integer 12
---@field intermediate_size? integer 3072
---@field hidden_act? "gelu"|"gelu_new"|"relu" gelu
---@field hidden_dropout_prob? number 0.1
---@field attention_probs_dropout_prob? number 0.1
---@field max_position_embeddings? integer 512
---@field type_vocab_size? integer 2
---@field initializer_range? number 0.02
---@field layer_norm_eps? number 1e-12
---@field initializer? "normal"|"depth"|"local" initial weights, normal; depth: smaller where layers add up; local:
---half of the heads begin at neighbouring tokens
---@field heads? (string|seqrun.Head|fun(encoder: seqrun.Encoder): seqrun.Head)[] those that the family is pretrained
---with, { "mlm", "nsp" } for BERT; also those of sr.nn.heads, and tables with name, specs and
---loss(self, hidden, target, batch)
---@field precision? "f32"|"bf16" dtype of the parameters that ops read, f32

---An encoder with heads, for pretraining by default; call :initialise(seed), or load weights.
---@param config seqrun.BertOptions
---@return seqrun.Bert
function nn.bert(config)
  return (require("seqrun.nn.bert").new(config)) -- in parentheses, no tail call: errors name the caller's line
end

---The names of the families of encoders.
---@return string[]
function nn.family_names() return require("seqrun.nn.families").names() end

---Adds a family of encoders of your own, which configs and checkpoints name by `model_type`.
---@param family seqrun.Family what differs from other encoders: see docs/reference/families.md and nn/families
---@return seqrun.Family
function nn.family(family) return require("seqrun.nn.families").register(family) end

---The encoder of a BERT alone, or as a part of a model.
---@param config seqrun.BertOptions without heads
---@param options? { pooler?: boolean, prefix?: string } pooler: add the pooling layer; prefix: of parameter names,
---  default "bert."
---@return seqrun.Encoder
function nn.encoder(config, options) return (require("seqrun.nn.encoder").new(config, options)) end

---Random layerwise token dropping, for the field `token_drop` of an encoder: layers in the middle train on some tokens
---of each sequence.
---@param options { keep: number, layers?: integer[], first?: boolean, last?: boolean, masked?: boolean } keep: share of
---  the tokens; layers: first and last that drop, from 0; first, last, masked: always keep [CLS], [SEP], masked tokens
---@return seqrun.TokenDrop
function nn.token_drop(options) return (require("seqrun.nn.token_drop").new(options)) end

---A model of parts with one parameter store: encoders, heads, and lists of parameters (sr.nn.specs).  Give it
---losses(self, batch) to train it in a run.
---@param parts table[]
---@param options? { precision?: "f32"|"bf16" }
---@return seqrun.Model
function nn.model(parts, options)
  local precision = check.options("nn.model", options, { precision = true }).precision
  if precision ~= nil then check.choice("nn.model: precision", precision, { "f32", "bf16" }) end
  return (require("seqrun.nn.model").new(parts, options))
end

---Heads over an encoder.  `mlm`, `nsp` and `causal` take the encoder; those of tasks, which the tasks add, take
---options, as in `heads = { sr.nn.heads.classify { labels = { "no", "yes" } } }` of sr.nn.bert; see nn/heads/task.lua.
nn.heads = {}
for name, new in pairs(require("seqrun.nn.heads.pretraining")) do nn.heads[name] = new end

---The names of all heads, sorted.
local function head_names()
  local list = {}
  for name in next, nn.heads do list[#list + 1] = name end
  for _, name in ipairs(kinds.names()) do
    if kinds.get(name).kind == name then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

setmetatable(nn.heads, {
  __index = function(_, name)
    if type(name) ~= "string" then return nil end
    local kind = kinds.get(name)
    if not kind then check.fail("sr.nn.heads has no '%s'%s", name, guess.hint(name, head_names())) end
    return kind.head_class.new
  end,
  __names = head_names,
  __pairs = function(self)
    local list, i = head_names(), 0
    return function()
      i = i + 1
      if list[i] then return list[i], self[list[i]] end
    end
  end,
})

---An empty list of named losses, for models of your own: `:add(name, { total =, count = })`.
---@return seqrun.Losses
function nn.losses() return require("seqrun.nn.losses").new() end

---Short notation for lists of parameters: `local list, add = sr.nn.specs(0.02)`, then `add.linear("score", 2, 64)`.
---@param std? number standard deviation of weights, 0.02
---@return seqrun.ParamSpec[] list
---@return table add weight(name, shape, more), bias(name, shape, more), linear(name, outputs, inputs), norm(name, size)
function nn.specs(std) return require("seqrun.nn.model.specs").new(std) end

---Attention with a mask and materialised scores: the reference for ops.attention.
function nn.dense_attention(...)
  return require("seqrun.nn.dense").attention(...)
end

return nn

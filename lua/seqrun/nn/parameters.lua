-- parameters.lua - the parameters of an encoder in the order of the forward pass, under its family's names.
--
-- A list of names means tensors that are stored side by side, so that one product computes all: those of q, k
-- and v, or of a gated feed-forward block, first the half that is activated, then the gate.

local expert_keys = require("seqrun.nn.keys.experts")
local specs = require("seqrun.nn.model.specs")

---Names of parameters, without ".weight"; those of layers come after `layer`, which holds their number.
---@class seqrun.ParameterNames
---@field words string
---@field positions? string
---@field types? string
---@field embedding_norm? string
---@field project? string embeddings to hidden size
---@field layer string "encoder.layer.%d."
---@field qkv string|string[]
---@field out string
---@field attention_norm string
---@field up string|string[]
---@field down string
---@field feed_norm string
---@field final_norm? string
---@field pooler? string|false
---@field transposed? boolean files hold the matrices of layers as (inputs, outputs)

local parameters = {}

---Rows of the vocabulary are padded in the store to a multiple of this, and stripped on save.
parameters.VOCAB_MULTIPLE = 8

---Other programs save such padding.
parameters.PADDED = { why = "vocabulary padded in the file", most = 127 }

---The name of one product's weights: the only one, or the group of several.
---@param names string|string[]
---@param group string
---@return string
function parameters.group(names, group) return type(names) == "table" and group or names end

---Adds the weights, and then the biases, of one product whose outputs several tensors may share.  With experts, those
---of all of them, one after the other.
local function add_product(add, prefix, names, group, outputs, inputs, bias, std, transposed, experts)
  local list = type(names) == "table" and names or { names }
  local fused = (#list > 1 or experts) and prefix .. group or nil
  local function add_one(kind, own, i, name)
    local matrix = kind == "weight"
    add[kind](("%s%s%s.%s"):format(prefix, own, name, kind), matrix and { outputs[i], inputs } or { outputs[i] }, {
      fuse = fused and fused .. "." .. kind, std = matrix and std or nil, blocks = matrix and outputs.blocks or nil,
      transposed = matrix and transposed or nil, upcycles = experts and ("%s%s.%s"):format(prefix, name, kind) or nil,
    })
  end
  for _, kind in ipairs { "weight", bias and "bias" or nil } do
    for e = 1, experts or 1 do
      local own = experts and parameters.EXPERT:format(e - 1) or ""
      for i, name in ipairs(list) do add_one(kind, own, i, name) end
    end
  end
end

---The rows of the tensors that make a product: of each if there are several, else of all, and as `blocks` of each.
local function rows(names, ...)
  if type(names) == "table" then return { ... } end
  local sum = 0
  for _, count in ipairs { ... } do sum = sum + count end
  return { sum, blocks = { ... } }
end

---Names of the groups of q, k, v and of the two halves of a gated block.
parameters.QKV, parameters.UP = "qkv", "up_gate"

---Of a layer with experts: the router, how much of a residual one is the experts', the groups of all experts, and the
---prefix of one.
parameters.ROUTER, parameters.MIX = "router", "residual_gate"
parameters.EXPERTS_UP, parameters.EXPERTS_DOWN, parameters.EXPERT = "experts_up", "experts_down", "experts.%d."

---The feed-forward block of a layer, or of each of its experts.
local function add_feed(add, d, names, prefix, group, down_group, experts)
  local up = d.gate and rows(names.up, d.inner, d.inner) or { d.inner }
  add_product(add, prefix, names.up, group, up, d.hidden, d.bias.up, nil, names.transposed, experts)
  add_product(add, prefix, names.down, down_group, { d.hidden }, d.inner, d.bias.down, d.deep_std, names.transposed,
    experts)
end

---The experts of a layer and its router, which is f32 in every precision.
local function add_experts(add, d, names, prefix, count)
  add.weight(prefix .. parameters.ROUTER .. ".weight", { count, d.hidden }, { keep = "f32" })
  add_feed(add, d, names, prefix, parameters.EXPERTS_UP, parameters.EXPERTS_DOWN, count)
  if not d.experts.residual then return end
  add.weight(prefix .. parameters.MIX .. ".weight", { 2, d.hidden }, { keep = "f32" })
  add.bias(prefix .. parameters.MIX .. ".bias", { 2 }, { keep = "f32" })
end

local function add_layer(add, d, names, prefix, i)
  local bias, before = d.bias, d.norm == "before"
  local q, kv = d.heads * d.head_size, d.kv_heads * d.head_size
  local function norm(name, wanted)
    if wanted then add.norm(prefix .. name, d.hidden, bias.norm) end
  end
  norm(names.attention_norm, before and (d.first_norm or i > 0))
  local function product(name, group, outputs, inputs, has_bias, std)
    add_product(add, prefix, name, group, outputs, inputs, has_bias, std, names.transposed)
  end
  product(names.qkv, parameters.QKV, rows(names.qkv, q, kv, kv), d.hidden, bias.qkv)
  product(names.out, nil, { d.hidden }, q, bias.out, d.deep_std)
  norm(names.attention_norm, not before)
  norm(names.feed_norm, before)
  local count = expert_keys.of_layer(d, i)
  if count > 0 then add_experts(add, d, names, prefix, count) end
  if count == 0 or d.experts.residual then add_feed(add, d, names, prefix, parameters.UP) end
  norm(names.feed_norm, not before)
end

local function add_embeddings(add, d, names, prefix)
  add.weight(prefix .. names.words .. ".weight", { d.vocabulary, d.embedding }, {
    pad_rows_to = parameters.VOCAB_MULTIPLE, longer = parameters.PADDED, tied = {}, looked_up = true,
  })
  if d.position_rows then
    add.weight(prefix .. names.positions .. ".weight", { d.position_rows, d.embedding },
      { longer = { why = "the model is shorter" }, looked_up = true })
  end
  if d.types > 0 then add.weight(prefix .. names.types .. ".weight", { d.types, d.embedding }, { looked_up = true }) end
  if d.embedding_norm then add.norm(prefix .. names.embedding_norm, d.embedding, d.bias.norm) end
  if d.embedding ~= d.hidden then add.linear(prefix .. names.project, d.hidden, d.embedding) end
end

---The parameters of a design, in the order of the forward pass.
---@param d seqrun.Design
---@param names seqrun.ParameterNames
---@param prefix string
---@param pooler boolean
---@return seqrun.ParamSpec[]
function parameters.list(d, names, prefix, pooler)
  local list, add = specs.new(d.std)
  add_embeddings(add, d, names, prefix)
  for i = 0, d.layers - 1 do add_layer(add, d, names, prefix .. names.layer:format(i), i) end
  if d.final_norm then add.norm(prefix .. names.final_norm, d.hidden, d.bias.norm) end
  if pooler then add.linear(prefix .. names.pooler, d.hidden, d.hidden) end
  return list
end

return parameters

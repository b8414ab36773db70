-- model_keys.lua - the config keys `model` of pretraining: those of the family's config.json, with its defaults.

local c = require("seqrun.config")
local families = require("seqrun.nn.families")
local sorted = require("seqrun.base.sorted")

---What keys mean, a line each.
local TEXT = [[
activation                    activation function
activation_function           activation function
attention_bias                biases in the products of attention
attention_dropout             attention dropout probability
attention_probs_dropout_prob  attention dropout probability
attn_out_dropout              dropout probability of attention outputs; none: attention_dropout
attn_pdrop                    attention dropout probability
classifier_activation         activation function of the heads
classifier_bias               bias in the dense layer of the heads
classifier_dropout            dropout probability before the heads of tasks
classifier_pooling            what heads of sequences read
decoder_bias                  bias of the decoder
dim                           hidden size
dropout                       dropout probability of embeddings and layer outputs
embd_pdrop                    embedding dropout probability
embedding_dropout             embedding dropout probability
embedding_size                width of the embeddings
global_attn_every_n_layers    distance of layers with global attention; the others are local
global_rope_theta             base of the rotary frequencies in global layers
head_dim                      size of an attention head; none: the hidden size divided by their number
hidden_act                    activation function
hidden_activation             activation function
hidden_dim                    inner size of the feed-forward block
hidden_dropout_prob           dropout probability of embeddings and layer outputs
hidden_size                   hidden size
initializer_range             standard deviation of the initial weights
intermediate_size             inner size of the feed-forward block
layer_norm_eps                epsilon of the norms
layer_norm_epsilon            epsilon of the norms
layer_types                   full_attention or sliding_attention for each layer; none: by global_attn_every_n_layers
local_attention               width of local attention: half of it on either side of a token
local_rope_theta              base of the rotary frequencies in local layers
max_position_embeddings       maximum sequence length of the model; RoBERTa and its kin: rows of the position table
mlp_bias                      biases in the feed-forward block
mlp_dropout                   dropout probability inside the feed-forward block
n_embd                        hidden size
n_head                        number of attention heads; must divide n_embd
n_heads                       number of attention heads
n_inner                       inner size of the feed-forward block; none: 4 times the hidden size
n_layer                       number of layers
n_layers                      number of layers
n_positions                   maximum sequence length of the model
norm_bias                     biases of the norms
norm_eps                      epsilon of the norms
num_attention_heads           number of attention heads; must divide hidden_size
num_hidden_layers             number of layers
num_key_value_heads           number of heads of keys and values; none: as many as attention heads
qa_dropout                    dropout probability before the head of question answering
resid_pdrop                   dropout probability of layer outputs
rms_norm_eps                  epsilon of the norms
rope_theta                    base of the rotary frequencies
seq_classif_dropout           dropout probability before the heads of sequences
summary_last_dropout          dropout probability before the head of multiple choice
tie_word_embeddings           the decoder has the weights of the word embeddings
type_vocab_size               number of token types (segments)
]]

local DOCS = {}
for name, doc in TEXT:gmatch("(%S+) +([^\n]+)") do DOCS[name] = doc end

---Keys that the data decides.
local OF_DATA = { vocab_size = true, pad_token_id = true, bos_token_id = true, eos_token_id = true }

---A key of a family as one of a config.
local function type_of(name, key)
  local default = key.default
  if key.kind == "number" and default then default = default + 0.0 end -- as a YAML is read
  return key:with { doc = DOCS[name] or name:gsub("_", " "), default = default }
end

local recompute = { "recompute", c.boolean { default = false, changeable = true,
  doc = "recompute the activations of each layer in the backward pass: less memory, more time, same results" } }

local function family_key(default)
  return { "family", c.enum(families.names(), { default = default,
    doc = "kind of encoder; those other than bert have the keys of their config.json: docs/reference/families.md" }) }
end

---The keys of the config.json of a family, as c.map takes them.
local function keys_of(family)
  local list = {}
  for _, name in ipairs(sorted(family.keys)) do
    if not OF_DATA[name] then list[#list + 1] = { name, type_of(name, family.keys[name]) } end
  end
  return list
end

---A map of the family, these keys and those of all families.
local function map_of(default, keys, more, options)
  local list = table.move(keys, 1, #keys, 2, { family_key(default) })
  list[#list + 1] = recompute
  return c.map(table.move(more, 1, #more, #list + 1, list), options)
end

---@param default string the family where none is given
---@param options? { own?: table[], more?: table[] } own: its keys, instead of those of its config.json; more: keys of
---  all families
---@return table # a map of seqrun.config
return function(default, options)
  options = options or {}
  local maps, more = {}, options.more or {}
  for _, name in ipairs(families.names()) do
    if name ~= default then maps[name] = map_of(default, keys_of(families.find(name)), more) end
  end
  local own = options.own or keys_of(families.find(default))
  return map_of(default, own, more, { variants = { by = "family", maps = maps } })
end

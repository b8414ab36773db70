-- keys - the keys of config.json, as the files in nn/families list them: types, ranges and defaults.
--
--     keys = { hidden_size = keys.size(768), hidden_act = keys.activation("gelu"), norm_bias = keys.flag(false) }

local merged = require("seqrun.base.merged")
local types = require("seqrun.config.types")

local keys = {}

---@alias seqrun.Key table a type of seqrun.config; optional where no default is given

---@return seqrun.Key
function keys.integer(default, min) return types.integer { default = default, min = min, optional = default == nil } end

---Sizes and numbers of layers are at most these: more is a damaged file, or one that is to take all memory.
local MOST_SIZE, MOST_LAYERS = (1 << 31) - 1, 10000

---An integer of at least 1.
---@return seqrun.Key
function keys.size(default) return types.integer { default = default, min = 1, max = MOST_SIZE } end

---A number of layers.
---@return seqrun.Key
function keys.layers(default) return types.integer { default = default, min = 1, max = MOST_LAYERS } end

---@return seqrun.Key
function keys.number(default, min) return types.number { default = default, min = min } end

---A probability of dropout.
---@return seqrun.Key
function keys.dropout(default)
  return types.number { default = default, min = 0, below = 1, optional = default == nil }
end

---@return seqrun.Key
function keys.flag(default) return types.boolean { default = default } end

---@return seqrun.Key
function keys.choice(default, choices) return types.enum(choices, { default = default }) end

---Names that may be missing, such as the kind of each layer.
---@return seqrun.Key
function keys.names() return types.list(types.string(), { optional = true }) end

---Hugging Face's names of activations, and those of the ops.
keys.ACTIVATIONS = {
  gelu = "gelu", gelu_new = "gelu_tanh", gelu_pytorch_tanh = "gelu_tanh", relu = "relu", silu = "silu", swish = "silu",
}

local NAMES = { "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish" }

---@return seqrun.Key
function keys.activation(default) return keys.choice(default, NAMES) end

keys.set = require("seqrun.base.word_set")

---In `only`: the key must be missing or null.
keys.NONE = {}

---Keys that no encoder's numbers depend on.
keys.IGNORED = keys.set [[ architectures dtype torch_dtype transformers_version use_cache classifier_dropout id2label
  label2id problem_type num_labels gradient_checkpointing output_past output_attentions output_hidden_states
  return_dict torchscript bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id unk_token_id
  decoder_start_token_id finetuning_task task_specific_params tokenizer_class prefix chunk_size_feed_forward
  cross_attention_hidden_size pruned_heads name_or_path _name_or_path _num_labels _attn_implementation
  attn_implementation quantization_config seqrun_head seqrun_heads
  auto_map ]]

---Keys of BERT that other families share, with some of their own.
---@param own? table<string, seqrun.Key>
---@return table<string, seqrun.Key>
function keys.like_bert(own)
  return merged({
    vocab_size = keys.size(30522), hidden_size = keys.size(768), num_hidden_layers = keys.layers(12),
    num_attention_heads = keys.size(12), intermediate_size = keys.size(3072), hidden_act = keys.activation("gelu"),
    hidden_dropout_prob = keys.dropout(0.1), attention_probs_dropout_prob = keys.dropout(0.1),
    max_position_embeddings = keys.size(512), type_vocab_size = keys.size(2), initializer_range = keys.number(0.02, 0),
    layer_norm_eps = keys.number(1e-12, 0), pad_token_id = keys.integer(0, 0),
  }, own)
end

---What all encoders of Transformers have in common.
---@param own? table<string, any>
---@return table<string, any>
function keys.encoder_only(own)
  return merged({ is_decoder = false, add_cross_attention = false, is_encoder_decoder = false }, own)
end

return keys

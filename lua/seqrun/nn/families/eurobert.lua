-- eurobert.lua - EuroBERT: pre-norm layers with RMS norms, rotary positions, gated feed-forward blocks, in large models
-- fewer heads of keys and values, and a decoder that is not tied to the embeddings.
--
-- Source: Boizard et al. 2025, arXiv:2503.05500.

local keys = require("seqrun.nn.keys")
local rope = require("seqrun.nn.keys.rope")

local eurobert = {
  name = "eurobert", class = "EuroBert", prefix = "model.", token_ids = { "bos", "eos", "mask" },
  keys = {
    vocab_size = keys.size(128256), hidden_size = keys.size(768), intermediate_size = keys.size(3072),
    num_hidden_layers = keys.layers(12), num_attention_heads = keys.size(12),
    num_key_value_heads = keys.integer(nil, 1), head_dim = keys.integer(nil, 1),
    hidden_act = keys.activation("silu"), max_position_embeddings = keys.size(8192),
    initializer_range = keys.number(0.02, 0), rms_norm_eps = keys.number(1e-5, 0), rope_theta = keys.number(10000, 1),
    attention_bias = keys.flag(false), attention_dropout = keys.dropout(0), mlp_bias = keys.flag(false),
    classifier_pooling = keys.choice("late", { "bos", "mean", "late" }), tie_word_embeddings = keys.flag(false),
    pad_token_id = keys.integer(128001, 0),
  },
  only = keys.encoder_only(), ignored = keys.set "pretraining_tp",
}

function eurobert.read(given)
  given.classifier_pooling = given.classifier_pooling or given.clf_pooling
  return rope.read(given)
end

function eurobert.write(c) return { rope_parameters = rope.write(c.rope_theta) } end

function eurobert.check(c)
  if c.num_attention_heads % (c.num_key_value_heads or 1) == 0 then return nil end
  return ("num_attention_heads %d is not a multiple of num_key_value_heads %d"):format(c.num_attention_heads,
    c.num_key_value_heads)
end

function eurobert.design(c)
  return {
    vocabulary = c.vocab_size, hidden = c.hidden_size, layers = c.num_hidden_layers, heads = c.num_attention_heads,
    kv_heads = c.num_key_value_heads, head_size = c.head_dim, inner = c.intermediate_size,
    longest = c.max_position_embeddings, norm = "before", norm_kind = "rms", eps = c.rms_norm_eps,
    untrained = c.pad_token_id, -- also the end of texts; PyTorch gives padding no gradient
    embedding_norm = false, act = keys.ACTIVATIONS[c.hidden_act], gate = "second", std = c.initializer_range,
    theta = function() return c.rope_theta end,
    bias = {
      norm = false, qkv = c.attention_bias, out = c.attention_bias, up = c.mlp_bias, down = c.mlp_bias,
    },
    dropout = { attention = c.attention_dropout },
  }
end

eurobert.names = {
  words = "embed_tokens", layer = "layers.%d.", attention_norm = "input_layernorm",
  qkv = { "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj" }, out = "self_attn.o_proj",
  feed_norm = "post_attention_layernorm", up = { "mlp.gate_proj", "mlp.up_proj" }, down = "mlp.down_proj",
  final_norm = "norm",
}

function eurobert.heads(c)
  local tied = c.tie_word_embeddings
  return {
    mlm = {
      weight = not tied and "lm_head.weight" or nil, bias = c.mlp_bias and "lm_head.bias" or nil,
      repeats = tied and "lm_head" or nil,
    },
    sequence = {
      pool = c.classifier_pooling ~= "bos" and c.classifier_pooling or nil, dense = "dense", act = "gelu",
      layer = "classifier",
    },
    tokens = { layer = "classifier" },
  }
end

return eurobert

-- gte.lua - GTE, "new" in older files: BERT with rotary positions and gated feed-forward blocks.
--
-- Source: Zhang et al. 2024, arXiv:2407.19669.

local bert = require("seqrun.nn.families.bert")
local keys = require("seqrun.nn.keys")
local rope = require("seqrun.nn.keys.rope")

local gte = {
  name = "gte", class = "Gte", prefix = "gte.",
  bare_pooler = false,
  keys = keys.like_bert {
    vocab_size = keys.size(250048), max_position_embeddings = keys.size(8192), type_vocab_size = keys.integer(1, 0),
    attention_probs_dropout_prob = keys.dropout(0), rope_theta = keys.number(160000, 1),
    pad_token_id = keys.integer(1, 0),
  },
  only = keys.encoder_only {
    tie_word_embeddings = true, position_embedding_type = "rope", layer_norm_type = "layer_norm", pack_qkv = true,
    logn_attention_scale = false,
  },
  ignored = keys.set "unpad_inputs use_memory_efficient_attention logn_attention_clip1",
  read = rope.read,
  rename = { { "^new%.", "gte." } },
}

function gte.write(c) return { rope_parameters = rope.write(c.rope_theta) } end

function gte.design(c)
  local design = bert.design(c)
  design.position_rows, design.gate, design.bias = nil, "first", { up = false }
  design.theta = function() return c.rope_theta end
  design.dropout.inner = c.hidden_dropout_prob
  return design
end

gte.names = {
  words = "embeddings.word_embeddings", types = "embeddings.token_type_embeddings",
  embedding_norm = "embeddings.LayerNorm", layer = "encoder.layer.%d.", qkv = "attention.qkv_proj",
  out = "attention.o_proj", attention_norm = "attn_ln", up = "mlp.up_gate_proj", down = "mlp.down_proj",
  feed_norm = "mlp_ln", pooler = "pooler.dense",
}

function gte.heads(c)
  local drop = c.classifier_dropout or c.hidden_dropout_prob
  return {
    mlm = {
      dense = "lm_head.dense", act = "gelu", norm = "lm_head.norm", bias = "lm_head.decoder.bias",
      repeats = "lm_head.decoder",
    },
    sequence = { pooler = true, drop = drop, layer = "classifier" }, tokens = { drop = drop, layer = "classifier" },
  }
end

return gte

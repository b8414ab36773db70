-- nomic_bert.lua - NomicBERT: BERT with rotary positions, gated feed-forward blocks and no biases but those of norms.
--
-- Source: Nussbaum et al. 2024, arXiv:2402.01613.

local bert = require("seqrun.nn.families.bert")
local keys = require("seqrun.nn.keys")
local rope = require("seqrun.nn.keys.rope")

local nomic_bert = {
  name = "nomic_bert", class = "NomicBert", prefix = "nomic_bert.",
  bare_pooler = false,
  keys = keys.like_bert {
    vocab_size = keys.size(30528), max_position_embeddings = keys.size(2048), hidden_act = keys.activation("silu"),
    hidden_dropout_prob = keys.dropout(0), attention_probs_dropout_prob = keys.dropout(0),
    head_dim = keys.integer(nil, 1), rope_theta = keys.number(1000, 1),
  },
  only = keys.encoder_only {
    tie_word_embeddings = true, prenorm = false, use_rms_norm = false, qkv_proj_bias = false, mlp_fc1_bias = false,
    mlp_fc2_bias = false, parallel_block = false, causal = false, rotary_emb_interleaved = false,
    rotary_emb_fraction = 1.0, rotary_emb_scale_base = keys.NONE, rotary_scaling_factor = keys.NONE,
    scale_attn_weights = true, scale_attn_by_inverse_layer_idx = false, activation_function = "swiglu",
  },
  rename = { { "^bert%.", "nomic_bert." } }, -- of the authors' own code
}

---Keys of GPT-2, which published files have.
local OLDER = {
  hidden_size = "n_embd", num_hidden_layers = "n_layer", num_attention_heads = "n_head", intermediate_size = "n_inner",
  max_position_embeddings = "n_positions", layer_norm_eps = "layer_norm_epsilon", hidden_dropout_prob = "resid_pdrop",
  attention_probs_dropout_prob = "attn_pdrop", rope_theta = "rotary_emb_base",
}

function nomic_bert.read(given)
  for key, older in pairs(OLDER) do
    if given[key] == nil then given[key] = given[older] end
  end
  if given.n_embd and not given.intermediate_size then given.intermediate_size = 4 * given.n_embd end
  return rope.read(given)
end

function nomic_bert.write(c) return { rope_parameters = rope.write(c.rope_theta) } end

function nomic_bert.design(c)
  local design = bert.design(c)
  design.position_rows, design.gate, design.head_size = nil, "second", c.head_dim
  design.theta = function() return c.rope_theta end
  design.bias = { qkv = false, out = false, up = false, down = false }
  return design
end

nomic_bert.names = {
  words = "embeddings.word_embeddings", types = "embeddings.token_type_embeddings", embedding_norm = "emb_ln",
  layer = "encoder.layers.%d.", qkv = "attn.Wqkv", out = "attn.out_proj", attention_norm = "norm1",
  up = { "mlp.fc12", "mlp.fc11" }, down = "mlp.fc2", feed_norm = "norm2", pooler = "pooler.dense",
}

function nomic_bert.heads(c, design)
  local drop = c.classifier_dropout or c.hidden_dropout_prob
  return {
    mlm = {
      dense = "cls.predictions.transform.dense", act = design.act, norm = "cls.predictions.transform.layer_norm",
      bias = "cls.predictions.bias", repeats = "cls.predictions.decoder",
    },
    sequence = { pooler = true, drop = drop, layer = "classifier" }, tokens = { drop = drop, layer = "classifier" },
  }
end

return nomic_bert

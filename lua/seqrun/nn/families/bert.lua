-- bert.lua - BERT: post-norm layers, learned positions, token types, a pooler.
--
-- Source: Devlin et al. 2018, arXiv:1810.04805.

local keys = require("seqrun.nn.keys")

local bert = {
  name = "bert", class = "Bert", prefix = "bert.",
  keys = keys.like_bert(),
  only = keys.encoder_only { position_embedding_type = "absolute", tie_word_embeddings = true },
  ignored = keys.set [[ directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
    pooler_size_per_head pooler_type ]],
}

function bert.design(c)
  return {
    vocabulary = c.vocab_size, hidden = c.hidden_size, layers = c.num_hidden_layers, heads = c.num_attention_heads,
    inner = c.intermediate_size, longest = c.max_position_embeddings, position_rows = c.max_position_embeddings,
    types = c.type_vocab_size, act = keys.ACTIVATIONS[c.hidden_act], eps = c.layer_norm_eps, std = c.initializer_range,
    dropout = {
      embedding = c.hidden_dropout_prob, attention = c.attention_probs_dropout_prob,
      projection = c.hidden_dropout_prob, feed = c.hidden_dropout_prob,
    },
  }
end

bert.names = {
  words = "embeddings.word_embeddings", positions = "embeddings.position_embeddings",
  types = "embeddings.token_type_embeddings", embedding_norm = "embeddings.LayerNorm",
  layer = "encoder.layer.%d.",
  qkv = { "attention.self.query", "attention.self.key", "attention.self.value" },
  out = "attention.output.dense", attention_norm = "attention.output.LayerNorm",
  up = "intermediate.dense", down = "output.dense", feed_norm = "output.LayerNorm",
  pooler = "pooler.dense",
}

function bert.heads(c, design)
  local drop = c.classifier_dropout or c.hidden_dropout_prob
  local pooled = { pooler = true, drop = drop, layer = "classifier" }
  return {
    mlm = {
      dense = "cls.predictions.transform.dense", act = design.act, norm = "cls.predictions.transform.LayerNorm",
      bias = "cls.predictions.bias", repeats = "cls.predictions.decoder",
    },
    nsp = "cls.seq_relationship",
    sequence = pooled, choice = pooled, tokens = { drop = drop, layer = "classifier" },
    spans = { layer = "qa_outputs" },
  }
end

return bert

-- distilbert.lua - DistilBERT: BERT without token types and pooler.
--
-- Source: Sanh et al. 2019, arXiv:1910.01108.

local keys = require("seqrun.nn.keys")

local distilbert = {
  name = "distilbert", class = "DistilBert", prefix = "distilbert.",
  keys = {
    vocab_size = keys.size(30522), dim = keys.size(768), n_layers = keys.layers(6), n_heads = keys.size(12),
    hidden_dim = keys.size(3072), activation = keys.activation("gelu"), dropout = keys.dropout(0.1),
    attention_dropout = keys.dropout(0.1), qa_dropout = keys.dropout(0.1), seq_classif_dropout = keys.dropout(0.2),
    max_position_embeddings = keys.size(512), initializer_range = keys.number(0.02, 0),
    pad_token_id = keys.integer(0, 0),
  },
  only = keys.encoder_only { tie_word_embeddings = true },
  ignored = keys.set "sinusoidal_pos_embds tie_weights_", -- the table of sinusoids is stored like a learned one
}

function distilbert.design(c)
  return {
    vocabulary = c.vocab_size, hidden = c.dim, layers = c.n_layers, heads = c.n_heads, inner = c.hidden_dim,
    longest = c.max_position_embeddings, position_rows = c.max_position_embeddings, types = 0,
    act = keys.ACTIVATIONS[c.activation], eps = 1e-12, std = c.initializer_range,
    dropout = { embedding = c.dropout, attention = c.attention_dropout, feed = c.dropout },
  }
end

distilbert.names = {
  words = "embeddings.word_embeddings", positions = "embeddings.position_embeddings",
  embedding_norm = "embeddings.LayerNorm",
  layer = "transformer.layer.%d.",
  qkv = { "attention.q_lin", "attention.k_lin", "attention.v_lin" }, out = "attention.out_lin",
  attention_norm = "sa_layer_norm", up = "ffn.lin1", down = "ffn.lin2", feed_norm = "output_layer_norm",
}

function distilbert.heads(c, design)
  local sequence = { dense = "pre_classifier", act = "relu", drop = c.seq_classif_dropout, layer = "classifier" }
  return {
    mlm = {
      dense = "vocab_transform", act = design.act, norm = "vocab_layer_norm", bias = "vocab_projector.bias",
      repeats = "vocab_projector",
    },
    sequence = sequence, choice = sequence, tokens = { drop = c.dropout, layer = "classifier" },
    spans = { drop = c.qa_dropout, layer = "qa_outputs" },
  }
end

return distilbert

-- electra.lua - ELECTRA: BERT's layers on embeddings of a size of their own; generators have a masked-LM head.
--
-- Source: Clark et al. 2020, arXiv:2003.10555.

local keys = require("seqrun.nn.keys")
local bert = require("seqrun.nn.families.bert")

local electra = {
  name = "electra", class = "Electra", prefix = "electra.",
  keys = keys.like_bert {
    embedding_size = keys.size(128), hidden_size = keys.size(256), num_attention_heads = keys.size(4),
    intermediate_size = keys.size(1024), summary_last_dropout = keys.dropout(0.1),
  },
  only = keys.encoder_only {
    position_embedding_type = "absolute", tie_word_embeddings = true, summary_activation = "gelu",
    summary_type = "first", summary_use_proj = true,
  },
  ignored = keys.set "summary_first_dropout summary_proj_to_labels",
}

function electra.design(c)
  local design = bert.design(c)
  design.embedding = c.embedding_size
  return design
end

electra.names = setmetatable({ project = "embeddings_project", pooler = false }, { __index = bert.names })

function electra.heads(c, design)
  local drop = c.classifier_dropout or c.hidden_dropout_prob
  return {
    mlm = {
      dense = "generator_predictions.dense", act = "gelu", norm = "generator_predictions.LayerNorm",
      bias = "generator_lm_head.bias", repeats = "generator_lm_head",
    },
    replaced = {
      dense = "discriminator_predictions.dense", act = design.act, layer = "discriminator_predictions.dense_prediction",
    },
    sequence = {
      drop_before = drop, dense = "classifier.dense", act = "gelu", drop = drop, layer = "classifier.out_proj",
    },
    choice = {
      dense = "sequence_summary.summary", act = "gelu", drop = c.summary_last_dropout,
      layer = "classifier",
    },
    tokens = { drop = drop, layer = "classifier" }, spans = { layer = "qa_outputs" },
    without_mlm = "is an ELECTRA discriminator, which has no masked-LM head; use its generator",
  }
end

return electra

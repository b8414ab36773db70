-- roberta.lua - RoBERTa: BERT's layers, with positions that begin after the id of the padding token.
--
-- Source: Liu et al. 2019, arXiv:1907.11692.

local bert = require("seqrun.nn.families.bert")
local keys = require("seqrun.nn.keys")

local roberta = {
  name = "roberta", class = "Roberta", prefix = "roberta.", token_ids = { "bos", "eos" },
  keys = keys.like_bert { vocab_size = keys.size(50265), pad_token_id = keys.integer(1, 0) },
  only = bert.only, ignored = bert.ignored, names = bert.names,
}

function roberta.design(c)
  local design = bert.design(c)
  design.skip, design.longest = c.pad_token_id, c.max_position_embeddings - c.pad_token_id - 1
  design.pairs = false -- types exist, but the tokenizers of the family give 0 to both texts of a pair
  return design
end

function roberta.check(c)
  if c.max_position_embeddings > c.pad_token_id + 1 then return nil end
  return ("max_position_embeddings %d leaves no positions after pad_token_id %d; it must be at least %d"):format(
    c.max_position_embeddings, c.pad_token_id, c.pad_token_id + 2)
end

function roberta.heads(c)
  local drop = c.classifier_dropout or c.hidden_dropout_prob
  return {
    mlm = {
      dense = "lm_head.dense", act = "gelu", norm = "lm_head.layer_norm", bias = "lm_head.bias",
      repeats = "lm_head.decoder",
    },
    sequence = {
      drop_before = drop, dense = "classifier.dense", act = "tanh", drop = drop, layer = "classifier.out_proj",
    },
    choice = { pooler = true, drop = c.hidden_dropout_prob, layer = "classifier" },
    tokens = { drop = drop, layer = "classifier" }, spans = { layer = "qa_outputs" },
  }
end

return roberta

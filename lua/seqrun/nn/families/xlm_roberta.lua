-- xlm_roberta.lua - XLM-RoBERTa: RoBERTa with another vocabulary.
--
-- Source: Conneau et al. 2019, arXiv:1911.02116.

local keys = require("seqrun.nn.keys")

return {
  name = "xlm-roberta", like = "roberta", class = "XLMRoberta",
  keys = keys.like_bert { vocab_size = keys.size(250002), pad_token_id = keys.integer(1, 0) },
}

-- camembert.lua - CamemBERT: RoBERTa with another vocabulary; its tensors are named roberta. as well.
--
-- Source: Martin et al. 2019, arXiv:1911.03894.

local keys = require("seqrun.nn.keys")

return {
  name = "camembert", like = "roberta", class = "Camembert",
  keys = keys.like_bert { vocab_size = keys.size(32005), pad_token_id = keys.integer(1, 0) },
}

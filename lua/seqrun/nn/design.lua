-- design.lua - an encoder as a table: what the forward pass reads, whatever the family and its config keys.
--
-- A family gives the fields in which it differs from BERT; the others have these defaults.

local experts = require("seqrun.nn.keys.experts")
local merged = require("seqrun.base.merged")

---@class seqrun.Design
---@field vocabulary integer V
---@field hidden integer H
---@field layers integer L
---@field heads integer A
---@field kv_heads integer heads of keys and values; A by default
---@field head_size integer D; H / A by default
---@field inner integer F, after the gate
---@field longest integer tokens of the longest sequence
---@field norm "after"|"before" each block
---@field norm_kind "layer"|"rms"
---@field eps number
---@field first_norm boolean before: layer 0 has a norm before its attention
---@field final_norm boolean after the last layer; by default where norms come first
---@field embedding integer width of the embeddings, which are projected to H if it differs
---@field embedding_norm boolean
---@field untrained? integer id whose embedding gets no gradient
---@field position_rows? integer of the table of learned positions
---@field skip? integer RoBERTa: positions count tokens that are not this id, and start after it
---@field types integer rows of the table of token types; 0: none
---@field pairs boolean the second text of a pair has type 1
---@field theta? fun(layer: integer): number rotary positions
---@field window? fun(layer: integer): integer|nil a token attends to those at most so far away
---@field causal? boolean a token attends to none after it
---@field act string
---@field gate? "first"|"second" which half of the first product of the feed-forward block is the gate
---@field bias { norm: boolean, qkv: boolean, out: boolean, up: boolean, down: boolean }
---@field dropout { embedding: number, attention: number, projection: number, inner: number, feed: number }
---@field experts? seqrun.ExpertsDesign feed-forward blocks that tokens choose among
---@field std number standard deviation of initial weights
---@field deep_std number of the matrices that add to the hidden state

---@param given table fields of a family's design()
---@param config table of the encoder, whose own keys add experts
---@return seqrun.Design
return function(given, config)
  local before = given.norm == "before"
  local design = merged({
    kv_heads = given.heads, head_size = given.hidden // given.heads, norm = "after", norm_kind = "layer",
    first_norm = true, final_norm = before, embedding = given.hidden, embedding_norm = true, types = 0,
    pairs = (given.types or 0) > 1, std = 0.02, deep_std = given.std or 0.02,
  }, given)
  design.bias = merged({ norm = true, qkv = true, out = true, up = true, down = true }, given.bias)
  design.dropout = merged({ embedding = 0, attention = 0, projection = 0, inner = 0, feed = 0 }, given.dropout)
  design.experts = experts.design(config, design.layers)
  return design
end

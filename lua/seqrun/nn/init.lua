-- nn - models written in Lua over the coarse ops.

local nn = {}

---A BERT for pretraining; see nn/bert.lua.
function nn.bert(config)
  return require("seqrun.nn.bert").new(config)
end

---Attention with a mask and all scores in memory, as composed from small ops: the reference.
function nn.dense_attention(...)
  return require("seqrun.nn.dense").attention(...)
end

return nn

-- nn - models written in Lua over the coarse ops.

local nn = {}

---An encoder with heads, for pretraining by default; see nn/bert.lua.
function nn.bert(config)
  local bert = require("seqrun.nn.bert").new(config) -- no tail call: messages look for the caller's line
  return bert
end

---The encoder of a BERT alone, or as a part of a model; see nn/encoder.lua.
function nn.encoder(config, options)
  local encoder = require("seqrun.nn.encoder").new(config, options)
  return encoder
end

---A model of your own, from encoders, heads and lists of parameters; see nn/model.lua.
function nn.model(parts, options)
  local model = require("seqrun.nn.model").new(parts, options)
  return model
end

---Masked-LM and next-sentence heads over an encoder, for models of your own.
nn.heads = { mlm = require("seqrun.nn.heads.mlm").new, nsp = require("seqrun.nn.heads.nsp").new }

---An empty list of named losses; see nn/losses.lua.
function nn.losses() return require("seqrun.nn.losses").new() end

---Lists of parameters, written shortly: `local list, add = sr.nn.specs(0.02)`; see nn/specs.lua.
function nn.specs(std) return require("seqrun.nn.specs").new(std) end

---Attention with a mask and all scores in memory, as composed from small ops: the reference.
function nn.dense_attention(...)
  return require("seqrun.nn.dense").attention(...)
end

return nn

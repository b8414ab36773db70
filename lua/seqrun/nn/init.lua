-- nn - models composed of the fused ops.

local nn = {}

---An encoder with heads, for pretraining by default; see nn/bert.lua.
function nn.bert(config)
  local bert = require("seqrun.nn.bert").new(config) -- no tail call: error messages name the caller's line
  return bert
end

---The encoder of a BERT alone, or as a part of a model; see nn/encoder.lua.
function nn.encoder(config, options)
  local encoder = require("seqrun.nn.encoder").new(config, options)
  return encoder
end

---A model from a run, a checkpoint or a Hugging Face directory; see nn/pretrained.lua.
function nn.pretrained(path, options)
  local model, facts, report = require("seqrun.nn.pretrained")(path, options)
  return model, facts, report
end

---A custom model, from encoders, heads and lists of parameters; see nn/model.lua.
function nn.model(parts, options)
  local model = require("seqrun.nn.model").new(parts, options)
  return model
end

---Masked-LM and next-sentence heads over an encoder, for custom models.
nn.heads = { mlm = require("seqrun.nn.heads.mlm").new, nsp = require("seqrun.nn.heads.nsp").new }

---An empty list of named losses; see nn/losses.lua.
function nn.losses() return require("seqrun.nn.losses").new() end

---Short notation for lists of parameters: `local list, add = sr.nn.specs(0.02)`; see nn/specs.lua.
function nn.specs(std) return require("seqrun.nn.specs").new(std) end

---Attention with a mask and materialised scores: the reference for ops.attention.
function nn.dense_attention(...)
  return require("seqrun.nn.dense").attention(...)
end

return nn

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

---Random layerwise token dropping, for the field `ltd` of an encoder; see nn/ltd.lua.
function nn.ltd(options)
  local ltd = require("seqrun.nn.ltd").new(options)
  return ltd
end

---A custom model, from encoders, heads and lists of parameters; see nn/model.lua.
function nn.model(parts, options)
  local model = require("seqrun.nn.model").new(parts, options)
  return model
end

---Heads over an encoder.  `mlm` and `nsp` take the encoder; those of tasks take options, as in
---`heads = { sr.nn.heads.classify { labels = { "no", "yes" } } }` of sr.nn.bert; see nn/heads/task.lua.
nn.heads = {}
for _, name in ipairs { "mlm", "nsp", "classify", "regress", "multilabel", "choice", "tokens", "squad" } do
  nn.heads[name] = require("seqrun.nn.heads." .. name).new
end

---An empty list of named losses; see nn/losses.lua.
function nn.losses() return require("seqrun.nn.losses").new() end

---Short notation for lists of parameters: `local list, add = sr.nn.specs(0.02)`; see nn/specs.lua.
function nn.specs(std) return require("seqrun.nn.specs").new(std) end

---Attention with a mask and materialised scores: the reference for ops.attention.
function nn.dense_attention(...)
  return require("seqrun.nn.dense").attention(...)
end

return nn

-- models.lua - the options of a model, from the keys of a run and the data that it reads.

local configs = require("seqrun.nn.config")
local failure = require("seqrun.base.failure")
local families = require("seqrun.nn.families")

local models = {}

---The keys of an encoder in the group `model` of a config.
---@param model table
---@return table
function models.encoder_keys(model)
  local options = {}
  for key, value in pairs(model) do
    if key ~= "recompute" then options[key] = value end
  end
  return options
end

---The config for sr.nn.encoder and sr.nn.bert; fails if the model reads fewer tokens than a row has.
---@param cfg table
---@param corpus seqrun.Corpus
---@return table
function models.options(cfg, corpus)
  local options = models.encoder_keys(cfg.model)
  local _, family = configs.design(options)
  options.vocab_size, options.precision = corpus:vocab_size(), cfg.precision
  if family.keys.pad_token_id then options.pad_token_id = corpus:tokenizer():special("pad") end
  local longest = configs.design(options).longest
  if cfg.data.max_len > longest then
    failure.raise("config", "data.max_len is %d, but the model reads at most %d tokens; raise "
      .. "model.max_position_embeddings", cfg.data.max_len, longest)
  end
  return options
end

---The rule of a config that the family of its model is causal, or that it is not.
---@param causal boolean
---@param why string it must be so, with %s for the family
---@return table
function models.family_rule(causal, why)
  return { keys = { "model.family" }, check = function(family)
    return (families.find(family).causal or false) ~= causal and why:format(family) or nil
  end }
end

return models

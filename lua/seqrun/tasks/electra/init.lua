-- electra - pretraining of a discriminator, which detects replaced tokens: they are
-- drawn by a generator beside it, or (SAS) from what the network itself predicted in the pass before.
--
-- recipes/electra.lua has its loop.
--
-- Source: ELECTRA, Clark et al. 2020, arXiv:2003.10555; SAS, Xu et al. 2023, "Self-augmentation strategy for language
-- model pre-training".

local c = require("seqrun.config")
local configs = require("seqrun.nn.config")
local experts = require("seqrun.tasks.shared.experts")
local failure = require("seqrun.base.failure")
local model_keys = require("seqrun.tasks.shared.model_keys")
local models = require("seqrun.tasks.shared.models")
local parts = require("seqrun.tasks.shared.parts")
local pretraining = require("seqrun.tasks.pretraining")

local electra = { recipe = "recipes/electra.lua", settings = { data = { nsp = false, short_seq_prob = 0 } } }

local objective = c.map {
  { "by", c.enum({ "generator", "itself" }, { default = "generator",
    doc = "source of replaced tokens; generator: a smaller network, trained at the same time; itself: the network's "
      .. "predictions at the same positions in the previous pass, token frequencies at first (SAS)" }) },
  { "generator", c.number { default = 0.25, min = 0.01, max = 1,
    doc = "width of the generator, as a fraction of the discriminator's" } },
  { "weight", c.number { default = 50, min = 0, doc = "factor of the loss over replaced tokens; masked LM has 1" } },
}

electra.keys = {
  pretraining.shared.data, pretraining.shared.mask, { "model", model_keys("electra", { more = experts.model_keys }) },
  { "electra", objective },
}

electra.rules = {
  experts.rules[1],
  {
    keys = { "model.family" },
    check = function(family)
      local _, _, heads = configs.design { family = family }
      if heads.replaced then return nil end
      return ("the family %s has no head for replaced tokens; choose electra"):format(family)
    end,
  },
  {
    keys = { "electra.by", "data.nsp", "data.short_seq_prob" },
    check = function(by, nsp, short)
      if by ~= "itself" or not nsp and short == 0 then return nil end
      local key, value = nsp and "data.nsp" or "data.short_seq_prob", nsp and "false" or "0"
      local text = "electra.by=itself keeps predictions by sequence, and %s draws other sequences in each epoch; set "
        .. "%s=%s"
      return text:format(key, key, value)
    end,
  },
}

---Whether predictions of the network itself replace tokens.
local function by_itself(cfg) return cfg.electra.by == "itself" end

---Options for sr.data.loader.
---@param cfg table
---@param corpus seqrun.Corpus
---@param part "train"|"held"
---@param plan? string a saved plan, used for its epoch
---@return table
function electra.loader_options(cfg, corpus, part, plan)
  local options = parts.loader_options(cfg, corpus, part, plan)
  local fixed = corpus:info().kind ~= "text"
  options.nsp = not fixed and cfg.data.nsp
  if not fixed then
    options.short_seq_prob, options.short_seq_by = cfg.data.short_seq_prob, cfg.data.short_seq_by
  end
  options.mask = cfg.mask
  options.targets = { { name = "replaced", kind = "tokens" }, { name = "mlm", kind = "mlm", fixed = by_itself(cfg) } }
  options.per_square = 1 / (6 * configs.design(electra.model_options(cfg, corpus)).hidden)
  return options
end

---The config of the discriminator for sr.nn.encoder.
---@param cfg table
---@param corpus seqrun.Corpus
---@return table
function electra.model_options(cfg, corpus) return models.options(cfg, corpus) end

---The networks, their weights drawn from the seed.
---@param cfg table
---@param corpus seqrun.Corpus
---@return seqrun.Electra
function electra.model(cfg, corpus)
  local model = require("seqrun.tasks.electra.model").new(electra.model_options(cfg, corpus), {
    width = not by_itself(cfg) and cfg.electra.generator or nil, weight = cfg.electra.weight, seed = cfg.seed,
    counts = by_itself(cfg) and failure.must(corpus:counts()) or nil,
  })
  model.recompute = cfg.model.recompute
  return model:initialise(cfg.seed)
end

---Options for the optimizer of the config.
---@param cfg table
---@param loader seqrun.Loader
---@return table
function electra.optimizer_options(cfg, loader) return parts.optimizer_options(cfg, loader) end

return electra

-- causal.lua - pretraining of a causal model: each token from those before it, with fill-in-the-middle, and beside
-- masked sequences, as asked for.
--
-- With causal.share below 1 the other sequences are masked and seen from both sides, and a masked token is predicted
-- where a causal model predicts it, one token earlier, by the same weights.
--
-- Source: fill-in-the-middle, Bavarian et al. 2022, arXiv:2207.14255; masked sequences beside causal ones, Charpentier
-- and Samuel 2024, arXiv:2410.24159.

local c = require("seqrun.config")
local configs = require("seqrun.nn.config")
local experts = require("seqrun.tasks.shared.experts")
local failure = require("seqrun.base.failure")
local model_keys = require("seqrun.tasks.shared.model_keys")
local models = require("seqrun.tasks.shared.models")
local mlm = require("seqrun.nn.heads.mlm")
local nn = require("seqrun.nn")
local parts = require("seqrun.tasks.shared.parts")
local pretraining = require("seqrun.tasks.pretraining")

local causal = { recipe = "recipes/causal.lua" }

local objective = c.map {
  { "share", c.number { default = 1, min = 0.01, max = 1,
    doc = "fraction of the sequences that are causal; the others are masked (mask.*), and their masked tokens are "
      .. "predicted one token earlier" } },
}

local fim = c.map {
  { "rate", c.number { default = 0, min = 0, max = 1,
    doc = "fraction of the causal sequences that are rearranged for fill-in-the-middle: prefix, suffix, middle" } },
  { "spm", c.number { default = 0.5, min = 0, max = 1,
    doc = "of these, the fraction in the order SPM: suffix, then prefix and middle" } },
  { "cut", c.enum({ "token", "character" }, { default = "token",
    doc = "where texts are cut; character: anywhere in a word, with the parts tokenized again" }) },
  { "tokens", c.list(c.string(), { default = { "<fim_prefix>", "<fim_suffix>", "<fim_middle>" }, min = 3, max = 3,
    doc = "tokens before prefix, suffix and middle; the tokenizer must have them" }) },
}

causal.keys = {
  { "model", model_keys("gpt2", { more = experts.model_keys }) }, { "causal", objective }, { "fim", fim },
  pretraining.shared.mask,
}

causal.rules = {
  experts.rules[1],
  models.family_rule(true, "the family %s is bidirectional, so each token would see the one it predicts; train it with "
    .. "recipes/pretrain.lua, or choose gpt2"),
}

---The ids of the tokens of fill-in-the-middle.
local function fim_ids(cfg, corpus)
  local ids, tokenizer = {}, corpus:tokenizer()
  for i, token in ipairs(cfg.fim.tokens) do
    ids[i] = tokenizer:id(token)
    if not ids[i] then
      failure.raise("config", "fim.tokens: the tokenizer of %s has no token '%s'; prepare the data again with it "
        .. "(recipes/prepare.lua vocab.tokens=[%s], or as a line at the end of the vocab.txt), or name three that it "
        .. "has", corpus:info().path, token, table.concat(cfg.fim.tokens, ","))
    end
  end
  return ids
end

---What loaders are to predict.
local function targets_of(cfg, corpus)
  local share = cfg.causal.share
  local own = { name = "causal", kind = "causal", causal = share }
  if cfg.fim.rate > 0 then
    local ids = fim_ids(cfg, corpus)
    own.fim = {
      rate = cfg.fim.rate, spm = cfg.fim.spm, characters = cfg.fim.cut == "character", prefix = ids[1], suffix = ids[2],
      middle = ids[3],
    }
  end
  return share < 1 and { own, { name = "mlm", kind = "mlm", causal = share } } or { own }
end

---Options for sr.data.loader.
---@param cfg table
---@param corpus seqrun.Corpus
---@param part "train"|"held"
---@param plan? string a saved plan, used for its epoch
---@return table
function causal.loader_options(cfg, corpus, part, plan)
  local options = parts.loader_options(cfg, corpus, part, plan)
  options.nsp, options.mask = false, cfg.causal.share < 1 and cfg.mask
  if corpus:info().kind == "text" then options.short_seq_prob = 0 end
  options.targets = targets_of(cfg, corpus)
  local design = configs.design(causal.model_options(cfg, corpus))
  options.per_square = 1 / (12 * design.hidden) -- half of the pairs
  return options
end

---The config for sr.nn.bert.
---@param cfg table
---@param corpus seqrun.Corpus
---@return table
function causal.model_options(cfg, corpus)
  local options, tokenizer = models.encoder_keys(cfg.model), corpus:tokenizer()
  options.vocab_size, options.precision = corpus:vocab_size(), cfg.precision
  local cls, sep = tokenizer:special("cls"), tokenizer:special("sep")
  options.bos_token_id, options.eos_token_id = cls or sep, sep or cls
  local longest = configs.design(options).longest
  if cfg.data.max_len > longest then
    failure.raise("config", "data.max_len is %d, but the model reads at most %d tokens; raise model.n_positions",
      cfg.data.max_len, longest)
  end
  return options
end

---The model, its weights drawn from the seed.  With masked sequences its loss is the mean of both, by their share.
---@param cfg table
---@param corpus seqrun.Corpus
---@return seqrun.Bert
function causal.model(cfg, corpus)
  local options, share = causal.model_options(cfg, corpus), cfg.causal.share
  local head
  options.heads = { function(encoder)
    head = mlm.causal(encoder)
    return head
  end }
  if share < 1 then
    options.heads[2] = function()
      local other = mlm.masked_too(head)
      head.factor, other.factor = share, 1 - share
      return other
    end
  end
  local model = nn.bert(options):initialise(cfg.seed)
  model.recompute = cfg.model.recompute
  return model
end

---Options for the optimizer of the config.
---@param cfg table
---@param loader seqrun.Loader
---@return table
function causal.optimizer_options(cfg, loader) return parts.optimizer_options(cfg, loader) end

return causal

-- parts.lua - what the keys of a pretraining config mean to the loader, the model and the optimizer.

local failure = require("seqrun.failure")

local parts = {}

---Options for sr.data.loader.
---@param cfg table values of sr.run.schema
---@param corpus seqrun.Corpus
---@param part "train"|"held"
---@param plan? string a saved plan, used for the epoch that it fits
---@return table
function parts.loader_options(cfg, corpus, part, plan)
  local held = part == "held"
  if cfg.data.nsp and corpus:info().kind ~= "text" then
    failure.raise("config", "%s holds given examples, no sentences to pair; set data.nsp=false", cfg.data.file)
  end
  return {
    data = corpus, part = part, seed = cfg.seed, epochs = held and 1 or nil, max_len = cfg.data.max_len,
    arrange = cfg.pack.arrange, solver = cfg.pack.solver, max_seqs = cfg.pack.max_seqs,
    sequences = cfg.batch.sequences, adjust = cfg.batch.adjust, micro_packs = cfg.batch.micro_packs,
    per_square = 1 / (6 * cfg.model.hidden_size), -- flops of attention a len^2 over those of products a token
    loss = cfg.batch.loss, mask = cfg.mask, nsp = cfg.data.nsp, short_seq_prob = cfg.data.short_seq_prob,
    too_long = cfg.data.too_long, prefetch = held and 0 or cfg.data.prefetch, plan = not held and plan or nil,
  }
end

---The config of the model, in Hugging Face's keys.
---@param cfg table
---@param corpus seqrun.Corpus
---@return table
function parts.model_options(cfg, corpus)
  local model = {}
  for key, value in pairs(cfg.model) do
    if key ~= "recompute" then model[key] = value end
  end
  model.vocab_size = corpus:vocab_size()
  return model
end

---What only the next-sentence head uses.  Without it these would get no gradient, and decay to nothing.
local NSP_ONLY = { { match = "^bert%.pooler%.", frozen = true }, { match = "^cls%.seq_relationship%.", frozen = true } }

---Options for sr.optim.adamw and sr.optim.lamb; biases and norms have no decay.
---@param cfg table
---@param loader seqrun.Loader
---@return table
function parts.optimizer_options(cfg, loader)
  local o = cfg.optimizer
  return {
    betas = o.betas, eps = o.eps, decay = o.decay, max_skipped = o.max_skipped,
    groups = not cfg.data.nsp and NSP_ONLY or nil,
    power = cfg.batch.adjust == "betas" and loader:summary().factor or 1,
  }
end

---Linear warm-up, then polynomial decay; a later phase begins at step `from` of it.  A step is
---batch.sequences sequences, however many an update draws: take `update.schedule_step`.
---@param cfg table
---@return fun(step: number): number
function parts.schedule(cfg)
  local r = cfg.rate
  local rate = require("seqrun.schedule").poly {
    peak = r.peak, warmup = r.warmup, total = r.total, power = r.power, from_start = r.decay_from == "start",
  }
  return function(step) return rate(step + r.from) end
end

return parts

-- parts.lua - the options of the loader, the optimizer and the schedule, from the keys of every run.

local ranks = require("seqrun.tensor.ranks")
local schedule = require("seqrun.schedule")

local parts = {}

---Options for sr.data.loader, without those of the task.
---@param cfg table values of a config
---@param corpus seqrun.Corpus
---@param part "train"|"held"
---@param plan? string a saved plan, used for its epoch
---@return table
function parts.loader_options(cfg, corpus, part, plan)
  local held, world = part == "held", ranks.current() or {}
  return {
    data = corpus, part = part, seed = cfg.seed, epochs = held and 1 or nil, max_len = cfg.data.max_len,
    arrange = cfg.pack.arrange, solver = cfg.pack.solver, max_seqs = cfg.pack.max_seqs,
    by = cfg.batch.by, sequences = cfg.batch.sequences, adjust = cfg.batch.adjust, shares = cfg.batch.shares,
    micro_packs = math.tointeger(cfg.batch.micro_packs), balance = cfg.balance,
    loss = cfg.batch.loss, too_long = cfg.data.too_long ~= "windows" and cfg.data.too_long or "truncate",
    prefetch = held and 0 or cfg.data.prefetch, threads = cfg.data.workers,
    weights = not held and cfg.data.weights or nil, temperature = not held and cfg.data.temperature or nil,
    plan = not held and plan or nil, rank = not held and world.rank or nil, ranks = not held and world.size or nil,
  }
end

---Options for the optimizer of the config, sr.optim[cfg.optimizer.name], that depend on it alone; biases and norms have
---no decay.
---@param cfg table
---@return table
function parts.plain_optimizer_options(cfg)
  local o = cfg.optimizer
  local muon = o.name == "muon" and o.muon or {}
  return {
    momentum = muon.momentum, nesterov = muon.nesterov, scale = muon.scale, matrix_rate = muon.matrix_rate,
    split = muon.split,
    peak = o.decay_by == "peak" and cfg.rate.peak or nil,
    betas = o.betas, eps = o.eps, decay = o.decay, max_skipped = o.max_skipped, world = ranks.current(),
    shard = o.shard, average = o.average > 0 and o.average or nil,
  }
end

---The same for batches of packs.
---@param cfg table
---@param loader seqrun.Loader
---@return table
function parts.optimizer_options(cfg, loader)
  local options = parts.plain_optimizer_options(cfg)
  options.power = cfg.batch.adjust == "betas" and loader:summary().factor or 1
  return options
end

---A rate that follows an inverse square root after a cosine.
local function cosine_inverse_sqrt(r)
  return schedule.cosine_inverse_sqrt {
    peak = r.peak, warmup = r.warmup, cosine = r.cosine, bend = r.bend, total = r.total, decay = r.last,
    floor = r.floor, by = r.by,
  }
end

---A rate that depends on another counter than steps.
local function by_tokens(r)
  if r.decay == "cosine_inverse_sqrt" then return cosine_inverse_sqrt(r) end
  return schedule.tokens {
    last = r.last,
    peak = r.peak, floor = r.floor, warmup = r.warmup, warmup_by = r.warmup_by, total = r.total, by = r.by,
    decay = r.decay ~= "poly" and r.decay or "linear",
  }
end

---A rate that depends on steps.
---@param r table the keys of `rate`
---@return seqrun.Schedule
function parts.by_steps(r)
  if r.decay == "cosine_inverse_sqrt" then return cosine_inverse_sqrt(r) end
  if r.decay == "constant" then return schedule.constant { peak = r.peak, warmup = r.warmup } end
  if r.decay ~= "poly" then
    return schedule.wsd {
      peak = r.peak, warmup = r.warmup, total = r.total, shape = r.decay, decay = r.last or r.total - r.warmup,
      floor = r.floor,
    }
  end
  return schedule.poly {
    peak = r.peak, warmup = r.warmup, total = r.total, power = r.power, from_start = r.decay_from == "start",
    floor = r.floor,
  }
end

---Linear warmup, then the decay of the config; a later phase begins at step `from`.  A step is batch.sequences
---sequences, regardless of how many an update draws: pass `update.schedule_step` or `update.counters`.
---@param cfg table
---@return fun(at: number|seqrun.Counters): number # by another counter than steps: only of counters
function parts.schedule(cfg)
  local r = cfg.rate
  if r.by ~= "step" then return by_tokens(r) end
  local rate = parts.by_steps(r)
  return function(step)
    if type(step) == "table" then step = step.schedule_step end
    return rate(step + r.from)
  end
end

---Random layerwise token dropping, as the keys `token_drop` ask for; call :before(update) before the batches of each
---update.
---@param cfg table
---@param model seqrun.Bert
---@param steps? integer of the schedule
---@return seqrun.TokenDropSchedule|nil # nil if all tokens are kept
function parts.token_drop(cfg, model, steps)
  local options = { max_len = cfg.data.max_len, steps = steps, model = model }
  return require("seqrun.curriculum.token_drop").new(cfg.token_drop, options)
end

---The gate of a model with experts, as the keys `gate` ask for; call :before(update) before the batches of each update.
---@param cfg table
---@param model seqrun.Bert
---@param steps? integer of the schedule
---@return seqrun.GateSchedule|nil # nil if it is sparse from the start
function parts.gate(cfg, model, steps)
  return require("seqrun.tasks.shared.experts").gate(cfg, model.encoder, steps)
end

---The teacher that the keys `distill` ask for; call :before(update) before the batches of each update, and its losses
---in place of those of the model.
---@param cfg table
---@param model seqrun.Bert the student
---@param corpus seqrun.Corpus
---@param steps? integer of the schedule
---@return seqrun.Teacher|nil # nil without distillation
function parts.teacher(cfg, model, corpus, steps)
  return require("seqrun.tasks.shared.distill").new(cfg, model, corpus, steps)
end

return parts

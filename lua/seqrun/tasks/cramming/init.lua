-- cramming - pretraining in a given time: how much text is seen, how large batches become and what the rate is follow
-- from the hours that there are.
--
-- recipes/cramming.lua has its loop.
--
-- Source: Geiping and Goldstein 2022, "Cramming: Training a Language Model on a Single GPU in One Day",
-- arXiv:2212.14034.

local budget = require("seqrun.tasks.cramming.budget")
local c = require("seqrun.config")
local configs = require("seqrun.nn.config")
local experts = require("seqrun.tasks.shared.experts")
local model_keys = require("seqrun.tasks.shared.model_keys")
local models = require("seqrun.tasks.shared.models")
local nn = require("seqrun.nn")
local order = require("seqrun.tasks.cramming.order")
local Pace = require("seqrun.tasks.cramming.pace")
local parts = require("seqrun.tasks.shared.parts")
local pretraining = require("seqrun.tasks.pretraining")
local text = require("seqrun.base.format")

local cramming = { recipe = "recipes/cramming.lua" }

local objective = c.map {
  { "hours", c.number { optional = true, min = 0, changeable = true,
    doc = "time of the run, converted to rate.total at its start and stored by the run; none: set rate.total" } },
  { "ramp", c.number { default = 0.6, min = 0, max = 1,
    doc = "fraction of the run in which updates grow from one micro-batch to batch.sequences" } },
  { "drop", c.number { default = 0.1, min = 0, below = 1,
    doc = "fraction of the sequences to leave out: those that compress worst" } },
  { "sort", c.boolean { default = true,
    doc = "sort each pass by compressibility, most compressible first; false: any order" } },
}

local rate = c.map {
  { "peak", c.number { default = 1e-3, min = 0, doc = "peak learning rate, at three quarters of the run" } },
  { "total", c.integer { required = true, min = 1, doc = "updates of the run; cramming.hours sets it" } },
}

---Keys of every run that follow from the budget here, or that a sequence-by-sequence order does not have.
cramming.without = {
  "rate.peak", "rate.warmup", "rate.warmup_by", "rate.total", "rate.by", "rate.floor", "rate.decay", "rate.last",
  "rate.cosine", "rate.bend", "rate.from", "rate.power", "rate.decay_from", "batch.by", "batch.adjust",
}

cramming.keys = {
  pretraining.shared.mask, { "model", model_keys("modernbert", { more = experts.model_keys }) }, { "rate", rate },
  { "cramming", objective },
}

cramming.settings = {
  model = {
    num_hidden_layers = 16, intermediate_size = 3072, max_position_embeddings = 128, global_attn_every_n_layers = 1,
    decoder_bias = false,
  },
  mask = { prob = 0.25, max = 32 },
  optimizer = { betas = { 0.9, 0.98 }, eps = 1e-12, clip = 0.5 },
  batch = { sequences = 8192 },
}

cramming.rules = {
  experts.rules[1],
  models.family_rule(false, "the family %s is causal, and cramming masks tokens; choose modernbert, or train it with "
    .. "recipes/causal.lua"),
  {
    keys = { "batch.sequences", "batch.micro_packs" },
    check = function(sequences, packs)
      if packs == "auto" or packs <= sequences then return nil end
      return ("batch.micro_packs is %d, more than the %d sequences of the largest update; lower it"):format(packs,
        sequences)
    end,
  },
}

---Options for sr.data.loader, of all sequences in any order.
---@param cfg table
---@param corpus seqrun.Corpus
---@param part "train"|"held"
---@return table
function cramming.loader_options(cfg, corpus, part)
  local options = parts.loader_options(cfg, corpus, part)
  options.nsp, options.mask = false, cfg.mask
  if corpus:info().kind == "text" then options.short_seq_prob = 0 end
  options.per_square = 1 / (6 * configs.design(cramming.model_options(cfg, corpus)).hidden)
  return options
end

---The config for sr.nn.bert.
---@param cfg table
---@param corpus seqrun.Corpus
---@return table
function cramming.model_options(cfg, corpus) return models.options(cfg, corpus) end

---The model, its weights drawn from the seed.
---@param cfg table
---@param corpus seqrun.Corpus
---@return seqrun.Bert
function cramming.model(cfg, corpus)
  local model = nn.bert(cramming.model_options(cfg, corpus)):initialise(cfg.seed)
  model.recompute = cfg.model.recompute
  return model
end

---What the pace of a run depends on.
local function shape_of(cfg)
  return {
    full = cfg.batch.sequences, unit = math.tointeger(cfg.batch.micro_packs), ramp = cfg.cramming.ramp,
    peak = cfg.rate.peak,
  }
end

---The plan of a run: its pace, and what was promised.
---@class seqrun.Crammed
---@field pace seqrun.Pace
---@field state { hours: number } that were given, which checkpoints keep; 0: rate.total was
---@field speed { sequence: number, update: number }? measured
---@field kept integer? sequences of a pass

---How many updates the run has, and how large they are.  Hours become rate.total, which the run stores and a resume
---keeps.
---@param run seqrun.Run
---@param corpus seqrun.Corpus
---@param model seqrun.Bert of the run, before it starts
---@return seqrun.Crammed
function cramming.plan(run, corpus, model)
  local cfg, own = run.config, run.config.cramming
  local self = { state = run:state { hours = own.hours or 0 } }
  if own.hours then
    local total, speed = run.ranks:first_says(function() return budget.saved(run) end), nil
    if not total then
      speed = budget.measure(cfg, model, cramming.loader_options(cfg, corpus, "train"), run.ranks.size)
      model:initialise(cfg.seed)
      speed.sequence, speed.update = run.ranks:first_says(function() return speed.sequence, speed.update end)
      total = budget.updates(own.hours, speed, shape_of(cfg))
    end
    self.speed, cfg.rate.total, own.hours = speed, total, nil
  end
  self.pace = Pace.new(cfg.rate.total, shape_of(cfg))
  return self
end

---Options for sr.data.loader of the training part.
---@param cfg table
---@param corpus seqrun.Corpus
---@param plan seqrun.Crammed
---@return table
function cramming.train_options(cfg, corpus, plan)
  local options = cramming.loader_options(cfg, corpus, "train")
  options.order, plan.kept = order(options, plan.pace, {
    drop = cfg.cramming.drop, sort = cfg.cramming.sort, seed = cfg.seed,
  })
  options.sequences = nil
  return options
end

---Options for the optimizer of the config; parameters that masked LM does not reach are frozen.
---@param cfg table
---@param bert seqrun.Bert
---@return table
function cramming.optimizer_options(cfg, bert)
  local options = parts.plain_optimizer_options(cfg)
  options.groups = bert:frozen { "mlm" }
  return options
end

---What the run will reach, before it starts.
---@param plan seqrun.Crammed
---@return string[]
function cramming.notes(plan)
  local pace, speed = plan.pace, plan.speed
  local line = ("it will reach %s updates of %s to %s sequences, %s in all, which is %.2f passes over %s"):format(
    text.commas(#pace.sizes), text.commas(pace.sizes[1]), text.commas(pace.sizes[#pace.sizes]),
    text.commas(pace.total), pace.total / plan.kept, text.commas(plan.kept))
  if not speed then return { line } end
  return { line, ("that takes %s of the %s at %.4g sequences/s, as measured"):format(
    text.duration(pace:seconds(speed)), text.duration(plan.state.hours * 3600), 1 / speed.sequence) }
end

---What the run has reached, at its end.
---@param run seqrun.Run
---@param plan seqrun.Crammed
function cramming.report(run, plan)
  local totals, line = run:totals(), run:evaluation()
  if run.step < 1 or run.request.dry_run then return end
  local loss = line and line.mlm_loss and (", held-out mlm_loss %.3f"):format(line.mlm_loss) or ""
  local hours = plan.state.hours
  local asked = hours > 0 and (" of %s"):format(text.duration(hours * 3600)) or ""
  run.screen:say("reached %s of %s updates and %s sequences (%.2f passes) in %s%s%s", text.commas(run.step),
    text.commas(#plan.pace.sizes), text.commas(totals.sequences), totals.sequences / plan.kept,
    text.duration(run:seconds()), asked, loss)
end

return cramming

-- sanity.lua - settings of a run that are allowed, but probably a mistake: said before it starts.

local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local held = require("seqrun.run.checks.held")
local scoring = require("seqrun.scores.scoring")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")

local sanity = {}

local EPOCHS = 1000
local RATE, DECAY, EPS, MASKED = 0.1, 1, 1e-2, 0.5
local RANGE, DROPPED, SHORT = 1, 0.5, 16
local WIDE, FORGETS = 256, 0.5 -- hidden size, and rate times hidden size, from which a trained model forgets
local LONG = 30 * 86400 -- seconds
local PAIRS = 16 -- that are not all random by chance
local USED = 0.8 -- share of the tokens that are in an example; 0.90 to 0.95 of prose
local SIMT, PATIENCE = 1.5e9, 60 -- FLOP/s of the simt device, measured on two cores; seconds

---The key that decides how long a run is.
---@param cfg table
---@param schema table
---@return string
function sanity.length_key(cfg, schema)
  if cfg.steps then return "steps" end
  return schema.by_name.epochs and "epochs" or "rate.total"
end

---@param epochs number of the whole run
---@param key string that decides how long it is
---@return string|nil
function sanity.epochs(epochs, key)
  if epochs < EPOCHS then return nil end
  return ("the run passes over the data %s times; check %s"):format(text.count(math.floor(epochs)), key)
end

---Warns of a rate that is for random weights where a trained model goes on.
---@param t { model: table, resumes: boolean }
---@param cfg table
---@return string|nil
function sanity.forgetting(t, cfg)
  local design, init, peak = t.model.design, cfg.init, cfg.rate.peak
  if not design or not init or not init.from or init.carry ~= "weights" or t.resumes then return nil end
  if not (cfg.optimizer and cfg.optimizer.name:find "adamw") or type(peak) ~= "number" then return nil end
  if design.hidden < WIDE or peak * design.hidden <= FORGETS then return nil end
  return ("rate.peak is %g, which is for random weights: the model of init.from forgets what it has learned; usual for "
    .. "its hidden size of %d is up to %.0e, as in preset=continue of recipes/pretrain.lua"):format(
    peak, design.hidden, 0.1 / design.hidden)
end

---Warns of a text of which sentence pairs use little.
---@param loader seqrun.Loader
---@return string|nil
function sanity.text(loader)
  local used = loader.used_share and loader:used_share()
  if not used or used >= USED then return nil end
  return ("the examples of an epoch hold %.0f %% of the tokens: pairs of sentences leave out most of long documents "
    .. "and sentences; set data.nsp=false, which uses all, or prepare the text with text.format=documents if each line "
    .. "is a document"):format(100 * used)
end

---What is wrong if the labels of next sentences are all the same.
---@param loader seqrun.Loader
---@return string|nil
function sanity.one_label(loader)
  local plan = loader.used_share and loader:used_share() and loader:plan()
  if not plan or plan.sequences < PAIRS or plan.random_next < plan.sequences then return nil end
  return "each example has one sentence of its document (documents of one sentence, or sentences longer than "
    .. "data.max_len), so the second text of every pair is a random one, and next sentences have one label; set "
    .. "data.nsp=false"
end

---@param batch table of the config
---@param loader seqrun.Loader
---@return string|nil
function sanity.rows(batch, loader)
  local wanted, examples = batch and batch.sequences, loader.examples and loader:examples()
  if not wanted or not examples or loader:summary().by ~= "sequences" or wanted <= examples then return nil end
  return ("batch.sequences=%d, but the data have %s: each update has all of them several times; set "
    .. "batch.sequences=%d or less"):format(wanted, text.counted(examples, "example"), examples)
end

---@param optimizer table of the config
---@param last number|nil where the run ends, in units of rate.by
---@return string|nil
function sanity.average(optimizer, last)
  if not optimizer or (optimizer.average or 0) == 0 then return nil end
  if (optimizer.average_from or 0) <= (last or math.huge) then return nil end
  return ("optimizer.average_from=%g is after the end of the run, %g, so no average is made"):format(
    optimizer.average_from, last)
end

---Where a schedule reaches its last value; nil for one that has no end.
local function end_of(schedule)
  if schedule.type == "discrete" then return (schedule.upto[#schedule.upto] or 0) + 1 end
  return schedule.total
end

---Schedules that do not come to their last value before the run ends.
---@param schedules table<string, seqrun.ValueSchedule>
---@param ends table<string, number> where the run ends, by counter
---@return string[]
function sanity.schedules(schedules, ends)
  local list = {}
  for _, schedule in pairs(schedules) do
    local last = type(schedule) == "table" and end_of(schedule)
    local by = type(schedule) == "table" and schedule.by or "step"
    local upto = last and ends[by]
    if upto and upto < last and schedule:at(upto) ~= schedule:at(last) then
      list[#list + 1] = ("%s ends at %s %s, after the run, which ends at %s: it reaches %g, not %g; set an end "
        .. "within the run, such as total: 50%%"):format(schedule.name or "a schedule", by, text.commas(last),
        text.commas(upto), schedule:at(upto), schedule:at(last))
    end
  end
  table.sort(list)
  return list
end

---@param seconds number that the rest of the run takes, as far as known
---@param key string that decides how long it is
---@return string|nil
function sanity.duration(seconds, key)
  if seconds < LONG then return nil end
  return ("at this speed the run takes %s; check %s and the size of the model"):format(text.duration(seconds), key)
end

---Where mask.max leaves less to predict than mask.prob says.
local function fewer_masked(mask, max_len)
  local wanted = (mask.prob or 0) * max_len
  if not mask.max or wanted < mask.max + 1 then return nil end
  return ("mask.max=%d masks at most %.1f %% of a sequence of %d tokens, less than mask.prob=%g; set mask.max=%d")
    :format(mask.max, 100 * mask.max / max_len, max_len, mask.prob, math.ceil(wanted))
end

---What is unusual about the model and the length of the sequences.
local function model_warnings(cfg, list)
  local model, max_len, mask = cfg.model or {}, cfg.data and cfg.data.max_len, cfg.mask
  local range = model.initializer_range
  if type(range) == "number" and range > RANGE then
    list[#list + 1] = ("model.initializer_range is %g; usual is 0.02, and training will probably diverge"):format(range)
  end
  for _, key in ipairs { "hidden_dropout_prob", "attention_probs_dropout_prob" } do
    local p = model[key]
    if type(p) == "number" and p > DROPPED then
      list[#list + 1] = ("model.%s is %g; usual is 0 to 0.3, and little of the signal is left"):format(key, p)
    end
  end
  if mask and type(max_len) == "number" then list[#list + 1] = fewer_masked(mask, max_len) end
  if mask and type(max_len) == "number" and max_len < SHORT then
    list[#list + 1] = ("data.max_len is %d; usual is 64 to 512, and so short a sequence has %s to predict"):format(
      max_len, text.counted(math.max(1, math.floor((mask.prob or 0.15) * max_len + 0.5)), "token"))
  end
end

---What is unusual about the optimizer, its rates and the masks.
---@param cfg table
---@return string[]
function sanity.rates(cfg)
  local list, optimizer = {}, cfg.optimizer or {}
  local peak, decay = cfg.rate.peak, optimizer.decay or 0
  if type(peak) == "number" and peak > RATE then
    list[#list + 1] = ("rate.peak is %g; usual for %s is 1e-5 to 1e-2, and training will probably diverge"):format(peak,
      optimizer.name or "an optimizer")
  elseif peak == 0 then
    list[#list + 1] = "rate.peak is 0, so the weights do not change"
  end
  if decay > DECAY then
    list[#list + 1] = ("optimizer.decay is %g; usual is 0 to 0.1, and more lets the weights vanish"):format(decay)
  end
  local eps, betas, mask = optimizer.eps, optimizer.betas, cfg.mask and cfg.mask.prob
  if type(eps) == "number" and eps > EPS then
    list[#list + 1] = ("optimizer.eps is %g; usual is 1e-8 to 1e-6, and more shrinks every update"):format(eps)
  end
  if optimizer.clip == 0 and optimizer.name ~= "stable_adamw" then -- which clips its own updates
    list[#list + 1] = "optimizer.clip is 0, so gradients are not clipped; usual is 1"
  end
  if type(betas) == "table" and betas[2] and betas[2] < betas[1] then
    list[#list + 1] = ("optimizer.betas are [%g, %g]; usual is a second one above the first, such as [0.9, 0.999]")
      :format(betas[1], betas[2])
  end
  if type(mask) == "number" and mask > MASKED then
    list[#list + 1] = ("mask.prob is %g; usual is 0.15 to 0.4, and little text is left to predict from"):format(mask)
  end
  model_warnings(cfg, list)
  return list
end

---Names of the targets of all loaders; nil if one of them does not say.
local function target_names(loaders)
  local names = {}
  for _, loader in pairs(loaders) do
    local own = held.targets(loader)
    if not own then return nil end
    for name in pairs(own) do names[name] = true end
  end
  return names
end

---Heads that no target of a loader trains, though the optimizer does not freeze them.
---@param t { model: table, optimizer: table, loaders: table<string, seqrun.Loader> }
---@return string|nil
function sanity.heads(t)
  local targets, frozen, lost = target_names(t.loaders), {}, {}
  for i, param in ipairs(t.model.params.list or {}) do
    local segment = t.optimizer.segments and t.optimizer.segments[i]
    frozen[param.name] = segment and segment.frozen
  end
  for _, head in ipairs(targets and t.model.heads or {}) do
    local spec = head.specs and head.specs[1]
    if spec and not targets[head.name] and not frozen[spec.name] then lost[#lost + 1] = "'" .. head.name .. "'" end
  end
  if #lost == 0 then return nil end
  return ("no target of the loader is named %s, so this head is not trained; add one to the loader's targets"):format(
    table.concat(lost, " or "))
end

---How long the simt device takes, where that is more than a person would wait for.
---@param parameters integer
---@param loader table summary of the loader
---@return string|nil
function sanity.simt(parameters, loader)
  if not tensor.device():find("^simt") then return nil end
  local rows = (loader.arrange == "single" and 1 or loader.micro_packs) * loader.max_len
  local seconds = 6 * parameters * rows / SIMT
  if seconds < PATIENCE then return nil end
  return ("simt runs the GPU's kernels thread by thread on the CPU, for tests: a micro-batch of this model takes about "
    .. "%s; use device=cpu or cuda, or a small model"):format(text.duration(seconds))
end

---Tokens that are looked at, and documents or examples; the share of unknown ones that is reported.
local TOKENS, UNITS, SHARE = 100000, 400, 0.1

---Why the texts of a data set are not those that its tokenizer was made for; nil if most tokens are known.
---@param corpus seqrun.Corpus|nil
---@return string|nil
function sanity.unknown(corpus)
  local tokenizer = corpus and corpus.tokenizer and corpus:tokenizer()
  local unk, about = tokenizer and tokenizer:special("unk"), corpus and corpus:info()
  local count = about and (about.examples or about.documents)
  if not unk or not count or count == 0 then return nil end
  local seen, lost = 0, 0
  for k = 0, math.min(UNITS, count) - 1 do
    local ids = corpus.core:unit(1 + k * count // math.min(UNITS, count))
    for _, id in ipairs(ids or {}) do
      seen, lost = seen + 1, lost + (id == unk and 1 or 0)
      if seen == TOKENS then break end
    end
    if seen == TOKENS then break end
  end
  if seen == 0 or lost < SHARE * seen then return nil end
  return ("%.0f %% of the tokens of %s are unknown to its tokenizer (of %s looked at): are language and casing "
    .. "those of the vocabulary?"):format(100 * lost / seen, tostring(about.path), text.commas(seen))
end

---Fails if a key names a metric that the evaluations will not have.
---@param t { config: table, model: table, held?: table, baselines: string[] } baselines: metrics of them
function sanity.check_metrics(t)
  local names = scoring.names(t.model)
  if names then table.move(t.baselines, 1, #t.baselines, #names + 1, names) end
  for key, metric in pairs { ["save.best"] = t.config.save.best, ["eval.metric"] = t.config.eval.metric } do
    if not t.held then
      failure.raise("config", "%s=%s: nothing is held out for evaluation; set data.held or data.dev, or leave it out",
        key, metric)
    end
    local known = not names
    for _, name in ipairs(names or {}) do known = known or name == metric end
    if not known then
      local hint = guess.hint(metric, names)
      failure.raise("config", "%s: the evaluations have no metric '%s'%s", key, metric,
        hint ~= "" and hint or "; they have " .. table.concat(names, ", "))
    end
  end
end

return sanity

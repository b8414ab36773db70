-- evaluations.lua - the evaluations of a run: when they are due, the last one, the best one, which of them ends it.

local best = require("seqrun.run.evaluation.best")
local evaluate = require("seqrun.run.evaluation.evaluate")
local failure = require("seqrun.base.failure")
local summary = require("seqrun.run.screen.summary")

local evaluations = {}

---@class seqrun.Evaluated
---@field step integer
---@field line table of metrics
---@field order seqrun.Shown[]
---@field undefined? table<string, true> metrics that its predictions do not define

---@class seqrun.Evaluations
---@field config table
---@field model table
---@field held? seqrun.Loader
---@field from? table cursor at which each evaluation starts
---@field baselines seqrun.Baseline[]
---@field watch? table notified of evaluations
---@field epoch? number updates of an epoch
---@field sources? table[] the sources of the training data with their shares, if it is drawn by weight
---@field ranks seqrun.RunRanks
---@field screen seqrun.Screen
---@field best? seqrun.Best
---@field result? seqrun.Evaluated the last one that counts
---@field aside? seqrun.Evaluated a later one that does not
---@field scoring? seqrun.Scoring its predictions
---@field before? string[] the losses of the weights that the run started from
local Evaluations = {}
Evaluations.__index = Evaluations

---@param t { config: table, folder: string, model: table, held?: seqrun.Loader, corpus?: table, watch?: table,
---  epoch?: number, sources?: table[], ranks: seqrun.RunRanks, screen: seqrun.Screen }
---@return seqrun.Evaluations
function evaluations.new(t)
  local cfg = t.config
  return setmetatable({
    config = cfg, model = t.model, held = t.held, from = t.held and t.held:cursor(), watch = t.watch, epoch = t.epoch,
    ranks = t.ranks, screen = t.screen, sources = t.sources,
    baselines = t.corpus and t.model.baselines and t.model:baselines(t.corpus) or {},
    best = cfg.save.best and best.new(t.folder, cfg.save.best, cfg.eval.patience, t.ranks.leads) or nil,
  }, Evaluations)
end

---Whether anything is held out to evaluate on.
---@return boolean
function Evaluations:possible() return self.held ~= nil end

---Names of the metrics of the baselines.
---@return string[]
function Evaluations:baseline_metrics()
  local names = {}
  for i, baseline in ipairs(self.baselines) do names[i] = baseline.metric end
  return names
end

---The samples between evaluations; `auto` is what MLPerf's rules prescribe for BERT: every 5 % of what convergence
---is expected to take at this batch size, in multiples of 25,000.
---@param samples integer|"auto" of eval.samples
---@param batch integer sequences per update
---@return integer
function evaluations.interval(samples, batch)
  if samples ~= "auto" then return samples end
  return math.floor(0.05 * (230.23 * batch + 3e6) / 25000) * 25000
end

-- ---- when ------------------------------------------------------------------------------------

---Whether a multiple of eval.epochs epochs ends at this step.
local function ends_epochs(self, step)
  local epochs = self.config.eval.epochs or 0
  if epochs == 0 or not self.epoch then return false end
  local updates = epochs * self.epoch
  return math.floor(step / updates + 1e-9) > math.floor((step - 1) / updates + 1e-9)
end

---Whether a multiple of eval.samples has been passed since the last evaluation.
local function ends_samples(self, sequences)
  local cfg = self.config
  local every = evaluations.interval(cfg.eval.samples or 0, cfg.batch.sequences)
  if every == 0 then return false end
  local before = self.result and self.result.line.sequences or 0
  return sequences // every > before // every
end

---Whether the run evaluates after this step, which is not its last.
---@param step integer
---@param sequences integer of the run so far
---@return boolean
function Evaluations:due(step, sequences)
  local every = self.config.eval.every
  return every > 0 and step % every == 0 or ends_epochs(self, step) or ends_samples(self, sequences)
end

---The last evaluation, whether it counts or not; nil if there was none.
local function last_of(self) return self.aside or self.result end

---Whether the weights of this step have been evaluated.
---@param step integer
---@return boolean
function Evaluations:is_done(step)
  local last = last_of(self)
  return last ~= nil and last.step == step
end

---Whether the evaluation of this step counts.
---@param step integer
---@return boolean
function Evaluations:is_counted(step) return self.result ~= nil and self.result.step == step end

---Whether an evaluation has reached eval.target.
---@param cfg table
---@param line table of an evaluation
---@param undefined? table<string, true> metrics that its predictions do not define
---@return boolean
function evaluations.reached(cfg, line, undefined)
  local metric, target = cfg.eval.metric, cfg.eval.target
  if not metric then return false end
  local value = best.value(line, metric, "eval.metric", undefined)
  if not value then return false end
  if metric:find("loss$") then return value <= target end
  return value >= target
end

---Why the last evaluation ends the run; nil if it does not.
---@return string|nil
function Evaluations:over()
  local eval, line = self.config.eval, self.result and self.result.line
  if line and evaluations.reached(self.config, line, self.result.undefined) then
    return ("%s has reached %g: %.4f"):format(eval.metric, eval.target, line[eval.metric])
  end
  if self.best and self.best:over() then return self.best:standstill() end
end

-- ---- one -------------------------------------------------------------------------------------

---Ends the run if a loss on held-out data is not finite.
local function check_finite(self, line, order, step)
  for _, shown in ipairs(order) do
    local loss = line[shown.name .. "_loss"]
    if loss and not (math.abs(loss) < math.huge) then
      failure.raise("numeric", "the held-out %s loss at step %d is %s: the weights contain NaN or infinity; this step "
        .. "is not saved; resume from the previous checkpoint with a smaller rate.peak", shown.name, step, loss)
    end
    for _, name in ipairs(shown.scores or {}) do
      local metric = (shown.prefix or "") .. name
      if line[metric] ~= line[metric] and not self.lost then
        self.screen:warn("step %d: the held-out %s is NaN; let score() leave out what is not defined", step, metric)
        self.lost = true
      end
    end
  end
end

---Progress of an evaluation.
local function work(self)
  local most, facts = self.config.eval.updates, self.held.summary and self.held:summary() or {}
  local total = facts.packs_per_epoch and facts.packs and math.ceil(facts.packs_per_epoch / facts.packs)
  if most > 0 then total = math.min(total or most, most) end
  return self.screen:work("evaluating", total, "updates")
end

---Adds the mean of the losses of the sources, by their share of the training data, where all have one.
local function add_weighted(self, line, order)
  for _, shown in ipairs(self.sources and order or {}) do
    local sum = 0
    for _, source in ipairs(self.sources) do
      local loss = line[("%s_%s_loss"):format(source.name, shown.name)]
      sum = sum and loss and sum + source.share * loss
    end
    line[("weighted_%s_loss"):format(shown.name)] = sum or nil
  end
end

---Evaluates on the held-out part, and says what was found.  One `aside` changes nothing of the run: neither when it
---evaluates next, nor what is best, nor when it ends.
---@param at { step: integer, counts: table<string, number>, seconds: fun(): number, record: fun(line: table),
---  aside?: boolean } counts: totals of the run; record: writes a line of metrics
---@return table|nil line nil if a signal came first
function Evaluations:run(at)
  if self.watch then self.watch:evaluating() end
  local line, order, scoring = evaluate.run(self.model, self.held, {
    from = self.from, updates = self.config.eval.updates, baselines = self.baselines, ranks = self.ranks,
    progress = work(self),
  })
  if not line then return nil end
  check_finite(self, line, order, at.step)
  add_weighted(self, line, order)
  local undefined = scoring and scoring:undefined()
  local found = { step = at.step, line = line, order = order, undefined = undefined }
  self.scoring, self.aside = scoring, at.aside and found or nil
  if not at.aside then self.result = found end
  line.type, line.step, line.seconds = "eval", at.step, at.seconds()
  for name, total in pairs(at.counts) do line[name] = total end
  at.record(line)
  if self.watch then self.watch:evaluated(line) end
  self.screen:say("step %d, held-out: %s", at.step, table.concat(self:texts(), "; "))
  if at.step == 0 then self.before = self:texts() end
  return line
end

---Keeps the model if the last evaluation is the best so far.
---@param optimizer table
---@param parts fun(): seqrun.Saved what a checkpoint holds
function Evaluations:keep_best(optimizer, parts)
  if not self.best then return end
  if optimizer.gather then optimizer:gather() end
  local path, message = self.best:take(self.result.line, parts(), self.result.undefined)
  self.best:set(self.ranks:first_says(function() return self.best:state() end))
  if message then self.screen:warn("no new best checkpoint: %s", message) end
  if path then self.screen:say("best so far: %s", tostring(self.best)) end
end

-- ---- what was found --------------------------------------------------------------------------

---The line of metrics of the last evaluation, and its step; nil if there was none.
---@return table|nil line
---@return integer? step
function Evaluations:latest()
  local last = last_of(self)
  if last then return last.line, last.step end
end

---The losses of the last evaluation, each with its baseline; empty if there was none.
---@return string[]
function Evaluations:texts()
  local result = last_of(self)
  return result and summary.scores(result.line, result.order, self.baselines) or {}
end

---What the heads predicted in the last evaluation; nil if no head predicts.
---@return seqrun.Scoring|nil
function Evaluations:predictions() return self.scoring end

---The best checkpoint in words; nil if there is none.
---@return string|nil
function Evaluations:best_text()
  return self.best and self.best:found() and tostring(self.best) or nil
end

---Plain values for `restore`.
---@param step integer
---@return { result?: table, best?: table, aside?: table, before?: string[] }
function Evaluations:state(step)
  local aside = self.aside and self.aside.step == step and self.aside or nil
  return { result = self.result, best = self.best and self.best:state() or nil, aside = aside, before = self.before }
end

---@param state { result?: table, best?: table, aside?: table, before?: string[] }
function Evaluations:restore(state)
  local kept = state.best
  self.result, self.aside, self.before = state.result, state.aside, state.before
  if not self.best or not kept then return end
  self.best:set(self.ranks:first_says(function() return self.best:restore(kept) end))
end

return evaluations

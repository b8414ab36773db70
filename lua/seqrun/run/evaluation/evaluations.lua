-- evaluations.lua - when a run evaluates, and which evaluations end it.

local best = require("seqrun.run.evaluation.best")
local failure = require("seqrun.base.failure")

local evaluations = {}

---The samples between evaluations; `auto` is what MLPerf's rules prescribe for BERT: every 5 % of what convergence
---is expected to take at this batch size, in multiples of 25,000.
---@param samples integer|"auto" of eval.samples
---@param batch integer sequences per update
---@return integer
function evaluations.interval(samples, batch)
  if samples ~= "auto" then return samples end
  return math.floor(0.05 * (230.23 * batch + 3e6) / 25000) * 25000
end

---Whether the step is the last of so many epochs.
local function ends_epochs(self)
  local epochs = self.config.eval.epochs or 0
  if epochs == 0 or not self.epoch then return false end
  local updates = epochs * self.epoch
  return math.floor(self.step / updates + 1e-9) > math.floor((self.step - 1) / updates + 1e-9)
end

---Whether a multiple of eval.samples has been passed since the last evaluation.
local function ends_samples(self)
  local cfg = self.config
  local every = evaluations.interval(cfg.eval.samples or 0, cfg.batch.sequences)
  if every == 0 then return false end
  local before = self.result and self.result.line.sequences or 0
  return self.loaders.totals.sequences // every > before // every
end

---Whether the run evaluates after this step, which is not its last.
---@param self seqrun.Run
---@return boolean
function evaluations.due(self)
  local every = self.config.eval.every
  return every > 0 and self.step % every == 0 or ends_epochs(self) or ends_samples(self)
end

---Whether an evaluation has reached eval.target.
---@param cfg table
---@param line table of an evaluation
---@return boolean
function evaluations.reached(cfg, line)
  local metric, target = cfg.eval.metric, cfg.eval.target
  if not metric then return false end
  local value = best.value(line, metric, "eval.metric")
  if metric:find("loss$") then return value <= target end
  return value >= target
end

---Why the last evaluation ends the run; nil if it does not.
---@param self seqrun.Run
---@return string|nil
function evaluations.over(self)
  local eval, line = self.config.eval, self.result and self.result.line
  if line and evaluations.reached(self.config, line) then
    return ("%s has reached %g: %.4f"):format(eval.metric, eval.target, line[eval.metric])
  end
  local top = self.best
  if top and top:over() then return ("%s has not improved in %d evaluations"):format(top.metric, top.worse) end
end

---Ends the run if a loss on held-out data is not finite.
---@param self seqrun.Run
---@param line table
---@param order seqrun.Shown[]
function evaluations.check_finite(self, line, order)
  for _, shown in ipairs(order) do
    local loss = line[shown.name .. "_loss"]
    if loss and not (math.abs(loss) < math.huge) then
      failure.raise("numeric", "the held-out %s loss at step %d is %s: the weights contain NaN or infinity; this step "
        .. "is not saved; resume from the previous checkpoint with a smaller rate.peak", shown.name, self.step, loss)
    end
  end
end

---Progress of an evaluation.
---@param self seqrun.Run
---@return seqrun.Work|nil
function evaluations.work(self)
  local most, facts = self.config.eval.updates, self.held.summary and self.held:summary() or {}
  local total = facts.packs_per_epoch and facts.packs and math.ceil(facts.packs_per_epoch / facts.packs)
  if most > 0 then total = math.min(total or most, most) end
  return self.progress:work("evaluating", total, "updates")
end

return evaluations

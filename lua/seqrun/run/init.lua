-- run - everything around a training loop: directory, config, metrics, checkpoints, signals, resuming.
--
--     local run <close> = sr.run.open { recipe = arg, task = sr.tasks.pretraining }
--     ... data, model, optimizer, rate ...
--     run:start { model =, optimizer =, loader =, rate =, held = }
--     for step, update in run:steps(loader) do
--       run:before(update)
--       for batch in update:batches() do ... run:losses(batch) ... run:tally(batch, losses) end
--       optimizer:step { ... }
--       run:log(step, optimizer)
--     end
--
-- The loop belongs to the recipe.  Between its iterations, `steps` saves checkpoints, evaluates and stops.  Step n
-- means n updates; the checkpoint of step n holds all state that step n + 1 needs, so resuming is bit-exact.

local check = require("seqrun.base.check")
local contracts = require("seqrun.run.checks.contracts")
local counters = require("seqrun.schedule.counters")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local loaders = require("seqrun.run.loaders")
local opening = require("seqrun.run.opening")
local output = require("seqrun.base.output")
local randomness = require("seqrun.tensor.randomness")
local resuming = require("seqrun.run.directory.resuming")
local starting = require("seqrun.run.starting")
local strict = require("seqrun.base.strict")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")
local witness = require("seqrun.run.repro.witness")

local run = { schema = require("seqrun.keys") }
for name, fn in pairs(require("seqrun.tasks.shared.parts")) do run[name] = fn end

---@class seqrun.Run
---@field config table the typed values of the config
---@field step integer updates done
---@field last integer the step at which this process stops
---@field total integer updates of the run
---@field folder string
---@field request table options of the command line
---@field model table
---@field optimizer table
---@field loader seqrun.Loader the one that the headline is based on
---@field corpus? table
---@field rate? function|table
---@field schedules? table<string, seqrun.ValueSchedule>
---@field phase string "resumed", "update" (one is under way), "finished", or "between" steps
local Run = {}
Run.__index = Run
local FIELDS = {
  "config", "step", "folder", "total", "last", "model", "corpus", "loader", "optimizer", "rate", "schedules",
}
strict.seal(Run, "the run", FIELDS)

-- ---- opening ---------------------------------------------------------------------------------

local OPEN = { recipe = true, task = true, name = true, keys = true, rules = true }

---Reads the command line and the config; nothing is written yet.
---@param spec { recipe: string[], task?: seqrun.Keys, name?: string, keys?: table[], rules?: table[] } recipe: the
---  global `arg`; name: of the output directory below runs, instead of that of the recipe;
---  task: whose keys the config has in addition to those of every run; keys, rules: the recipe's own, as in
---  `keys = { { "top_k", sr.config.integer { default = 3, doc = "..." } } }`
---@return seqrun.Run
function run.open(spec)
  if type(spec) ~= "table" or type(spec.recipe) ~= "table" then
    check.fail("run.open: expected { recipe = arg, task = sr.tasks.pretraining }")
  end
  check.options("run.open", spec, OPEN)
  local self = setmetatable(opening(spec), Run)
  randomness.begin(self.config.seed)
  return self
end

-- ---- state -----------------------------------------------------------------------------------

---Seconds of this run, those before a resume included.
function Run:seconds() return self.agreement:own_seconds() end

---Totals of the updates that have been trained on, and the time; for schedules that depend on them.
---@return table
function Run:totals()
  local totals = self.loaders and self.loaders:counts() or {}
  for _, name in ipairs(loaders.TOTALS) do totals[name] = totals[name] or 0 end
  totals.seconds = self.agreement:seconds()
  return totals
end

---Names plain values that are saved with the run.
---@param defaults table<string, number|string|boolean>
---@return table # these values, or those of the checkpoint that the run resumes from
function Run:state(defaults) return self.saves:keep(defaults) end

---The plan saved in the checkpoint to resume from, as text; nil if there is none.
---@param name? string the loader's, where run:start gets several
---@return string|nil
function Run:saved_plan(name)
  return self:saved_file(name and ("trainer/plan-%s.txt"):format(name) or "trainer/plan.txt")
end

---A file of the checkpoint to resume from, such as "trainer/predictions.bin"; nil if there is none.
---@param name string
---@return string|nil
function Run:saved_file(name)
  local path = self.request.resume and self.directory:newest(self.ranks)
  return path and failure.there(sys.read_file(path .. "/" .. name, 1 << 32))
end

---The last line of metrics; nil before the first.
---@return table|nil
function Run:last_line() return self.meter and self.meter:last_line() end

---The step of the newest checkpoint; nil if there is none.
---@return integer|nil
function Run:saved_step() return self.saves:step() end

---The last evaluation: its line of metrics, its step, and its losses in words; nil if there was none.
---@return table|nil line
---@return integer? step
---@return string[]? texts
function Run:evaluation()
  local line, step = self.evaluations:latest()
  if line then return line, step, self.evaluations:texts() end
end

---Whether anything is held out to evaluate on.
---@return boolean
function Run:can_evaluate() return self.evaluations ~= nil and self.evaluations:possible() end

---Estimated seconds of the remaining steps; nil at first.
---@return number|nil
function Run:seconds_left() return self.screen:estimate(math.max(0, self.last - self.step)) end

---Writes a line to run.log only.
---@param line string
function Run:record(line) self.screen:record(line) end

-- ---- starting --------------------------------------------------------------------------------

---Starts the run with the parts that the recipe has made: resumes, or initializes from `init`.
---
---  loaders   instead of `loader`: several by name, trained on in sequence; cursors are kept by name, counters and
---            the schedule continue.  `loader` may name the one that the headline and the number of steps are
---            based on; the default is the first by name
---  rate      the schedule: its state is saved if it has one; metrics report the rates that the optimizer received
---  schedules  of other values by name, or those of a task: run:before moves them, metrics report them, their state is
---            saved
---  objective  computes the losses instead of the model: objective:losses(batch)
---  total     steps of the schedule; by default those of the config
---  epoch     steps of the schedule in an epoch, for eval.epochs
---  fresh     names of parameters that are initialized although the checkpoint of init.from has them
---  notes     lines about the data, to be printed
---  held      the loader of the evaluations; false: nothing is evaluated, although there is held-out data
---  watch     notified of evaluations: watch:evaluating() before, watch:evaluated(line) with the metrics
---@param parts { model: table, optimizer: table, loader?: table, loaders?: table<string, table>, rate?: function,
---  schedules?: table<string, seqrun.ValueSchedule>|seqrun.Schedules, objective?: table, held?: table|false,
---  corpus?: table, total?: integer, epoch?: number, fresh?: string[], notes?: string[], watch?: table }
function Run:start(parts)
  if self.model then check.fail("run:start was called already; a run has one model, and several loaders by name") end
  contracts.check(parts)
  starting(self, parts)
  strict.close_config(self.config)
  strict.keep(self, FIELDS)
end

-- ---- the loop --------------------------------------------------------------------------------

---What a checkpoint of this step has besides the tensors, as plain values.
local function state_of(self)
  local rate, schedules = resuming.schedules(self.rate, self.schedules)
  local evaluated = self.evaluations:state(self.step)
  return {
    step = self.step, loaders = self.loaders:state(), window = self.meter:state(), seconds = self:seconds(),
    kept = self.saves.kept, scaled = self.changes:state(), result = evaluated.result, best = evaluated.best,
    aside = evaluated.aside, before = evaluated.before, schedules = schedules, rate = rate,
    instructions = devices.instructions(),
    data = resuming.digest(self.corpus), run = self.directory.id, metrics = self.records:mark(self.step),
    random = randomness.state(),
  }
end

---All that a checkpoint of this step holds; ranks that do not lead add their part of the optimizer's state.
---@return seqrun.Saved
local function saved_parts(self)
  local model = self.model
  local parts = { step = self.step, model = model.params, opt = self.optimizer }
  if not self.ranks.leads then return parts end
  for _, head in ipairs(model.heads or {}) do -- what an evaluation fitted belongs to its weights alone
    if not self.evaluations:is_done(self.step) then head.decide = nil end
  end
  parts.state, parts.files = state_of(self), self.loaders:plans()
  parts.config = model.hf_config and model:hf_config()
  parts.files["trainer/config.yaml"] = self.loaded:dump()
  for _, head in ipairs(model.heads or {}) do
    for name, file in pairs(head.files and head:files() or {}) do parts.files[name] = file end
  end
  parts.tokenizer = self.corpus and self.corpus:tokenizer()
  return parts
end

---Writes a checkpoint of this step, unless it exists already; with save.background, one that is not needed at once is
---written while training continues.
---@param needed boolean whether a failure ends the run; otherwise it is a warning until there are too many
---@return string|nil path nil as well while it is being written
---@return string? message
function Run:save(needed)
  self.saves:wait(self.agreement:seconds())
  self.meter:read_losses()
  if needed then self.saves:join() end
  if not self.saves:lacks(self.step) then return end
  self.directory:check_lock()
  self.directory:note_lua_files()
  self.records:sync()
  self.screen:sync()
  return self.saves:write(saved_parts(self), needed)
end

---With eval.average the model has the averaged weights until the result is closed.
local function use_average(self)
  if not self.config.eval.average or not self.optimizer.use_average then return nil end
  local weights = self.optimizer:use_average()
  if not weights.given then self.screen:say("averaging has not begun, so the current weights are evaluated") end
  return weights
end

---Evaluates on the held-out part and writes a line of metrics; nil if there is none, or a signal came first.
---@param aside? boolean this evaluation does not count for save.best, eval.patience and when the next one is due
---@return table|nil line
function Run:evaluate(aside)
  if not self:can_evaluate() then return end
  self.meter:read_losses()
  local _ <close> = use_average(self)
  local line = self.evaluations:run {
    step = self.step, counts = self.loaders:counts(), seconds = function() return self:seconds() end,
    record = function(found) self.records:write(found) end, aside = aside,
  }
  if not line then
    self.agreement:reach(self.changes:asked())
    return nil
  end
  if aside then return line end
  self.evaluations:keep_best(self.optimizer, function()
    return self.ranks.leads and saved_parts(self) or { step = self.step }
  end)
  return line
end

---Stops the run, resumable, on a signal or at the end of the time budget.
local function check_stop(self)
  local signal = self.agreement:caught()
  local budget = self.config.budget
  local spent = budget and self.step < self.last and self.agreement:seconds() >= budget
  if not signal and not spent then return end
  if self.step > 0 then self:save(true) end
  local reason = signal and "signal " .. signal or "the time budget of " .. text.duration(budget)
  failure.raise("stopped", "stopped by %s at step %s; resume with --resume=%s", reason,
    text.step(self.step, self.total), text.shell(self.folder))
end

---Abandons an update that takes longer than save.grace after a signal; the resume makes it again.  Several ranks
---finish theirs, since each waits for the others.
local function give_up_in_time(self)
  if self.request.dry_run or self.ranks:several() then return end
  local seconds, new = self.agreement:since_signal()
  if not seconds then return end
  local grace = self.config.save.grace
  if new then
    self.screen:say("stopping after this step, within %s; press Ctrl-C again to quit at once", text.duration(grace))
  end
  if seconds < grace then return end
  self.meter:drop()
  check_stop(self)
end

---Stops at this step.
local function stop_here(self, reason, ...)
  self.screen:say("stopping at step %d: %s", self.step, reason:format(...))
  self.last = self.step
end

---Evaluates if it is due; `finish` evaluates after the last step.
local function evaluate_when_due(self)
  local all, step = self.evaluations, self.step
  local due = step > 0 and step < self.last and all:due(step, self.loaders:counts().sequences)
  if due and not all:is_counted(step) then self:evaluate() end
  local reason = step < self.last and all:over()
  if reason then stop_here(self, "%s", reason) end
end

---What is due after an update.
local function after_step(self)
  if self.step == self.last then return end -- `finish` does both
  evaluate_when_due(self)
  if self.step == self.last then return end -- stopped early
  if self.saves:due(self.step, self.agreement:seconds()) then self:save(false) end
end

---Whether --max-steps ends the run where no evaluation is due: a run that continues must not differ from one that never
---stopped.
local function ends_aside(self)
  local step, most = self.step, self.request.max_steps
  if not most or most > step or step >= self.total then return false end
  return not self.evaluations:due(step, self.loaders:counts().sequences)
end

---Evaluates the current weights, unless that is done; a signal meanwhile stops the run.
local function evaluate_or_stop(self)
  local aside = ends_aside(self)
  local done = aside and self.evaluations:is_done(self.step) or self.evaluations:is_counted(self.step)
  if not done and not self:evaluate(aside) then check_stop(self) end
end

---Words and updates so far, of which milestones are made.
local function progress(self) return { words = self.loaders:total("words"), steps = self.step } end

local function finish(self)
  if self.phase == "finished" then return end
  self.phase = "finished"
  evaluate_or_stop(self)
  self:save(true)
  if witness.current() then failure.raise("ok", "") end -- a repeated step prints nothing
  if not self.ranks.leads then return end
  self.milestones:finish(progress(self))
  self.screen:summary {
    step = self.step, seconds = self:seconds(), done = self.meter:totals(), evaluations = self.evaluations,
  }
  local scoring = self.evaluations:predictions()
  if not scoring then return end
  local written, message = self.directory:write_scores(self.step, scoring)
  if not written then self.screen:warn("the scores were not written: %s", message) end
end

---Makes this step the last if a counter has reached its goal.
local function end_at_goal(self)
  local totals = self:totals()
  local name = self.checks:reached(totals)
  if name and self.step < self.last then stop_here(self, "%s has reached %s", name, text.count(totals[name])) end
end

---Ends the run with its schedule: where the sequences of updates vary, their number was an estimate.
local function end_with_schedule(self)
  local left = self.checks:updates_left(self.loaders:schedule_step())
  if not left or left > 0 and self.step < self.total then return end
  self.total = self.step + left
  self.last = math.min(self.total, self.request.max_steps or self.total)
end

---Keeps the model, if the update that was applied has reached a milestone.
local function keep_milestones(self, before)
  local after = progress(self)
  local reached = self.milestones:reached(before, after)
  if #reached == 0 then return end
  self.meter:read_losses()
  self.milestones:keep(reached, after, function() return saved_parts(self) end)
end

---The current update has been applied.
local function count_step(self)
  local before = progress(self)
  self.book:leave(self.last)
  self.phase = "between"
  self.first:ended()
  self.step = self.step + 1
  self.loaders:advance()
  keep_milestones(self, before)
end

---What follows an update.
local function end_step(self)
  count_step(self)
  end_with_schedule(self)
  if self.step < self.last then self.verify:ended(self.step) end
  end_at_goal(self)
  after_step(self)
end

---The end of a loop: the loader has no more updates, or the run no more steps.
local function end_loop(self)
  if self.step >= self.last or not self.loaders:several() then return finish(self) end
  if self.step == 0 then return end
  evaluate_or_stop(self)
  self:save(true)
end

---The recipe has left the loop by break or return, as a person does who looks for a mistake: nothing is lost.
local function leave_loop(self)
  if self.book:has_stepped() then
    count_step(self)
  else
    self.phase = "between"
    self.meter:drop()
    self.loaders:drop()
    self.model.params:clear()
  end
  if self.step >= self.last then return finish(self) end
  self.screen:say("the recipe has left run:steps at step %s; %s", text.step(self.step, self.total),
    self.step > 0 and "resume with --resume=" .. text.shell(self.folder) or "there is nothing to save")
  if self.step > 0 then self:save(true) end
end

---The loop of a dry run.
local function rehearse(self, loader, name)
  return self.screen:rehearse {
    loader = loader, next = function() return self.loaders:next(name, 1, 0) end,
    begin = function(update) self.meter:begin(update, 0) end, checks = self.checks,
  }
end

---Whether an update moves the average of the weights, where averaging begins later.
local function begin_average(self, at)
  local o, rate = self.config.optimizer, self.config.rate
  if not o or not o.average_from or o.average_from == 0 or not self.optimizer.set_averaging then return end
  local now = counters.read(at, rate.by or "step")
  self.optimizer:set_averaging(now ~= nil and now > o.average_from)
end

---Prepares an update of this rank.
local function begin_update(self, update, waited)
  self.phase = "update"
  begin_average(self, update.counters)
  self.meter:begin(update, waited)
  update.stores = { self.model.params }
  self.ranks:share_out(update, function()
    self.meter:gather_work()
    self.extras:ended(update, self.ranks)
  end)
  strict.close_config(self.config)
  self.verify:begin(self.step + 1, update)
  self.book:begin(update, self.step + 1)
  self.first:begin(update)
  return self.step + 1, update
end

---Answers attached prompts, which may change the state.
local function serve(self)
  self.verify:forget()
  self.changes:serve(self.step, self.last, self.total)
end

---The updates of the run: `for step, update in run:steps(loader)`.  With several loaders, `upto` ends the loop
---after that step of the run; a resume beyond it skips the loop.  A loop that is left by break or return is saved.
---@param loader seqrun.Loader
---@param upto? integer
---@return fun(): integer?, seqrun.Update?
---@return nil
---@return nil
---@return table? closing value of the loop
function Run:steps(loader, upto)
  local name = self.loaders:name_of(loader)
  if self.request.dry_run then return rehearse(self, loader, name) end
  local function each()
    self.agreement:reach(self.changes:asked())
    if self.phase == "update" then
      local again = self.verify:again()
      if again then
        self.book:begin(again, self.step + 1)
        return self.step + 1, again
      end
      end_step(self)
    elseif self.phase == "resumed" then
      self.phase = "between"
      end_with_schedule(self)
      end_at_goal(self)
      evaluate_when_due(self) -- the stop may have interrupted it
    end
    self.saves:look()
    if self.agreement:is_asked() then serve(self) end
    check_stop(self)
    if upto and self.step >= upto and self.step < self.last then return nil end
    local asked = sys.now()
    local update
    if self.step < self.last then
      local at = { step = self.step + 1, seconds = self:seconds() }
      if self.alerts then self.alerts:wait_for_data(at) end
      update = self.loaders:next(name, self.step + 1, self.agreement:seconds())
      if self.alerts then self.alerts[update and "compute" or "rest"](self.alerts, at) end
    end
    if not update then return end_loop(self) end
    return begin_update(self, update, sys.now() - asked)
  end
  return each, nil, nil, setmetatable({}, {
    __close = function(_, problem)
      if problem == nil and self.phase == "update" then leave_loop(self) end
    end,
  })
end

---Prepares an update before its first batch: sets the values of schedules, and starts what the config switches on.
---Calls begin(update) of the model and of the objective if they have it, and finish(ranks) after the last batch.
---@param update seqrun.Update
function Run:before(update) self.extras:before(update) end

---The losses of a micro-batch: those of the model, of the objective of run:start, or of a teacher and the model.
---@param batch seqrun.Batch
---@return seqrun.Losses
function Run:losses(batch) return self.extras:losses(batch) end

---Takes the losses of a micro-batch; they are read later.
---@param batch seqrun.Batch
---@param losses seqrun.Losses what model:losses returned
function Run:tally(batch, losses)
  contracts.check_losses(losses)
  if self.book then self.book:tally(batch, losses) end
  self.extras:check_loop()
  local again = self.verify:is_again()
  self.verify:tally(batch, losses)
  self.meter:tally(batch, losses, again)
  if again then return end
  self.first:tally(batch, losses)
  self.screen:fit()
  give_up_in_time(self)
end

local NO_STEP = "run:log: no optimizer step was made; call optimizer:step { rate = ... } first"

---What the optimizer found in its last step, and how many steps it skipped.
local function results_of(optimizer)
  local result, message, code = optimizer:read_results()
  if message then failure.raise(code, "%s", message) end
  if not result then check.fail("%s", NO_STEP) end
  return result, (select(2, optimizer:counts()))
end

---Looks at a step, and at its line of metrics if there is one, for what is wrong.
local function look_out(self, step, optimizer, line)
  local alerts = self.alerts
  if not alerts then return end
  local at = { step = step, seconds = self:seconds() }
  if line then return alerts:line(at, line, optimizer.last) end
  local result = alerts.each_step and results_of(optimizer) or { rate = optimizer.rate }
  alerts:step(at, result, self.meter:waited(), step < self.last)
end

---Ends a step: writes a line of metrics if one is due.
---@param step integer|false false: this recipe writes none
---@param optimizer? table
function Run:log(step, optimizer)
  if self.book then self.book.logged = true end
  if step == false then return end
  if self.phase == "update" and step ~= self.step + 1 then
    check.fail("run:log: this is step %d, not %s; pass the step that run:steps gives", self.step + 1, check.show(step))
  end
  if self.verify:is_again() then return end
  if optimizer.serial == 0 then check.fail("%s", NO_STEP) end
  local due = self.records and (step % self.config.log.every == 0 or step == self.total)
  if due then tensor.synchronize() end -- the line includes the time of calls that are still running
  self.screen:note(self.meter:step())
  if self.ranks.leads and not self.request.dry_run then self.checks:watch_duration(step, self.last) end
  if not due then
    look_out(self, step, optimizer)
    return self.screen:tick(step, self.last)
  end
  local line, mfu = self.meter:line(step, function() return results_of(optimizer) end, function()
    return self:seconds()
  end)
  self.records:write(line)
  self.checks:watch_loop(line.grad_norm, self.meter:has_tallied())
  line.mfu = mfu
  self.screen:show(line, self.last, self.meter:order())
  look_out(self, step, optimizer)
  look_out(self, step, optimizer, line)
end

---Releases the directory; a `<close>` variable does so however the recipe ends.
function Run:close(problem)
  if self.changes then self.changes:leave(self.step, self.total, problem) end
  if problem ~= nil then self.screen:record(tostring(problem)) end
  if self.alerts then self.alerts:close() end
  if self.book then self.book:close() end
  self.saves:leave()
  local found = { finished = self.phase == "finished", step = self.step, seconds = self:seconds() }
  local written, message = self.directory:leave(found, problem)
  if not written then self.screen:warn("ended.json was not written: %s", message) end
  if self.records then self.records:close() end
  self.screen:close()
  self.directory:unlock()
  self.records = nil
  output.survive(false)
  if self.checks then self.checks:close() end
  if self.first then self.first:close() end
end

Run.__close = Run.close
function Run:__gc() self:close() end

return run

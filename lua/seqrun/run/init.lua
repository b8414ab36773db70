-- run - everything around a training loop: directory, config, metrics, checkpoints, signals, resuming.
--
--     local run <close> = sr.run.open { recipe = arg, task = sr.tasks.pretraining }
--     ... data, model, optimizer, rate ...
--     run:start { model =, optimizer =, loader =, rate =, held = }
--     for step, update in run:steps(loader) do
--       for batch in update:batches() do ... run:tally(batch, losses) end
--       optimizer:step { ... }
--       run:log(step, optimizer)
--     end
--
-- The loop belongs to the recipe.  Between its iterations, `steps` saves checkpoints, evaluates and stops.  Step n
-- means n updates; the checkpoint of step n holds all state that step n + 1 needs, so resuming is bit-exact.

local agreement = require("seqrun.run.ranks.agreement")
local best = require("seqrun.run.evaluation.best")
local changes = require("seqrun.run.changes")
local check = require("seqrun.base.check")
local checkpoint = require("seqrun.checkpoint")
local autotune = require("seqrun.run.ranks.autotune")
local config = require("seqrun.config")
local core = require("seqrun.core.tensor")
local contracts = require("seqrun.run.checks.contracts")
local energy = require("seqrun.run.measure.energy")
local evaluations = require("seqrun.run.evaluation.evaluations")
local failure = require("seqrun.base.failure")
local shipped = require("seqrun.base.shipped")
local goals = require("seqrun.run.checks.goals")
local directory = require("seqrun.run.directory")
local loaders = require("seqrun.run.loaders")
local memory = require("seqrun.run.checks.memory")
local metrics = require("seqrun.history.metrics")
local options = require("seqrun.run.options")
local output = require("seqrun.base.output")
local peak = require("seqrun.run.measure.peak")
local progress = require("seqrun.run.screen.progress")
local ranks = require("seqrun.run.ranks")
local resuming = require("seqrun.run.directory.resuming")
local sanity = require("seqrun.run.checks.sanity")
local resolve_auto = require("seqrun.run.auto.resolve_auto")
local strict = require("seqrun.base.strict")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")
local window = require("seqrun.run.measure.window")
local work = require("seqrun.run.measure.work")

local run = { schema = require("seqrun.tasks.shared.run_keys") }
for name, fn in pairs(require("seqrun.tasks.shared.parts")) do run[name] = fn end

---@class seqrun.Run
---@field config table the typed values of the config
---@field step integer updates done
local Run = {}
Run.__index = Run
strict.seal(Run, "the run", { "config", "step", "folder", "total", "last", "epoch", "result", "line", "finished",
  "model", "corpus", "loader", "held", "optimizer", "rate", "schedules", "scoring", "best", "metrics" })

-- ---- opening ---------------------------------------------------------------------------------

---The config of this run, from the files and arguments that the words name.
local function load_config(request, place, schema, rules)
  local arguments, file, looked = {}, nil, ""
  for _, argument in ipairs(request.arguments) do
    local named = argument:match("^config=(.*)$")
    if named then file = shipped.find(named) else arguments[#arguments + 1] = argument end
  end
  file = file or place:saved_config(arguments)
  if not file then
    local beside = request.file:gsub("%.lua$", "") .. ".yaml"
    file = sys.exists(beside) and beside or nil
    looked = file and "" or "\nno config file was read: " .. beside .. " does not exist; write it, or pass config=FILE"
  end
  if request.threads then arguments[#arguments + 1] = "threads=" .. request.threads end
  local loaded, message, code = config.load {
    schema = schema, rules = rules, file = file, arguments = arguments, partial = request.explain,
  }
  if not loaded then failure.raise(code, "%s%s", message, looked) end
  return loaded
end

local OPEN = { recipe = true, task = true, name = true, keys = true, rules = true }

---Reads the command line and the config; nothing is written yet.
---@param spec { recipe: string[], task?: seqrun.Keys, name?: string, keys?: table[], rules?: table[] } recipe: the
---  global `arg`; name: of the output directory below runs, instead of that of the recipe;
---  task: whose keys the config has besides those of every run; keys, rules: the recipe's own, as in
---  `keys = { { "top_k", sr.config.integer { default = 3, doc = "..." } } }`
---@return seqrun.Run
function run.open(spec)
  if type(spec) ~= "table" or type(spec.recipe) ~= "table" then
    check.fail("run.open: expected { recipe = arg, task = sr.tasks.pretraining }")
  end
  check.options("run.open", spec, OPEN)
  local schema, rules = run.schema(spec.task, { keys = spec.keys, rules = spec.rules })
  local request = options.read(spec.recipe, schema)
  if (request.explain or request.dry_run) and ranks.follows() then failure.raise("ok", "") end -- rank 0 tells
  local place = directory.new(request, spec.name)
  local folder = place.path
  local loaded = load_config(request, place, schema, rules)
  if request.explain then
    io.stdout:write(loaded:explain())
    failure.raise("ok", "")
  end
  local list = loaded.values.seeds
  if list and ranks.launched() > 1 then
    failure.raise("config", "seeds: each seed is a run of its own; start it without the launcher of ranks")
  end
  if list and request.force then failure.raise("config", "seeds: --force does not apply; remove %s", folder) end
  if list and not request.dry_run then require("seqrun.run.seeds").run(request, folder, list) end
  sys.signals(request.dry_run and "work" or "run")
  output.survive(not request.dry_run)
  local cfg = strict.config(loaded.values, schema, "the config")
  local all, warnings = ranks.open(loaded, request, folder)
  local self = setmetatable({
    config = cfg, loaded = loaded, request = request, ranks = all, folder = folder, window = window.new(all), step = 0,
    work = 0, own_work = {}, kept = {}, directory = place, command = table.concat(spec.recipe, " ", 0),
  }, Run)
  all:first_does(function()
    if not request.dry_run then place:enter() end
  end)
  self.progress = all.leads and progress.new {
    quiet = request.quiet, json_log = request.json_log, every = cfg.log.every, seconds = cfg.log.seconds,
  } or ranks.silent
  self.autotune = autotune.new(all, self.progress)
  self.agreement = agreement.new(all, self.autotune)
  for _, warning in ipairs(warnings) do self.progress:warn("%s", warning) end
  resolve_auto(self)
  memory.expect(self)
  return self
end

-- ---- state -----------------------------------------------------------------------------------

---Seconds of this run, those before a resume included.
function Run:seconds() return self.agreement:own_seconds() end

---Totals of the updates that have been trained on, and the time; for schedules that depend on them.
---@return table
function Run:totals()
  local totals = { seconds = self.agreement:seconds() }
  for _, name in ipairs(loaders.TOTALS) do totals[name] = self.loaders and self.loaders.totals[name] or 0 end
  return totals
end

---Names plain values that are saved with the run.
---@param defaults table<string, number|string|boolean>
---@return table # these values, or those of the checkpoint that the run resumes from
function Run:state(defaults)
  for name, value in pairs(defaults) do
    if self.kept[name] == nil then self.kept[name] = value end
  end
  return self.kept
end

---The plan saved in the checkpoint to resume from, as text; nil if there is none.
---@param name? string the loader's, where run:start gets several
---@return string|nil
function Run:saved_plan(name)
  local path = self.request.resume and resuming.newest(self)
  local file = name and ("/trainer/plan-%s.txt"):format(name) or "/trainer/plan.txt"
  return path and sys.read_file(path .. file, 1 << 28) or nil
end

-- ---- starting --------------------------------------------------------------------------------

local function open_directory(self)
  if not self.ranks.leads then return end
  local log, aside, changed = self.directory:start(self.loaded, self.command, self.ranks.size)
  self.progress:log_to(log)
  if aside then self.progress:say("the earlier run is now %s", aside) end
  for _, change in ipairs(changed) do
    self.progress:say("changed on resume: %s: %s, was %s", change.path, change.mine, change.theirs)
  end
end

---The metrics of this run; every line has all losses of the model.
local function open_metrics(self)
  local train, eval = {}, {}
  for _, name in ipairs(self.model.loss_names and self.model:loss_names() or {}) do
    table.move({ name .. "_loss", name .. "_accuracy" }, 1, 2, #train + 1, train)
  end
  table.move(train, 1, #train, 1, eval)
  for _, baseline in ipairs(self.baselines) do eval[#eval + 1] = baseline.metric end
  if not self.ranks.leads then return ranks.silent end
  return failure.must(metrics.open(self.folder, { step = self.step, train = train, eval = eval }))
end

---Whether this rank writes a part of a checkpoint.
local function saves(self) return self.ranks.leads or self.optimizer.sharded ~= nil end

---Bytes of a parameter in a checkpoint, with its two moments.
local CHECKPOINT = 12

---Starts the run with the parts that the recipe has made: resumes, or initializes from `init`.
---
---  loaders   instead of `loader`: several by name, trained on in sequence; cursors are kept by name, counters and
---            the schedule continue.  `loader` may name the one that the headline and the number of steps are
---            based on; the default is the first by name
---  rate      the schedule: its state is saved if it has one; metrics report the rates that the optimizer received
---  schedules  of other values by name, which metrics report; their state is saved
---  total     steps of the schedule; by default those of the config
---  epoch     steps of the schedule in an epoch, for eval.epochs
---  fresh     names of parameters that are initialized although the checkpoint of init.from has them
---  notes     lines about the data, to be printed
---  watch     told of evaluations: watch:evaluating() before, watch:evaluated(line) with the metrics
---@param parts { model: table, optimizer: table, loader?: table, loaders?: table<string, table>, rate?: function,
---  schedules?: table<string, seqrun.ValueSchedule>, held?: table, corpus?: table, total?: integer, epoch?: number,
---  fresh?: string[], notes?: string[], watch?: table }
function Run:start(parts)
  contracts.check(parts)
  for name, part in pairs(parts) do self[name] = part end
  self.loaders = loaders.new(parts)
  self.loader = self.loader or parts.loaders[self.loaders.names[1]]
  self.held_from = self.held and self.held:cursor()
  self.first_cursor = self.loader:cursor()
  self.baselines = self.corpus and self.model.baselines and self.model:baselines(self.corpus) or {}
  memory.check(self)
  self.total, self.goals = goals.updates(self, parts.total), goals.of(self.config)
  self.epoch = parts.epoch and parts.epoch / self.loader:summary().schedule_steps
  self.last = math.min(self.total, self.request.max_steps or math.huge)
  sanity.check_metrics(self)
  for _, warning in ipairs(require("seqrun.run.screen.plan").warnings(self)) do self.progress:warn("%s", warning) end
  self.ranks:share_model(self)
  if self.request.dry_run then
    resuming.start_from(self)
    return resuming.tell_origin(self)
  end
  if not self.request.resume then -- before the directory is created, so that a failure leaves none
    self.directory:check_space(CHECKPOINT * self.model.params:count())
    resuming.start_from(self)
  end
  self.ranks:first_does(function() open_directory(self) end)
  local save, leads = self.config.save, self.ranks.leads
  self.best = save.best and best.new(self.folder, save.best, self.config.eval.patience, leads)
  self.saver = saves(self) and checkpoint.saver(self.folder, { keep = save.keep, max_failures = save.max_failures })
    or ranks.silent
  self.resumed = self.request.resume and resuming.resume(self)
  if self.request.resume and not self.resumed then resuming.start_from(self) end
  resuming.tell_origin(self)
  if self.resumed and self.step >= self.last then resuming.end_here(self) end
  self.autotune:start()
  self.ranks:check_values(self.model.params)
  self.metrics = open_metrics(self)
  changes.resume(self)
  self.metrics:text("config", self.loaded:dump())
  self.peak, self.energy = peak.of(self.config), energy.open()
  self.agreement:restart()
  self.saved_at = self.agreement:seconds()
  self.train_seconds, self.tokens_before, self.slots_before = 0, self.window.tokens, self.window.slots
  if self.ranks.leads then self.progress:say("%s", require("seqrun.run.screen.plan").headline(self)) end
  if self.ranks:several() then self.progress:say("  memory  %s", memory.of_ranks(self)) end
  if self.ranks.leads then
    require("seqrun.run.screen.plan").tell_notes(self, function(...) self.progress:say(...) end)
  end
  changes.listen(self)
end

-- ---- the loop --------------------------------------------------------------------------------

---Writes a line of metrics; a full disk causes one warning, not the end of the run.
local function write_metrics(self, line)
  local ok, message = self.metrics:write(line)
  if not ok and not self.losing then self.progress:warn("%s; metrics are lost until then", message) end
  self.losing = not ok
end

---All that a checkpoint of this step holds; ranks that do not lead add their part of the optimizer's state.
local function saved_parts(self)
  if not self.ranks.leads then return { step = self.step, model = self.model.params, opt = self.optimizer } end
  local parts = {
    step = self.step, model = self.model.params, opt = self.optimizer, state = resuming.state(self),
    config = self.model.hf_config and self.model:hf_config(), files = self.loaders:plans(),
  }
  parts.files["trainer/config.yaml"], parts.files[autotune.FILE] = self.loaded:dump(), autotune.text()
  if self.corpus then
    parts.vocab_text, parts.cased = failure.must(self.corpus:vocab_text()), not self.corpus:lowercase()
    parts.keep_accents = self.corpus.keep_accents and self.corpus:keep_accents()
  end
  return parts
end

---Writes a checkpoint of this step, unless it exists already.
---@param needed boolean whether a failure ends the run; otherwise it is a warning until there are too many
---@return string|nil path
---@return string? message
function Run:save(needed)
  self.saved_at = self.agreement:seconds()
  self.window:read_losses()
  if not saves(self) or self.saver.step == self.step then return end
  self.metrics:sync()
  self.progress:saving(self.step)
  local path, message, code = self.saver:save(saved_parts(self))
  self.progress:saved()
  if not path and (code or needed) then failure.raise(code or "storage", "%s", message) end
  if message then self.progress:warn("%s", message) end
  if path then self.progress:say("saved %s", path) end
  return path, message
end

---Whether the current weights have been evaluated.
local function is_evaluated(self) return self.result ~= nil and self.result.step == self.step end

---Keeps the model if it is the best so far.
local function keep_best(self, line)
  if not self.best then return end
  if self.optimizer.gather then self.optimizer:gather() end
  local path, message = self.best:take(line, self.ranks.leads and saved_parts(self) or { step = self.step })
  if message then self.progress:warn("the best checkpoint is not saved: %s", message) end
  if path then self.progress:say("best so far: %s", tostring(self.best)) end
end

---Evaluates on the held-out part and writes a line of metrics; nil if there is none, or a signal came first.
function Run:evaluate()
  if not self.held then return end
  self.window:read_losses()
  if self.watch then self.watch:evaluating() end
  local line, order, scoring = require("seqrun.run.evaluation.evaluate").run(self.model, self.held, {
    from = self.held_from, updates = self.config.eval.updates, baselines = self.baselines,
    ranks = self.ranks, progress = evaluations.work(self),
  })
  if not line then
    self.agreement:reach(changes.asked(self))
    return nil
  end
  self.autotune:exchange() -- a checkpoint may come next
  evaluations.check_finite(self, line, order)
  self.result, self.scoring = { step = self.step, line = line, order = order }, scoring
  line.type, line.step, line.seconds = "eval", self.step, self:seconds()
  for _, name in ipairs(loaders.TOTALS) do line[name] = self.loaders.totals[name] end
  write_metrics(self, line)
  if self.watch then self.watch:evaluated(line) end
  local texts = require("seqrun.run.screen.summary").scores(line, order, self.baselines)
  self.progress:say("step %d, held-out: %s", self.step, table.concat(texts, "; "))
  keep_best(self, line)
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
  if not sys.caught() or self.request.dry_run or self.ranks:several() then return end
  local grace = self.config.save.grace
  if not self.asked_at then
    self.asked_at = sys.now()
    self.progress:say("stopping after this step, within %s; press Ctrl-C again to quit at once", text.duration(grace))
  end
  if sys.now() - self.asked_at < grace then return end
  if self.config.cuda_graph then core.capture("drop") end -- nothing can be read while it is recorded
  self.window:drop()
  check_stop(self)
end

---Evaluates if it is due; `finish` evaluates after the last step.
local function evaluate_when_due(self)
  local due = self.step > 0 and self.step < self.last and evaluations.due(self)
  if due and not is_evaluated(self) then self:evaluate() end
  local reason = self.step < self.last and evaluations.over(self)
  if reason then
    self.progress:say("stopping at step %d: %s", self.step, reason)
    self.last = self.step
  end
end

---What is due after an update.
local function after_step(self)
  local cfg, step = self.config, self.step
  if step == self.last then return end -- `finish` does both
  evaluate_when_due(self)
  if step == self.last then return end -- stopped early
  local by_step = cfg.save.every > 0 and step % cfg.save.every == 0
  local by_time = cfg.save.minutes > 0 and self.agreement:seconds() - self.saved_at >= 60 * cfg.save.minutes
  if by_step or by_time then self:save(false) end
end

---Evaluates the current weights, unless that is done; a signal meanwhile stops the run.
local function evaluate_or_stop(self)
  if not is_evaluated(self) and not self:evaluate() then check_stop(self) end
end

local function finish(self)
  if self.finished then return end
  self.finished = true
  evaluate_or_stop(self)
  self:save(true)
  if not self.ranks.leads then return end
  require("seqrun.run.screen.summary").tell(self)
  if self.scoring then self.directory:write_scores(self.step, self.scoring) end
end

---Makes this step the last if a counter has reached its goal.
local function end_at_goal(self)
  local totals = self:totals()
  local name = goals.reached(self.goals, totals)
  if not name or self.step >= self.last then return end
  self.progress:say("stopping at step %d: %s has reached %s", self.step, name, text.count(totals[name]))
  self.last = self.step
end

---The current update has been applied.
local function end_step(self)
  self.under_way = false
  self.step = self.step + 1
  self.loaders:advance()
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

---Adds the work of one micro-batch to the counters.
local function add_work(self, done)
  self.work = self.work + done.flops
  self.loaders:worked(done.layer_tokens, done.layers, done.flops)
end

---Adds the work of all ranks in this update, in the order of its micro-batches.
local function count_work(self)
  local all = self.ranks:gather(self.own_work)
  self.own_work = {}
  for _, rank in ipairs(all) do
    for _, done in ipairs(rank) do add_work(self, done) end
  end
end

---The updates of the run: `for step, update in run:steps(loader)`.  With several loaders, `upto` ends the loop
---after that step of the run; a resume beyond it skips the loop.
---@param loader seqrun.Loader
---@param upto? integer
---@return fun(): integer?, seqrun.Update?
function Run:steps(loader, upto)
  local name = self.loaders:name_of(loader)
  if self.request.dry_run then return require("seqrun.run.screen.plan").rehearse(self, name) end
  return function()
    self.agreement:reach(changes.asked(self))
    if self.under_way then
      end_step(self)
    elseif self.resumed then
      self.resumed = false
      end_at_goal(self)
      evaluate_when_due(self) -- the stop may have interrupted it
    end
    if self.agreement.asked then changes.serve(self) end
    check_stop(self)
    if upto and self.step >= upto and self.step < self.last then return nil end
    local asked = sys.now()
    local update
    if self.step < self.last then update = self.loaders:next(name, self.step + 1, self.agreement:seconds()) end
    if not update then return end_loop(self) end
    self.step_began, self.waited, self.under_way = sys.now(), sys.now() - asked, true
    self.cpu_began = os.clock()
    self.imbalance, self.counters, self.drawn_window = update.imbalance, update.counters, update.window
    update.stores = { self.model.params }
    self.ranks:share_out(update, function() count_work(self) end)
    update.recorded = self.config.cuda_graph and self.warm -- the first update allocates memory and times products
    self.warm = true
    return self.step + 1, update
  end
end

---Takes the losses of a micro-batch; they are read later.
---@param batch seqrun.Batch
---@param losses seqrun.Losses what model:losses returned
function Run:tally(batch, losses)
  contracts.check_losses(losses)
  local flops = self.model.flops and self.model:flops(batch) or 0
  local done = {
    layer_tokens = work.layer_tokens(self.model, batch), layers = work.layers(self.model), flops = flops,
  }
  if self.ranks:several() then self.own_work[#self.own_work + 1] = done else add_work(self, done) end
  self.window:add(batch, losses, flops)
  self.progress:fit()
  give_up_in_time(self)
end

local NO_STEP = "run:log: no optimizer step was made; call optimizer:step { rate = ... } first"

---What a curriculum had decided for an update.
local function add_window(line, decided)
  if not decided then return end
  line.curriculum_length = decided.max_len and decided.max_len > 0 and decided.max_len or nil
  line.curriculum_unlocked = decided.unlocked
  line.mask_rate = decided.mask or line.mask_rate
  for name, value in pairs(decided.difficulties or {}) do line["curriculum_" .. name] = value end
end

---Ends a step: writes a line of metrics if one is due.
---@param step integer
---@param optimizer table
function Run:log(step, optimizer)
  if optimizer.serial == 0 then check.fail("%s", NO_STEP) end
  local due = self.metrics and (step % self.config.log.every == 0 or step == self.total)
  if due then tensor.synchronize() end -- the line includes the time of calls that are still running
  local seconds = sys.now() - self.step_began + self.waited
  self.window:step(seconds, self.waited, self.imbalance, os.clock() - (self.cpu_began or 0))
  self.progress:note(seconds)
  if self.ranks.leads and not self.request.dry_run then sanity.watch_duration(self, step) end
  self.train_seconds = (self.train_seconds or 0) + seconds
  if due then
    local most = self.model.flops and self.peak
    local line = self.window:line(most and most * self.ranks.size)
    line.energy_j = self.energy and self.energy:joules()
    local result, message, code = optimizer:read_results()
    if message then failure.raise(code, "%s", message) end
    if not result then check.fail("%s", NO_STEP) end
    local _, skipped = optimizer:counts()
    line.type, line.step, line.lr, line.seconds = "train", step, result.rate, self:seconds()
    line.grad_norm, line.skipped = result.norm, skipped
    for _, name in ipairs(loaders.TOTALS) do line[name] = self.counters[name] end
    for name, s in pairs(self.schedules or {}) do line[(name:gsub("[.]", "_"))] = s.value end
    add_window(line, self.drawn_window)
    local share = line.mfu
    if not self.config.peak_flops then line.mfu = nil end -- of a measured peak: shown, but not recorded
    if peak.is_too_low(self, share) then share, self.peak = nil, nil end
    write_metrics(self, line)
    self.line, line.mfu = line, share
    self.progress:show(line, self.last, self.window.tally.order)
  else
    self.progress:tick(step, self.last)
  end
end

---Releases the directory; a `<close>` variable does so however the recipe ends.
function Run:close(problem)
  changes.leave(self, problem)
  if problem ~= nil then self.progress:record(tostring(problem)) end
  self.directory:leave({ finished = self.finished, step = self.step, seconds = self:seconds() }, problem)
  if self.metrics then self.metrics:close() end
  self.progress:close()
  self.directory:unlock()
  self.metrics = nil
  output.survive(false)
  memory.forget(self)
end

Run.__close = Run.close
function Run:__gc() self:close() end

return run

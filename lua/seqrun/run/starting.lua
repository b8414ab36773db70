-- starting.lua - the second half of a run's construction: its parts are checked, its directory is opened, and it
-- resumes or is initialized.

local alerts = require("seqrun.run.alerts")
local changes = require("seqrun.run.changes")
local continuing = require("seqrun.run.continuing")
local contracts = require("seqrun.run.checks.contracts")
local core = require("seqrun.core.tensor")
local evaluations = require("seqrun.run.evaluation.evaluations")
local extras = require("seqrun.run.extras")
local failure = require("seqrun.base.failure")
local first = require("seqrun.run.checks.first")
local goals = require("seqrun.run.checks.goals")
local loaders = require("seqrun.run.loaders")
local loop = require("seqrun.run.checks.loop")
local meter = require("seqrun.run.measure.meter")
local milestones = require("seqrun.run.directory.milestones")
local randomness = require("seqrun.tensor.randomness")
local ranks = require("seqrun.run.ranks")
local records = require("seqrun.run.records")
local resuming = require("seqrun.run.directory.resuming")
local verify = require("seqrun.run.verify")
local witness = require("seqrun.run.repro.witness")

local function open_directory(self, found)
  if not self.ranks.leads then return end
  local log, aside, changed, edited = self.directory:start(self.loaded, {
    ranks = self.ranks.size, data = resuming.digest(self.corpus), found = found,
  })
  self.changed = changed
  self.screen:log_to(log)
  if aside then self.screen:say("the earlier run is now %s", aside) end
  for _, file in ipairs(edited) do
    self.screen:warn("%s has been edited since this run was started: from here on results differ from the original",
      file.path)
  end
  for _, change in ipairs(changed) do
    self.screen:say("changed on resume: %s: %s, was %s", change.path, change.mine, change.theirs)
  end
  table.move(edited, 1, #edited, #changed + 1, changed)
end

---Gives the parts of the recipe to the objects that work with them, and checks them.
local function take_parts(self, parts)
  local cfg, all, model, optimizer = self.config, self.ranks, parts.model, parts.optimizer
  self.model, self.optimizer, self.corpus, self.rate = model, optimizer, parts.corpus, parts.rate
  self.extras = extras(cfg, parts)
  self.schedules = self.extras.by_name
  self.loaders = loaders.new(parts)
  self.loader = parts.loader or self.loaders:first()
  self.milestones = milestones.new { folder = self.folder, at = cfg.save.at, screen = self.screen, leads = all.leads }
  self.meter = meter.new {
    config = cfg, model = model, loaders = self.loaders, schedules = self.schedules, ranks = all,
  }
  self.evaluations = evaluations.new {
    config = cfg, folder = self.folder, model = model, held = parts.held or nil, corpus = parts.corpus,
    watch = parts.watch, epoch = parts.epoch and parts.epoch / self.loader:summary().schedule_steps, ranks = all,
    screen = self.screen, sources = self.loader.mixed,
  }
  self.total, self.last = self.checks:start {
    model = model, optimizer = optimizer, loader = self.loader, held = parts.held, total = parts.total,
    loaders = parts.loaders or { train = parts.loader }, baselines = self.evaluations:baseline_metrics(),
    max_steps = self.request.max_steps, counted = self.loaders:have_words(), schedules = self.schedules,
    resumes = self.request.resume ~= nil,
  }
  all:share_model {
    config = cfg, model = model, optimizer = optimizer, loader = self.loader, loaders = self.loaders,
    corpus = parts.corpus, dry = self.request.dry_run,
  }
end

---Continues at a checkpoint of the run.
---@param found { path: string, state: table }
---@return table state what it has apart from the tensors
local function resume(self, found)
  local path, state = found.path, resuming.load(found, self)
  self.step, self.phase = state.step, "resumed"
  self.agreement:restart(state.seconds)
  self.meter:restore(state.window)
  self.saves:restore(state.kept)
  randomness.restore(state.random)
  self.evaluations:restore(state)
  resuming.restore_schedules(state, {
    rate = self.rate, schedules = self.schedules, loader = self.loader, screen = self.screen,
  })
  self.loaders:restore(state.loaders)
  local lost = goals.words_lost(self.config, self.loaders:knows_words())
  if lost then failure.raise("config", "%s", lost) end
  state.new_rates = resuming.new_rates(self.loaded, path)
  resuming.resolve(state, path, {
    folder = self.folder, ranks = self.ranks, saves = self.saves, screen = self.screen,
  })
  return state
end

---Makes this step the last, where the run was to end at it or before.
local function end_here(self)
  self.screen:say("%s", resuming.nothing_left {
    step = self.step, total = self.total, max_steps = self.request.max_steps, folder = self.folder,
  })
  self.last = self.step
end

---What attached prompts ask for from now on.
local function open_changes(self, scaled)
  local function evaluate()
    self:evaluate(true)
    return self.evaluations:is_done(self.step) and table.concat(self.evaluations:texts(), "; ") or nil
  end
  return changes.new {
    folder = self.folder, params = self.model.params, optimizer = self.optimizer, ranks = self.ranks,
    screen = self.screen, saves = self.saves, records = self.records, scaled = scaled, evaluate = evaluate,
    save = function(needed) return self:save(needed) end, seconds = function() return self:seconds() end,
  }
end

---What the run is about to do, for its first lines.
local function planned(self, parts)
  local all = self.ranks
  return {
    folder = self.folder, config = self.config, schema = self.loaded.schema, model = self.model, loader = self.loader,
    ranks = all, launched = self.request.dry_run and ranks.launched() or all.size, total = self.total,
    last = self.last, goals = self.checks:goals_text(), rate = self.rate, schedules = self.schedules,
    notes = parts.notes,
  }
end

---Bytes of a parameter in a checkpoint, with its two moments, and of its average.
local CHECKPOINT, AVERAGE = 12, 4

---The weights that the run starts from, unless they are random: those of init.from.
---@return table|nil origin
local function initialize(self, fresh)
  local origin = resuming.start_from {
    config = self.config, preset = self.loaded.preset, model = self.model, optimizer = self.optimizer,
    corpus = self.corpus, fresh = fresh, screen = self.screen,
  }
  contracts.check_values(self.model.params)
  return origin
end

---Opens the directory, and resumes or initializes.
---@param fresh? string[] names of parameters
---@return table|nil state of the checkpoint, in a resume
local function open_run(self, fresh)
  local resumes, origin = self.request.resume, nil
  local found = resumes and resuming.find(self.directory, self.ranks) or nil
  if not resumes then -- before the directory is created, so that a failure leaves none
    local averages = (self.optimizer.options or {}).average ~= nil
    self.directory:check_space((CHECKPOINT + (averages and AVERAGE or 0)) * self.model.params:count())
    origin = initialize(self, fresh)
  end
  self.ranks:first_does(function() open_directory(self, found) end)
  local together = self.optimizer.sharded ~= nil
  if together then self.ranks:check_folder(self.folder, self.directory.id) end
  self.saves:start(self.ranks.leads or together, together)
  local state = found and resume(self, found) or nil
  if resumes and not state then origin = initialize(self, fresh) end
  resuming.tell_origin(origin, self.config.init, self.screen)
  if state and self.checks:updates_left(self.loaders:schedule_step()) == 0 then self.total = self.step end
  if state and self.step >= math.min(self.last, self.total) then end_here(self) end
  return state
end

---Opens the metrics, with the changes that attached prompts have made.
---@param scaled? table of the rate, in the checkpoint
local function open_records(self, scaled)
  local model = self.model
  self.records = records.open {
    folder = self.folder, step = self.step, losses = model.loss_names and model:loss_names() or {},
    baselines = self.evaluations:baseline_metrics(), screen = self.screen, leads = self.ranks.leads,
  }
  self.verify.records = self.records
  self.changes = open_changes(self, scaled)
  self.changes:resume(self.step)
  for _, change in ipairs(self.changed or {}) do
    if not change.path:find("^rate%.") then -- which are the event "schedule"
      self.records:event("changed", { step = self.step + 1, seconds = self:seconds() }, {
        key = change.path, value = change.mine, was = change.theirs,
      })
    end
  end
  self.records:text("config", self.loaded:dump())
  if not self.ranks.leads then return end
  self.alerts = alerts.new {
    options = self.config.alert, folder = self.folder, screen = self.screen, records = self.records,
    each_step = core.device() == "cpu" or core.device() == "ref", several = self.ranks:several(),
  }
end

---Starts a run that is open; it gets the rest of its fields.
---@param self seqrun.Run
---@param parts table of run:start
return function(self, parts)
  take_parts(self, parts)
  self.verify = verify.new {
    options = self.config.verify, optimizer = parts.optimizer, ranks = self.ranks, screen = self.screen,
    folder = self.folder,
  }
  self.first = first.new {
    model = parts.model, source = self.extras.source, optimizer = parts.optimizer, rate = parts.rate,
    ranks = self.ranks, done = witness.current() ~= nil,
    warn = function(...) if self.ranks.leads then self.screen:warn(...) end end,
  }
  local shown, cursor = self.screen, self.loader:cursor()
  if self.request.dry_run then
    resuming.tell_origin(initialize(self, parts.fresh), self.config.init, shown)
    return shown:start(planned(self, parts), cursor)
  end
  local state = open_run(self, parts.fresh)
  self.ranks:check_values(self.model.params)
  open_records(self, state and state.scaled)
  self.book = loop.new {
    model = self.model, optimizer = self.optimizer, screen = self.screen, every = self.config.log.every,
  }
  if state and state.new_rates then
    self.records:event("schedule", { step = self.step + 1, seconds = self:seconds() }, { changed = state.new_rates })
  end
  local peak = self.meter:start()
  self.agreement:restart()
  self.saves:wait(self.agreement:seconds())
  shown:start(planned(self, parts), cursor)
  shown:headline(peak)
  if self.ranks:several() then shown:say("  memory  %s", self.checks:memory_of_ranks()) end
  shown:notes()
  if self.config.attach ~= false then self.changes:listen(self) end
  local goes_on = not state and self.config.init.from and continuing.applies(self.loaded.schema)
  if goes_on and self.config.init.carry == "weights" and not parts.watch then self:evaluate(true) end
end

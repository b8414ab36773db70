-- resuming.lua - where a run begins: at its newest checkpoint, at another run's, or at random weights.

local checkpoint = require("seqrun.checkpoint")
local config = require("seqrun.config")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local resuming = {}

---The checkpoint to resume from; found once, since finding it verifies the whole file.
---@return string|nil path
---@return string? message
---@return string? code
function resuming.newest(self)
  self.found = self.found or table.pack(self.ranks:first_says(function() return checkpoint.latest(self.folder) end))
  return table.unpack(self.found, 1, self.found.n)
end

---The data set of this run by its contents; nil for a recipe that names none.
local function digest_of(self) return self.corpus and self.corpus:info().digest end

---Fails if the data set has changed since the run started: resuming needs the same examples under the same uids.
local function check_data(self, state)
  local digest = digest_of(self)
  if not state.data or not digest or state.data == digest then return end
  failure.raise("data", "%s has changed since the run started (digest %s, was %s); restore the old data set, or "
    .. "start a new run with --out", self.corpus:info().path, digest, state.data)
end

---The state of a schedule that has one; most are functions of the counters alone.
local function state_of(schedule)
  local meta = getmetatable(schedule)
  return type(schedule) == "table" and type(meta) == "table" and schedule.state and schedule:state() or nil
end

local function states_of(schedules)
  local states = {}
  for name, schedule in pairs(schedules or {}) do states[name] = state_of(schedule) end
  return states
end

---What a checkpoint has besides the tensors, as plain values.
function resuming.state(self)
  return {
    step = self.step, loaders = self.loaders:state(), window = self.window:state(), seconds = self:seconds(),
    kept = self.kept, scaled = self.scaled, result = self.result, best = self.best and self.best:state() or nil,
    schedules = states_of(self.schedules), rate = state_of(self.rate),
    instructions = devices.instructions(), data = digest_of(self),
  }
end

---The names of what depends on the time.
local function timed(self)
  local list, order = {}, self.loader.options and self.loader.options.order
  local function look(name, schedule)
    if type(schedule) == "table" and schedule.by == "seconds" then list[#list + 1] = name end
  end
  look("rate", self.rate)
  for name, schedule in pairs(self.schedules or {}) do look(name, schedule) end
  if type(order) ~= "table" then order = {} end
  for _, key in ipairs { "length", "sequences", "tokens", "mask" } do look(key, order[key]) end
  for name, metric in pairs(order.metrics or {}) do look(name, metric.schedule) end
  table.sort(list)
  return list
end

---A table with the names of today.
local function today(saved)
  local list = {}
  for name, value in pairs(saved) do list[config.RENAMED[name] or name] = value end
  return list
end

local function take_up(self, state)
  self.step = state.step
  self.agreement:restart(state.seconds)
  self.window:restore(state.window)
  for name, value in pairs(state.kept) do self.kept[name] = value end
  self.result, self.scaled = state.result, state.scaled
  if self.best and state.best then
    self.best:set(self.ranks:first_says(function() return self.best:restore(state.best) end))
  end
  for name, schedule in pairs(self.schedules or {}) do
    local saved = today(state.schedules or {})[name]
    if saved then schedule:restore(saved) end
  end
  for _, name in ipairs(timed(self)) do
    self.progress:warn("%s depends on the time: the run is not the same as without the stop, except for updates that "
      .. "were already drawn", name)
  end
  if state.rate and self.rate then self.rate:restore(state.rate) end
  self.loaders:restore(state.loaders)
end

---Resumes from the newest checkpoint of the run; false if there is none.
function resuming.resume(self)
  local path, message, code = resuming.newest(self)
  if not path then
    if code ~= "missing" then failure.raise(code, "%s", message) end
    return false
  end
  check_data(self, failure.must(checkpoint.state(path)).state) -- before tensors, whose shapes depend on it
  local parts = { model = self.model.params, opt = self.optimizer, carry = "resume" }
  local state = failure.must(checkpoint.load(path, parts)).state
  take_up(self, state)
  if state.instructions ~= devices.instructions() then
    local why = devices.refused_instructions()
    self.progress:warn("the run used %s instructions before; resuming with %s is not bit-exact%s",
      tostring(state.instructions), devices.instructions(), why and (" (%s)"):format(why) or "")
  end
  self.autotune:restore(path, state.instructions)
  self.ranks:first_does(function() failure.must(checkpoint.set_aside(self.folder, self.step)) end)
  self.saver:resumed(self.step, path)
  self.progress:say("resumed from %s at step %d", path, self.step)
  return true
end

---Fails if the vocabulary of a checkpoint is not that of the data set.
local function check_vocabulary(self, folder)
  if not self.corpus then return end
  local theirs = checkpoint.vocabulary.read(folder)
  if not theirs then
    self.progress:warn("%s has no vocab.txt, so its vocabulary cannot be compared with that of %s", folder,
      self.corpus:info().path)
    return
  end
  local difference = checkpoint.vocabulary.difference(theirs, (failure.must(self.corpus:vocab_text())))
  if not difference then return end
  failure.raise("data", "init.from: the vocabulary %s/vocab.txt differs from that of the data set %s (%s); prepare the "
    .. "data with vocab.file=%s/vocab.txt, or train from scratch with init.from=none", folder, self.corpus:info().path,
    difference, folder)
end

---Names of the parameters that are initialized although the checkpoint has them: `fresh` of run:start, and those of all
---heads with init.heads=new.
local function fresh_parameters(self)
  local list = table.move(self.fresh or {}, 1, #(self.fresh or {}), 1, {})
  for _, head in ipairs(self.config.init.heads == "new" and self.model.heads or {}) do
    for _, spec in ipairs(head.specs) do list[#list + 1] = spec.name end
  end
  return #list > 0 and list or nil
end

---Starts from another run's checkpoint: its weights, and its moments when asked for.
function resuming.start_from(self)
  local init = self.config.init
  if not init.from or init.carry == "none" then return end
  local folder = checkpoint.resolve(init.from)
  if folder and sys.is_dir(folder) then check_vocabulary(self, folder) end
  local parts = {
    model = self.model.params, opt = self.optimizer, carry = init.carry, seed = self.config.seed,
    fresh = fresh_parameters(self),
  }
  local loaded, message, code = checkpoint.load(init.from, parts)
  if not loaded then
    local way = code == "missing" and "; give a run or checkpoint, or init.from=none" or ""
    failure.raise(code, "init.from: %s%s", message, way)
  end
  self.origin = loaded
end

---Reports what the run was initialized from, and what was missing or ignored.
function resuming.tell_origin(self)
  if not self.origin then return end
  local report, unfit = self.origin.report, false
  for _, item in ipairs(report.ignored) do unfit = unfit or not item.known end
  self.progress:say("initialized from the %s of %s", self.config.init.carry, self.origin.path)
  if #report.missing > 0 or unfit then self.progress:say("%s", tostring(report)) end
end

---Makes this step the last, where the run was to end at it or before, and says so.
---@param self seqrun.Run
function resuming.end_here(self)
  local most = self.request.max_steps
  local where = most and most < self.step and ("beyond --max-steps %d, which is a total"):format(most) or "the last"
  local way = self.step < self.total and "raise --max-steps"
    or "start a run with init.from=" .. text.shell(self.folder)
  self.progress:say("step %d is %s, so nothing is trained: the weights are evaluated; to train them further, %s",
    self.step, where, way)
  self.last = self.step
end

return resuming

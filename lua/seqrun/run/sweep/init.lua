-- sweep - a recipe run once for each trial and seed, one after the other, and the best trial by the mean over seeds.
--
-- Each run is a process of its own in OUT/TRIAL/seed-N, as with `seeds`; those that have ended are not repeated, and
-- one that was stopped goes on.  The first seed of all trials comes before the second, so that a budget that ends
-- leaves trials that can be compared.  With `rungs`, trials stop at those steps, and only the best go on.

local again = require("seqrun.run.again")
local best = require("seqrun.run.evaluation.best")
local ending = require("seqrun.history.ending")
local failure = require("seqrun.base.failure")
local history = require("seqrun.history.runs")
local json = require("seqrun.core.json")
local json_file = require("seqrun.base.json_file")
local origin = require("seqrun.run.directory.origin")
local results = require("seqrun.run.sweep.results")
local scratch = require("seqrun.base.scratch")
local sys = require("seqrun.core.sys")

---What OUT/sweep.json keeps; runs by "TRIAL/seed-N".
---@class seqrun.SweepState
---@field recipe string
---@field fixed string[]
---@field seconds number of all runs
---@field failed table<string, string> why
---@field done table<string, integer> to which --max-steps a run has come; WHOLE: to its end
---@field words table<string, string[]> of trials that have begun, by name

---@class seqrun.Sweep
---@field folder string
---@field file string the recipe
---@field fixed string[] key=value of all trials
---@field trials seqrun.SweepTrial[]
---@field seeds integer
---@field dev? string the file that trials are evaluated on
---@field rungs integer[] steps after which only the best 1 of `eta` go on
---@field eta integer
---@field metric? string by default the one that says most about the first run
---@field budget? number seconds, with those of earlier sessions
---@field retry boolean whether failed runs are repeated
---@field threads? integer
---@field max_steps? integer
---@field told fun(line: string) progress
---@field saved seqrun.SweepState
local Sweep = {}
Sweep.__index = Sweep

local WHOLE = -1

---Refuses a trial that has begun with other settings, if its name does not show them.
local function check_words(self)
  for _, trial in ipairs(self.trials) do
    local before = self.saved.words[trial.name]
    if before and table.concat(before, " ") ~= table.concat(trial.words, " ") then
      failure.raise("config", "sweep: %s/%s was begun with other settings: %s; remove %s, or give another --out",
        self.folder, trial.name, table.concat(before, " "), self.folder)
    end
  end
end

---Refuses to count runs as done that were made with other files than there are now.
local function check_inputs(self)
  local known = {}
  for key in pairs(self.saved.done) do
    local found = json_file.read(self.folder .. "/" .. key .. "/environment.json") or {}
    origin.check(found.inputs, {}, "sweep: %s: %s has changed since " .. key:gsub("%%", "%%%%") .. " was made; remove "
      .. self.folder:gsub("%%", "%%%%") .. " to make all runs again, or give another --out", known)
  end
end

---Whether all runs of an earlier session failed before they began, as after a slip in a setting.
local function is_void(self, saved)
  if next(saved.done or {}) then return false end
  for key in pairs(saved.words or {}) do
    for _, name in ipairs(failure.there(sys.list(self.folder .. "/" .. key)) or {}) do
      if sys.is_dir(("%s/%s/%s"):format(self.folder, key, name)) then return false end
    end
  end
  return true
end

---Takes over what an earlier session of the same sweep left.
local function restore(self)
  local path = self.folder .. "/sweep.json"
  local saved = failure.there(json_file.read(path))
  if not saved then
    if sys.is_dir(self.folder) and #failure.must(sys.list(self.folder)) > 0 then
      failure.raise("config", "sweep: %s is not empty and not a sweep; give --out a new directory", self.folder)
    end
  end
  if not saved or is_void(self, saved) then
    self.saved = { recipe = self.file, fixed = self.fixed, seconds = 0.0, failed = {}, done = {}, words = {} }
    return
  end
  local before = table.concat({ tostring(saved.recipe), table.unpack(saved.fixed or {}) }, " ")
  local now = table.concat({ self.file, table.unpack(self.fixed) }, " ")
  if before ~= now then
    failure.raise("config", "sweep: %s contains a sweep of other settings: %s; give --out a new directory", self.folder,
      before)
  end
  self.saved = {
    recipe = self.file, fixed = self.fixed, seconds = tonumber(saved.seconds) or 0.0,
    failed = not self.retry and type(saved.failed) == "table" and saved.failed or {},
    done = type(saved.done) == "table" and saved.done or {},
    words = type(saved.words) == "table" and saved.words or {},
  }
  check_words(self)
  check_inputs(self)
end

---Raises if settings choose on a test set.
local function refuse_tests(words)
  for _, word in ipairs(words) do results.refuse_test(word:match("^data%.dev=(.*)$")) end
end

---@param t table fields of seqrun.Sweep
---@return seqrun.Sweep
local function new(t)
  local self = setmetatable(t, Sweep)
  refuse_tests(self.fixed)
  for _, trial in ipairs(self.trials) do refuse_tests(trial.words) end
  restore(self)
  return self
end

---A run, as it is named in the state, and its directory.
local function key_of(trial, seed) return ("%s/seed-%d"):format(trial.name, seed) end
local function folder_of(self, trial, seed) return self.folder .. "/" .. key_of(trial, seed) end

---Writes what the next session needs.
local function save(self)
  local state = self.saved
  local text = json.encode {
    recipe = state.recipe, fixed = json.array(state.fixed), seconds = state.seconds, failed = state.failed,
    done = state.done, words = state.words,
  }
  failure.must(sys.write_file(self.folder .. "/sweep.json", text .. "\n"))
end

---Seconds that are left, or nil without a limit.
local function left(self) return self.budget and self.budget - self.saved.seconds end

---Whether a run has come as far as it should.
local function is_done(self, trial, seed, steps)
  local done = self.saved.done[key_of(trial, seed)]
  return done ~= nil and (done == WHOLE or steps ~= nil and done >= steps)
end

---The settings of a run that win over all others.
local function words_of(self, trial, seed)
  local words = table.move(trial.words, 1, #trial.words, 1, {})
  words[#words + 1], words[#words + 2] = "seeds=none", "seed=" .. seed
  if self.budget then -- a run counts its earlier sessions too
    local ended = ending.read(folder_of(self, trial, seed))
    words[#words + 1] = ("budget=%d"):format(math.ceil(left(self) + (ended and tonumber(ended.seconds) or 0)))
  end
  return words
end

---Keeps what a trial measures of a run that has ended; why that failed, else nil.
local function measure(trial, folder)
  local ok, found, why = pcall(trial.measure, folder)
  if ok and found then
    failure.must(sys.write_file(folder .. "/measured.json", json.encode(found) .. "\n"))
    return nil
  end
  local known = not ok and failure.of(found)
  if known and known.code == "stopped" then error(found, 0) end
  return tostring(ok and why or found)
end

---Runs one seed of a trial up to some step; false if the budget ended first.
local function run_one(self, trial, seed, steps)
  if self.budget and left(self) <= 0 then return false end
  local folder, key, state = folder_of(self, trial, seed), key_of(trial, seed), self.saved
  state.words[trial.name] = trial.words
  failure.must(sys.make_dirs(self.folder .. "/" .. trial.name))
  local begun, log, stopped = sys.now(), folder .. ".log", sys.exit_code("stopped")
  local code = again.code({
    file = self.file, arguments = self.fixed, quiet = true, threads = self.threads, max_steps = steps, log = log,
  }, folder, {}, words_of(self, trial, seed))
  state.seconds = state.seconds + sys.now() - begun
  if code ~= 0 and code ~= stopped then state.failed[key] = again.reason(log, code) end
  if code == 0 and trial.measure and not steps then state.failed[key] = measure(trial, folder) end
  if code == 0 and not state.failed[key] then state.done[key] = steps or WHOLE end
  save(self)
  if code ~= stopped then return true end
  if self.budget and left(self) <= 1 then return false end
  failure.raise("stopped", "sweep: stopped in %s; repeat the command to continue", folder)
end

---The metric of a run's last evaluation, or the mean of those of its trial, the run, the step, and these by name.
local function value_of(self, trial, folder)
  local line, past = results.last(folder)
  if not line then return nil, past end
  local dev = history.value(past.config, "data.dev")
  results.refuse_test(dev)
  self.dev = self.dev or dev ~= "[]" and dev or nil
  if not trial.metrics then
    if not self.metric then self.metric, self.by_headline = results.headline(line, past), true end
    if self.by_headline and self.metric and line[self.metric] == nil then return nil, past end -- as of another task
    if not self.metric then failure.raise("config", "sweep: %s has no metric; name one with --metric", folder) end
    return best.value(line, self.metric, "--metric", {}), past, line.step
  end
  local more, parts, sum = trial.measure and failure.there(json_file.read(folder .. "/measured.json")) or {}, {}, 0
  for _, name in ipairs(trial.metrics) do
    parts[name] = more[name] or line[name]
    if type(parts[name]) ~= "number" then return nil, past end
    sum = sum + parts[name]
  end
  return sum / #trial.metrics, past, line.step, parts
end

---What a trial is compared by, in words.
local function metric_of(self, trial) return trial.metrics and table.concat(trial.metrics, ", ") or self.metric end

---What a trial has reached so far.
---@param trial seqrun.SweepTrial
---@param steps? integer up to which it should have come
---@return seqrun.SweepRow
function Sweep:row(trial, steps)
  local row = { trial = trial, values = {}, parts = {}, step = 0, seconds = 0.0, state = "done" }
  for seed = 1, self.seeds do
    local folder = folder_of(self, trial, seed)
    local failed, done = trial.wrong or self.saved.failed[key_of(trial, seed)], is_done(self, trial, seed, steps)
    local value, past, step, parts = value_of(self, trial, folder)
    if past then row.seconds = row.seconds + past.seconds end
    if failed then
      row.state, row.reason = "failed", row.reason or trial.wrong or ("seed %d: %s"):format(seed, failed)
    elseif value == nil and done then
      row.state, row.reason = "failed", row.reason or ("seed %d: its last evaluation has no %s"):format(seed,
        metric_of(self, trial) or "metric")
    elseif not done then
      row.state = row.state == "done" and "open" or row.state
    else
      row.values[#row.values + 1], row.parts[#row.parts + 1] = value, parts
      row.step = row.step > 0 and math.min(row.step, step) or step
    end
  end
  if #row.values > 0 and row.state == "done" then
    for name, value in pairs(results.spread(row.values)) do row[name] = value end
  end
  return row
end

---Whether a run of a trial has failed, so that its other seeds are of no use.
local function has_failed(self, trial)
  for seed = 1, self.seeds do
    if self.saved.failed[key_of(trial, seed)] then return true end
  end
  return false
end

---Runs all seeds of some trials; false if the budget ended first.
local function run_all(self, trials, steps)
  local count = 0
  for seed = 1, self.seeds do
    for _, trial in ipairs(trials) do
      count = count + 1
      local folder = folder_of(self, trial, seed)
      local fresh = not (trial.wrong or is_done(self, trial, seed, steps) or has_failed(self, trial))
      if fresh and not run_one(self, trial, seed, steps) then return false end
      local value = value_of(self, trial, folder)
      if fresh then
        local outcome = self.saved.failed[key_of(trial, seed)]
          or value and ("%s %.4f"):format(metric_of(self, trial), value) or "no evaluation"
        local name, all = trial.label or table.concat(trial.words, " "), self.seeds * #trials
        self.told(("%d of %d  %s  seed %d  %s"):format(count, all, name, seed, outcome))
      end
    end
  end
  return true
end

---Rows of some trials, the best first.
function Sweep:rows(trials, steps)
  local rows = {}
  for i, trial in ipairs(trials) do rows[i] = self:row(trial, steps) end
  results.sort(rows, self.metric or "loss")
  return rows
end

---Why the recipe refuses the settings of a trial, as of a key that it does not have; nil if it takes them.
local function refusal_of(self, trial, folder)
  local log = folder .. "/log"
  local code = again.code({ file = self.file, arguments = self.fixed, explain = true, log = log }, folder .. "/run", {},
    words_of(self, trial, 1))
  if code ~= sys.exit_code("config") then return nil end
  return (sys.read_file(log, 1 << 20) or ""):match("^seqrun: (.-)%s*$") or "the recipe refuses its settings"
end

---Raises before anything is run if the settings of the first and of the last trial are refused: then it is a slip in
---what all of them have; or if those are refused that the user wrote for one trial.  A value that only some trials have
---is a row of the table.
local function check_settings(self)
  local able = {}
  for _, trial in ipairs(self.trials) do able[#able + 1] = not trial.wrong and trial or nil end
  if able[1] and self.saved.words[able[1].name] then return end -- it has begun
  local place <close> = scratch()
  local refusal = able[1] and refusal_of(self, able[1], place.path)
  if refusal and refusal_of(self, able[#able], place.path) then failure.raise("config", "%s", refusal) end
  for _, trial in ipairs(able) do
    refusal = trial.chosen and refusal_of(self, trial, place.path)
    if refusal then failure.raise("config", "%s: %s", trial.label, refusal) end
  end
end

---Runs what has not been run.
---@return seqrun.SweepRow[] rows the best first
---@return boolean whole false if the budget ended first
function Sweep:run()
  check_settings(self)
  failure.must(sys.make_dirs(self.folder))
  save(self)
  local alive, dropped = self.trials, {}
  for i = 1, #self.rungs + 1 do
    local steps = self.rungs[i] or self.max_steps
    local whole = run_all(self, alive, steps)
    local rows = self:rows(alive, steps)
    if not whole or i > #self.rungs then
      table.move(dropped, 1, #dropped, #rows + 1, rows)
      results.sort(rows, self.metric or "loss")
      return rows, whole
    end
    alive = {}
    for k, row in ipairs(rows) do
      if row.mean and k <= math.ceil(#rows / self.eta) then
        alive[#alive + 1] = row.trial
      else
        row.state = row.state == "done" and "dropped" or row.state
        dropped[#dropped + 1] = row
      end
    end
  end
end

return { new = new }

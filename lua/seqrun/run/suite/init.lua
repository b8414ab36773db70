-- suite - fine-tunes and scores many tasks over seeds, with the machinery of sweeps: a task is a trial.
--
--     local all = suite.new { tasks = tasks, data = { "glue" }, words = {}, seeds = 3, recipe = arg[0], out = "x" }
--     local rows, whole = all:run()
--
-- What has ended is not run again.  Each run is that of recipes/finetune.lua in OUT/TASK/seed-N.

local failure = require("seqrun.base.failure")
local files = require("seqrun.run.suite.files")
local guess = require("seqrun.base.guess")
local sorted = require("seqrun.base.sorted")
local sweep = require("seqrun.run.sweep")

local suite = {}

---The recipe that runs each task: beside the one of the suite.
local RECIPE = "finetune.lua"

-- ---- words -----------------------------------------------------------------------------------------

---The words of the command line: those that are keys of the suite and options, and settings of the runs, which may
---begin with the name of a task: MRPC.epochs=10.
---@param words string[] the global `arg`
---@param own table<string, boolean> keys of the suite
---@return string[] for_suite with [0], the recipe
---@return string[] for_runs
function suite.split(words, own)
  local for_suite, for_runs, i = { [0] = words[0] }, {}, 1
  while words[i] do
    local word = words[i]
    local key = word:match("^([%w_.%-]+)=")
    if key and not word:find("^%-") and not own[key] then
      for_runs[#for_runs + 1] = word
    elseif word ~= "--resume" then -- it always does
      for_suite[#for_suite + 1] = word
      if require("seqrun.run.options").takes_next(word) then
        i = i + 1
        for_suite[#for_suite + 1] = words[i]
      end
    end
    i = i + 1
  end
  return for_suite, for_runs
end

---Settings of all tasks, and those of each: "MRPC.epochs=10" belongs to the task MRPC.
---@param words string[]
---@param tasks seqrun.SuiteTask[]
---@return string[] common
---@return table<seqrun.SuiteTask, string[]> own
function suite.settings(words, tasks)
  local common, own, by_name = {}, {}, {}
  for _, task in ipairs(tasks) do
    own[task] = {}
    by_name[files.plain(task.name)] = by_name[files.plain(task.name)] or {}
    table.insert(by_name[files.plain(task.name)], task)
  end
  for _, word in ipairs(words) do
    local name, rest = word:match("^([%w%-]+)%.([%w_.]+=.*)$")
    local meant = name and by_name[files.plain(name)]
    local key = word:match("^([^=]*)=")
    if key == "seed" or key == "seeds" or key == "data.train" or key == "data.dev" or key == "task" then
      failure.raise("config", "%s: the suite sets %s; seeds=N is the number of seeds, tasks=[...] the tasks", word, key)
    end
    for _, task in ipairs(meant or {}) do table.insert(own[task], rest) end
    if not meant then common[#common + 1] = word end
  end
  return common, own
end

---The tasks of these names, or all.
---@param all seqrun.SuiteTask[]
---@param names string[]|nil
---@return seqrun.SuiteTask[]
function suite.choose(all, names)
  if not names then return all end
  local chosen, known = {}, {}
  for _, task in ipairs(all) do known[#known + 1] = task.name end
  for _, name in ipairs(names) do
    local found = false
    for _, task in ipairs(all) do
      if files.plain(task.name) == files.plain(name) or files.plain(task.suite) == files.plain(name) then
        chosen[#chosen + 1], found = task, true
      end
    end
    if not found then
      failure.raise("config", "tasks: no task '%s'; choose %s%s", name, table.concat(known, ", "),
        guess.hint(name, known))
    end
  end
  return chosen
end

-- ---- trials ----------------------------------------------------------------------------------------

---The files of a task; nil if its training file is nowhere.
---@return table|nil paths { folder =, train =, dev = }
---@return string? message what is wrong with them
local function paths_of(task, dirs)
  local folder, train = files.folder(dirs, task.folders, task.train)
  if not folder then return nil end
  local dev = files.first(folder, task.dev)
  if not dev then return nil, ("%s: it has %s, but no %s to score on"):format(folder, task.train[1], task.dev[1]) end
  return { folder = folder, train = train, dev = dev }
end

---Adds the settings that a list does not have yet.
local function add_usual(words, usual, common)
  local set = {}
  for _, list in ipairs { words, common } do
    for _, word in ipairs(list) do set[word:match("^([^=]*)=")] = true end
  end
  for _, key in ipairs(sorted(usual)) do
    if not set[key] then words[#words + 1] = ("%s=%s"):format(key, usual[key]) end
  end
end

---Plain files of a nested task, which are made if they are not there.
local function plain_of(task, paths, out)
  if not task.prepare or not out then return paths end
  local found, message, code = failure.returned(task.prepare, paths, out)
  if code == "stopped" then failure.raise(code, "%s", message) end
  return found, message
end

---The settings of a task's runs, as a trial of a sweep.
---@param task seqrun.SuiteTask
---@param paths table
---@param t { common: string[], own: string[], plain?: string } plain: where plain files of nested ones are kept
---@return seqrun.SweepTrial
local function trial_of(task, paths, t)
  local name = ("%s-%s"):format(task.suite, task.name)
  local trial = { name = name, label = task.name, metrics = task.metrics, words = {}, chosen = #t.own > 0 }
  local plain, message = plain_of(task, paths, t.plain and ("%s/%s"):format(t.plain, name))
  local columns = {}
  if plain and task.columns then columns, message = files.columns(plain.train, task.columns) end
  if plain and columns and task.measured then trial.measure, message = task.measured(plain) end
  if not plain or not columns or task.measured and not trial.measure then
    trial.wrong = message
    return trial
  end
  trial.words = table.move(t.own, 1, #t.own, 1, {})
  add_usual(trial.words, task.usual or {}, t.common)
  local files_of = { "task=" .. task.task, "data.train=" .. plain.train, "data.dev=" .. plain.dev }
  for _, list in ipairs { columns, files_of } do table.move(list, 1, #list, #trial.words + 1, trial.words) end
  return trial
end

-- ---- the suite -------------------------------------------------------------------------------------

---@class seqrun.Suite
---@field tasks seqrun.SuiteTask[] whose files were found, in their order
---@field missing seqrun.SuiteTask[] the others
---@field trials seqrun.SweepTrial[] of the tasks
---@field seeds integer
---@field folder string
---@field sweep seqrun.Sweep
local Suite = {}
Suite.__index = Suite

---The value of a key in some words; nil without it.
local function value_of(words, wanted)
  local found
  for _, word in ipairs(words) do
    local key, value = word:match("^([^=]*)=(.*)$")
    if key == wanted then found = value end
  end
  return found
end

---Finds the tasks in some directories.
---@param t { tasks: seqrun.SuiteTask[], data: string[], words: string[], recipe: string, out: string, seeds: integer,
---  retry?: boolean, budget?: number, threads?: integer, dry?: boolean, told: fun(line: string) } data: directories;
---  words: settings of the runs; recipe: the one of the suite; dry: nothing is written
---@return seqrun.Suite
function suite.new(t)
  local common, own = suite.settings(t.words, t.tasks)
  local self = setmetatable({ tasks = {}, missing = {}, trials = {}, seeds = t.seeds, folder = t.out }, Suite)
  local plain = not t.dry and value_of(common, "data.folder") or not t.dry and "runs/data" or nil
  for _, task in ipairs(t.tasks) do
    local paths, message = paths_of(task, t.data)
    if not paths and not message then
      self.missing[#self.missing + 1] = task
    else
      local options = { common = common, own = own[task], plain = plain }
      local name = task.suite .. "-" .. task.name
      local trial = message and { name = name, label = task.name, words = {}, wrong = message }
        or trial_of(task, paths, options)
      self.tasks[#self.tasks + 1], self.trials[#self.trials + 1] = task, trial
    end
  end
  if #self.tasks == 0 then
    failure.raise("data", "%s: no files of these tasks; each belongs in a folder of its name, such as CoLA/train.tsv",
      table.concat(t.data, ", "))
  end
  if t.dry then return self end
  self.sweep = sweep.new {
    file = t.recipe:gsub("[^/]*$", "") .. RECIPE, fixed = common, trials = self.trials, seeds = t.seeds, rungs = {},
    eta = 2, budget = t.budget, retry = t.retry, threads = t.threads, folder = t.out, told = t.told,
  }
  return self
end

---Runs what has not been run.
---@return seqrun.SweepRow[] rows in the order of the tasks
---@return boolean whole false if the budget ended first
function Suite:run()
  local rows, whole = self.sweep:run()
  local by_trial = {}
  for _, row in ipairs(rows) do by_trial[row.trial] = row end
  local list = {}
  for i, trial in ipairs(self.trials) do list[i] = by_trial[trial] end
  return list, whole
end

return suite

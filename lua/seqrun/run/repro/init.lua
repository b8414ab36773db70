-- repro - runs a run once more into a fresh directory and compares: every line of metrics, then the last checkpoint.

local checkpoint = require("seqrun.checkpoint")
local checks = require("seqrun.run.repro.checks")
local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")
local history = require("seqrun.history.runs")
local metrics = require("seqrun.history.metrics")
local replay = require("seqrun.run.repro.replay")
local saved = require("seqrun.run.repro.saved")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")
local witness = require("seqrun.run.repro.witness")

local repro = {}

---@class seqrun.Repro
---@field run string
---@field last integer the last step that is compared
---@field checks seqrun.Check[]
---@field folder? string where the run was started
---@field again? string the directory of the second run
---@field lines? integer that were compared
---@field difference? { step: integer, type: string, field: string, was: any, now: any }
---@field checkpoint? { step: integer, equal: boolean, what?: string } what: weights or a moment that differs
---@field equal? boolean
---@field trusted? boolean

---Settings that change no bit: no alerts again, and only the last checkpoint is written.
local QUIET = { "attach=false", "save.every=0", "save.minutes=0", "budget=none", "alert.run=none" }

---The step up to which a run is repeated: that of its newest checkpoint, or of its last line.
local function last_step(past, asked)
  local newest = (history.newest(past) or { step = 0 }).step
  local own = newest > 0 and newest or past.step
  if asked and asked > math.max(newest, past.step) then
    local there = counted(math.max(newest, past.step), "step")
    failure.raise("config", "--steps %d: %s has %s", asked, past.dir, there)
  end
  return asked or own
end

---A directory beside the run, or beside the sweep that it belongs to, that is not there yet.
local function fresh(run)
  local sweep, own = run:match("^(.+)/([^/]+/[^/]+)/*$")
  if sweep and sys.exists(sweep .. "/sweep.json") then run = sweep .. "-" .. own:gsub("/", "-") end
  local path, number = run .. "-repro", 1
  while sys.exists(path) do
    number = number + 1
    path = ("%s-repro-%d"):format(run, number)
  end
  return path
end

---Opens a run and compares what it was made from with what is here; raises a failure that says why it cannot.
---@param run string
---@param asked? integer the last step
---@param trusted? boolean code that the run names may be run, also where it does not ship with seqrun
---@return seqrun.Repro
function repro.open(run, asked, trusted)
  local past, message, code = history.open(run)
  if not past then failure.raise(code == "missing" and "data" or code, "%s", message) end
  if past.state == "running" then
    failure.raise("data", "%s is running; a run is repeated when it has ended", run)
  end
  local recipe = failure.must(replay.recipe(past.dir, true)) -- which is only run by run()
  if not sys.exists(past.dir .. "/config.yaml") then failure.raise("data", "%s has no config.yaml", past.dir) end
  local last = last_step(past, asked)
  if last == 0 then failure.raise("data", "%s: no step was made, so nothing can be compared", run) end
  local folder = (past.environment or {}).folder
  return {
    run = past.dir, last = last, checks = checks.of(past, recipe[0], last), recipe = recipe,
    folder = type(folder) == "string" and folder or nil, trusted = trusted,
  }
end

---Compares the checkpoints of a step; nil if either run has none.  Raises if one is damaged.
local function compare_checkpoints(first, second, step)
  local a, b = train.checkpoint_path(first, step), train.checkpoint_path(second, step)
  for _, path in ipairs { a, b } do
    if not sys.exists(path) then return nil end
    local found, message = failure.valid(checkpoint.verify(path))
    if found ~= step then
      failure.raise("data", "%s", message or ("%s: not a checkpoint of step %d"):format(path, step))
    end
  end
  local what = saved(a, b)
  return { step = step, equal = what == nil, what = what }
end

---Runs it again and compares; raises a failure that says why it cannot.
---@param self seqrun.Repro of open()
---@param options { out?: string, threads?: integer, quiet?: boolean }
function repro.run(self, options)
  failure.must(replay.recipe(self.run, self.trusted))
  local recorded, message, code = metrics.read(self.run)
  if not recorded then failure.raise(code == "missing" and "data" or code, "%s", message) end
  self.again = options.out or fresh(self.run)
  local seen = witness.open(recorded, self.last)
  local words = table.move(self.recipe, 0, #self.recipe, 0, {})
  table.move({ "config=" .. self.run .. "/config.yaml", table.unpack(QUIET) }, 1, 1 + #QUIET, #words + 1, words)
  table.move({ "--out", self.again, "--max-steps", ("%d"):format(self.last) }, 1, 4, #words + 1, words)
  if options.threads then words[#words + 1] = ("--threads=%d"):format(options.threads) end
  if options.quiet then words[#words + 1] = "--quiet" end
  local done
  done, message, code = replay.play(words, self.trusted)
  witness.close()
  self.lines, self.difference = seen.compared, seen.difference
  if not done and not (code == "numeric" and seen.reached >= self.last) then
    failure.raise((code == "stopped" or code == "storage") and code or "data", "%s", message)
  end
  self.checkpoint = not self.difference and compare_checkpoints(self.run, self.again, self.last) or nil
  self.equal = not self.difference and not (self.checkpoint and not self.checkpoint.equal)
  if self.lines == 0 and not self.checkpoint then
    failure.raise("data", "%s: neither a line of metrics nor a checkpoint up to step %d to compare with", self.run,
      self.last)
  end
end

return repro

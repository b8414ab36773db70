-- follow.lua - runs that are watched: each is read again and again while it continues, and nothing of it is changed.

local ending = require("seqrun.history.ending")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local history = require("seqrun.history.runs")
local json_file = require("seqrun.base.json_file")
local lines = require("seqrun.history.lines")
local sys = require("seqrun.core.sys")

local follow = {}

---@class seqrun.watch.Run
---@field dir string
---@field state "waiting"|"running"|"finished"|"stopped"|"failed"|"unreadable"
---@field reason? string why it stopped or failed, or what it waits for
---@field found seqrun.RunLines its metrics so far
---@field step integer of the last line
---@field steps? integer that it is to make
---@field age? number seconds since its last line
---@field environment table
---@field resident? integer bytes of its process, where that is on this machine
---@field most? integer the same at its peak
local Run = {}
Run.__index = Run

---@param dir string
---@return seqrun.watch.Run
function follow.run(dir)
  return setmetatable({ dir = dir, state = "waiting", found = lines.new(), step = 0, environment = {} }, Run)
end

---Resident bytes of a process, now and at its peak; nil where it cannot be known.
local function memory_of(pid)
  local file <close> = math.type(pid) == "integer" and io.open(("/proc/%d/status"):format(pid), "rb") or nil
  local text = file and file:read("a") or ""
  local now, most = text:match("VmRSS:%s*(%d+) kB"), text:match("VmHWM:%s*(%d+) kB")
  return now and 1024 * math.tointeger(tonumber(now)), most and 1024 * math.tointeger(tonumber(most))
end

local function is_here(environment)
  local host = type(environment.machine) == "table" and environment.machine.host
  return not host or host == sys.machine().host
end

---Seconds for which a run on another machine, whose lock is not seen here, is taken for alive after a line.
local ELSEWHERE = 600

local function look_at_state(self)
  local good, state, reason, steps = pcall(history.state, self.dir)
  if not good then
    self.state, self.reason = "unreadable", tostring(state)
    return
  end
  self.state, self.reason, self.steps = state, reason, steps
  if is_here(self.environment) or self.state ~= "failed" or ending.read(self.dir) then return end
  local host = tostring(self.environment.machine.host)
  if (self.age or math.huge) < ELSEWHERE then self.state, self.reason = "running", "on " .. host end
end

---Reads what is new.
function Run:look()
  local seen, is_run = pcall(history.is_run, self.dir)
  if not seen then
    self.state, self.reason = "unreadable", tostring(is_run)
    return
  end
  if not is_run then
    self.state = "waiting"
    self.reason = sys.exists(self.dir) and "it has not started yet"
      or "the directory does not exist yet" .. guess.file_hint(self.dir)
    return
  end
  local path = self.dir .. "/metrics.jsonl"
  local good, problem = pcall(lines.follow, self.found, path)
  if not good and not failure.of(problem) then error(problem, 0) end
  local facts = sys.stat(path)
  self.age = facts and math.max(0, sys.time() - facts.modified)
  self.environment = json_file.read(self.dir .. "/environment.json") or {}
  look_at_state(self)
  if not good then self.state, self.reason = "unreadable", tostring(problem) end
  local trained, scored = self.found.train[#self.found.train], self.found.evals[#self.found.evals]
  self.step = math.max(trained and trained.step or 0, scored and scored.step or 0)
  self.resident, self.most = nil, nil
  if self.state == "running" and is_here(self.environment) then
    self.resident, self.most = memory_of(self.environment.pid)
  end
end

-- ---- figures -------------------------------------------------------------------------------------

---Lines over which speeds are taken.
local RECENT = 20

---The last line of training; {} before the first.
---@return table
function Run:last() return self.found.train[#self.found.train] or {} end

---Seconds of a step, over the last lines.
---@return number|nil
function Run:pace()
  local train = self.found.train
  local a, b = train[math.max(1, #train - RECENT)], train[#train]
  local seconds = a and lines.numeric(b.seconds) and lines.numeric(a.seconds) and b.seconds - a.seconds
  return seconds and b.step > a.step and seconds > 0 and seconds / (b.step - a.step) or nil
end

---Estimated seconds to its end.
---@return number|nil
function Run:left()
  local pace = self.state == "running" and self:pace()
  return pace and self.steps and self.steps < 1 << 53 and pace * math.max(0, self.steps - self.step) or nil
end

---Seconds without a line beyond which a run counts as silent: a minimum, and a multiple of its usual interval.
local QUIET, TIMES = 60, 10

---Seconds since the last line of a run that usually writes them more often.
---@return number|nil
function Run:silent()
  local train = self.found.train
  local pace, before = self:pace(), train[#train - 1]
  if self.state ~= "running" or not self.age or not before then return nil end
  local usual = (pace or 0) * (train[#train].step - before.step)
  return self.age > math.max(QUIET, TIMES * usual) and self.age or nil
end

---Its alerts, the newest first.
---@return table[]
function Run:alerts()
  local list = {}
  for i = #self.found.events, 1, -1 do
    local event = self.found.events[i]
    if event.event == "alert" then list[#list + 1] = event end
  end
  return list
end

-- ---- several -------------------------------------------------------------------------------------

---@class seqrun.watch.Runs
---@field paths string[] that were asked for
---@field runs seqrun.watch.Run[]
---@field hidden integer runs beyond those that are shown
local Runs = {}
Runs.__index = Runs

---Most runs in a picture.
local MOST = 12

---@param paths string[] runs, or directories with runs in them, which may come later
---@return seqrun.watch.Runs
function follow.runs(paths)
  local self = setmetatable({ paths = {}, runs = {}, known = {}, hidden = 0 }, Runs)
  for i, path in ipairs(paths) do self.paths[i] = path:gsub("(.)/+$", "%1") end
  return self
end

---The directories of the runs; those that changed last where there are too many.
local function directories(self)
  local list, seen, changed = {}, {}, {}
  for _, path in ipairs(self.paths) do
    local found = history.find(path, nil, {})
    for _, dir in ipairs(#found > 0 and found or { path }) do
      if not seen[dir] then list[#list + 1], seen[dir] = dir, true end
    end
  end
  self.hidden = math.max(0, #list - MOST)
  if self.hidden == 0 then return list end
  for _, dir in ipairs(list) do
    local facts = sys.stat(dir .. "/metrics.jsonl")
    changed[dir] = facts and facts.modified or 0
  end
  table.sort(list, function(a, b)
    if changed[a] ~= changed[b] then return changed[a] > changed[b] end
    return a < b
  end)
  local newest = table.move(list, 1, MOST, 1, {})
  table.sort(newest)
  return newest
end

---Reads what is new of all of them.
function Runs:look()
  self.runs = {}
  for i, dir in ipairs(directories(self)) do
    self.known[dir] = self.known[dir] or follow.run(dir)
    self.runs[i] = self.known[dir]
    self.runs[i]:look()
  end
end

return follow

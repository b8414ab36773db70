-- runs.lua - the directory of a run as data, whether the run is alive or not: for reports and comparisons.
--
-- Nothing is changed, and nothing is believed: damaged lines are counted and skipped, and very long metrics are thinned
-- while they are read, so that their memory is bounded.

local ending = require("seqrun.history.ending")
local guess = require("seqrun.base.guess")
local json = require("seqrun.core.json")
local json_file = require("seqrun.base.json_file")
local metrics = require("seqrun.history.metrics")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")
local yaml = require("seqrun.core.yaml")

local RENAMED = require("seqrun.config").RENAMED

local history = {}

---@class seqrun.History
---@field dir string
---@field config table<string, any> the resolved config; `none` is the text "none"
---@field keys string[] the paths of its values, in order: "rate.peak"
---@field environment? table
---@field train table[] lines of training, by step
---@field evals table[] lines of evaluations, by step
---@field events table[] lines of any other type
---@field lines integer of training, also those that were thinned out
---@field damaged integer unreadable lines
---@field state "running"|"finished"|"stopped"|"failed"
---@field reason? string why it stopped or failed
---@field step integer the last one with a line, or at which it ended
---@field steps? integer that it was to make, if run.log says so
---@field seconds number training time, all sessions
---@field updated? number time of the last line, since 1970
---@field checkpoints { step: integer, path: string, bytes: integer, best?: boolean }[]
---@field scores? table what scores.json has: the predictions of a task, by head

-- ---- metrics -----------------------------------------------------------------------------------

---Lines of training beyond which they are thinned: of a group, those with an extreme loss or gradient norm and the
---first that has NaN survive, so spikes stay.
local MOST, GROUP = 20000, 8

---What no counter and no time exceeds; FLOP are more.
local LARGEST, MOST_WORK = 1 << 53, 1e30

local function numeric(value) return type(value) == "number" and value or nil end

local function seconds_of(row)
  local value = row and numeric(row.seconds)
  return value and value >= 0 and value < LARGEST and value or 0
end

---Marks in `kept` the positions with the least and the largest value of a key.
local function mark_extremes(kept, rows, first, last, key)
  local low, high
  for i = first, last do
    local value = numeric(rows[i][key])
    if value and (not low or value < rows[low][key]) then low = i end
    if value and (not high or value > rows[high][key]) then high = i end
  end
  if low then kept[low], kept[high] = true, true end
end

---At most five of every eight lines.
local function thinned(rows)
  local list = {}
  for first = 1, #rows, GROUP do
    local last, kept = math.min(#rows, first + GROUP - 1), {}
    mark_extremes(kept, rows, first, last, "loss")
    mark_extremes(kept, rows, first, last, "grad_norm")
    local broken = false
    for i = first, last do
      if kept[i] or i == 1 or i == #rows or rows[i].nonfinite and not broken then list[#list + 1] = rows[i] end
      broken = broken or rows[i].nonfinite ~= nil
    end
  end
  return list
end

---Adds a line; a resume from an earlier step makes later ones void.
local function add(rows, line)
  while #rows > 0 and rows[#rows].step >= line.step do rows[#rows] = nil end
  rows[#rows + 1] = line
end

---The lines of a file up to its end, or to an error of the disk.
local function lines_of(file) return function() return (file:read("L")) end end

---Removes counters that no run writes: text, negative numbers.
local function remove_strange(line)
  for key in pairs(metrics.TOTALS) do
    local value = line[key]
    if key ~= "type" and value ~= nil and not (numeric(value) and value >= 0 and value < MOST_WORK) then
      line[key] = nil
    end
  end
end

---Opens the metrics: all, or only about the last `newest` bytes.
local function open_metrics(self, newest)
  local file = io.open(self.dir .. "/metrics.jsonl", "rb")
  local size = file and file:seek("end") or 0
  if file then file:seek("set", newest and math.max(0, size - newest) or 0) end
  if newest and size > newest then file:read("L") end -- the rest of a line
  return file
end

local function read_metrics(self, newest)
  local file = open_metrics(self, newest)
  for text in file and lines_of(file) or function() end do
    local line = json.decode(text)
    local valid = type(line) == "table" and math.type(line.step) == "integer" and line.step >= 0
      and line.step < LARGEST
    if not valid or type(line.type) ~= "string" then
      self.damaged = self.damaged + 1
      goto continue
    end
    remove_strange(line)
    if line.type == "train" then
      self.lines = self.lines + 1
      add(self.train, line)
      if #self.train > MOST then self.train = thinned(self.train) end
    elseif line.type == "eval" then
      add(self.evals, line)
    else
      self.events[#self.events + 1] = line
    end
    ::continue::
  end
  if file then file:close() end
end

-- ---- files beside it -----------------------------------------------------------------------------

---A scalar as the type that it looks like.
local function typed(node)
  if node.quoted then return node.value end
  if node.value == "true" or node.value == "false" then return node.value == "true" end
  return tonumber(node.value) or node.value
end

---The values of a YAML node; the paths of what is no map go to `keys`.
local function value_of(node, keys, path)
  if node.kind == "map" then
    local map = {}
    for _, entry in ipairs(node) do
      local name = not path and RENAMED[entry.key.value] or entry.key.value
      map[name] = value_of(entry.value, keys, path and path .. "." .. name or name)
    end
    return map
  end
  if path and keys then keys[#keys + 1] = path end
  if node.kind == "scalar" then return typed(node) end
  local list = {}
  for i, item in ipairs(node) do list[i] = value_of(item) end
  return list
end

---The values of a config file as they are written, whatever recipe they are of.
---@param path string
---@return table<string, any> config {} if there is none
---@return string[] keys the paths of its values, in order
function history.config(path)
  local text, keys = sys.read_file(path, 1 << 20), {}
  local root = text and yaml.parse(text)
  if not root or root.kind ~= "map" then return {}, keys end
  return value_of(root, keys), keys
end

---The bytes of all files in a directory.
local function size_of(path)
  local facts = sys.stat(path)
  if not facts or facts.kind ~= "dir" then return facts and facts.size or 0 end
  local bytes = 0
  for _, name in ipairs(sys.list(path) or {}) do bytes = bytes + size_of(path .. "/" .. name) end
  return bytes
end

local function add_checkpoints(self, folder, best)
  for _, step in ipairs(sys.is_dir(folder) and train.checkpoint_list(folder) or {}) do
    local path = train.checkpoint_path(folder, step)
    self.checkpoints[#self.checkpoints + 1] = { step = step, path = path, bytes = size_of(path), best = best }
  end
end

---Bytes at the end of run.log that are searched.
local TAIL = 1 << 14

---What run.log says at its end: the number of steps that the run was to make, and whether it told where it was saved,
---which runs do when they have finished.
local function read_log(self)
  local file = io.open(self.dir .. "/run.log", "rb")
  if not file then return end
  file:seek("set", math.max(0, file:seek("end") - TAIL))
  for line in lines_of(file) do
    local steps = line:match("^step %d+/(%d+)")
    if steps then self.steps, self.told = math.tointeger(tonumber(steps)), false end
    self.told = self.told or line:find("^  saved ") ~= nil
  end
  file:close()
end

---Whether it runs, or how it ended; runs of older versions did not write how.
local function state_of(self)
  if train.run_held(self.dir) then return "running" end
  local ended = ending.read(self.dir)
  if ended then return ended.state, ended.message end
  if self.told then return "finished" end
  return "failed", "the run ended without a message: it was killed, or the machine went down"
end

-- ---- opening -------------------------------------------------------------------------------------

---Whether a directory is that of a run.
---@param dir string
---@return boolean
function history.is_run(dir)
  return sys.exists(dir .. "/config.yaml") and sys.exists(dir .. "/run.log") or sys.exists(dir .. "/metrics.jsonl")
end

---The directories of runs at or below a path, sorted: the seeds of a run, the phases of a demo.
---@param path string
---@param depth? integer levels below it, default 3
---@return string[]
function history.find(path, depth)
  if history.is_run(path) then return { path } end
  local list = {}
  if (depth or 3) > 0 and sys.is_dir(path) then
    for _, name in ipairs(sys.list(path) or {}) do
      local below = path .. "/" .. name
      if name:sub(1, 1) ~= "." and sys.is_dir(below) then
        local found = history.find(below, (depth or 3) - 1)
        table.move(found, 1, #found, #list + 1, list)
      end
    end
  end
  return list
end

---Why a path is not a run.
local function refusal(dir)
  if not sys.exists(dir) then return ("%s: no such directory%s"):format(dir, guess.file_hint(dir)), "missing" end
  if sys.exists(dir .. "/MANIFEST") then
    local parent = dir:match("^(.+)/[^/]+$") or "."
    return ("%s is a checkpoint, not a run; give the directory of the run: %s"):format(dir, parent), "data"
  end
  local found = history.find(dir)
  if #found > 0 then
    local names = table.concat(found, ", ", 1, math.min(#found, 4)) .. (#found > 4 and ", ..." or "")
    return ("%s is not a run, but contains runs: %s"):format(dir, names), "data"
  end
  return ("%s is not a run: it has no metrics.jsonl"):format(dir), "data"
end

---Files of a run, each of which may be missing.
local FILES = { "metrics.jsonl", "run.log", "config.yaml" }

---Why a run cannot be read; nil if it can.
local function unreadable(dir)
  for _, name in ipairs(FILES) do
    local path = dir .. "/" .. name
    if sys.exists(path) then
      local file <close>, why = io.open(path, "rb")
      if file then why = select(2, file:read(0)) end
      if why then return ("%s cannot be read: %s"):format(name, (why:gsub("^.*: ", ""))) end
    end
  end
end

---Reads the directory of a run.
---@param dir string
---@param newest? integer reads only about the last `newest` bytes of the metrics
---@return seqrun.History|nil
---@return string? message
---@return string? code
function history.open(dir, newest)
  dir = dir:gsub("(.)/+$", "%1")
  if not history.is_run(dir) then return nil, refusal(dir) end
  local why = unreadable(dir)
  if why then return nil, ("%s: %s"):format(dir, why), "data" end
  local self = {
    dir = dir, train = {}, evals = {}, events = {}, lines = 0, damaged = 0, checkpoints = {},
  }
  read_log(self)
  self.state, self.reason = state_of(self)
  self.told = nil
  read_metrics(self, newest)
  self.config, self.keys = history.config(dir .. "/config.yaml")
  self.environment = json_file.read(dir .. "/environment.json")
  self.scores = json_file.read(dir .. "/scores.json")
  add_checkpoints(self, dir)
  add_checkpoints(self, dir .. "/best", true)
  local last, scored = self.train[#self.train], self.evals[#self.evals]
  local ended = (ending.read(dir) or {}).step
  if math.type(ended) ~= "integer" or ended >= LARGEST then ended = 0 end
  self.step = math.max(last and last.step or 0, scored and scored.step or 0, ended)
  self.seconds = math.max(seconds_of(last), seconds_of(scored))
  local facts = sys.stat(dir .. "/metrics.jsonl")
  self.updated = facts and facts.modified
  return self
end

---Reads several runs.
---@param dirs string[] of history.find
---@param newest? integer as for open
---@return seqrun.History[]
---@return { dir: string, reason: string }[] unreadable
---@return string? message about those that are unreadable
function history.read(dirs, newest)
  local pasts, bad = {}, {}
  for _, dir in ipairs(dirs) do
    local past, message = history.open(dir, newest)
    if past then
      pasts[#pasts + 1] = past
    else
      bad[#bad + 1] = { dir = dir, reason = message:sub(#dir + 3) }
    end
  end
  if #bad == 0 then return pasts, bad end
  return pasts, bad, ("%s cannot be read%s %s: %s"):format(#bad == 1 and "1 run" or #bad .. " runs",
    #bad > 1 and ", the first is" or ":", bad[1].dir, bad[1].reason)
end

---A value of the config by its path, as text: lists as [a, b].
---@param config table
---@param path string
---@return string|nil
function history.value(config, path)
  local value = config
  for name in path:gmatch("[^.]+") do
    if type(value) ~= "table" then return nil end
    value = value[name]
  end
  if type(value) ~= "table" then return value ~= nil and tostring(value) or nil end
  local parts = {}
  for i, item in ipairs(value) do parts[i] = tostring(item) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

---The points of a metric: { step, value }, value nil where the number was not finite; lines without it are left out.
---@param rows table[]
---@param key string
---@return { [1]: number, [2]: number|nil }[]
function history.points(rows, key)
  local list = {}
  for _, row in ipairs(rows) do
    local value, broken = numeric(row[key]), false
    for _, name in ipairs(value == nil and type(row.nonfinite) == "table" and row.nonfinite or {}) do
      broken = broken or name == key
    end
    if value or broken then list[#list + 1] = { row.step, value } end
  end
  return list
end

return history

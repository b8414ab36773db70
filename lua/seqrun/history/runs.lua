-- runs.lua - the directory of a run as data, whether the run is alive or not: for reports and comparisons.
--
-- Nothing is changed, and nothing is believed (lines.lua).

local configs = require("seqrun.config")
local ending = require("seqrun.history.ending")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local json_file = require("seqrun.base.json_file")
local line_file = require("seqrun.base.line_file")
local lines = require("seqrun.history.lines")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")
local yaml = require("seqrun.core.yaml")


local history = {}

---@class seqrun.History: seqrun.RunLines
---@field dir string
---@field config table<string, any> the resolved config; `none` is the text "none"
---@field keys string[] the paths of its values, in order: "rate.peak"
---@field environment? table
---@field state "running"|"finished"|"stopped"|"failed"
---@field reason? string why it stopped or failed
---@field step integer the last one with a line, or at which it ended
---@field steps? integer that it was to make, if run.log says so
---@field seconds number training time, all sessions
---@field updated? number time of the last line, since 1970
---@field checkpoints { step: integer, path: string, bytes: integer, best?: boolean }[]
---@field scores? table what scores.json has: the predictions of a task, by head

local function seconds_of(row)
  local value = row and lines.numeric(row.seconds)
  return value and value >= 0 and value < lines.LARGEST and value or 0
end

-- ---- files beside it -----------------------------------------------------------------------------

local there = failure.there -- a run may remove its files meanwhile

---A scalar as the type that it looks like.
local function typed(node)
  if node.quoted then return node.value end
  if node.value == "true" or node.value == "false" then return node.value == "true" end
  return tonumber(node.value) or node.value
end

---The values of a YAML node; the path of every leaf goes to `keys`.
local function value_of(node, keys, path)
  if node.kind == "map" then
    local map = {}
    for _, entry in ipairs(node) do
      local name = not path and configs.RENAMED[entry.key.value] or entry.key.value
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
  local text, keys = there(sys.read_file(path, 1 << 20)), {}
  local root = text and yaml.parse(text)
  if not root or root.kind ~= "map" then return {}, keys end
  return value_of(root, keys), keys
end

local function add_checkpoints(self, folder, best)
  for _, step in ipairs(sys.is_dir(folder) and there(train.checkpoint_list(folder)) or {}) do
    local path = train.checkpoint_path(folder, step)
    local bytes = failure.must(sys.tree_size(path))
    self.checkpoints[#self.checkpoints + 1] = { step = step, path = path, bytes = bytes, best = best }
  end
end

---Bytes at the end of run.log that are searched.
local TAIL = 1 << 14

---What run.log says at its end: the number of steps that the run was to make, and whether it then told where it was
---saved, as runs do that have finished.
local function read_log(self)
  local file = line_file.open(self.dir .. "/run.log")
  if not file then return end
  line_file.near_end(file, "run.log", TAIL)
  for line in line_file.of(file, "run.log") do
    local steps = line:match("^step %d+/(%d+)")
    if steps then self.steps, self.told = math.tointeger(tonumber(steps)), false end
    self.told = self.told or line:find("^  saved ") ~= nil
  end
  file:close()
end

---Whether it runs, or how it ended; a run of an older version has no ended.json, but a line of run.log says where it
---was saved.
local function state_of(self)
  if train.run_held(self.dir) then return "running" end
  local ended, begun = ending.read(self.dir)
  if ended then return ended.state, ended.message end
  if self.told and not begun then return "finished" end
  return "failed", "the run ended without a message: it was killed, or the machine went down"
end

---How a run is now.
---@param dir string
---@return "running"|"finished"|"stopped"|"failed" state
---@return string? reason why it stopped or failed
---@return integer? steps that it was to make, if run.log says so
function history.state(dir)
  local self = { dir = dir }
  read_log(self)
  local state, reason = state_of(self)
  return state, reason, self.steps
end

-- ---- opening -------------------------------------------------------------------------------------

---Whether a directory is that of a run.
---@param dir string
---@return boolean
function history.is_run(dir)
  return sys.exists(dir .. "/config.yaml") and sys.exists(dir .. "/run.log") or sys.exists(dir .. "/metrics.jsonl")
end

---Adds the directories of runs at or below a path, as far as it can be listed and examined.
local function walk(list, path, depth, unlisted)
  local function look()
    if not sys.is_dir(path) then return end
    if history.is_run(path) then
      list[#list + 1] = path
      return
    end
    for _, name in ipairs(depth > 0 and there(sys.list(path)) or {}) do
      if name:sub(1, 1) ~= "." then walk(list, path .. "/" .. name, depth - 1, unlisted) end
    end
  end
  local good, problem = pcall(look)
  if good then return end
  local known = unlisted and failure.of(problem)
  if not known then error(problem, 0) end
  for _, one in ipairs(unlisted) do
    if one.dir == path then return end
  end
  local reason = known.message:gsub("^.*: cannot ", "cannot "):gsub("^cannot examine .*: ", "cannot examine: ")
  unlisted[#unlisted + 1] = { dir = path, reason = reason }
end

---The directories of runs at or below a path, sorted: the seeds of a run, the phases of a demo.
---@param path string
---@param depth? integer levels below it, default 3
---@param unlisted? { dir: string, reason: string }[] gets directories that cannot be listed; else they are errors
---@return string[]
function history.find(path, depth, unlisted)
  local list = {}
  walk(list, path, depth or 3, unlisted)
  return list
end

---Why a path is not a run.
local function refusal(dir)
  if not sys.exists(dir) then return ("%s: no such directory%s"):format(dir, guess.file_hint(dir)), "missing" end
  if sys.exists(dir .. "/MANIFEST") then
    local parent = dir:match("^(.+)/[^/]+$") or "."
    return ("%s is a checkpoint, not a run; give the directory of the run: %s"):format(dir, parent), "data"
  end
  local found = history.find(dir, nil, {})
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

---Reads all files of a run.
local function fill(self, newest)
  local dir = self.dir
  self.state, self.reason, self.steps = history.state(dir)
  lines.read(self, dir .. "/metrics.jsonl", newest)
  self.environment = there(json_file.read(dir .. "/environment.json"))
  self.scores = there(json_file.read(dir .. "/scores.json"))
  self.config, self.keys = history.config(dir .. "/config.yaml")
  add_checkpoints(self, dir)
  add_checkpoints(self, dir .. "/best", true)
  local last, scored = self.train[#self.train], self.evals[#self.evals]
  local ended = (ending.read(dir) or {}).step
  if math.type(ended) ~= "integer" or ended >= lines.LARGEST then ended = 0 end
  self.step = math.max(last and last.step or 0, scored and scored.step or 0, ended)
  self.seconds = math.max(seconds_of(last), seconds_of(scored))
  local facts = there(sys.stat(dir .. "/metrics.jsonl"))
  self.updated = facts and facts.modified
end

---Reads the directory of a run.
---@param dir string
---@param newest? integer reads only about the last `newest` bytes of the metrics
---@return seqrun.History|nil
---@return string? message
---@return string? code
function history.open(dir, newest)
  dir = dir:gsub("(.)/+$", "%1")
  local self = lines.new()
  self.dir, self.checkpoints = dir, {}
  local function look()
    if not history.is_run(dir) then return refusal(dir) end
    local why = unreadable(dir)
    if why then return ("%s: %s"):format(dir, why), "data" end
    fill(self, newest)
  end
  local good, problem, code = pcall(look)
  if good and not problem then return self end
  if good then return nil, problem, code end
  local known = failure.of(problem)
  if not known then error(problem, 0) end
  return nil, ("%s: %s"):format(dir, known.message), "data"
end

---Reads several runs.
---@param dirs string[] of history.find
---@param newest? integer as for open
---@param unlisted? { dir: string, reason: string }[] of history.find, which are reported too
---@return seqrun.History[]
---@return { dir: string, reason: string }[] unreadable
---@return string? message about those that are unreadable
function history.read(dirs, newest, unlisted)
  local pasts, bad = {}, table.move(unlisted or {}, 1, #(unlisted or {}), 1, {})
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
  local value = configs.get(config, path)
  if type(value) ~= "table" then return value ~= nil and tostring(value) or nil end
  local parts = {}
  for i, item in ipairs(value) do parts[i] = tostring(item) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

---The newest checkpoint of a run, apart from the best one; nil if there is none.
---@param past seqrun.History
---@return { step: integer, path: string, bytes: integer }|nil
function history.newest(past)
  local newest
  for _, one in ipairs(past.checkpoints) do
    if not one.best and (not newest or one.step > newest.step) then newest = one end
  end
  return newest
end

---The points of a metric: { step, value }, value nil where the number was not finite; lines without it are left out.
---@param rows table[]
---@param key string
---@return { [1]: number, [2]: number|nil }[]
function history.points(rows, key)
  local list = {}
  for _, row in ipairs(rows) do
    local value, broken = lines.numeric(row[key]), false
    for _, name in ipairs(value == nil and type(row.nonfinite) == "table" and row.nonfinite or {}) do
      broken = broken or name == key
    end
    if value or broken then list[#list + 1] = { row.step, value } end
  end
  return list
end

return history

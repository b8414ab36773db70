-- ending.lua - how a run ended: ended.json in its directory, where it is "running" until then, and after a kill.

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

local ending = {}

local function path_of(folder) return folder .. "/ended.json" end

---Writes that the run has begun, in the place of how an earlier session of it ended.
---@param folder string
function ending.begin(folder) failure.must(sys.write_file(path_of(folder), '{"state":"running"}\n')) end

---Writes how the run ended; a failure to write changes nothing about it, and is returned.
---@param folder string
---@param found { finished?: boolean, step: integer, seconds: number }
---@param problem any what ended it; nil: its recipe did
---@return true|nil
---@return string? message
function ending.write(folder, found, problem)
  local known = failure.of(problem)
  if known and known.code == "ok" then problem, known = nil, nil end -- an end without a problem
  local code = known and known.code or problem ~= nil and "recipe" or nil
  local state = (code or "stopped") == "stopped" and "stopped" or "failed"
  if not code and found.finished then state = "finished" end
  return sys.write_file(path_of(folder), json.encode {
    state = state, step = found.step, seconds = found.seconds, ended = os.date("!%Y-%m-%dT%H:%M:%SZ"),
    message = problem ~= nil and tostring(problem) or nil,
  } .. "\n")
end

local STATES = { finished = true, stopped = true, failed = true }

---What ending.write wrote; nil if there is nothing readable.
---@param folder string
---@return { state: string, step: integer, seconds: number, ended: string, message?: string }|nil
---@return boolean? begun there is nothing yet, but ending.begin
function ending.read(folder)
  local text = failure.there(sys.read_file(path_of(folder), 1 << 20))
  local value = text and json.decode(text)
  if type(value) ~= "table" then return nil end
  if not STATES[value.state] then return nil, value.state == "running" end
  if value.message ~= nil then value.message = type(value.message) == "string" and value.message or nil end
  return value
end

return ending

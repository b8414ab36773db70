-- failure.lua - errors that end a program with one sentence and an exit code.
--
-- A recipe says `local ds = sr.must(sr.data.open(path))`: errors that a correct program can meet
-- are returned as nil, message, code and raised as a Failure, which the command line prints without a traceback.

local sys = require("seqrun.core.sys")

local failure = {}

---Codes by the numbers of errors of the system, ENOENT and ENOMEM.
local OF_SYSTEM = { [2] = "missing", [12] = "memory" }

---@class seqrun.Failure
---@field message string
---@field code string a status name, such as "data"; "ok" exits with success
local Failure = {}
Failure.__index = Failure

function Failure:__tostring() return self.message end

---The process exit code.
function Failure:exit_code() return sys.exit_code(self.code) or 1 end

---@param code string
---@param message string
---@return seqrun.Failure
function failure.new(code, message) return setmetatable({ message = message, code = code }, Failure) end

---Ends the program: the message goes to stderr, the code decides the exit code.
---@param code string
---@param format string
function failure.raise(code, format, ...)
  local message = select("#", ...) > 0 and format:format(...) or format
  error(failure.new(code, message), 0)
end

---Returns its arguments, or ends the program if the first is nil.
---@param value any
---@param message? string
---@param code? string|integer an integer: the number of an error of the system, as io.open returns it
function failure.must(value, message, code, ...)
  if value ~= nil then return value, message, code, ... end
  if math.type(code) == "integer" then code = OF_SYSTEM[code] or "storage" end
  failure.raise(code or "invalid", "%s", tostring(message))
end

---Returns its first argument, nil for a file that is not there; ends the program for another reason.
---@param value any
---@param message? string
---@param code? string
function failure.there(value, message, code)
  if value == nil and message and code ~= "missing" then failure.raise(code, "%s", message) end
  return value
end

---Codes of failures that say nothing about what was to be read.
local OF_MACHINE = { storage = true, memory = true }

---Returns its arguments, the first nil for what is missing or invalid; ends the program for what could not be read.
---@param value any
---@param message? string
---@param code? string
function failure.valid(value, message, code, ...)
  if not value and OF_MACHINE[code] then failure.raise(code, "%s", message) end
  return value, message, code, ...
end

---Errors of storage that C code raises as text: a file of the program that cannot be read (lua/bind/lload.c), a path
---of which the system does not know whether it exists (lua/bind/lsys.c).
local RAISED = { "^cannot load module '[^\n]*", "^cannot examine [^\n]*" }

---The error value if it is or wraps a Failure, or nil.
---@return seqrun.Failure|nil
function failure.of(value)
  if getmetatable(value) == Failure then return value end
  for _, pattern in ipairs(type(value) == "string" and RAISED or {}) do
    local message = value:match(pattern)
    local memory = message and message:find("Cannot allocate memory", 1, true)
    if message then return failure.new(memory and "memory" or "storage", message) end
  end
end

---The results of a function, none where it ends with a Failure; that of something that could not be read is raised.
function failure.attempt(call, ...)
  local results = table.pack(pcall(call, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local known = failure.of(results[2])
  if not known or OF_MACHINE[known.code] then error(results[2], 0) end
end

---The results of a function that raises failures, for callers that are returned them: nil, message and code.
function failure.returned(call, ...)
  local results = table.pack(pcall(call, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local known = failure.of(results[2])
  if not known then error(results[2], 0) end
  return nil, known.message, known.code
end

return failure

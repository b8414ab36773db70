-- failure.lua - how a program ends early: one sentence, and a code that decides the exit code.
--
-- A recipe says `local ds = sr.must(sr.data.open(path))`: what a correct program can meet arrives as
-- nil, message, code and leaves as a Failure, which the command line prints without a traceback.

local sys = require("seqrun.core.sys")

local failure = {}

---@class seqrun.Failure
---@field message string
---@field code string a status name, such as "data"; "ok" ends the program well
local Failure = {}
Failure.__index = Failure

function Failure:__tostring() return self.message end

---The process exit code of this end.
function Failure:exit_code() return sys.exit_code(self.code) or 1 end

---Ends the program: the message goes to stderr, the code decides the exit code.
---@param code string
---@param format string
function failure.raise(code, format, ...)
  local message = select("#", ...) > 0 and format:format(...) or format
  error(setmetatable({ message = message, code = code }, Failure), 0)
end

---The values as they are, or the end of the program when the first is nil.
---@param value any
---@param message? string
---@param code? string
function failure.must(value, message, code, ...)
  if value ~= nil then return value, message, code, ... end
  failure.raise(code or "invalid", "%s", tostring(message))
end

---The failure that an error value is, or nil.
function failure.of(value)
  return getmetatable(value) == Failure and value or nil
end

return failure

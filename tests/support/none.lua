-- none.lua - what a function gives that fails: nil, a message and a code.

local program = require("tests.support.program")

---Fails at the line of the test unless a call gave that; returns the message.
---Its results come last: none("data", "cannot open", sr.data.open(path)).
---@param code string? nil: any
---@param words string in the message: a part of it, or a pattern
---@return string message
return function(code, words, value, message, found)
  if value ~= nil then error(("expected nil, got %s"):format(value), 2) end
  if code and code ~= found then error(("the code is %s, not %s: %s"):format(found, code, message), 2) end
  if not program.has(tostring(message), words) then error(("%q is not in: %s"):format(words, message), 2) end
  return message
end

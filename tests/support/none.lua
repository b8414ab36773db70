-- none.lua - what a function gives that fails: nil, a message and a code.

---Fails at the line of the test unless a call gave that; returns the message.
---Its results come last: none("data", "cannot open", sr.data.open(path)).
---@param code string
---@param pattern string of Lua, in the message
---@return string message
return function(code, pattern, value, message, found)
  if value ~= nil then error(("expected nil, got %s"):format(value), 2) end
  if code ~= found then error(("the code is %s, not %s: %s"):format(found, code, message), 2) end
  if not message:find(pattern) then error(("%q is not in: %s"):format(pattern, message), 2) end
  return message
end

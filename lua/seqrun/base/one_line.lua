-- one_line.lua - text from files as messages show it: on one line, without control characters, not too long.

---@param given any
---@param most? integer bytes, 60
---@return string
return function(given, most)
  local text, limit = tostring(given), most or 60
  if #text > limit then
    while text:byte(limit + 1) and text:byte(limit + 1) & 0xC0 == 0x80 do limit = limit - 1 end
    text = text:sub(1, limit) .. "..."
  end
  return (text:gsub("[%c\127]", function(c) return ("\\x%02x"):format(c:byte()) end))
end

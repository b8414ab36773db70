-- one_line.lua - text from files as messages show it: on one line, printable, not too long.

local printable = require("seqrun.base.printable")

---@param given any
---@param most? integer bytes, 60
---@return string
return function(given, most)
  local text, limit = tostring(given), most or 60
  if #text > limit then
    while text:byte(limit + 1) and text:byte(limit + 1) & 0xC0 == 0x80 do limit = limit - 1 end
    text = text:sub(1, limit) .. "..."
  end
  return printable(text, true)
end

-- pretty_json.lua - JSON on several lines, for files that people read

local json = require("seqrun.core.json")

local pretty = {}

---A value as JSON, one member per line and indented; ends with a newline.
---@param value any
---@return string
function pretty.encode(value)
  local depth, quoted, escaped = 0, false, false
  local function newline() return "\n" .. ("  "):rep(depth) end
  local text = json.encode(value):gsub(".", function(c)
    if quoted then
      if escaped then escaped = false elseif c == "\\" then escaped = true elseif c == '"' then quoted = false end
      return c
    end
    if c == '"' then quoted = true end
    if c == "{" or c == "[" then depth = depth + 1; return c .. newline() end
    if c == "}" or c == "]" then depth = depth - 1; return newline() .. c end
    if c == "," then return c .. newline() end
    if c == ":" then return ": " end
    return c
  end)
  return (text:gsub("%[%s+%]", "[]"):gsub("{%s+}", "{}")) .. "\n"
end

return pretty

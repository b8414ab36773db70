-- json_file.lua - a small JSON file that may be missing or damaged.

local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

local json_file = {}

---The object or list in a file; nil if there is none; with a message if the system could not read it.
---@param path string
---@return table?
---@return string? message
---@return string? code
function json_file.read(path)
  local text, message, code = sys.read_file(path, 1 << 26)
  if not text and code ~= "missing" then return nil, message, code end
  local value = text and json.decode(text)
  return type(value) == "table" and value or nil
end

return json_file

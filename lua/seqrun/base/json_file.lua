-- json_file.lua - a small JSON file that may be missing or damaged.

local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

local json_file = {}

---The object or list in a file; nil if there is none that can be read.
---@param path string
---@return table?
function json_file.read(path)
  local text = sys.read_file(path, 1 << 26)
  local value = text and json.decode(text)
  return type(value) == "table" and value or nil
end

return json_file

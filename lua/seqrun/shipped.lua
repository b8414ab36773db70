-- shipped.lua - files of recipes/ that ship with the program can be named from any directory.

local sys = require("seqrun.core.sys")

local ROOT = debug.getinfo(1, "S").source:match("^@(.*)lua/seqrun/shipped%.lua$")

---The path, or for recipes/NAME that is not here that of the shipped file.
---@param path string
---@return string
return function(path)
  if type(path) ~= "string" or not path:find("^recipes/") or sys.exists(path) then return path end
  local shipped = ROOT .. path
  return sys.exists(shipped) and shipped or path
end

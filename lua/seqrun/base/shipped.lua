-- shipped.lua - what ships beside the library, in a checkout or installed: recipes can be named from any directory.

local sys = require("seqrun.core.sys")

local shipped = {}

---The folder that has lua/, recipes/ and, in a checkout, docs/; without a slash at its end.
shipped.root = debug.getinfo(1, "S").source:match("^@(.*)lua/seqrun/base/shipped%.lua$"):gsub("/$", "")
if shipped.root == "" then shipped.root = "." end

---Whether something has this name; a directory that is closed to this user has nothing for them.
---@param path string
---@return boolean
function shipped.seen(path)
  local good, found = pcall(sys.exists, path)
  if not good and not tostring(found):find(": Permission denied$") then error(found, 0) end
  return good and found
end

---The path, or for a missing recipes/NAME that of the shipped file.
---@param path string
---@return string
function shipped.find(path)
  if type(path) ~= "string" or not path:find("^recipes/") or shipped.seen(path) then return path end
  local found = shipped.root .. "/" .. path
  return shipped.seen(found) and found or path
end

---Whether a file is one of the recipes that ship.
---@param path string
---@return boolean
function shipped.is_recipe(path)
  local real, folder = sys.real_path(path), sys.real_path(shipped.root .. "/recipes")
  return real ~= nil and folder ~= nil and real:sub(1, #folder + 1) == folder .. "/"
end

return shipped

-- draft.lua - the name of what will become a file or a directory: hidden, beside it, and of this process alone.

local sys = require("seqrun.core.sys")

---@param path string
---@return string
return function(path)
  local folder, name = path:match("^(.-)([^/]+)/*$")
  return ("%s.%s.tmp-%d"):format(folder, name, sys.pid())
end

-- line_file.lua - a file of lines, such as metrics.jsonl, that may be missing; errors of the disk are raised.

local failure = require("seqrun.base.failure")

local line_file = { ENOENT = 2 } -- the number that io.open returns for a file that is not there

---Opens a file of a run; nil if there is none; raises if it cannot be read.
---@param path string
---@return file*|nil
function line_file.open(path)
  local file, why, number = io.open(path, "rb")
  if not file and number ~= line_file.ENOENT then
    failure.raise("storage", "%s cannot be read: %s", path:match("[^/]*$"), (why:gsub("^.*: ", "")))
  end
  return file
end

---The lines of a file up to its end; an error of the disk is raised.
---@param file file*
---@param name string
---@return fun(): string?
function line_file.of(file, name)
  return function()
    local line, why = file:read("L")
    if why then failure.raise("storage", "%s cannot be read: %s", name, why) end
    return line
  end
end

---Goes to so many bytes before the end of a file, or to its beginning.
---@param file file*
---@param name string
---@param bytes integer
---@return integer at where it is
function line_file.near_end(file, name, bytes)
  local size, why = file:seek("end")
  local at
  if size then at, why = file:seek("set", math.max(0, size - bytes)) end
  if not at then failure.raise("storage", "%s cannot be read: %s", name, why) end
  return at
end

return line_file

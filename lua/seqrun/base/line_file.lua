-- line_file.lua - a file of lines, such as metrics.jsonl, that may be missing; errors of the disk are raised.

local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")

local line_file = { ENOENT = 2 } -- the number that io.open returns for a file that is not there

---Opens a file of a run; nil if there is none; raises if it cannot be read.
---@param path string
---@param name? string in a message; default: without its directory
---@return file*|nil
function line_file.open(path, name)
  local file, why, number = io.open(path, "rb")
  if not file and number ~= line_file.ENOENT then
    failure.raise("storage", "%s cannot be read: %s", name or path:match("[^/]*$"), (why:gsub("^.*: ", "")))
  end
  return file
end

---A result of a file's method; an error of the disk is raised.
local function checked(name, value, why)
  if why then failure.raise("storage", "%s cannot be read: %s", name, why) end
  return value
end

---The next bytes of a file, at most this many; nil at its end.
---@param file file*
---@param name string
---@param bytes integer
---@return string?
function line_file.read(file, name, bytes) return checked(name, file:read(bytes)) end

---As file:seek.
---@param file file*
---@param name string
---@param whence "set"|"end"
---@param offset integer
---@return integer at where it is
function line_file.seek(file, name, whence, offset) return checked(name, file:seek(whence, offset)) end

---The lines of a file up to its end; an error of the disk is raised.
---@param file file*
---@param name string
---@return fun(): string?
function line_file.of(file, name)
  return function() return checked(name, file:read("L")) end
end

---Goes to this many bytes before the end of a file, or to its beginning.
---@param file file*
---@param name string
---@param bytes integer
---@return integer at where it is
function line_file.near_end(file, name, bytes)
  return line_file.seek(file, name, "set", math.max(0, line_file.seek(file, name, "end", 0) - bytes))
end

---Bytes that are compared, the last of a file.
local TAIL = 1024

---What a file of this length ends with; nil if it is shorter, or empty.
---@param path string
---@param bytes integer
---@return { bytes: integer, hash: string }|nil
function line_file.mark(path, bytes)
  local file <close> = bytes > 0 and line_file.open(path) or nil
  if not file then return nil end
  local size = math.min(TAIL, bytes)
  line_file.seek(file, path, "set", bytes - size)
  local tail = line_file.read(file, path, size) or ""
  return #tail == size and { bytes = bytes, hash = sys.hash(tail) } or nil
end

return line_file

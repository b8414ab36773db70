-- trace.lua - the system calls of a program, and one of them failing: strace.

local sys = require("seqrun.core.sys")

local trace = {}

---How a call fails; those that are not here never fail in a working system, or only what asks wrongly.
trace.ERRORS = {}
for error, names in pairs {
  EIO = "read pread64 fsync fdatasync close rename renameat renameat2 unlink unlinkat rmdir newfstatat fstat stat "
    .. "lstat statx access faccessat faccessat2 getdents64 readlink readlinkat ftruncate flock fcntl lseek statfs "
    .. "fstatfs utimensat getcwd",
  EMFILE = "openat open dup dup2 dup3 pipe pipe2 socket epoll_create1 eventfd2",
  ENOSPC = "write writev pwrite64 mkdir mkdirat fallocate",
  ENOMEM = "mmap mremap mprotect execve",
  EAGAIN = "clone clone3 vfork getrandom sched_getaffinity sched_setaffinity",
  EACCES = "bind listen connect accept4 chmod fchmod link symlink",
} do
  for name in names:gmatch("%S+") do trace.ERRORS[name] = error end
end

---The kernel does not fail brk(): it returns where the end was.
local BRK = "retval=0"
trace.ERRORS.brk = "ENOMEM"

---Why there is no tracing here, or nil.
function trace.missing()
  if os.execute("strace -f -o /dev/null true 2>/dev/null") then return nil end
  return "no strace"
end

---Words before a command whose calls are to be written to a file.
---@param path string
---@param stacks? boolean with the functions that make them
function trace.record(path, stacks)
  return ("strace -f -qq -s 200 -e signal=none%s -o '%s'"):format(stacks and " -k -y" or "", path)
end

---How many functions of a path are compared.
local FRAMES = 16

---The file that a call names, without directories and numbers.
local function file_of(rest)
  rest = rest:gsub("^%(AT_FDCWD<[^>]*>, ", "(")
  local path = rest:match("^%(%d+<([^>]*)>") or rest:match('"([^"]*)"') or ""
  return (path:gsub(".*/", ""):gsub("%d+", "0"))
end

---The calls of a recorded program from the first that names `mark` on, each as { name, number, key }: it is the
---number-th of its name in its thread, and the key is the same for the same file and functions.  Left out are those
---that write messages, since a failure could not be reported, and numbers that the loader of the program has had, since
---that would fail.
---@param path string
---@param mark string
---@return { name: string, number: integer, key: string }[]
function trace.points(path, mark)
  local count, seen, list, begun, last, depth = {}, {}, {}, false, nil, 0
  local waiting = {} -- by thread: a call that another thread's has split; its functions come when it ends
  for line in assert(sys.read_file(path, 1 << 30)):gmatch("[^\n]+") do
    local frame = line:match("^ > (.*)$")
    if not frame then
      last, depth = waiting[line:match("^(%d+) +<%.%.%. ")], 0
    elseif last and depth < FRAMES then
      last.key, depth = sys.hash(last.key .. frame), depth + 1
    end
    local pid, name, rest = line:match("^(%d+) +([%w_]+)(%(.*)$")
    if name and trace.ERRORS[name] then
      local key = pid .. name
      count[key] = (count[key] or 0) + 1
      begun = begun or rest:find(mark, 1, true) ~= nil
      local point = name .. " " .. count[key]
      waiting[pid] = nil
      local told = not (name == "write" and rest:find("^%(2[,<]"))
      if not begun then
        seen[point] = true
      elseif told and not seen[point] then
        seen[point] = true
        last = { name = name, number = count[key], key = name .. " " .. file_of(rest) }
        list[#list + 1] = last
        if line:find("<unfinished %.%.%.>$") then waiting[pid] = last end
      end
    end
  end
  return list
end

---Words before a command one of whose calls fails.
---@param point { name: string, number: integer }
function trace.fail(point)
  local how = point.name == "brk" and BRK or "error=" .. trace.ERRORS[point.name]
  return ("strace -f -qq -o /dev/null -e trace=%s -e inject=%s:%s:when=%d"):format(point.name, point.name, how,
    point.number)
end

return trace

-- mpi.lua - runs the program on several ranks under mpirun.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local mpi = {}

-- More ranks than processors, as any user.  MPI does not free all of its own memory, so sanitizers count no leaks.
mpi.settings = "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 "
  .. "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
  .. "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe "

---Why ranks cannot be run here, or nil.
---@return string?
function mpi.missing()
  local built = (sys.build().plugins):find(" mpi ", 1, true)
  if not built then return "no MPI: libopenmpi-dev was not found" end
  if not os.execute("command -v mpirun >/dev/null") then return "no MPI: openmpi-bin was not found" end
end

---Returns a function test(name, body), which adds a test that is skipped where there is no MPI.
---@param it function busted's `it`, which is visible only in the spec file
---@param skip function calls busted's `pending`
---@return fun(name: string, body: fun())
function mpi.tests(it, skip)
  return function(name, body)
    it(name, function()
      local why = mpi.missing()
      if why then return skip(why) end
      body()
    end)
  end
end

---Runs the program on n ranks.
---@param n integer
---@param words string[] arguments
---@param options? { before?: string, mpirun?: string, shell?: string, seconds?: integer } before: settings such as
---  "NAME=value"; mpirun: its options
---@return integer code of mpirun
---@return string stdout
---@return string stderr
function mpi.run(n, words, options)
  options = options or {}
  local before, seconds = options.before or "", options.seconds or 400
  local line = ("%s %s timeout %d mpirun -n %d %s"):format(mpi.settings, before, seconds, n, options.mpirun or "")
  return program.run(words, { before = line, shell = options.shell })
end

---Whether a process still runs after `seconds`; one that has ended and waits for its parent does not.
---@param pid integer
---@param seconds number
---@return boolean
function mpi.lives(pid, seconds)
  local last = sys.now() + seconds
  while true do
    local stat = sys.read_file(("/proc/%d/stat"):format(pid))
    local state = stat and stat:match("^.*%) (%a)")
    if not state or state == "Z" or state == "X" then return false end
    if sys.now() > last then return true end
    sys.sleep(0.05)
  end
end

return mpi

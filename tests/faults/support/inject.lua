-- inject.lua - faults of memory and disks in a whole program: the plug-in inject.c.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local inject = {}

local PLUGIN = program.path:gsub("[^/]*$", "tests/inject.so")

---Words before a command that has a fault.
---@param fault string such as "memory 17"; see inject.c
---@param more? string further settings
---@return string
function inject.before(fault, more)
  return ("env SEQRUN_PLUGINS='%s' INJECT='%s' %s"):format(PLUGIN, fault, more or "")
end

---Reads a report.
---@param path string
---@return { memory: { number: integer, key: string }[], space: integer, late: integer }
function inject.read(path)
  local found = { memory = {} }
  for what, number, key in assert(sys.read_file(path)):gmatch("(%a+) (%d+) ?(%x*)\n") do
    number = math.tointeger(number)
    if what == "memory" then table.insert(found.memory, { number = number, key = key }) else found[what] = number end
  end
  table.sort(found.memory, function(a, b) return a.number < b.number end)
  return found
end

---Runs a victim and returns what was counted.
---@param judge tests.Judge
---@param fault string
---@return { memory: { number: integer, key: string }[], space: integer, late: integer }
function inject.report(judge, fault)
  local path = os.tmpname()
  local got = judge:run(inject.before(fault, ("INJECT_REPORT='%s'"):format(path)))
  assert(got.code == 0, judge.victim.name .. ": " .. got.err)
  local found = inject.read(path)
  os.remove(path)
  return found
end

return inject

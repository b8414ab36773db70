-- topology.lua - the order of processors in which neighbours are near: threads of a core, cores of a cache, of a memory
-- node.  Linux often numbers the first threads of all cores before the second ones, so numbers say nothing of this.

local sys = require("seqrun.core.sys")

local topology = {}

local function number(path)
  local text = sys.exists(path) and sys.read_file(path)
  return text and math.tointeger(tonumber(text:match("%d+"))) or 0
end

---The memory node of a processor; 0 where the kernel shows none.
local function node_of(folder)
  for _, name in ipairs(sys.list(folder) or {}) do
    local node = name:match("^node(%d+)$")
    if node then return math.tointeger(tonumber(node)) end
  end
  return 0
end

---Where a processor is, from far to near: memory node, package, cache, core, its own number.
---@param cpu integer
---@param root? string default: /sys/devices/system/cpu
---@return integer[]
function topology.place(cpu, root)
  local folder = ("%s/cpu%d"):format(root or "/sys/devices/system/cpu", cpu)
  return {
    node_of(folder), number(folder .. "/topology/physical_package_id"), number(folder .. "/cache/index3/id"),
    number(folder .. "/topology/core_id"), cpu,
  }
end

---These processors, near ones side by side.
---@param cpus integer[]
---@param root? string default: /sys/devices/system/cpu
---@return integer[]
function topology.order(cpus, root)
  local places = {}
  for i, cpu in ipairs(cpus) do places[i] = topology.place(cpu, root) end
  table.sort(places, function(a, b)
    for i = 1, #a do
      if a[i] ~= b[i] then return a[i] < b[i] end
    end
    return false
  end)
  local ordered = {}
  for i, place in ipairs(places) do ordered[i] = place[#place] end
  return ordered
end

return topology

-- Which processors are near to each other, from a tree like that of Linux.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")
local topology = require("seqrun.run.ranks.topology")

---A machine whose first threads of all cores are numbered before the second ones.
local function machine(nodes, cores)
  local root, all = program.folder(), nodes * cores
  for cpu = 0, 2 * all - 1 do
    local core = cpu % all
    local folder = ("%s/cpu%d"):format(root, cpu)
    assert(sys.make_dirs(folder .. "/topology"))
    assert(sys.make_dirs(folder .. "/cache/index3"))
    assert(sys.make_dirs(("%s/node%d"):format(folder, core // cores)))
    program.write(folder, "topology/physical_package_id", core // cores .. "\n")
    program.write(folder, "topology/core_id", core % cores .. "\n")
    program.write(folder, "cache/index3/id", core // 2 .. "\n")
  end
  return root
end

local function range(count)
  local list = {}
  for i = 1, count do list[i] = i - 1 end
  return list
end

describe("the order of processors", function()
  it("has the threads of a core side by side, then the cores of a memory node", function()
    local root = machine(2, 4)
    assert.same({ 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15 }, topology.order(range(16), root))
    assert.same({ 1, 9, 6, 14 }, topology.order({ 14, 9, 6, 1 }, root))
  end)

  it("is that of their numbers where nothing is known", function()
    assert.same({ 0, 1, 2 }, topology.order({ 2, 0, 1 }, "/nowhere"))
  end)

  it("reads the files of this kernel", function()
    local cpus = sys.affinity()
    local file = io.open(("/sys/devices/system/cpu/cpu%d/topology/core_id"):format(cpus[#cpus]))
    local core = file and file:read("n") or 0 -- some containers show no /sys
    if file then file:close() end
    assert.equal(core, topology.place(cpus[#cpus])[4])
  end)

  it("has every processor of this machine once", function()
    local ordered = topology.order(sys.affinity())
    table.sort(ordered)
    assert.same(sys.affinity(), ordered)
  end)
end)

-- ops_svg.lua - the ops of recipes/bench/ops.lua under the roofline of the machine: rate against FLOP per byte.

local svg = require("seqrun.svg")

local FEWEST, MOST = 0.125, 4096 -- FLOP per byte of the axis

---The rate that memory and the peak allow.
local function roof(intensity, machine) return math.min(machine.peak, intensity * machine.copy) end

---@param machine { peak: number, copy: number, name: string } FLOP/s and bytes/s
---@param ops { name: string, flops: number, bytes: number, seconds: number }[]
---@return string svg
return function(machine, ops)
  local ridge, series = machine.peak / machine.copy, {}
  local function point(x) return { x, roof(x, machine) / 1e9 } end
  series[1] = {
    name = ("roof: %.0f GFLOP/s, %.1f GB/s"):format(machine.peak / 1e9, machine.copy / 1e9), class = svg.colour(7),
    points = { point(FEWEST), point(ridge), point(MOST) },
  }
  for i, op in ipairs(ops) do
    local intensity = op.flops / op.bytes
    series[#series + 1] = {
      kind = "dots", class = svg.colour(i), points = { { intensity, op.flops / op.seconds / 1e9 } },
      name = ("%s: %.0f %%"):format(op.name, 100 * op.flops / op.seconds / roof(intensity, machine)),
    }
  end
  local width, height = 760, 560
  return svg.page(width, height, {
    svg.chart {
      title = "Ops under the roofline", heading = machine.name, width = width, height = height, series = series,
      desc = "Each op's rate against its FLOP per byte; percentages are of what the peak and the copy rate allow.",
      x = { label = "FLOP per byte", log = true }, y = { label = "GFLOP/s", log = true },
    },
  }, "Ops under the roofline")
end

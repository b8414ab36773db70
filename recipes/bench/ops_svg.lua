-- ops_svg.lua - the ops of recipes/bench/ops.lua under the roofline of the machine: rate against FLOP per byte.

local svg = require("seqrun.draw.svg")

---The rate that memory and the peak allow.
local function roof(intensity, machine) return math.min(machine.peak, intensity * machine.copy) end

local function point(op) return { op.flops / op.bytes, op.flops / op.seconds / 1e9 } end

local function percent(op, machine)
  return ("%.0f %%"):format(100 * op.flops / op.seconds / roof(op.flops / op.bytes, machine))
end

---The ops of a step, forward and backward joined; without any, all ops.
local function series_of(ops, machine)
  local list, by_name, any = {}, {}, false
  for _, op in ipairs(ops) do any = any or op.calls ~= nil end
  for _, op in ipairs(ops) do
    local one = by_name[op.of]
    if not one and (op.calls or not any) then
      one = { kind = "dots", class = svg.colour(#list % 6 + 1), points = {}, name = op.of .. ":" }
      list[#list + 1], by_name[op.of] = one, one
    end
    if one then
      one.points[#one.points + 1] = point(op)
      one.name = one.name .. (#one.points > 1 and ", back " or " ") .. percent(op, machine)
    end
  end
  return list, any
end

---Attention of the lengths that fine-tuning has, as one line.
local function lengths_of(ops, machine)
  local points, found = {}, {}
  for _, op in ipairs(ops) do
    local length = math.tointeger(tonumber(op.name:match("^attention (%d+), dropout$")))
    if length and not op.calls then
      points[#points + 1] = point(op)
      found[#found + 1] = { length = length, percent = percent(op, machine) }
    end
  end
  if #found < 2 then return nil end
  table.sort(found, function(a, b) return a.length > b.length end)
  table.sort(points, function(a, b) return a[1] > b[1] end)
  return {
    kind = "dots", class = svg.colour(8), points = points, style = "dash",
    name = ("attention, %d to %d tokens: %s to %s"):format(found[1].length, found[#found].length, found[1].percent,
      found[#found].percent),
  }
end

---@param machine { peak: number, copy: number, name: string, precision: string } FLOP/s and bytes/s
---@param ops { name: string, of: string, calls?: number, flops: number, bytes: number, seconds: number }[] of: the name
---  without "back"
---@return string svg
return function(machine, ops)
  local series, any = series_of(ops, machine)
  if any then series[#series + 1] = lengths_of(ops, machine) end
  local ridge = machine.peak / machine.copy
  local least, most = ridge / 4, ridge * 4
  for _, one in ipairs(series) do
    for _, at in ipairs(one.points) do least, most = math.min(least, at[1] / 2), math.max(most, at[1] * 2) end
  end
  local function corner(x) return { x, roof(x, machine) / 1e9 } end
  table.insert(series, 1, {
    name = ("roof: %.0f GFLOP/s of %s, %.1f GB/s"):format(machine.peak / 1e9, machine.precision, machine.copy / 1e9),
    class = svg.colour(7), points = { corner(least), corner(ridge), corner(most) },
  })
  local width, height = 760, 520
  return svg.page(width, height, {
    svg.chart {
      title = "Ops under the roofline", heading = "Ops under the roofline: " .. machine.name, width = width,
      height = height, series = series,
      desc = "Each op's rate against its FLOP per byte; percentages are of what the peak and the copy rate allow.",
      x = { label = "FLOP per byte", log = true }, y = { label = "GFLOP/s", log = true },
    },
  }, "Ops under the roofline")
end

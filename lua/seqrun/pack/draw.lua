-- draw.lua - charts of a histogram: the lengths, and the efficiency by depth of packs.

local bars = require("seqrun.draw.bars")
local commas = require("seqrun.base.format").commas
local failure = require("seqrun.base.failure")
local svg = require("seqrun.draw.svg")

local draw = {}

local DEPTHS = { 1, 2, 3, 4, 6, 8, 12, 16 }

---The histogram in `n` bins of equal width.
local function stretches(histogram, n)
  local counts = histogram:counts()
  n = math.min(n, #counts)
  local list = {}
  for i = 1, n do
    local first, last = (i - 1) * #counts // n + 1, i * #counts // n
    local total = 0
    for l = first, last do total = total + counts[l] end
    list[i] = { first = first, last = last, count = total }
  end
  return list
end

---Efficiency at each depth with the chosen solver, lpfhp by default.  The patterns of nnlshp grow by a
---factor of forty with each level, so it stops at the published one.
---@return { name: string, efficiency: number, best: number, packs: integer }[]
function draw.depths(histogram, pack, options)
  local list, deepest = {}, nil
  if options.solver == "nnlshp" then deepest = histogram:info().max_len <= 1024 and 3 or 2 end
  for i = 1, #DEPTHS + 1 do
    local depth, plan, message, code = DEPTHS[i], nil, nil, nil
    if not deepest or (depth and depth <= deepest) then
      plan, message, code = pack.pack(histogram, { solver = options.solver or "lpfhp", max_seqs = depth })
    end
    if code == "memory" then failure.raise(code, "%s", message) end
    if plan then
      local bound = plan.max_len * math.max(1, plan.lower_bound)
      list[#list + 1] = {
        name = depth and tostring(depth) or "any", efficiency = plan.efficiency, packs = plan.packs,
        best = math.min(1, plan.tokens / bound),
      }
    end
  end
  return list
end

---@param histogram seqrun.core.pack.pack_histogram
---@param pack table seqrun.pack
---@param options { solver?: string }
---@return string
function draw.terminal(histogram, pack, options)
  local info, lines, most, room = histogram:info(), {}, 1, bars.room(28)
  local list = stretches(histogram, 16)
  for _, s in ipairs(list) do most = math.max(most, s.count) end
  lines[1] = ("%s sequences by length"):format(commas(info.sequences))
  for _, s in ipairs(list) do
    local part = bars.bar(s.count / most, room)
    lines[#lines + 1] = (("%5d-%-5d %14s  %s"):format(s.first, s.last, commas(s.count), part):gsub("%s+$", ""))
  end
  lines[#lines + 1] = ("efficiency by depth (%s)"):format(options.solver or "lpfhp")
  for _, d in ipairs(draw.depths(histogram, pack, options)) do
    lines[#lines + 1] = ("%11s %13.3f%%  %s"):format(d.name, 100 * d.efficiency, bars.bar(d.efficiency, room))
  end
  return table.concat(lines, "\n")
end

-- ---- SVG -------------------------------------------------------------------------------------

local WIDTH, HEIGHT = 680, 240

local function lengths_chart(histogram)
  local info, points = histogram:info(), {}
  for i, s in ipairs(stretches(histogram, 128)) do points[i] = { s.first - 1, s.last, s.count } end
  return svg.chart {
    title = "sequences by length", heading = ("%s sequences by length"):format(commas(info.sequences)),
    width = WIDTH, height = HEIGHT, x = { label = "tokens", low = 0 }, y = { label = "sequences", even = true },
    series = { { kind = "bars", points = points } },
  }
end

local function depths_chart(list, solver)
  local bound, reached, ticks = {}, {}, {}
  for i, d in ipairs(list) do
    bound[i] = { i - 0.5, i + 0.5, 100 * d.best }
    reached[i] = { i - 0.5, i + 0.5, 100 * d.efficiency, ("%.2f"):format(100 * d.efficiency) }
    ticks[i] = { at = i, label = d.name }
  end
  return svg.chart {
    title = "efficiency by sequences per pack", heading = "efficiency by sequences per pack", width = WIDTH,
    height = HEIGHT, at = { 0, HEIGHT + 20 }, x = { label = "most sequences in a pack", ticks = ticks },
    y = { label = "% of the slots", low = 0, high = 114 },
    series = {
      { kind = "bars", points = bound, class = "pale", name = "the lower bound", gap = 10 },
      { kind = "bars", points = reached, name = solver, gap = 10 },
    },
  }
end

---@param histogram seqrun.core.pack.pack_histogram
---@param pack table seqrun.pack
---@param options { solver?: string }
---@return string
function draw.svg(histogram, pack, options)
  local list = draw.depths(histogram, pack, options)
  local charts = { lengths_chart(histogram), depths_chart(list, options.solver or "lpfhp") }
  return svg.page(WIDTH, 2 * HEIGHT + 20, charts, "packing")
end

return draw

-- draw.lua - charts of a histogram: the lengths, and the efficiency by depth of packs.

local bars = require("seqrun.bars")
local show = require("seqrun.pack.show")

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
    local depth, plan = DEPTHS[i], nil
    if not deepest or (depth and depth <= deepest) then
      plan = pack.pack(histogram, { solver = options.solver or "lpfhp", max_seqs = depth })
    end
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
  lines[1] = ("%s sequences by length"):format(show.commas(info.sequences))
  for _, s in ipairs(list) do
    local part = bars.bar(s.count / most, room)
    lines[#lines + 1] = (("%5d-%-5d %14s  %s"):format(s.first, s.last, show.commas(s.count), part):gsub("%s+$", ""))
  end
  lines[#lines + 1] = ("efficiency by depth (%s)"):format(options.solver or "lpfhp")
  for _, d in ipairs(draw.depths(histogram, pack, options)) do
    lines[#lines + 1] = ("%11s %13.3f%%  %s"):format(d.name, 100 * d.efficiency, bars.bar(d.efficiency, room))
  end
  return table.concat(lines, "\n")
end

-- ---- SVG -------------------------------------------------------------------------------------

local STYLE = [[<style>text{font:12px sans-serif;fill:#333}.t{font-size:14px;font-weight:bold}</style>]]

local function text(x, y, content, more)
  return ('<text x="%.1f" y="%.1f"%s>%s</text>'):format(x, y, more or "", content)
end

local function rect(x, y, w, h, colour)
  return ('<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s"/>'):format(x, y, w, h, colour)
end

local function lengths_panel(out, histogram)
  local list, most = stretches(histogram, 128), 1
  for _, s in ipairs(list) do most = math.max(most, s.count) end
  local width = 640 / #list
  local title = ("%s sequences by length"):format(show.commas(histogram:info().sequences))
  out[#out + 1] = text(40, 24, title, ' class="t"')
  for i, s in ipairs(list) do
    local height = 180 * s.count / most
    out[#out + 1] = rect(40 + (i - 1) * width, 220 - height, math.max(0.5, width - 0.5), height, "#4878a8")
  end
  out[#out + 1] = text(40, 238, "1")
  out[#out + 1] = text(680, 238, tostring(histogram:info().max_len), ' text-anchor="end"')
end

local function depths_panel(out, list, solver)
  local width = 640 / #list
  local title = ("efficiency by sequences per pack: %s, and the lower bound"):format(solver)
  out[#out + 1] = text(40, 280, title, ' class="t"')
  for i, d in ipairs(list) do
    local x = 40 + (i - 1) * width
    out[#out + 1] = rect(x, 480 - 180 * d.best, width - 8, 180 * d.best, "#d8dde3")
    out[#out + 1] = rect(x, 480 - 180 * d.efficiency, width - 8, 180 * d.efficiency, "#5a9e6f")
    out[#out + 1] = text(x + (width - 8) / 2, 498, d.name, ' text-anchor="middle"')
    out[#out + 1] = text(x + (width - 8) / 2, 474, ("%.2f%%"):format(100 * d.efficiency), ' text-anchor="middle"')
  end
end

---@param histogram seqrun.core.pack.pack_histogram
---@param pack table seqrun.pack
---@param options { solver?: string }
---@return string
function draw.svg(histogram, pack, options)
  local out = {
    '<svg xmlns="http://www.w3.org/2000/svg" width="720" height="520" viewBox="0 0 720 520">', STYLE,
    rect(0, 0, 720, 520, "#fff"),
  }
  lengths_panel(out, histogram)
  depths_panel(out, draw.depths(histogram, pack, options), options.solver or "lpfhp")
  out[#out + 1] = "</svg>\n"
  return table.concat(out, "\n")
end

return draw

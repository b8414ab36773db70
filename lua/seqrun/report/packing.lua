-- packing.lua - the picture of a packing plan: the slots it uses beside padding, some packs, how deep and how long.

local html = require("seqrun.draw.html")
local svg = require("seqrun.draw.svg")
local text = require("seqrun.base.format")

local packing = {}

---Bars of a histogram; more are drawn in bins.
local BINS = 64

---Counts by number, from 1, in at most BINS bars.
local function bars_of(counts, most)
  local width, list = math.max(1, math.ceil(most / BINS)), {}
  for first = 0, most - 1, width do
    local total = 0
    for i = first + 1, first + width do total = total + (counts[i] or 0) end
    list[#list + 1] = { first, first + width, total }
  end
  return list
end

local function lengths_chart(one)
  local plan = one.plan
  return svg.chart {
    title = "sequences by length",
    desc = ("%s sequences of up to %d tokens"):format(text.commas(plan.sequences), plan.max_len),
    x = { label = "tokens in a sequence", low = 0 }, y = { label = "sequences", even = true },
    series = { { kind = "bars", points = bars_of(one.lengths, plan.max_len) } },
  }
end

local function depths_chart(one)
  local deepest, points, ticks = one.plan.deepest, {}, nil
  if deepest <= 24 then
    ticks = {}
    for depth = 1, deepest do
      points[depth] = { depth - 0.5, depth + 0.5, one.depths[depth] or 0 }
      ticks[depth] = { at = depth, label = tostring(depth) }
    end
  else
    points = bars_of(one.depths, deepest)
  end
  return svg.chart {
    title = "packs by number of sequences", desc = ("up to %d sequences in a pack"):format(deepest),
    x = { label = "sequences in a pack", ticks = ticks }, y = { label = "packs", even = true },
    series = { { kind = "bars", points = points } },
  }
end

local function tokens_chart(one)
  local plan = one.plan
  return svg.chart {
    title = "packs by number of tokens", desc = ("packs of %d slots, %s full"):format(plan.max_len,
      text.percent(plan.efficiency)), x = { label = "tokens in a pack", low = 0 },
    y = { label = "packs", even = true }, series = { { kind = "bars", points = bars_of(one.tokens, plan.max_len) } },
  }
end

-- ---- slots and packs -----------------------------------------------------------------------------

local WIDTH, LEFT, ROW = 440, 58, 15

local function text_at(x, y, class, content)
  return svg.element("text", { x = x, y = y, class = class }, svg.escape(content))
end

local function box(x, y, width, height, class, title)
  return svg.element("rect", { x = x, y = y, width = math.max(0.3, width), height = height, class = class, rx = 1 },
    title and svg.element("title", {}, svg.escape(title)))
end

local function picture(height, title, parts)
  return svg.element("svg", {
    class = "chart", role = "img", viewBox = ("0 0 %d %d"):format(WIDTH, height),
    ["aria-label"] = title,
  }, svg.element("title", {}, svg.escape(title)) .. table.concat(parts))
end

---Real tokens and padding of the slots, packed and one sequence a row.
local function slots_picture(plan)
  local room, parts = WIDTH - LEFT - 2, {}
  local padded = plan.sequences * plan.max_len
  local rows = { { "packed", plan.packs * plan.max_len }, { "padded", padded } }
  local most = math.max(rows[1][2], padded)
  for i, row in ipairs(rows) do
    local y, wide = 6 + (i - 1) * 46, room * row[2] / most
    local real = room * plan.tokens / most
    parts[#parts + 1] = text_at(0, y + 14, "name", row[1])
    parts[#parts + 1] = box(LEFT, y, wide, 20, "pad", text.commas(row[2] - plan.tokens) .. " slots of padding")
    parts[#parts + 1] = box(LEFT, y, real, 20, "bar", text.commas(plan.tokens) .. " real tokens")
    parts[#parts + 1] = text_at(LEFT, y + 34, "", ("%s slots, %s of them real tokens"):format(text.count(row[2]),
      text.percent(plan.tokens / row[2])))
  end
  return picture(98, ("slots: %s packed, %s padded"):format(text.commas(rows[1][2]), text.commas(padded)), parts)
end

---Some packs, a row each: their sequences beside each other, then padding.
local function packs_picture(one)
  local plan, parts = one.plan, {}
  local scale = (WIDTH - 2) / plan.max_len
  for i, lengths in ipairs(one.samples) do
    local x, y = 0, (i - 1) * ROW
    parts[#parts + 1] = box(0, y, plan.max_len * scale, ROW - 4, "pad")
    for k, length in ipairs(lengths) do
      local wide = length * scale
      parts[#parts + 1] = box(x, y, wide - 0.8, ROW - 4, k % 2 == 1 and "bar" or "bar2", length .. " tokens")
      if wide > 26 then parts[#parts + 1] = text_at(x + wide / 2, y + 9, "inside mid", tostring(length)) end
      x = x + wide
    end
  end
  local title = ("%d packs of the plan, each a row of %d slots"):format(#one.samples, plan.max_len)
  return picture(#one.samples * ROW, title, parts)
end

-- ---- the section -----------------------------------------------------------------------------------

packing.STYLE = [[
.chart .pad { fill: var(--rule) } .chart .bar2 { fill: color-mix(in srgb, var(--bar) 62%, var(--paper)) }
.chart .inside { fill: var(--ink); font-size: 9px }]]

local function figure(title, content)
  return ("<figure><figcaption>%s</figcaption>%s</figure>"):format(html.escape(title), content or "")
end

local function proof(plan)
  if plan.gap_packs == 0 then return "no plan needs fewer packs" end
  return ("at most %s above the fewest possible"):format(text.counted(plan.gap_packs, "pack"))
end

---The markup of a plan.
---@param one seqrun.report.Plan
---@return string
function packing.section(one)
  local plan = one.plan
  local sentence = ("%s sequences with %s tokens in %s of %d slots: %s full, %.2f sequences per pack; solver %s, %s.")
    :format(text.commas(plan.sequences), text.commas(plan.tokens), text.counted(plan.packs, "pack"), plan.max_len,
      text.percent(plan.efficiency), plan.factor, plan.solver, proof(plan))
  return "<p>" .. html.escape(sentence) .. "</p><div class=\"charts\">" .. figure("Slots used", slots_picture(plan))
    .. figure(("%d of the packs, fullest patterns first"):format(#one.samples), packs_picture(one))
    .. figure("Sequences by length", lengths_chart(one)) .. figure("Packs by number of sequences", depths_chart(one))
    .. figure("Packs by number of tokens", tokens_chart(one)) .. "</div>"
end

return packing

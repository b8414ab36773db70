-- show.lua - a tensor in a few lines: shape and dtype, statistics, and a corner of its values.

local core = require("seqrun.core.tensor")
local sys = require("seqrun.core.sys")

local MOST_ROWS, MOST_COLUMNS = 8, 12

local function number(x)
  if type(x) == "boolean" then return x and "1" or "0" end
  if math.type(x) == "integer" then return tostring(x) end
  if x ~= x then return "nan" end
  return ("%.4g"):format(x)
end

---Positions to show of `count`: all, or the first and last with a gap (nil) between.
local function shown(count, most)
  local list = {}
  if count <= most then
    for i = 1, count do list[i] = i end
    return list
  end
  for i = 1, most // 2 do list[#list + 1] = i end
  list[#list + 1] = false
  for i = count - most // 2 + 1, count do list[#list + 1] = i end
  return list
end

local function header(t)
  local text = t:describe()
  if t:numel() == 0 or t:dtype() == "bool" then return text end
  local s = core.summary(t)
  if s.mean then
    local spread = ("[%s, %s]"):format(number(s.min), number(s.max))
    text = ("%s · mean %s σ %s %s"):format(text, number(s.mean), number(s.deviation), spread)
  end
  if s.nan > 0 then text = ("%s · %d NaN"):format(text, s.nan) end
  if s.inf > 0 then text = ("%s · %d inf"):format(text, s.inf) end
  return text
end

---The cells of a block, some of its columns, and the width of the widest.
local function cells_of(block, most)
  local rows, columns = shown(block:size(1), MOST_ROWS), shown(block:size(2), most)
  local cells, width = {}, 1
  for r, i in ipairs(rows) do
    cells[r] = {}
    local line = i and block:select(1, i)
    for c, j in ipairs(columns) do
      local cell = "…"
      if i and j then cell = number(line:select(1, j):item()) end
      cells[r][c] = cell
      width = math.max(width, utf8.len(cell))
    end
  end
  return cells, width
end

---The last two dimensions at index 1 of all others, as lines that fit the terminal.
local function corner(t)
  local block = t:detach()
  while block:dim() > 2 do block = block:select(1, 1) end
  if block:dim() == 1 then block = block:unsqueeze(1) end
  local most, room = MOST_COLUMNS, sys.columns(1)
  local cells, width = cells_of(block, most)
  while most > 2 and #cells > 0 and #cells[1] * (width + 2) > room do
    most = most - 2
    cells, width = cells_of(block, most)
  end
  local lines = {}
  for r, line in ipairs(cells) do
    for c, cell in ipairs(line) do line[c] = (" "):rep(width - utf8.len(cell)) .. cell end
    lines[r] = "  " .. table.concat(line, "  ")
  end
  if t:dim() > 2 then lines[#lines + 1] = "  … the first of " .. t:numel() // block:numel() .. " such blocks" end
  return table.concat(lines, "\n")
end

---@param t seqrun.Tensor
---@return string
return function(t)
  if not t:is_live() then return "tensor: " .. t:describe() .. ", expired: its scope was closed" end
  if t:numel() == 0 then return header(t) end
  if t:dim() == 0 then return number(t:item()) .. "  " .. t:describe() end
  return header(t) .. "\n" .. corner(t)
end

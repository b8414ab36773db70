-- grid.lua - a table of texts in aligned columns that fits a terminal.

local sys = require("seqrun.core.sys")

local grid = {}

local GAP = "  "

---Columns that a text takes on the screen, if its characters are as wide as letters.
---@param text string
---@return integer
function grid.width(text) return utf8.len(text) or #text end

---Cuts a text to `most` characters; "..." replaces its end.
---@param text string
---@param most integer
---@return string
function grid.cut(text, most)
  if grid.width(text) <= most then return text end
  local at = utf8.len(text) and utf8.offset(text, math.max(1, most - 2)) or math.max(1, most - 2)
  return text:sub(1, at - 1) .. ("..."):sub(1, most)
end

---The same with the end of the text, as of a path.
---@param text string
---@param most integer
---@return string
function grid.tail(text, most)
  local width = grid.width(text)
  if width <= most then return text end
  local at = utf8.len(text) and utf8.offset(text, width - most + 4) or #text - most + 4
  return "..." .. text:sub(at)
end

local function padded(text, width, left)
  local space = (" "):rep(width - grid.width(text))
  return left and text .. space or space .. text
end

local function widths_of(rows, count)
  local widths = {}
  for i = 1, count do
    widths[i] = 0
    for _, row in ipairs(rows) do widths[i] = math.max(widths[i], grid.width(row[i] or "")) end
  end
  return widths
end

---Makes the columns that may be cut narrower, the last first, until all fit into `room`.
local function fit(widths, cuttable, least, room)
  local total = #GAP * (#widths - 1)
  for _, width in ipairs(widths) do total = total + width end
  for i = #widths, 1, -1 do
    local floor = math.min(widths[i], least)
    if cuttable[i] and total > room then
      local cut = math.min(total - room, widths[i] - floor)
      widths[i], total = widths[i] - cut, total - cut
    end
  end
end

---Rows of cells as lines.
---
---  left      columns that are aligned to the left; others to the right
---  cut       columns whose texts may be cut to fit
---  tail      of these, columns that keep the ends of their texts
---  columns   the width to fit, that of the terminal; elsewhere texts are not cut
---  gap       the text between columns
---@param rows string[][] the first is the head
---@param options { left?: table<integer, true>, cut?: table<integer, true>,
---  tail?: table<integer, true>, columns?: integer, gap?: string }
---@return string[]
function grid.lines(rows, options)
  local count, left, cuttable = 0, options.left or {}, options.cut or {}
  for _, row in ipairs(rows) do count = math.max(count, #row) end
  local widths, lines = widths_of(rows, count), {}
  local columns = options.columns or sys.is_terminal(1) and sys.columns(1) or math.huge
  fit(widths, cuttable, 12, columns - 1)
  for i, row in ipairs(rows) do
    local cells = {}
    for c = 1, count do
      local shorten = options.tail and options.tail[c] and grid.tail or grid.cut
      cells[c] = padded(shorten(row[c] or "", widths[c]), widths[c], left[c])
    end
    lines[i] = table.concat(cells, options.gap or GAP):gsub(" +$", "")
  end
  return lines
end

local function widest_of(lines)
  local widest = 0
  for _, line in ipairs(lines) do widest = math.max(widest, grid.width(line)) end
  return widest
end

---The same with remarks after the rows; where a terminal is too narrow for them, they are below their rows.
---@param rows string[][] the last cell of each is its remark, or empty
---@param options { left?: table<integer, true>, columns?: integer }
---@return string[]
function grid.remarks(rows, options)
  local columns = options.columns or sys.is_terminal(1) and sys.columns(1) or math.huge
  local plain, beside, below = {}, {}, {}
  for i, row in ipairs(rows) do plain[i] = table.move(row, 1, #row - 1, 1, {}) end
  local function lines_of(gap) return grid.lines(plain, { left = options.left, columns = math.huge, gap = gap }) end
  local lines = lines_of()
  for i, line in ipairs(lines) do beside[i] = (line .. GAP .. rows[i][#rows[i]]):gsub(" +$", "") end
  if widest_of(beside) < columns then return beside end
  if widest_of(lines) >= columns then lines = lines_of(" ") end
  for i, line in ipairs(lines) do
    local remark = i > 1 and rows[i][#rows[i]] or ""
    below[#below + 1] = line
    if remark ~= "" then below[#below + 1] = require("seqrun.draw.live").fold("      " .. remark, columns - 1) end
  end
  return below
end

return grid

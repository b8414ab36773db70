-- formats.lua - rows of cells as CSV or as a table of Markdown, for other programs and for pages.

local formats = {}

---Names for --format of commands that print tables; "table" is for people.
formats.NAMES = { "table", "csv", "markdown", "json" }

---A field of CSV (RFC 4180).
local function csv_cell(text)
  if not text:find('[,"\r\n]') then return text end
  return '"' .. text:gsub('"', '""') .. '"'
end

local function markdown_cell(text) return (text:gsub("|", "\\|"):gsub("[\r\n]+", " ")) end

local function joined(row, cell, gap)
  local cells = {}
  for i, text in ipairs(row) do cells[i] = cell(text) end
  return table.concat(cells, gap)
end

---@param rows string[][] the first is the head
---@param format "csv"|"markdown"
---@return string[] lines
function formats.lines(rows, format)
  local lines = {}
  for i, row in ipairs(rows) do
    if format == "csv" then
      lines[#lines + 1] = joined(row, csv_cell, ",")
    else
      lines[#lines + 1] = "| " .. joined(row, markdown_cell, " | ") .. " |"
      if i == 1 then lines[2] = "|" .. ("---|"):rep(#row) end
    end
  end
  return lines
end

return formats

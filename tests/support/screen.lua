-- screen.lua - what a terminal of some width shows: carriage returns, line breaks, erasing, moving up, colours.

local screen = {}

---@param bytes string what a program wrote
---@param columns integer
---@return string[] rows
---@return integer wrapped how often a line was too long
function screen.of(bytes, columns)
  local rows, row, column, wrapped = { {} }, 1, 1, 0
  local function put(character)
    if column > columns then
      row, column, wrapped = row + 1, 1, wrapped + 1
      rows[row] = rows[row] or {}
    end
    rows[row][column] = character
    column = column + 1
  end
  local function erase_from(first_row, first_column)
    for i = first_column, columns do rows[first_row][i] = nil end
  end
  local at = 1
  while at <= #bytes do
    local count, code, after = bytes:match("^\27%[([%d;?]*)(%a)()", at)
    if code then
      if code == "K" then erase_from(row, column) end
      if code == "A" then row = math.max(1, row - tonumber(count)) end
      if code == "J" then
        erase_from(row, column)
        for i = row + 1, #rows do rows[i] = {} end
      end
      at = after
    elseif bytes:sub(at, at) == "\r" then
      column, at = 1, at + 1
    elseif bytes:sub(at, at) == "\n" then
      row, at = row + 1, at + 1
      rows[row] = rows[row] or {}
    else
      local character = bytes:match("^" .. utf8.charpattern, at)
      put(character)
      at = at + #character
    end
  end
  local lines = {}
  for i = 1, #rows do
    local line = {}
    for k = 1, columns do line[k] = rows[i][k] or " " end
    lines[i] = table.concat(line):gsub(" +$", "")
  end
  return lines, wrapped
end

return screen

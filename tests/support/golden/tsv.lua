-- tsv.lua - golden tables: columns separated by tabs, the first line their names, `#` comments, `-` nothing.

local tsv = {}

---@param path string
---@return table<string, string>[]|nil rows by column, `-` left out; nil if there is no such file
---@return string[]? comments
function tsv.read(path)
  local file = io.open(path)
  if not file then return nil end
  local rows, comments, names = {}, {}, nil
  for line in file:lines() do
    line = line:gsub("\r$", ""):gsub("^\u{FEFF}", "")
    if line:find("^#") then
      comments[#comments + 1] = line
    elseif line ~= "" then
      local row, i = {}, 0
      for field in (line .. "\t"):gmatch("([^\t]*)\t") do
        i = i + 1
        row[names and names[i] or i] = (not names or field ~= "-") and field or nil
      end
      if names then rows[#rows + 1] = row else names = row end
    end
  end
  file:close()
  return rows, comments
end

---Two tables of which each means something only with the other; nil if neither is there.
---@param folder string
---@param rows string file name of the expected rows
---@param configs string file name of what they were made with
function tsv.pair(folder, rows, configs)
  local a, b = tsv.read(folder .. "/" .. rows), tsv.read(folder .. "/" .. configs)
  if not a and not b then return nil end
  local found, missing = a and rows or configs, a and configs or rows
  if not a or not b then error(("%s is missing; %s needs it"):format(missing, found), 0) end
  return a, b
end

---"1,2,3" as numbers; {} for nothing.
function tsv.ids(text)
  local list = {}
  for id in (text or ""):gmatch("[^,]+") do list[#list + 1] = assert(math.tointeger(tonumber(id)), text) end
  return list
end

---"[1,2.5,3]" as numbers; nil for nothing.
function tsv.list(text)
  local list = text and {}
  for x in (text or ""):gmatch("[^%[%],%s]+") do list[#list + 1] = assert(tonumber(x), text) end
  return list
end

---Rows in groups, in the order of their first row.
function tsv.groups(rows, column)
  local groups = {}
  for _, row in ipairs(rows) do
    local group = groups[row[column]]
    if not group then
      group = { name = row[column] }
      groups[row[column]], groups[#groups + 1] = group, group
    end
    group[#group + 1] = row
  end
  return groups
end

return tsv

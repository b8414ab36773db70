-- files.lua - the tasks of suites whose files are in some directories, and how their columns are named or numbered.
--
-- A task is looked for in folders of its name, whatever the case and the punctuation ("SST-2", "sst2"), and its columns
-- in what the first line of the training file is: names, or its number of cells.

local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")
local text = require("seqrun.core.text")

local files = {}

---"SST-2" -> "sst2".
local function plain(name) return (name:lower():gsub("[^%w]", "")) end

---The first of these files that exists, compressed or not.
---@param folder string
---@param names string[]
---@return string|nil path
function files.first(folder, names)
  for _, name in ipairs(names) do
    for _, ending in ipairs { "", ".gz" } do
      local path = folder .. "/" .. name .. ending
      if sys.exists(path) and not sys.is_dir(path) then return path end
    end
  end
end

---The folders below a directory, and itself, by their plain names.
local function folders_in(dir)
  local found = { { name = plain(dir:gsub("/+$", ""):match("[^/]*$") or dir), path = dir } }
  for _, name in ipairs(failure.there(sys.list(dir)) or {}) do
    if sys.is_dir(dir .. "/" .. name) then found[#found + 1] = { name = plain(name), path = dir .. "/" .. name } end
  end
  return found
end

---The folder of a task that has its training file; nil if none has.
---@param dirs string[]
---@param names string[] of the folder
---@param train string[] names of the training file
---@return string|nil folder
---@return string|nil path of the training file
function files.folder(dirs, names, train)
  for _, dir in ipairs(dirs) do
    for _, folder in ipairs(folders_in(dir)) do
      for _, name in ipairs(names) do
        local path = plain(name) == folder.name and files.first(folder.path, train)
        if path then return folder.path, path end
      end
    end
  end
end

---The cells of the first line of a table.
local function first_line(path)
  local rows, message = text.rows(path, { format = "literal", delimiter = "\t" })
  if not rows then return nil, message end
  local guard <close> = rows
  local cells = {}
  local count, why, code
  repeat count, why, code = rows:next(cells) until count ~= 0
  if not count and why then return nil, why, code end
  if not count then return nil, path .. ": the file is empty" end
  return table.move(cells, 1, count, 1, {})
end

local ROLES = { "text", "pair", "label" }

---Whether a first line is that of a layout: by its number of cells, or the names of its columns.
local function fits(cells, layout)
  if layout.count then return layout.count == #cells end
  local seen = {}
  for _, cell in ipairs(cells) do seen[cell] = true end
  if layout.header then return seen[layout.header] end
  for _, role in ipairs(ROLES) do
    if layout[role] and not seen[layout[role]] then return false end
  end
  return true
end

---The settings that name the columns of a table: of the first layout that its first line fits.
---@param path string
---@param layouts table[] { text =, pair =, label = }: names; numbers with `count`, cells of a line without header, or
---  with `header`, one of its names
---@return string[]|nil words
---@return string? message
function files.columns(path, layouts)
  local cells, message = first_line(path)
  if not cells then return nil, message end
  for _, layout in ipairs(layouts) do
    if fits(cells, layout) then
      local words = { layout.header and "columns.header=true" }
      for _, role in ipairs(ROLES) do
        if layout[role] then words[#words + 1] = ("columns.%s=%s"):format(role, layout[role]) end
      end
      return words
    end
  end
  return nil, ("%s: its first line has %s, in none of the published forms: %s"):format(path, counted(#cells, "column"),
    table.concat(cells, ", "):sub(1, 100))
end

files.plain = plain

return files

-- columns.lua - finds columns by name or number in the header of a table.

local guess = require("seqrun.base.guess")
local shown = require("seqrun.base.one_line")

local columns = {}

---"4" -> 4; nil for a name.
local function number_of(wanted)
  return math.tointeger(tonumber(wanted)) or nil
end

---The columns that are asked for, as { role, wanted, key }: key is what the message calls it.
local function each(given)
  local list = {}
  for _, role in ipairs { "text", "pair", "label", "id", "choices" } do
    local wanted = given[role]
    for i, one in ipairs(type(wanted) == "table" and wanted or { wanted }) do
      list[#list + 1] = { role = role, wanted = one, place = type(wanted) == "table" and i or nil }
    end
  end
  return list
end

---Whether the first row names the columns: as set, else if any column is given by name.
---@param given table columns.*
---@return boolean
function columns.has_header(given)
  if given.header ~= nil then return given.header end
  for _, one in ipairs(each(given)) do
    if not number_of(one.wanted) then return true end
  end
  return false
end

local function by_name(wanted, header)
  local found
  for i, name in ipairs(header or {}) do
    if name == wanted then
      if found then return nil, ("has two columns '%s'; rename one of them"):format(shown(wanted)) end
      found = i
    end
  end
  return found
end

---Why there is no such column.
local function missing(one, header, count, hint)
  local key = "columns." .. one.role
  if number_of(one.wanted) then
    return ("has no column %s, only %d; set %s"):format(one.wanted, count, key)
  end
  if not header then
    return ("is read without a header (columns.header), so '%s' names no column; set %s to its number, from 1")
      :format(one.wanted, key)
  end
  local names = shown(table.concat(header, ", "), 300)
  return ("has no column '%s', only: %s; set %s%s%s"):format(one.wanted, names, key, hint or "",
    guess.hint(one.wanted, header))
end

local function clash(one, other, name)
  local roles = one.role == other.role and ("columns.%s names column '%s' twice"):format(one.role, shown(name))
    or ("columns.%s and columns.%s are both column '%s'"):format(one.role, other.role, shown(name))
  return roles .. "; give each its own"
end

---Why columns asked for by the same name make no sense; nil if there are none.
---@param given table columns.*
---@return string?
function columns.problem(given)
  local seen = {}
  for _, one in ipairs(each(given)) do
    local other = seen[one.wanted]
    if other then return clash(other, one, one.wanted) end
    seen[one.wanted] = one
  end
end

---Finds the columns: { text = 1, label = 2, choices = { 3, 4 } }.
---@param given table columns.*
---@param header string[]? the names
---@param count integer of columns
---@param optional table<string, boolean> roles that may be missing
---@param hint? string added to the message of a missing name
---@return table? found
---@return string? message to follow the name of the file
function columns.find(given, header, count, optional, hint)
  local found, taken = {}, {}
  for _, one in ipairs(each(given)) do
    local at, message = by_name(one.wanted, header)
    if message then return nil, message end
    local number = number_of(one.wanted)
    if not at and number and number >= 1 and number <= count then at = number end
    if not at and not optional[one.role] then return nil, missing(one, header, count, hint) end
    if at and taken[at] then return nil, ": " .. clash(taken[at], one, one.wanted) end
    if at then taken[at] = one end
    if one.place then
      found[one.role] = found[one.role] or {}
      found[one.role][one.place] = at
    else
      found[one.role] = at
    end
  end
  return found
end

return columns

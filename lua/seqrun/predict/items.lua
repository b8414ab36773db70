-- items.lua - what a caller passes as items, a list or an iterator, as an iterator of tables that have what is needed.

local check = require("seqrun.base.check")

---What an item needs, as input.lua reads it from a line.
---@class seqrun.ItemFields
---@field keys string[]
---@field optional? table<string, boolean>
---@field lists? table<string, boolean> keys whose values are lists of strings

local function is_list_of_strings(value)
  if type(value) ~= "table" or #value == 0 then return false end
  for i = 1, #value do
    if type(value[i]) ~= "string" then return false end
  end
  return true
end

---"{ text = string, pair = string or nil }".
local function wanted(fields)
  local words = {}
  for i, key in ipairs(fields.keys) do
    local kind = (fields.lists or {})[key] and "list of strings" or "string"
    words[i] = ("%s = %s%s"):format(key, kind, (fields.optional or {})[key] and " or nil" or "")
  end
  return ("{ %s }"):format(table.concat(words, ", "))
end

---What was given instead.
local function given(item)
  if type(item) ~= "table" then return check.show(item) end
  if is_list_of_strings(item) then return "a list of strings; pass several texts to each()" end
  local words = {}
  for key, value in pairs(item) do words[#words + 1] = ("%s = %s"):format(tostring(key), check.show(value)) end
  table.sort(words)
  return #words > 0 and ("{ %s }"):format(table.concat(words, ", ")) or "an empty table"
end

---Whether an item has what it needs, of the right types.
local function fits(item, fields)
  if type(item) ~= "table" then return false end
  if item.wrong or item.file then return true end -- the reader of a file says what is wrong
  local found = false
  for _, key in ipairs(fields.keys) do
    local value, list = item[key], (fields.lists or {})[key]
    if value == nil and not (fields.optional or {})[key] then return false end
    if value ~= nil and not (list and is_list_of_strings(value) or not list and type(value) == "string") then
      return false
    end
    found = found or value ~= nil
  end
  return found
end

---@param what string the function, for messages
---@param items (string|table)[]|fun(): (string|table)? a string is the first field
---@param fields seqrun.ItemFields
---@return fun(): table? # nil at the end
return function(what, items, fields)
  if type(items) ~= "function" then check.value(what .. ": items", items, "table") end
  local at = 0
  return function()
    at = at + 1
    local item
    if type(items) == "table" then item = items[at] else item = items() end
    if item == nil then return nil end
    if type(item) == "string" and not (fields.lists or {})[fields.keys[1]] then item = { [fields.keys[1]] = item } end
    if not fits(item, fields) then
      check.fail("%s: item %d must be a string or %s, got %s", what, at, wanted(fields), given(item))
    end
    return item
  end
end

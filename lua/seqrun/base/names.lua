-- names.lua - the names that can follow a value: fields and methods, for completion and for hints.

local habits = require("seqrun.base.habits")
local sorted = require("seqrun.base.sorted")

local names = {}

local DEPTH = 8 -- of classes that inherit from classes

local function add_keys(set, values)
  for key in next, values do
    if type(key) == "string" and not key:find("^__") then set[key] = true end
  end
end

local function add(set, value, depth)
  if type(value) == "table" then add_keys(set, value) end
  local meta = debug.getmetatable(value)
  if type(meta) ~= "table" or depth == 0 then return end
  local given = rawget(meta, "__names")
  for _, name in ipairs(given and given(value) or {}) do set[name] = true end
  for _, key in ipairs { "methods", "__index" } do
    local inner = rawget(meta, key)
    if type(inner) == "table" then add(set, inner, depth - 1) end
  end
end

---The names of fields and methods, in order.
---@param value any
---@return string[]
function names.of(value)
  local set = {}
  add(set, value, DEPTH)
  return sorted(set)
end

local function index(value, key) return value[key] end

---The field of a value; nil if it has none, even if that raises.
---@param value any
---@param key any
---@return any
function names.field(value, key)
  local ok, found = pcall(index, value, key)
  if ok then return found end
end

---The value of a path such as `sr.nn.bert`, where `lookup` gives that of its first name.
---@param path string
---@param lookup fun(name: string): any
---@return any
function names.value(path, lookup)
  local value
  for name in path:gmatch("[%a_][%w_]*") do
    if value == nil then value = lookup(name) else value = names.field(value, name) end
    if value == nil then return nil end
  end
  return value
end

---"; did you mean 'NAME'?" or a like hint for a name that a value does not have; "" without one.
---@param name string
---@param value any
---@return string
function names.hint(name, value) return habits.hint(name, names.of(value)) end

return names

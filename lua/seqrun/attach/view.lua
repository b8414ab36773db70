-- view.lua - what an attached prompt sees of objects that a run is using: to look at, not to change.

local check = require("seqrun.base.check")
local hint_of = require("seqrun.base.names").hint

local view = {}

---What refuses to set a field.
local function refuse_in(title)
  return function(_, name) check.fail("%s.%s cannot be set here: the run is using it", title, tostring(name)) end
end

---Some fields and methods of an object; others are nil, and none can be set.
---@param object table
---@param names string[]
---@param title string for messages
---@return table
function view.of(object, names, title)
  local shown = {}
  for _, name in ipairs(names) do shown[name] = true end
  local function get(_, name)
    local value = shown[name] and object[name]
    if type(value) ~= "function" then return value or nil end
    return function(_, ...) return value(object, ...) end
  end
  return setmetatable({}, {
    __index = get, __names = function() return names end, __newindex = refuse_in(title),
    __tostring = function()
      local meta = getmetatable(object)
      return meta and meta.__tostring and tostring(object) or title .. ": " .. table.concat(names, ", ")
    end,
  })
end

---A deep copy of plain values.
---@param value any
---@return any
function view.copy(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, item in pairs(value) do copy[key] = view.copy(item) end
  return copy
end

local function read(library, name) return library[name] end

---A library that cannot be changed.
---@param library table
---@param title string
---@param own table<string, any> what it has in the place of the library's
---@return table
function view.library(library, title, own)
  local meta = getmetatable(library)
  return setmetatable({}, {
    __index = function(_, name)
      if own[name] ~= nil then return own[name] end
      local known, value = pcall(read, library, name)
      if not known then check.fail("%s has no '%s'%s", title, name, hint_of(tostring(name), library)) end
      return value
    end, __names = meta.__names, __pairs = meta.__pairs, __newindex = refuse_in(title),
    __tostring = function() return tostring(library) end,
  })
end

return view

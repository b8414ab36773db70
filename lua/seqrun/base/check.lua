-- check.lua - checks the arguments of a function.
--
-- An error is reported at the line outside the library that called into it, however deep the check is.  `what` names
-- the function or the value, as in "optim" or "optim: eps".

local guess = require("seqrun.base.guess")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

local check = {}

local LIBRARY = debug.getinfo(1, "S").source:gsub("base/check%.lua$", "")

---Raises at the line outside the library that called into it.
---@param format string
---@param ... any
function check.fail(format, ...)
  error(sys.where() .. (select("#", ...) > 0 and format:format(...) or format), 0)
end

---Where a person wrote a function, as " (own.lua:12)"; "" for one of the library or of C.
---@param fn any
---@return string
function check.place(fn)
  local info = type(fn) == "function" and debug.getinfo(fn, "S")
  if not info or info.what == "C" or info.source:sub(1, #LIBRARY) == LIBRARY then return "" end
  return (" (%s:%d)"):format(info.short_src, info.linedefined)
end

---A table of named options, {} for nil: a key that is not in `known` is an error.
---@param what string the function
---@param given? table
---@param known table<string, any> its keys are the options
---@return table
function check.options(what, given, known)
  if given == nil then return {} end
  if type(given) ~= "table" then check.fail("%s: options must be a table, got %s", what, check.show(given)) end
  for key in pairs(given) do
    if known[key] == nil then
      local names = sorted(known)
      local hint = guess.hint(tostring(key), names)
      if hint == "" then hint = "; use " .. table.concat(names, ", ") end
      check.fail("%s: unknown option '%s'%s", what, tostring(key), hint)
    end
  end
  return given
end

---Whether a value can be called: a function, or an object such as a schedule.
---@param x any
---@return boolean
function check.is_callable(x)
  local meta = getmetatable(x)
  return type(x) == "function" or type(meta) == "table" and meta.__call ~= nil
end

---A value as a message shows it: 'text', 3, true, or its type.
---@param value any
---@return string
function check.show(value)
  if value ~= value then return "NaN" end
  if type(value) == "string" then return ("'%s'"):format(value) end
  if type(value) == "number" or type(value) == "boolean" or value == nil then return tostring(value) end
  return "a " .. type(value)
end

local NAMES = {
  number = "a number", string = "a string", boolean = "true or false", table = "a table", ["function"] = "a function",
}

---The value, when it is of this type.
---@generic T
---@param what string
---@param value T
---@param kind type
---@return T
function check.value(what, value, kind)
  if type(value) ~= kind then check.fail("%s must be %s, got %s", what, NAMES[kind], check.show(value)) end
  return value
end

---The list, when all its elements are of this type.
---@generic T
---@param what string
---@param list T[]
---@param kind type
---@return T[]
function check.list(what, list, kind)
  for i = 1, #list do
    if type(list[i]) ~= kind then
      check.fail("%s: element %d must be %s, got %s", what, i, NAMES[kind], check.show(list[i]))
    end
  end
  return list
end

---The value, when it is an integer in least..most.
---@param what string
---@param value any
---@param least integer
---@param most? integer
---@return integer
function check.integer(what, value, least, most)
  local whole = math.type(value) and math.tointeger(value)
  if whole and whole >= least and whole <= (most or math.maxinteger) then return whole end
  local range = most and ("from %d to %d"):format(least, most) or (">= %d"):format(least)
  check.fail("%s must be an integer %s, got %s", what, range, check.show(value))
end

---The value, when it is one of these names.
---@param what string
---@param value any
---@param names string[]
---@return string
function check.choice(what, value, names)
  for _, name in ipairs(names) do
    if name == value then return value end
  end
  local hint = guess.hint(tostring(value), names)
  check.fail("%s must be one of %s, got %s%s", what, table.concat(names, ", "), check.show(value), hint)
end

---Named options whose values are checked, too: an option is true (any value), the name of a type, { least, most } of an
---integer, or a list of words.
---@param what string the function
---@param given? table
---@param known table<string, true|type|integer[]|string[]>
---@return table
function check.typed(what, given, known)
  for key, value in pairs(check.options(what, given, known)) do
    local wanted, name = known[key], ("%s: %s"):format(what, key)
    if type(wanted) == "string" then check.value(name, value, wanted) end
    local plain = type(wanted) == "table" and type(wanted[1])
    if plain == "number" then check.integer(name, value, wanted[1], wanted[2]) end
    if plain == "string" then check.choice(name, value, wanted) end
  end
  return given or {}
end

return check

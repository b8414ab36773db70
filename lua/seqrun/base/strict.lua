-- strict.lua - unknown fields of modules and objects: an error where a person's file reads or sets one, with a guess.
--
-- The library itself, and the prompt, which has hints of its own, get nil as usual.

local check = require("seqrun.base.check")
local guess = require("seqrun.base.guess")
local habits = require("seqrun.base.habits")
local names = require("seqrun.base.names")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")
local word_set = require("seqrun.base.word_set")

local strict = {}

local MOST = 24 -- names that a message lists
local SETS = "%s sets '%s' itself, from what its functions are given"

---"; did you mean 'NAME'?", or the names that there are.
local function hint(title, key, known)
  local of = title:find("^the config") and guess or habits
  local text = of.hint(key, known)
  if text ~= "" or #known == 0 or #known > MOST then return text end
  return "; it has " .. table.concat(known, ", ")
end

---What models have elsewhere, but not here; another name may be a field that a person gives a model.
local METHODS = word_set "train eval forward parameters named_parameters state_dict load_state_dict cuda cpu half"

---Whether a name is similar to one of the known ones.
local function is_similar(key, known)
  local name = guess.nearest(key, known)
  return name ~= nil and (#key > 4 or guess.distance(key, name) == 1)
end

---Fails if a table that a person gives has a name that is similar to a known one.
---@param what string
---@param given table
---@param known string[]
function strict.check_names(what, given, known)
  for key in pairs(given) do
    local name = guess.nearest(tostring(key), known)
    if name and name ~= key and is_similar(key, known) then
      check.fail("%s has no '%s'; did you mean '%s'?", what, key, name)
    end
  end
end

---Raises at the line of a person's file that reads an unknown field of a sealed table.
---@param title string
---@param key any
---@param known fun(): string[] the names it has
---@param guessed? boolean only where a name is similar
local function check_read(title, key, known, guessed)
  if type(key) ~= "string" or not sys.is_outside(3) then return end
  local list = known()
  if guessed and not METHODS[key] and not is_similar(key, list) then return end
  error(("%s has no '%s'%s"):format(title, key, hint(title, key, list)), 3)
end

---Raises at the line of a person's file that sets a field, unless the object has it, or may get it.
---@param title string
---@param object table
---@param list string[] the names it has
---@param may table<string, boolean> those that may be nil
---@param open? boolean other names are errors only where one is similar, or does something in other libraries
local function check_write(title, object, key, value, list, may, open)
  if may[key] then
    if not open then check.fail(SETS, title, key) end
    return
  end
  for _, name in ipairs(list) do
    if name == key then
      if type(object[key]) ~= "function" or type(value) == "function" then return end
      check.fail("%s: '%s' is a function, in whose place %s was set", title, key, check.show(value))
    end
  end
  local of_config = type(object.config) == "table" and object.config[key] ~= nil
  local elsewhere = type(value) ~= "function" and (METHODS[key] or habits.use(key) or of_config)
  if open and not elsewhere and not is_similar(key, list) then return end
  local text = of_config and "; it is a key of its config, which was read when it was made" or hint(title, key, list)
  if text == "" then text = "; keep a value of your own in a local variable" end
  check.fail("%s has no '%s' to set%s", title, key, text)
end

---What __newindex of a sealed table is.
---@param title string|fun(object: table): string
---@param known fun(object: table): string[]
---@param may? table<string, boolean>
---@param open? boolean
---@return fun(object: table, key: any, value: any)
function strict.setter(title, known, may, open)
  return function(object, key, value)
    if type(key) == "string" and sys.is_outside(2) then
      local name = type(title) == "string" and title or title(object)
      check_write(name, object, key, value, known(object), may or {}, open)
    end
    rawset(object, key, value)
  end
end

---Makes unknown fields of a module, or of the objects of a class, errors.
---@generic T
---@param holder T the module, or the class whose objects find their methods in it
---@param title string|fun(object: table): string "sr.optim", "the optimizer"
---@param fields? string[] of objects, those that may be nil among them
---@param open? boolean objects may get more fields: only names similar to known ones are errors
---@return T
function strict.seal(holder, title, fields, open)
  local may = {}
  for _, name in ipairs(fields or {}) do may[name] = true end
  local meta = getmetatable(holder) or {}
  local parent = meta.__index
  if parent ~= nil and type(parent) ~= "table" then return holder end
  local function known(object)
    local set = {}
    for _, list in ipairs { names.of(holder), names.of(object), fields } do
      for _, name in ipairs(list) do set[name] = true end
    end
    return sorted(set)
  end
  function meta.__index(_, key)
    local value = parent and parent[key]
    if value == nil and not may[key] then check_read(title, key, known, open) end
    return value
  end
  local of = rawget(holder, "__index") and holder or meta -- a class, whose objects are sealed
  of.__newindex, of.__title = strict.setter(title, known, may, open), title
  return setmetatable(holder, meta)
end

---Fields of an object of a sealed class that only the library sets, also where they have a value.
---@generic T
---@param object T
---@param fields string[]
---@return T object
function strict.keep(object, fields)
  local class, kept, is_kept, meta = getmetatable(object), {}, {}, {}
  for key, value in pairs(class) do meta[key] = key:find("^__") and value or nil end
  for _, name in ipairs(fields) do
    is_kept[name], kept[name] = true, rawget(object, name)
    rawset(object, name, nil)
  end
  meta.__index = setmetatable(kept, { __index = class.__index })
  function meta.__newindex(self, key, value)
    if not is_kept[key] then return class.__newindex(self, key, value) end
    if sys.is_outside(2) then check.fail(SETS, class.__title, key) end
    kept[key] = value
  end
  return setmetatable(object, meta)
end

---Seals a module and the modules in it.
---@param module table
---@param title string
function strict.module(module, title)
  for name, inner in pairs(module) do
    local holds = type(inner) == "table" and not getmetatable(inner) and type(select(2, next(inner))) == "function"
    if holds and type(name) == "string" then strict.module(inner, title .. "." .. name) end
  end
  strict.seal(module, title)
end

---Raises at a place where a key of a config, or an element of its list, is set too late.
local function fail_late(where, path, value)
  error(("%sconfig: %s has been read before this line, and what was made from it has the old value; set it in the YAML "
    .. "file or on the command line: %s=%s"):format(where, path, path, value), 0)
end

---Values of a config that a person's file reads: unknown keys are errors, and so is setting a key that was read before,
---since what was made from it has the value that it had.
---@param values table
---@param schema table a map of seqrun.config
---@param title string
---@param shared? { lists: table<table, fun()>, closed?: boolean } lists: what looks at those that a file has read
---@return table # has the values
function strict.config(values, schema, title, shared)
  if schema.kind ~= "map" or schema.others then return values end
  local list, types, inner, was_read, made, places = {}, {}, {}, {}, {}, {}
  shared = shared or { lists = {} }
  local function path_of(key) return (title .. "." .. tostring(key)):match("^the config%.(.*)$") end
  if schema.variants then schema = schema.variants.maps[values[schema.variants.by]] or schema end
  for i, field in ipairs(schema.fields) do
    local name, value = field.name, values[field.name]
    list[i], types[name] = name, field.type
    if type(value) == "table" then inner[name] = strict.config(value, field.type, title .. "." .. name, shared) end
  end
  local function look(key, value)
    local now = types[key]:text(value)
    if places[key] and made[key] and made[key] ~= now then fail_late(places[key], path_of(key), now) end
    made[key] = now -- the library may complete a list
  end
  local function get(_, key)
    local value = inner[key]
    if value == nil then value = values[key] end
    if types[key] then
      was_read[key] = true
      if types[key].kind == "list" and value then
        if not sys.is_outside(2) then
          look(key, value)
        else
          places[key] = sys.where() -- perhaps in order to set an element
          shared.lists[value] = function() look(key, value) end
        end
      end
    elseif value == nil then
      check_read(title, key, function() return list end)
    end
    return value
  end
  local function set(_, key, value)
    if sys.is_outside(2) then
      local kind, path = types[key], path_of(key)
      if not kind then check.fail("%s has no '%s'%s", title, tostring(key), hint(title, tostring(key), list)) end
      if kind.kind == "map" then check.fail("config: %s has keys of its own, which are set one by one", path) end
      if was_read[key] or shared.closed then fail_late(sys.where(), path, kind:text(value)) end
    end
    values[key], inner[key] = value, nil
  end
  return setmetatable({}, {
    __index = get, __newindex = set, __names = function() return list end, __shared = shared,
    __pairs = function(view)
      for _, name in ipairs(list) do was_read[name] = true end -- also those without a value
      return function(_, last)
        local key = next(values, last)
        return key, view[key]
      end
    end,
  })
end

---All of a config has been read: no key may be set any more, and no list be changed, which is looked at in each call.
---@param config table made by strict.config
function strict.close_config(config)
  local shared = getmetatable(config).__shared
  shared.closed = true
  for _, look in pairs(shared.lists) do look() end
end

---What to do instead of setting an option of what was made from it.
local MADE = "it was read when this was made, so set it before"

---Values to read; their fields cannot be set.
---@param value any
---@param title string for messages
---@param way? string what to do instead
---@param but_library? boolean the library may set them, and tables in them are as they were
---@return any
function strict.fixed(value, title, way, but_library)
  if type(value) ~= "table" or getmetatable(value) then return value end
  local inner = {}
  for key, item in pairs(value) do
    inner[key] = but_library and item or strict.fixed(item, ("%s.%s"):format(title, tostring(key)), way)
  end
  return setmetatable({}, {
    __index = inner, __len = function() return #inner end, __pairs = function() return next, inner end,
    __newindex = function(_, key, item)
      local refused = not but_library or sys.is_outside(2)
      if refused then check.fail("%s.%s cannot be set here; %s", title, key, way or MADE) end
      inner[key] = item
    end,
  })
end

return strict

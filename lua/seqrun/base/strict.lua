-- strict.lua - unknown fields of modules and objects: an error where a person's file reads one, with a guess.
--
-- The library itself, and the prompt, which has hints of its own, get nil as usual.

local guess = require("seqrun.base.guess")
local habits = require("seqrun.base.habits")
local names = require("seqrun.base.names")
local sys = require("seqrun.core.sys")

local strict = {}

local MOST = 24 -- names that a message lists

---"; did you mean 'NAME'?", or the names that there are.
local function hint(title, key, known)
  local of = title:find("^the config") and guess or habits
  local text = of.hint(key, known)
  if text ~= "" or #known == 0 or #known > MOST then return text end
  return "; it has " .. table.concat(known, ", ")
end

---What models have elsewhere, but not here; another name may be a field that a person gives a model.
local METHODS = {}
for name in ("train eval forward parameters named_parameters state_dict load_state_dict cuda cpu half"):gmatch("%S+") do
  METHODS[name] = true
end

---Whether a name was probably meant to be one of the known ones.
local function is_slip(key, known)
  local name = guess.nearest(key, known)
  return METHODS[key] or name ~= nil and (#key > 4 or guess.distance(key, name) == 1)
end

---Raises at the line of a person's file that reads an unknown field of a sealed table.
---@param title string
---@param key any
---@param known fun(): string[] the names it has
---@param guessed? boolean only where a name is similar
local function check(title, key, known, guessed)
  if type(key) ~= "string" or not sys.is_outside(3) then return end
  local list = known()
  if guessed and not is_slip(key, list) then return end
  error(("%s has no '%s'%s"):format(title, key, hint(title, key, list)), 3)
end

---Makes unknown fields of a module, or of the objects of a class, errors.
---@generic T
---@param holder T the module, or the class whose objects find their methods in it
---@param title string "sr.optim", "the optimizer"
---@param fields? string[] of objects, those that may be nil among them
---@param open? boolean objects may get more fields: only names similar to known ones are errors
---@return T
function strict.seal(holder, title, fields, open)
  local may = {}
  for _, name in ipairs(fields or {}) do may[name] = true end
  local meta = getmetatable(holder) or {}
  local parent = meta.__index
  if parent ~= nil and type(parent) ~= "table" then return holder end
  local function known()
    local list = names.of(holder)
    for _, name in ipairs(fields or {}) do
      if rawget(holder, name) == nil then list[#list + 1] = name end
    end
    table.sort(list)
    return list
  end
  function meta.__index(_, key)
    local value = parent and parent[key]
    if value == nil and not may[key] then check(title, key, known, open) end
    return value
  end
  return setmetatable(holder, meta)
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

---Makes unknown keys of a config errors; those of its schema may be nil.
---@param values table
---@param schema table a map of seqrun.config
---@param title string
---@return table values
function strict.config(values, schema, title)
  if schema.kind ~= "map" or schema.others or getmetatable(values) then return values end
  local list = {}
  if schema.variants then schema = schema.variants.maps[values[schema.variants.by]] or schema end
  for i, field in ipairs(schema.fields) do
    list[i] = field.name
    local inner = values[field.name]
    if type(inner) == "table" then strict.config(inner, field.type, title .. "." .. field.name) end
  end
  return strict.seal(values, title, list)
end

return strict

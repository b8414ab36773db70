-- types.lua - the types of config keys: parsing, checking and writing values.
--
-- A type is a table { kind, default?, required?, optional?, min?, max?, above?, below?, word?, doc?, changeable?,
-- same_bits? }.
--
--   required     the key must be given
--   before       the value in configs of runs that did not know the key yet
--   optional     it may be left out, or given as `none`: its value is nil
--   min, max     the least and the largest value; above, below: exclusive bounds
--   word         a word allowed in addition to the type's values, such as `auto` for a number
--   like         of an enum: a Lua pattern of further values, such as `example`
--   one          a single value is read as a list of it
--   bare         with `one`: a list of one is that value
--   distinct     of a list: no value may come twice
--   scalar       of an optional map: a single value is read as a map with this key
--   others       of a map: the type of all keys that it does not name
--   variants     of a map: { by = key, maps = { value = map } }: where this key has this value, the map has those keys
--   idle         of a map: { key = text }: keys of earlier versions without effect, and the value that needs no note
--   changeable   a resumed run may change the value
--   same_bits    a training has the same bits whatever the value
--   runs         the value is a command or names a file of code: run/load_config.lua says whose values count
--
-- Text becomes a value by the type, never by its looks: `no` is text for a string and wrong for a number.

local check = require("seqrun.base.check")
local guess = require("seqrun.base.guess")
local merged = require("seqrun.base.merged")

local types = {}

---Integers up to this size are exact in a double, so a double that looks like an integer is exact.
local EXACT = 1 << 53

local Type = {}
Type.__index = Type

local function copy(value)
  if type(value) ~= "table" then return value end
  local own = {}
  for key, one in pairs(value) do own[key] = copy(one) end
  return own
end

local function new(kind, options, more)
  local self = merged(options, more)
  self.kind, self.default = kind, copy(self.default)
  return setmetatable(self, Type)
end

-- ---- from text to values ---------------------------------------------------------------------

---A decimal number with `_` between digits allowed; nil if it is not a number, or not finite.
local function decimal(text)
  local plain = text:gsub("(%d)_(%f[%d])", "%1%2")
  local body = plain:match("^[+-]?(.+)$")
  if not body or not (body:find("^%d+%.?%d*$") or body:find("^%.%d+$")
    or body:find("^%d+%.?%d*[eE][+-]?%d+$") or body:find("^%.%d+[eE][+-]?%d+$")) then
    return nil
  end
  local value = tonumber(plain)
  if value and value == value and math.abs(value) < math.huge then return value end
end

local parse = {}

function parse.string(_, text) return text end
parse.path = parse.string

function parse.integer(_, text)
  local value = decimal(text)
  if not value or math.abs(value) > EXACT then return nil, "an integer" end
  local whole = math.tointeger(value)
  if not whole then return nil, "an integer" end
  return whole
end

function parse.number(_, text)
  local percent = text:match("^(.*)%%$")
  local value = decimal(percent or text)
  if not value then return nil, "a number such as 0.01, 1e-4 or 10%" end
  if percent and value > 100 then return nil, "at most 100%, as a share" end -- a number above 1 may be a count
  return percent and value / 100 or value + 0.0
end

function parse.boolean(_, text)
  if text == "true" then return true end
  if text == "false" then return false end
  return nil, "true or false"
end

function parse.enum(self, text)
  for _, name in ipairs(self.names) do
    if text == name then return name end
  end
  if self.like and text:find(self.like) then return text end
  local instead = self.removed and self.removed[text]
  if instead then return nil, self:describe(), ("; '%s' was removed, choose %s"):format(text, instead) end
  return nil, self:describe(), guess.hint(text, self.names)
end

local UNITS = { d = 86400, h = 3600, m = 60, s = 1 }

function parse.duration(_, text)
  local plain = decimal(text)
  if plain and plain < 0 then return nil, "a time of 0 or more, such as 2h" end
  if plain then return plain + 0.0 end
  local total, rest = 0.0, text
  repeat
    local number, unit, after = rest:match("^(%d+%.?%d*)([dhms])(.*)$")
    if not number then return nil, "a time such as 2h, 1h30m or 90s" end
    total, rest = total + tonumber(number) * UNITS[unit], after
  until rest == ""
  return total
end

local FACTORS = { [""] = 1, k = 1 << 10, M = 1 << 20, G = 1 << 30, T = 1 << 40 }

function parse.size(_, text)
  local number, unit = text:match("^([%d_%.]+)([kMGT]?)$")
  local value = number and decimal(number)
  local whole = value and math.tointeger(value * FACTORS[unit])
  if not whole or whole > EXACT then return nil, "a size such as 4096, 64k or 2M" end
  return whole
end

---What a number had to be that is out of range; nil for others.
local function out_of_range(self, value)
  if self.min and value < self.min then return "at least " .. self:text(self.min) end
  if self.max and value > self.max then return "at most " .. self:text(self.max) end
  if self.above and value <= self.above then return "more than " .. self:text(self.above) end
  if self.below and value >= self.below then return "less than " .. self:text(self.below) end
end

---The default, as a copy that nobody shares.
---@return any
function Type:usual() return copy(self.default) end

---@return any value nil if the text is not such a value
---@return string? expected what was expected
---@return string? hint
function Type:parse(text)
  if self.word and text == self.word then return text end
  local value, want, hint = parse[self.kind](self, text)
  if value == nil then return nil, self.word and ("%s, or %s"):format(want, self.word) or want, hint end
  want = out_of_range(self, value)
  if want then return nil, want end
  return value
end

---The bounds of a number: "from 1 to 8", "in [0, 1)", ">= 1"; nil if there are none.
---@return string?
function Type:range()
  local least, most = self.min or self.above, self.max or self.below
  if least and self.max and self.min then return ("from %s to %s"):format(self:text(least), self:text(most)) end
  if least and most then
    return ("in %s%s, %s%s"):format(self.min and "[" or "(", self:text(least), self:text(most), self.max and "]" or ")")
  end
  if least then return (self.min and ">= " or "> ") .. self:text(least) end
  return most and (self.max and "<= " or "< ") .. self:text(most)
end

local is_value = {}

function is_value.number(self, value)
  return type(value) == "number" and value == value and math.abs(value) < math.huge and not out_of_range(self, value)
end

function is_value.integer(self, value) return is_value.number(self, value) and math.tointeger(value) ~= nil end

function is_value.string(_, value) return type(value) == "string" end

function is_value.boolean(_, value) return type(value) == "boolean" end

function is_value.enum(self, value)
  for _, name in ipairs(self.names) do
    if value == name then return true end
  end
  return false
end

function is_value.list(self, value)
  if type(value) ~= "table" then return self.bare == true and self.of:fault(value) == nil end
  for _, item in ipairs(value) do
    if self.of:fault(item) then return false end
  end
  return true
end

---What was expected instead of a value of Lua (a number, true or false, a name, or a list of these); nil if it is one.
---@param value any
---@return string?
function Type:fault(value)
  if is_value[self.kind](self, value) then return nil end
  local bounded = self.kind == "integer" or self.kind == "number"
  local range = bounded and self:range()
  return self:describe() .. (range and " " .. range or "")
end

---The same type with other options.
---@param options seqrun.TypeOptions
function Type:with(options) return new(self.kind, self, options) end

-- ---- from values to text ---------------------------------------------------------------------

---The shortest decimal that reads back as the same double.
local function number_text(value)
  for digits = 6, 17 do
    local text = ("%%.%dg"):format(digits):format(value)
    if tonumber(text) == value then return text end
  end
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

---Text as a YAML scalar, quoted unless it is plainly a word.
local function string_text(value)
  if value:find("^[%w_%./][%w_%./%-]*$") and value ~= "none" and value ~= "null" then return value end
  return '"' .. value:gsub('[%c"\\]', function(c)
    return ESCAPES[c] or ("\\x%02x"):format(c:byte())
  end) .. '"'
end

---A value as the YAML that gives it back.
function Type:text(value)
  if value == nil then return "none" end
  if self.kind == "map" then return "given" end
  if self.kind == "list" and type(value) ~= "table" then return self.of:text(value) end
  if self.kind == "list" then
    local parts = {}
    for i, item in ipairs(value) do parts[i] = self.of:text(item) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  if math.type(value) == "integer" then return ("%d"):format(value) end
  if type(value) == "number" then return number_text(value) end
  if type(value) == "boolean" then return tostring(value) end
  return string_text(tostring(value))
end

---"a number" and so on, for messages.
function Type:describe()
  local names = {
    string = "a string", path = "a path", integer = "an integer", number = "a number", boolean = "true or false",
    duration = "a time", size = "a size", list = "a list", map = "keys and values",
  }
  if names[self.kind] then return names[self.kind] end
  return "one of " .. table.concat(self.names, ", ") .. (self.like and ", or such as " .. self.example or "")
end

-- ---- making types ----------------------------------------------------------------------------

---@class seqrun.TypeOptions
---@field default? any
---@field required? boolean the key must be given
---@field optional? boolean it may be left out, or given as `none`: its value is nil
---@field min? number
---@field max? number
---@field above? number all values are above this one
---@field below? number all values are below this one
---@field word? string allowed in addition to the values of the type, such as auto for a number
---@field like? string of an enum: a Lua pattern of further values
---@field removed? table<string, string> of an enum: words of earlier versions, and what to choose instead
---@field example? string of `like`
---@field doc? string one sentence for --help
---@field changeable? boolean a resumed run may change it
---@field same_bits? boolean a training has the same bits whatever its value

---A config key: text.
---@param options? seqrun.TypeOptions
function types.string(options) return new("string", options) end

---A config key: the path of a file or directory.
---@param options? seqrun.TypeOptions
function types.path(options) return new("path", options) end

---A config key: an integer, such as 65_536 or 1e6.
---@param options? seqrun.TypeOptions
function types.integer(options) return new("integer", options) end

---A config key: a number, such as 1e-4 or 10%.
---@param options? seqrun.TypeOptions
function types.number(options) return new("number", options) end

---A config key: true or false.
---@param options? seqrun.TypeOptions
function types.boolean(options) return new("boolean", options) end

---A config key: a time in seconds, such as 90s, 1h30m or 2d.
---@param options? seqrun.TypeOptions
function types.duration(options) return new("duration", options) end

---A config key: a number of bytes, such as 64k or 2M.
---@param options? seqrun.TypeOptions
function types.size(options) return new("size", options) end

---A config key with one of these words.
---@param names string[]
---@param options? seqrun.TypeOptions
function types.enum(names, options) return new("enum", options, { names = names }) end

---A config key with a list of values.
---@param of table the type of every element (not a map, not a list)
---@param options? seqrun.TypeOptions
function types.list(of, options) return new("list", options, { of = of }) end

---A group of config keys.
---@param fields table[] { name, type } in the order in which they are written
---@param options? seqrun.TypeOptions
function types.map(fields, options)
  local by_name = {}
  for i, field in ipairs(fields) do
    assert(not by_name[field[1]], field[1])
    by_name[field[1]] = field[2]
    fields[i].name, fields[i].type = field[1], field[2]
  end
  return new("map", options, { fields = fields, by_name = by_name })
end

---The keys of two maps in one: maps of the same name are merged; any other duplicate name is an error.
---@param first table
---@param second table
function types.merge(first, second)
  local fields, place = {}, {}
  for i, field in ipairs(first.fields) do fields[i], place[field.name] = { field.name, field.type }, i end
  for _, field in ipairs(second.fields) do
    local before = fields[place[field.name]]
    if not before then
      fields[#fields + 1] = { field.name, field.type }
    elseif before[2].kind == "map" and field.type.kind == "map" then
      before[2] = types.merge(before[2], field.type)
    else
      check.fail("config: duplicate key '%s' in the schema; choose another name", field.name)
    end
  end
  local map = types.map(fields, first)
  map.others = second.others or first.others
  return map
end

---A map with other defaults.
---@param schema table
---@param values table defaults by key, as in a config
---@return table
function types.defaults(schema, values)
  local fields = {}
  for name in pairs(schema.others and {} or values) do
    if not schema.by_name[name] then check.fail("config: no key '%s' in the schema to give another default", name) end
  end
  for i, field in ipairs(schema.fields) do
    local value, type_of = values[field.name], field.type
    if value ~= nil and type_of.kind == "map" then
      type_of = types.defaults(type_of, value)
    elseif value ~= nil then
      type_of = type_of:with { default = value }
      type_of.optional = nil
    end
    fields[i] = { field.name, type_of }
  end
  return types.map(fields, schema)
end

---A map without some keys.
---@param schema table
---@param paths string[] dotted; a map left without keys goes too
function types.without(schema, paths)
  local own, below, fields = {}, {}, {}
  for _, path in ipairs(paths) do
    local head, rest = path:match("^([^.]+)%.?(.*)$")
    if not schema.by_name[head] then check.fail("config: no key '%s' in the schema to leave out", path) end
    if rest == "" then own[head] = true else below[head] = below[head] or {} end
    if rest ~= "" then table.insert(below[head], rest) end
  end
  for _, field in ipairs(schema.fields) do
    local kept = below[field.name] and types.without(field.type, below[field.name]) or field.type
    local empty = kept.kind == "map" and #kept.fields == 0
    if not own[field.name] and not empty then fields[#fields + 1] = { field.name, kept } end
  end
  return types.map(fields, schema)
end

---A name that a map with `others` takes, so that paths and YAML stay plain.
local OTHER_NAME = "^%a[%w_-]*$"

---The map itself, or the one of its variants that the value of their key chooses.
---@param schema table
---@param value any
---@return table
function types.chosen(schema, value)
  return schema.variants and schema.variants.maps[value] or schema
end

---The type of a key of a map, without its variants.
function types.own(schema, name)
  return schema.by_name[name] or schema.others and name:find(OTHER_NAME) and schema.others or nil
end

---The type of a key in any variant of a map.
local function in_variants(schema, name)
  for _, map in pairs(schema.variants and schema.variants.maps or {}) do
    if map.by_name[name] then return map.by_name[name] end
  end
end

---The type of a key of a map, in any of its variants; nil if it has none of this name.
function types.inner(schema, name)
  return types.own(schema, name) or in_variants(schema, name)
end

---The fields of a map as `values` choose them, with the further ones that `values` has.
---@param schema table
---@param values? table
---@return { name: string, type: table }[]
function types.fields(schema, values)
  if schema.variants and values then schema = types.chosen(schema, values[schema.variants.by]) end
  if not schema.others then return schema.fields end
  local fields, names = table.move(schema.fields, 1, #schema.fields, 1, {}), {}
  for name in pairs(values or {}) do
    if not schema.by_name[name] then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do fields[#fields + 1] = { name = name, type = schema.others } end
  return fields
end

---Calls fn(path, type) for every key with a value, in the order of the schema.  An optional map without a value, and
---one whose values are not passed, is a key itself.
---@param schema table
---@param fn fun(path: string, type: table)
---@param prefix? string before each path
---@param values? table
function types.each(schema, fn, prefix, values)
  for _, field in ipairs(types.fields(schema, values)) do
    local path, value = (prefix or "") .. field.name, values and values[field.name]
    if field.type.kind == "map" and (value or not field.type.optional) then
      types.each(field.type, fn, path .. ".", value)
    else
      fn(path, field.type)
    end
  end
end

return types

-- reference.lua - the keys of a schema for people and for editors: a list with types, ranges and defaults, a commented
-- YAML file, and a JSON Schema.

local reference = {}

local INDENT = "      "

-- ---- for people ------------------------------------------------------------------------------------

local UNITS = { duration = "a time in seconds, or such as 1h30m", size = "a size in bytes, or such as 64k" }

local function kind_of(t)
  if t.kind == "list" then
    local count = t.min and t.min == t.max and ("list of %d: "):format(t.min) or "list of: "
    return count .. kind_of(t.of)
  end
  if t.kind == "map" then return t.scalar and "one value, or the keys below" or "the keys below" end
  local range = (t.kind == "integer" or t.kind == "number") and t:range()
  local text = (UNITS[t.kind] or t:describe():gsub("^one of ", ""):gsub("^an? ", "")) .. (range and " " .. range or "")
  return t.word and text .. ", or " .. t.word or text
end

local function default_of(t)
  if t.required then return "required" end
  if t.default == nil then return "default none" end
  return "default " .. t:text(t.default)
end

local function wrapped(text, width)
  local lines, line = {}, ""
  for word in text:gmatch("%S+") do
    if line ~= "" and #line + 1 + #word > width then
      lines[#lines + 1], line = line, word
    else
      line = line == "" and word or line .. " " .. word
    end
  end
  lines[#lines + 1] = line
  return lines
end

---The other keys that a map may have are shown under this name.
local ANY = "NAME"

local add_keys

local function add_key(lines, path, t, width)
  if t.kind ~= "map" or t.optional then
    lines[#lines + 1] = ("  %s  (%s; %s)"):format(path, kind_of(t), default_of(t))
    for _, line in ipairs(wrapped(t.doc or "", width - #INDENT)) do
      if line ~= "" then lines[#lines + 1] = INDENT .. line end
    end
  end
  if t.kind == "map" then add_keys(lines, t, path .. ".", width) end
end

function add_keys(lines, schema, prefix, width)
  for _, field in ipairs(schema.fields) do add_key(lines, prefix .. field.name, field.type, width) end
  if schema.others then add_key(lines, prefix .. ANY, schema.others, width) end
end

---Every key with its type, range, default and meaning.
---@param schema table a map of seqrun.config
---@param width? integer columns, 100
---@return string
function reference.text(schema, width)
  local lines = {}
  add_keys(lines, schema, "", width or 100)
  return table.concat(lines, "\n")
end

local add_map

---A line of YAML, a comment unless the value is set.
local function yaml_line(depth, is_set, text) return (is_set and "" or "# ") .. ("  "):rep(depth) .. text end

local function add_comment(lines, comment, depth, is_set, width)
  for _, line in ipairs(wrapped(comment, width - 2 * depth - 6)) do
    lines[#lines + 1] = yaml_line(depth, is_set, "  # " .. line)
  end
end

---Adds a key; of those that `loaded` has from a file, with its value.
---@return boolean # whether it is set
local function add_yaml(lines, field, path, depth, width, loaded)
  local t, doc = field.type, field.type.doc and field.type.doc .. "; " or ""
  if t.kind == "map" then
    local inner = {}
    local is_set = add_map(inner, t, path .. ".", depth + 1, width, loaded)
    if t.doc then add_comment(lines, t.doc, depth, is_set, width) end
    lines[#lines + 1] = yaml_line(depth, is_set, field.name .. ":")
    table.move(inner, 1, #inner, #lines + 1, lines)
    return is_set
  end
  local origin = loaded and loaded.origins[path] or "default"
  local is_set = origin ~= "default" and origin ~= "missing"
  add_comment(lines, doc .. kind_of(t), depth, is_set, width)
  local value
  if is_set then value = require("seqrun.config").get(loaded.values, path) else value = t.default end
  lines[#lines + 1] = yaml_line(depth, is_set, ("%s: %s"):format(field.name, t.required and not is_set and "..."
    or t:text(value)))
  return is_set
end

function add_map(lines, schema, prefix, depth, width, loaded)
  local any = false
  for _, field in ipairs(schema.fields) do
    any = add_yaml(lines, field, prefix .. field.name, depth, width, loaded) or any
  end
  if schema.others then
    add_yaml(lines, { name = ANY, type = schema.others }, prefix .. ANY, depth, width, loaded)
  end
  return any
end

---All keys as YAML: comments with their defaults, but for the keys that a file has set.
---@param schema table
---@param loaded? seqrun.Config read from that file
---@return string
function reference.yaml(schema, loaded)
  local lines = {}
  add_map(lines, schema, "", 0, 110, loaded)
  return table.concat(lines, "\n")
end

-- ---- for editors -----------------------------------------------------------------------------------

local schema_of

local function map_schema(t)
  local properties, additional = {}, t.others and schema_of(t.others) or t.variants ~= nil
  for _, field in ipairs(t.fields) do properties[field.name] = schema_of(field.type) end
  return { type = "object", properties = properties, additionalProperties = additional }
end

local function number_schema(type, t)
  return { type = type, minimum = t.min, maximum = t.max, exclusiveMinimum = t.above, exclusiveMaximum = t.below }
end

local SHAPES = {
  string = function() return { type = "string" } end,
  boolean = function() return { type = "boolean" } end,
  integer = function(t) return number_schema("integer", t) end,
  number = function(t) return { anyOf = { number_schema("number", t), { type = "string", pattern = "%$" } } } end,
  enum = function(t)
    local words = { enum = t.names }
    return t.like and { anyOf = { words, { type = "string" } } } or words
  end,
  list = function(t)
    return { type = "array", items = schema_of(t.of), minItems = t.min, maxItems = t.max }
  end,
  map = map_schema,
}
SHAPES.path = SHAPES.string
SHAPES.duration = function() return { type = { "number", "string" } } end
SHAPES.size = function() return { type = { "integer", "string" } } end

---A value that is not of the type: `none`, a word, one element of a list, a scalar for a map.
local function alternatives(t)
  local list = {}
  if t.optional then list[#list + 1] = { const = "none" } end
  if t.word then list[#list + 1] = { const = t.word } end
  if t.one then list[#list + 1] = schema_of(t.of) end
  if t.scalar then list[#list + 1] = { type = { "number", "string", "boolean" } } end
  return list
end

function schema_of(t)
  local shape, others = SHAPES[t.kind](t), alternatives(t)
  if #others > 0 then
    table.insert(others, 1, shape)
    shape = { anyOf = others }
  end
  local note = t.required and " (required, here or on the command line)" or ""
  if t.doc or t.required then shape.description = (t.doc or "") .. note end
  if type(t.default) ~= "table" then shape.default = t.default end
  return shape
end

---The schema as a JSON Schema, for completion and checks in editors.
---@param schema table
---@param title? string
---@return table # for seqrun.core.json
function reference.json_schema(schema, title)
  local root = map_schema(schema)
  root["$schema"], root.title = "http://json-schema.org/draft-07/schema#", title
  root["$defs"] = { preset = map_schema(schema) }
  root.properties.presets = {
    type = "object", additionalProperties = { ["$ref"] = "#/$defs/preset" },
    description = "named sets of values, chosen by preset=NAME",
  }
  return root
end

return reference

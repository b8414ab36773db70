-- tree.lua - the nodes of a config before they have types: parsed, merged, set by arguments.
--
-- A node is what seqrun.core.yaml gives, with its source; a map has its entries by name.

local problems = require("seqrun.config.problems")
local synonyms = require("seqrun.config.synonyms")
local types = require("seqrun.config.types")
local yaml = require("seqrun.core.yaml")

local tree = {}

---Gives every node its source and every map its entries by name.
local function prepare(node, source, layer)
  node.source, node.layer = source, layer
  if node.kind == "map" then
    node.by_name = {}
    for _, entry in ipairs(node) do
      entry.key.source, entry.key.layer = source, layer
      node.by_name[entry.key.value] = entry
      prepare(entry.value, source, layer)
    end
  elseif node.kind == "list" then
    for _, item in ipairs(node) do prepare(item, source, layer) end
  end
  return node
end

---An empty map for a source without a document.
function tree.empty(source)
  return prepare({ kind = "map", line = 1, column = 1 }, source)
end

---The nodes of a text; its problems go to `found`.
---@return table # a map, empty when the text holds none
function tree.read(text, source, found)
  local root, mistakes = yaml.parse(text)
  for _, mistake in ipairs(mistakes) do
    mistake.source = source
    found:add(mistake, "%s", mistake.message)
    found.truncated = found.truncated or mistake.message:find("^YAML: ") ~= nil -- later keys were not read
  end
  if root == nil then return tree.empty(source) end
  prepare(root, source)
  if root.kind == "map" then return root end
  found:add(root, "a config must be keys and values, such as `seed: 1`")
  return tree.empty(source)
end

local function put(map, key, value)
  local entry = map.by_name[key.value]
  if entry then
    entry.key, entry.value = key, value
  else
    entry = { key = key, value = value }
    map[#map + 1], map.by_name[key.value] = entry, entry
  end
end

---A copy of a map whose maps are its own, so that laying something over it leaves the first alone.
function tree.copy(node)
  if node.kind ~= "map" then return node end
  local copy = { by_name = {} }
  for key, value in pairs(node) do
    if type(key) == "string" and key ~= "by_name" then copy[key] = value end
  end
  for _, entry in ipairs(node) do put(copy, entry.key, tree.copy(entry.value)) end
  return copy
end

---Lays `over` on `base` (changed): maps are merged key by key, everything else is replaced.
function tree.lay(base, over, layer)
  for _, entry in ipairs(over) do
    local below = base.by_name[entry.key.value]
    if below and below.value.kind == "map" and entry.value.kind == "map" then
      tree.lay(below.value, entry.value, layer)
    else
      local value = tree.copy(entry.value)
      tree.mark(value, layer)
      put(base, entry.key, value)
    end
  end
end

---Names the layer that a node and all below it came from, for `--explain`.
function tree.mark(node, layer)
  node.layer = layer
  if node.kind == "map" then
    for _, entry in ipairs(node) do tree.mark(entry.value, layer) end
  end
end

---The value of an argument as a node: text for a scalar type, YAML for a list.
local function argument_value(text, column, argument, wanted, found)
  if wanted.kind ~= "list" then
    local source = problems.argument_source(argument)
    return { kind = "scalar", value = text, quoted = false, line = 1, column = column,
             width = math.max(1, utf8.len(text) or #text), source = source }
  end
  local source = problems.argument_source(argument, column - 1)
  local root, mistakes = yaml.parse(text)
  for _, mistake in ipairs(mistakes) do
    mistake.source = source
    found:add(mistake, "%s", mistake.message)
  end
  if root then return prepare(root, source) end
end

---The parts of a dotted path as key nodes, each with its column.
local function path_keys(path, source)
  local keys, column = {}, 1
  for name in (path .. "."):gmatch("([^.]*)%.") do
    keys[#keys + 1] = { kind = "scalar", value = name, line = 1, column = column, width = math.max(1, #name),
                        source = source }
    column = column + #name + 1
  end
  return keys
end

---Sets what `key.path=value` says in a map; an unknown key is left for the schema's check to name.
---@param root table map, changed
---@param argument string
---@param schema table map type
---@param found table problems
function tree.set(root, argument, schema, found)
  local path, text = argument:match("^([^=]*)=(.*)$")
  local source = problems.argument_source(argument)
  if not path or path == "" then
    return found:add({ source = source, width = #argument }, "'%s' is not key.path=value", argument)
  end
  local keys, map, wanted = path_keys(path, source), root, schema
  for i, key in ipairs(keys) do
    local inner = types.inner(wanted, key.value)
    if not inner then return found:add(key, "%s", tree.unknown(key.value, wanted, schema)) end
    if inner.kind ~= "map" and i < #keys then
      return found:add(keys[i + 1], "'%s' is %s and has no keys", key.value, inner:describe())
    end
    local plain = inner.optional and (inner.scalar or text == "none")
    if inner.kind == "map" and i == #keys and not plain then
      return found:add(key, "'%s' has keys; set one of them, such as %s.%s=...", key.value, path,
        inner.fields[1].name)
    end
    if i == #keys then
      local value = argument_value(text, #path + 2, argument, inner, found)
      if value then value.layer = "argument"; put(map, key, value) end
      return
    end
    local entry = map.by_name[key.value]
    if not entry or entry.value.kind ~= "map" then
      put(map, key, prepare({ kind = "map", line = 1, column = key.column }, source))
      entry = map.by_name[key.value]
    end
    map, wanted = entry.value, inner
  end
end

---The paths of a schema's maps that have a key of this name.
local function homes(name, schema, prefix, list)
  for _, field in ipairs(schema.fields) do
    if field.type.kind == "map" then
      local path = prefix .. field.name
      if field.type.by_name[name] then list[#list + 1] = path end
      homes(name, field.type, path .. ".", list)
    end
  end
  return list
end

---Keys that a message may list.
local MOST_LISTED = 30

---"unknown key 'x' with family=y; ...", for a map that another key chose.
function tree.unknown_of(name, wanted, by, value)
  local names = {}
  for _, field in ipairs(wanted.fields) do
    if field.name ~= by then names[#names + 1] = field.name end
  end
  local hint = require("seqrun.base.guess").hint(name, names)
  return ("unknown key '%s' with %s=%s%s"):format(name, by, value, hint ~= "" and hint or "; use one of "
    .. table.concat(names, ", "))
end

---"unknown key 'x'; ..." with the best guess at what was meant.
function tree.unknown(name, wanted, schema)
  local names = {}
  for i, field in ipairs(wanted.fields) do names[i] = field.name end
  local hint = require("seqrun.base.guess").hint(name, names)
  if hint == "" then hint = synonyms.hint_in(name, wanted, schema) end
  local found = hint == "" and homes(name, schema, "", {}) or {}
  if hint == "" and schema.by_name[name] and wanted ~= schema then
    hint = "; that key exists at the top level"
  elseif found[1] then
    hint = ("; that key exists under '%s'"):format(found[1])
  elseif hint == "" then
    hint = synonyms.hint(name, schema)
  end
  if hint == "" and #names <= MOST_LISTED then
    hint = "; choose one of: " .. table.concat(names, ", ")
  end
  return ("unknown key '%s'%s"):format(name, hint)
end

return tree

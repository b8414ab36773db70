-- continuing.lua - pretraining goes on from a model of any family: where init.from names a directory, its config.json
-- says the kind and the sizes of the model, as in fine-tuning.

local checkpoint = require("seqrun.checkpoint")
local failure = require("seqrun.base.failure")
local tree = require("seqrun.config.tree")
local types = require("seqrun.config.types")

local continuing = {}

---Parts of the names of keys that a model that goes on may have otherwise: they change no shape.
local FREE = {
  "drop", "theta", "local_attention", "global_attn", "layer_types", "sliding_window", "initializer", "max_position",
  "pooling", "recompute", "expert",
}

local function is_free(name)
  for _, part in ipairs(FREE) do
    if name:find(part, 1, true) then return true end
  end
  return false
end

---Whether a schema is of a task that makes the model of its own keys.
---@param schema table
---@return boolean
function continuing.applies(schema)
  local model = schema.by_name.model
  return model ~= nil and model.variants ~= nil and schema.by_name.init ~= nil
end

---The text of a key of the group `init`; nil of none.
local function init_key(root, name)
  local group = root.by_name.init
  local entry = group and group.value.kind == "map" and group.value.by_name[name]
  local text = entry and entry.value.kind == "scalar" and entry.value.value
  return text ~= "none" and text or nil
end

---The model to go on from; nil if init.from names none, or one that is refused later.
local function model_of(root)
  local from = init_key(root, "from")
  if not from or init_key(root, "tile") then return nil end
  return (failure.valid(checkpoint.pretrained(from)))
end

---Whether a value that is given is another one than the model's.
local function differs(node, wanted, value)
  return node.kind == "scalar" and value ~= nil and wanted:text(wanted:parse(node.value)) ~= wanted:text(value)
end

---Removes the keys of another family, unless the command line gives them.
local function drop_others(map, known)
  for i = #map, 1, -1 do
    local entry = map[i]
    if not known[entry.key.value] and entry.value.layer ~= "argument" then
      table.remove(map, i)
      map.by_name[entry.key.value] = nil
    end
  end
end

---Fills in the keys `model` of the directory that init.from names.  A size that the command line or config=FILE gives
---otherwise is a problem; the YAML of the recipe gives way.
---@param root table nodes of the config, changed
---@param schema table
---@param own boolean whether the file is the recipe's own YAML
---@param found table problems
---@return string[] # keys of the YAML that gave way
function continuing.lay(root, schema, own, found)
  local facts = continuing.applies(schema) and model_of(root)
  local lost = {}
  if not facts then return lost end
  local wanted = types.chosen(schema.by_name.model, facts.family.name)
  local group = root.by_name.model
  local given, lines = group and group.value.by_name or {}, { "model:" }
  for _, field in ipairs(wanted.fields) do
    local name, rule = field.name, facts.family.keys[field.name]
    local value, node = facts.config[name], given[name] and given[name].value
    if value == nil and rule then value = rule.default end
    if name == "family" then value = facts.family.name end
    if field.type.kind == "list" and value ~= nil and type(value) ~= "table" then value = { value } end
    local counts = node and (not own or node.layer == "argument")
    if counts and not is_free(name) and differs(node, field.type, value) then
      found:add(node, "model.%s is %s, but the model of init.from, %s, has %s; leave the key out, or set init.tile=true"
        .. " for a larger model", name, node.value, facts.path, field.type:text(value))
      counts = false -- no further problem of a value that is wrong already
    end
    if own and node and not counts and not is_free(name) and differs(node, field.type, value) then
      lost[#lost + 1] = "model." .. name
    end
    if value ~= nil and not counts and not (node and is_free(name)) then
      lines[#lines + 1] = ("  %s: %s"):format(name, field.type:text(value))
    end
  end
  if own and group then drop_others(group.value, wanted.by_name) end
  local source = { name = facts.path .. "/config.json", lines = {} }
  if lines[2] then tree.lay(root, tree.read(table.concat(lines, "\n"), source, found), "init.from") end
  return lost
end

return continuing

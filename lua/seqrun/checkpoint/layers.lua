-- layers.lua - whether a checkpoint has the layers that a model has: neither is to lose or gain some in silence.

local names = require("seqrun.checkpoint.names")

local layers = {}

---The number of layers by module, such as "bert.encoder.layer.*", and a tensor of its last one.
---@param list string[] names of tensors
---@return table<string, { count: integer, last: string, tensors: integer }>
function layers.of(list)
  local found = {}
  for _, name in ipairs(list) do
    local module, layer = names.at_layer(name)
    if module then
      local one = found[module] or { count = 0, last = name, tensors = 0 }
      if layer >= one.count then one.count, one.last = layer + 1, name end
      one.tensors, found[module] = one.tensors + 1, one
    end
  end
  return found
end

---What is wrong with the layers that tensors are loaded into; nil where both have the same.
---@param wanted string[] names of the parameters that are to be loaded
---@param given string[] names of the tensors, as the model calls them
---@return string|nil
function layers.problem(wanted, given)
  local file = layers.of(given)
  for module, model in pairs(layers.of(wanted)) do
    local theirs = file[module]
    if theirs and theirs.count ~= model.count then
      local way = "use the config.json of the checkpoint, or for a larger model init.tile=true"
      return ("checkpoint: it has %d layers (up to '%s'), the model has %d; %s"):format(theirs.count, theirs.last,
        model.count, way)
    end
  end
end

---What is wrong with the layers of a directory whose config has `count` of them.
---@param given string[] names of its tensors
---@param count integer
---@return string|nil
function layers.differ(given, count)
  local most
  for _, one in pairs(layers.of(given)) do
    if not most or one.tensors > most.tensors then most = one end
  end
  if not most or most.count == count then return nil end
  return ("config.json has %d layers, but the tensors have %d (up to '%s'); one of the two belongs to another model")
    :format(count, most.count, most.last)
end

return layers

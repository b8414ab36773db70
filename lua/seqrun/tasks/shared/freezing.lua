-- freezing.lua - the key tune.freeze: parameters that are not trained, by patterns of their names.

local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")

local freezing = {}

---A Lua pattern for the names that have these parts between their dots, one after the other; * matches any
---characters.
local function pattern_of(glob)
  return "%f[^%.\0]" .. glob:gsub("%p", "%%%0"):gsub("%%%*", ".*") .. "%f[%.\0]"
end

---The names that a pattern matches; a pattern without any is refused.
local function matching(glob, names)
  local pattern, list = pattern_of(glob), {}
  for _, name in ipairs(names) do
    if name:find(pattern) then list[#list + 1] = name end
  end
  if #list > 0 then return list end
  failure.raise("config", "tune.freeze: '%s' matches no parameter; names are such as %s, %s, %s, and * matches any "
    .. "characters", glob, names[1], names[#names // 2], names[#names])
end

---"3 parameters (a.weight, a.bias, b.weight)", the first and the last of many.
local function text_of(list)
  local shown = table.concat(list, ", ")
  if #list > 4 then shown = ("%s, %s ... %s"):format(list[1], list[2], list[#list]) end
  return ("%s (%s)"):format(counted(#list, "parameter"), shown)
end

---The lowest layers that are frozen whole, with all below them; nil if there are none.
local function depth_of(encoder, frozen)
  local lowest = encoder.design.layers + 1 -- that has something to train
  for _, spec in ipairs(encoder.specs) do
    if not frozen[spec.name] then lowest = math.min(lowest, encoder:depth(spec.name) or encoder.design.layers + 1) end
  end
  return lowest > 0 and math.min(lowest - 1, encoder.design.layers) or nil
end

---@param cfg table
---@param model seqrun.Bert
---@return table<string, true> names of parameters that tune.freeze names
function freezing.names(cfg, model)
  local frozen, names = {}, model.params:names()
  for _, glob in ipairs(cfg.tune.freeze or {}) do
    for _, name in ipairs(matching(glob, names)) do frozen[name] = true end
  end
  return frozen
end

---Freezes them: layers at the bottom that are frozen whole get no gradients at all.  Says which they are.
---@param cfg table
---@param model seqrun.Bert
---@param notes string[]
function freezing.apply(cfg, model, notes)
  local frozen, names = freezing.names(cfg, model), model.params:names()
  if not next(frozen) then return end
  local left = 0
  for _, name in ipairs(names) do left = left + (frozen[name] and 0 or 1) end
  if left == 0 then failure.raise("config", "tune.freeze: all parameters are frozen, so nothing would be trained") end
  for _, glob in ipairs(cfg.tune.freeze) do
    notes[#notes + 1] = ("tune.freeze: %s freezes %s"):format(glob, text_of(matching(glob, names)))
  end
  local depth, before = depth_of(model.encoder, frozen), model.encoder.frozen
  if depth then model.encoder.frozen = math.max(depth, before or 0) end
end

---Groups for the optimizer.
---@param cfg table
---@param model seqrun.Bert
---@return seqrun.OptimGroup[]
function freezing.groups(cfg, model)
  local groups = {}
  for _, glob in ipairs(cfg.tune.freeze or {}) do
    matching(glob, model.params:names())
    groups[#groups + 1] = { match = pattern_of(glob), frozen = true }
  end
  return groups
end

return freezing

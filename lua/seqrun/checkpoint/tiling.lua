-- tiling.lua - starts a model from a checkpoint of a smaller one of its family: init.tile.

local failure = require("seqrun.base.failure")
local model = require("seqrun.checkpoint.model")
local names = require("seqrun.checkpoint.names")
local pretrained = require("seqrun.checkpoint.pretrained")
local rule = require("seqrun.nn.tiling")
local tensor = require("seqrun.tensor")

local function show(shape) return "(" .. table.concat(shape, ", ") .. ")" end

---What keeps a tensor from being tiled; nil if nothing does.
local function misfit(param, entry, is_table)
  local fits = #param.shape == #entry.shape
  for i, size in ipairs(param.shape) do fits = fits and size >= entry.shape[i] end
  if not fits then
    return ("'%s' has shape %s, the model's is %s; a model is tiled from a smaller one"):format(entry.name,
      show(entry.shape), show(param.shape))
  end
  if is_table and param.shape[1] ~= entry.shape[1] then
    return ("'%s' has %d rows, the model's %d; rows of tables and outputs of heads belong to tokens, positions and "
      .. "labels: make them equal"):format(entry.name, entry.shape[1], param.shape[1])
  end
end

---The shape that is taken of a file's tensor: without rows that pad its vocabulary.
local function taken(param, entry)
  local shape = table.move(entry.shape, 1, #entry.shape, 1, {})
  local more = shape[1] - param.shape[1]
  if not param.longer or more <= 0 or more > (param.longer.most or math.huge) then
    return { name = entry.name, shape = model.shape(param, entry), count = entry.count }
  end
  shape[1] = param.shape[1]
  return { name = entry.name, shape = shape, count = entry.count // entry.shape[1] * shape[1] }
end

---Tensors whose rows are tokens, positions, types or labels.
local function is_table(encoder, param)
  if encoder:depth(param.name) == 0 then return not param.name:find(encoder.names.project or "\0", 1, true) end
  return param.shape[1] == encoder.design.vocabulary
end

local function fill_one(t, param, source, blocks)
  local entry = taken(param, source.entry)
  local problem = misfit(param, entry, #param.shape == 2 and is_table(t.model.encoder, param))
  if problem then failure.raise("config", "%s", problem) end
  local scope <close> = tensor.scope()
  local x = tensor.zeros(table.unpack(entry.shape))
  model.read(param, source, x, entry.count)
  t.model.params:master(param.name):detach():copy_(rule.tile(x, param.shape, blocks))
end

local function find(found, param, name)
  if found[name] then return found[name] end
  for _, other in ipairs(name == param.name and param.tied or {}) do
    if found[other] then return found[other] end
  end
end

local function fill(t, layers, found, report)
  local params, fresh = t.model.params, {}
  for _, name in ipairs(t.fresh or {}) do fresh[name] = true end
  for _, param in ipairs(params.list) do
    local name, blocks = rule.source(t.model.encoder, layers, param.name)
    local source = not fresh[param.name] and find(found, param, name)
    if not source and param.upcycles and not fresh[param.name] then
      name, blocks = rule.source(t.model.encoder, layers, param.upcycles)
      source = found[name]
    end
    if source then
      fill_one(t, param, source, blocks)
      report.loaded[#report.loaded + 1] = { name = param.name, from = source.entry.name, note = "tiled" }
    else
      report.missing[#report.missing + 1] = { name = param.name, reason = "not in the checkpoint; left unchanged" }
    end
  end
  params:refresh()
end

local function tile(path, t)
  local smaller = failure.must(pretrained.read(path))
  local family = t.model.encoder.family.name
  if smaller.family.name ~= family then
    failure.raise("config", "%s is %s, the model is %s; a model is tiled from one of its family", path,
      smaller.family.name, family)
  end
  if smaller.design.layers > t.model.encoder.design.layers then
    failure.raise("config", "%s has %d layers, the model %d; a model is tiled from a smaller one", path,
      smaller.design.layers, t.model.encoder.design.layers)
  end
  local report = names.report()
  local found = model.open(smaller.path, t.model.params, report)
  local filled, problem = pcall(fill, t, smaller.design.layers, found, report)
  model.close(found)
  if not filled then error(problem, 0) end
  return { path = smaller.path, report = report }
end

---Fills a model from the checkpoint of a smaller one; what that lacks keeps its initial values.
---@param path string
---@param t { model: seqrun.Bert, fresh?: string[] } fresh: names of parameters that are not filled
---@return seqrun.Loaded|nil
---@return string? message
---@return string? code
return function(path, t) return failure.returned(tile, path, t) end

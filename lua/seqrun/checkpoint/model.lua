-- model.lua - the weights of a checkpoint into a parameter store, whoever wrote them; raises failures.

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local layers = require("seqrun.checkpoint.layers")
local names = require("seqrun.checkpoint.names")
local output = require("seqrun.base.output")
local sentences = require("seqrun.checkpoint.sentences")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local train = require("seqrun.core.train")

local model = {}

---The name of a tensor among all of a directory: those of the linear layer that sentence-transformers keeps in a folder
---of its own begin with `2_Dense`, whatever that is called.
---@param folder string
---@param path string one of model.files
---@param name string
---@return string
function model.whole_name(folder, path, name)
  local inside = path:sub(1, #folder + 1) == folder .. "/" and path:find("/", #folder + 2, true)
  return inside and "2_Dense." .. name or name
end

---The files that hold a checkpoint's weights.
---@param path string
---@return string[] paths
function model.files(path)
  if not sys.is_dir(path) then return { path } end
  local single, dense = path .. "/model.safetensors", sentences.dense_folder(path)
  dense = dense and ("%s/%s/model.safetensors"):format(path, dense)
  if sys.exists(single) then
    local list, crf = { single }, path .. "/crf.safetensors"
    list[2] = sys.exists(crf) and crf or nil
    list[#list + 1] = dense and sys.exists(dense) and dense or nil
    return list
  end
  local index = failure.there(sys.read_file(path .. "/model.safetensors.index.json", 1 << 26))
  local tree = index and json.decode(index)
  if type(tree) ~= "table" or type(tree.weight_map) ~= "table" then
    failure.raise("missing", "%s: has no model.safetensors", path)
  end
  local seen, paths = {}, {}
  for _, file in pairs(tree.weight_map) do
    if type(file) ~= "string" or not file:find("^[%w_%-][%w_%-%.]*$") then
      failure.raise("data", "%s: its index names a file outside the checkpoint", path)
    end
    if not seen[file] then paths[#paths + 1], seen[file] = path .. "/" .. file, true end
  end
  table.sort(paths)
  return paths
end

---The tensors of a directory or a file by the model's name for them, or else by their canonical name.
---@return table<string, { file: userdata, entry: table }> found
local function collect(folder, params, report)
  local found, match = {}, names.matcher(params)
  for _, path in ipairs(model.files(folder)) do
    local file = failure.must(train.safetensors(path))
    for _, entry in ipairs(file:entries()) do
      local name = match(model.whole_name(folder, path, entry.name))
      if found[name] then
        report.ignored[#report.ignored + 1] = { name = entry.name, reason = "duplicate name" }
      else
        found[name] = { file = file, entry = entry }
      end
    end
  end
  return found
end

local function show(shape) return "(" .. table.concat(shape, ", ") .. ")" end

---The shape of a file's tensor as the model has it: some families hold matrices the other way round.
---@param param seqrun.ParamSpec
---@param entry table
---@return integer[]
function model.shape(param, entry)
  local shape = entry.shape
  return param.transposed and #shape == 2 and { shape[2], shape[1] } or shape
end

---Reads a file's tensor, or its first elements, into one of the model's.
---@param param seqrun.ParamSpec
---@param source { file: userdata, entry: table }
---@param into seqrun.Tensor
---@param count? integer
function model.read(param, source, into, count)
  if not param.transposed then return failure.must(source.file:read_into(into, source.entry.name, count)) end
  local scope <close> = tensor.scope()
  local shape = source.entry.shape
  local x = tensor.zeros(shape[1], shape[2], { device = into:device(), dtype = into:dtype() })
  failure.must(source.file:read_into(x, source.entry.name))
  into:copy_(x:transpose(1, 2))
end

---How many elements of a file's tensor go into a parameter, and a note; nil when they do not fit.
local function fit(param, entry)
  local wanted, longer, given = param.shape, param.longer, model.shape(param, entry)
  local same_rest = #wanted == #given
  for i = 2, #wanted do same_rest = same_rest and wanted[i] == given[i] end
  local rows, have = wanted[1], given[1]
  if same_rest and rows == have then return entry.count end
  local more = same_rest and have - rows or -1
  if longer and more > 0 and more <= (longer.most or math.huge) then
    return entry.count // have * rows, ("%s: %d of %d rows"):format(longer.why, rows, have)
  end
end

---A parameter's tensor under its own name, or under a tied one; of an expert, that of a checkpoint without experts.
local function find(found, param)
  if found[param.name] then return found[param.name] end
  for _, other in ipairs(param.tied or {}) do
    if found[other] then return found[other] end
  end
  return param.upcycles and found[param.upcycles] or nil
end

local FIX = "use the config.json of the checkpoint, or init.heads=new if it belongs to a head"

---Most tensors that a message names.
local MOST_NAMED = 8

---What is wrong with tensors of other shapes; nil if there are none.
local function misfits(params, found, fresh)
  local first, others = nil, {}
  for _, param in ipairs(params.list) do
    local source = not fresh[param.name] and find(found, param)
    if source and not fit(param, source.entry) then
      if first then others[#others + 1] = source.entry.name end
      first = first or ("checkpoint: tensor '%s' has shape %s, the model expects %s"):format(source.entry.name,
        show(source.entry.shape), show(param.shape))
    end
  end
  if #others == 0 then return first and ("%s; %s"):format(first, FIX) end
  local more = #others > MOST_NAMED and (" and %d more"):format(#others - MOST_NAMED) or ""
  local named = table.concat(others, ", ", 1, math.min(#others, MOST_NAMED))
  return ("%s, and further tensors do not fit: %s%s; %s"):format(first, named, more, FIX)
end

---What is wrong with the number of layers; those that are new need none in the file.
local function other_layers(params, found, fresh)
  local wanted, given, new = {}, {}, false
  for _, param in ipairs(params.list) do
    wanted[#wanted + 1] = param.name
    new = new or fresh[param.name] and not find(found, param)
  end
  for name in pairs(found) do given[#given + 1] = name end
  return not new and layers.problem(wanted, given) or nil
end

---What is wrong with the experts of a checkpoint that has some: it and the model are to have the same.
local function other_experts(params, found)
  local way = "use the keys 'experts...' of the checkpoint's config.json"
  local any, first = false, nil
  for name in pairs(found) do
    local is_expert = name:find("%.experts%.%d+%.") ~= nil
    any = any or is_expert
    if is_expert and not params:has(name) and name < (first or "\255") then first = name end
  end
  if first then return ("checkpoint: it has the expert '%s', which the model does not have; %s"):format(first, way) end
  for _, param in ipairs(any and params.list or {}) do
    if param.upcycles and not find(found, param) then
      return ("checkpoint: it has experts, but not '%s'; %s"):format(param.name, way)
    end
  end
end

local function read_one(params, param, source, report)
  local name = param.name
  local count, note = fit(param, source.entry)
  model.read(param, source, params:master(name):detach(), count)
  params.written[name] = true
  if not note and param.upcycles and not params:has(param.upcycles) then
    note = name:sub(-#source.entry.name) ~= source.entry.name and "upcycled" or nil
  end
  report.loaded[#report.loaded + 1] = { name = name, from = source.entry.name, note = note }
end

---Closes what model.open() has opened.
---@param found table<string, { file: userdata, entry: table }>
function model.close(found)
  for _, source in pairs(found) do source.file:close() end
end

---The tensors of a directory or a file, by the names that a model has for them.
---@param path string
---@param params seqrun.Params
---@param report seqrun.LoadReport
---@return table<string, { file: userdata, entry: table }> found
function model.open(path, params, report) return collect(path, params, report) end

---A parameter that is not loaded: unchanged, or initialised.
local function leave(params, name, why, seed, report)
  if seed then params:initialise(seed, name) end
  local now = seed and ("initialised with seed %d"):format(seed) or "left unchanged"
  report.missing[#report.missing + 1] = { name = name, reason = ("%s; %s"):format(why, now) }
end

---Warns of a tensor that is not used since it repeats another, and has other values.
local function check_repeated(params, source, owner)
  local scope <close> = tensor.scope()
  local own, rows = params:master(owner):detach(), source.entry.shape[1]
  local given = failure.must(source.file:read(source.entry.name, "f32"))
  if own:size(1) < rows or own:numel() // own:size(1) ~= given:numel() // rows then return end
  local apart = (own:narrow(1, 1, rows):reshape(-1) - given:reshape(-1)):abs():max():item()
  if apart > 0 then
    output.note("warning: %s is not used, as it repeats %s, but its values are others (by up to %.3g)",
      source.entry.name, owner, apart)
  end
end

local function fill(params, found, t, report)
  local used, tied, fresh = {}, names.tied(params), {}
  for _, name in ipairs(t.fresh or {}) do fresh[name] = true end
  local problem = misfits(params, found, fresh) or other_layers(params, found, fresh) or other_experts(params, found)
  if problem then failure.raise("data", "%s", problem) end
  for _, param in ipairs(params.list) do
    local source = find(found, param)
    if fresh[param.name] then
      leave(params, param.name, "new", t.seed, report)
      if source then used[source] = true end
    elseif source then
      read_one(params, param, source, report)
      used[source] = true
    else
      leave(params, param.name, "not in the checkpoint", t.seed, report)
    end
  end
  for name, source in pairs(found) do
    if not used[source] then
      local known = names.why_ignored(name, tied)
      if tied[name] and not fresh[tied[name]] then check_repeated(params, source, tied[name]) end
      local reason = known or "not in the model"
      report.ignored[#report.ignored + 1] = { name = source.entry.name, reason = reason, known = known ~= nil }
    end
  end
  table.sort(report.ignored, function(a, b) return a.name < b.name end)
end

---Fills a store from a safetensors file or a directory that holds one.  Parameters that the file lacks are initialised
---with the seed; without a seed they are unchanged.  So are those named by `fresh`, whatever the file has.
---@param path string
---@param params seqrun.Params
---@param t { seed?: integer, fresh?: string[] }
---@return seqrun.LoadReport
function model.load(path, params, t)
  local report = names.report()
  local found = model.open(path, params, report)
  local filled, problem = pcall(fill, params, found, t, report)
  model.close(found)
  params:refresh()
  if not filled then error(problem, 0) end
  if #report.loaded == 0 then failure.raise("data", "%s: has none of the parameters of this model", path) end
  return report
end

return model

-- model.lua - the weights of a checkpoint into a parameter store, whoever wrote them.

local json = require("seqrun.core.json")
local names = require("seqrun.checkpoint.names")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local model = {}

---Tables whose rows may be more in a file than in the model.
local PADDED = {
  ["bert.embeddings.word_embeddings.weight"] = "vocabulary padded in the file",
  ["cls.predictions.bias"] = "vocabulary padded in the file",
  ["bert.embeddings.position_embeddings.weight"] = "the model is shorter",
}
local MOST_PADDING = 128 -- rows that padding of a vocabulary may add

---The files that hold a checkpoint's weights.
---@return string[]|nil paths
local function weight_files(path)
  if not sys.is_dir(path) then return { path } end
  local single = path .. "/model.safetensors"
  if sys.exists(single) then return { single } end
  local index = sys.read_file(path .. "/model.safetensors.index.json", 1 << 26)
  local tree = index and json.decode(index)
  if type(tree) ~= "table" or type(tree.weight_map) ~= "table" then
    return nil, ("%s: has no model.safetensors"):format(path), "missing"
  end
  local seen, paths = {}, {}
  for _, file in pairs(tree.weight_map) do
    if type(file) ~= "string" or not file:find("^[%w_%-][%w_%-%.]*$") then
      return nil, ("%s: its index names a file that cannot be one of its own"):format(path), "data"
    end
    if not seen[file] then paths[#paths + 1], seen[file] = path .. "/" .. file, true end
  end
  table.sort(paths)
  return paths
end

---The tensors of some files by the model's name for them, or else by their canonical name.
---@return table<string, { file: userdata, entry: table }>|nil found
local function collect(paths, params, report)
  local found = {}
  for _, path in ipairs(paths) do
    local file, message, code = train.safetensors(path)
    if not file then return nil, message, code end
    for _, entry in ipairs(file:entries()) do
      local name = params:has(entry.name) and entry.name or names.canonical(entry.name)
      if found[name] then
        report.ignored[#report.ignored + 1] = { name = entry.name, reason = "a second tensor of this name" }
      else
        found[name] = { file = file, entry = entry }
      end
    end
  end
  return found
end

local function show(shape) return "(" .. table.concat(shape, ", ") .. ")" end

---How many elements of a file's tensor go into a parameter, and a note; nil when they do not fit.
local function fit(name, wanted, entry)
  local same_rest = #wanted == #entry.shape
  for i = 2, #wanted do same_rest = same_rest and wanted[i] == entry.shape[i] end
  local rows, have = wanted[1], entry.shape[1]
  if same_rest and rows == have then return entry.count end
  local padding = same_rest and have - rows or -1
  local limit = name:find("position") and math.huge or MOST_PADDING
  if PADDED[name] and padding > 0 and padding < limit then
    return entry.count // have * rows, ("%s: %d of %d rows"):format(PADDED[name], rows, have)
  end
end

local function read_one(params, name, source, report)
  local wanted = params:shape(name)
  local count, note = fit(name, wanted, source.entry)
  if not count then
    local fix = "use the config.json of the checkpoint"
    return nil, ("checkpoint: tensor '%s' has shape %s, the model wants %s; %s"):format(
      source.entry.name, show(source.entry.shape), show(wanted), fix), "data"
  end
  local ok, message, code = source.file:read_into(params:master(name):detach(), source.entry.name, count)
  if not ok then return nil, message, code end
  report.loaded[#report.loaded + 1] = { name = name, from = source.entry.name, note = note }
  return true
end

---The tied decoder's bias serves when the head's own is missing.
local function find(found, name)
  return found[name] or name == "cls.predictions.bias" and found["cls.predictions.decoder.bias"] or nil
end

local function close_all(found)
  for _, source in pairs(found) do source.file:close() end
end

---A parameter that the file lacks: it keeps its values, or gets initial ones.
local function leave(params, name, seed, report)
  if seed then params:initialise(seed, name) end
  local reason = seed and ("initialised with seed %d"):format(seed) or "left unchanged"
  report.missing[#report.missing + 1] = { name = name, reason = "not in the checkpoint; " .. reason }
end

local function fill(params, found, seed, report)
  local used = {}
  for _, name in ipairs(params:names()) do
    local source = find(found, name)
    if source then
      local ok, message, code = read_one(params, name, source, report)
      if not ok then return nil, message, code end
      used[source] = true
    else
      leave(params, name, seed, report)
    end
  end
  for name, source in pairs(found) do
    if not used[source] then
      local known = names.why_ignored(name)
      local reason = known or "the model has no such parameter"
      report.ignored[#report.ignored + 1] = { name = source.entry.name, reason = reason, known = known ~= nil }
    end
  end
  table.sort(report.ignored, function(a, b) return a.name < b.name end)
  return report
end

---Fills a store from a safetensors file or a folder that holds one.  Parameters that the file lacks are initialised
---with the seed, or without one stay as they are.
---@param path string
---@param params seqrun.Params
---@param seed? integer
---@return seqrun.LoadReport|nil
---@return string? message
---@return string? code
function model.load(path, params, seed)
  local report = names.report()
  local paths, message, code = weight_files(path)
  if not paths then return nil, message, code end
  local found
  found, message, code = collect(paths, params, report)
  if not found then return nil, message, code end
  local filled
  filled, message, code = fill(params, found, seed, report)
  close_all(found)
  params:refresh()
  if filled and #report.loaded == 0 then
    return nil, ("%s: holds no parameter of this model"):format(path), "data"
  end
  return filled, message, code
end

return model

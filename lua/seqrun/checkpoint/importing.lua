-- importing.lua - a Hugging Face directory as a checkpoint of ours: checked, with our names, in f32, with checksums.

local directory = require("seqrun.checkpoint.directory")
local foreign = require("seqrun.checkpoint.foreign")
local json = require("seqrun.core.json")
local layers = require("seqrun.checkpoint.layers")
local pretrained = require("seqrun.checkpoint.pretrained")
local sys = require("seqrun.core.sys")
local tokenizer = require("seqrun.checkpoint.tokenizer")
local writing = require("seqrun.checkpoint.writing")

---Weights of other formats, which are not read.
local OTHERS = {
  ["pytorch_model.bin"] = "a pickle, which may execute code", ["tf_model.h5"] = "weights of TensorFlow",
  ["flax_model.msgpack"] = "weights of Flax",
}

---Why a directory has no weights, and what to do.
local function no_weights(path)
  for name, what in pairs(OTHERS) do
    if sys.exists(path .. "/" .. name) then
      return ("%s: has %s (%s), but no model.safetensors; in Python, AutoModel.from_pretrained(DIR)"
        .. ".save_pretrained(NEW) writes one (better with the class in its config.json)"):format(path, name, what)
    end
  end
end

---Whether there is something of this name other than an empty directory; nil if the system cannot tell.
---@return boolean|nil
---@return string? message
---@return string? code
local function occupied(run)
  if not sys.exists(run) then return false end
  if not sys.is_dir(run) then return true end
  local names, message, code = sys.list(run)
  if not names then return nil, message, code end
  return #names > 0
end

---Tensors as the parameters of a model, for saving.
local function store(tensors)
  local Store = {}
  function Store.names()
    local list = {}
    for name in pairs(tensors) do list[#list + 1] = name end
    table.sort(list)
    return list
  end
  function Store.master(_, name) return tensors[name] end
  return Store
end

---@class seqrun.Imported
---@field from string
---@field path string the checkpoint
---@field task? string of its head
---@field heads string[] pretraining heads
---@field labels? string[]
---@field parameters integer
---@field tensors { name: string, dtype: string, shape: integer[] }[]
---@field left_out { name: string, reason: string }[]

---Makes RUN/step-000000000 of a Hugging Face directory.  Nothing is left in `run` if it fails.
---@param path string
---@param run string a directory that does not exist or is empty
---@return seqrun.Imported|nil
---@return string? message
---@return string? code
return function(path, run)
  run = run:gsub("(.)/+$", "%1")
  local used, why, status = occupied(run)
  if used == nil then return nil, why, status end
  if used then return nil, ("%s is not empty; choose another directory"):format(run), "config" end
  if not sys.exists(path) then
    return nil, ("%s: no such directory%s"):format(path, require("seqrun.base.guess").file_hint(path)), "missing"
  end
  local facts, message, code = pretrained.read(path)
  if not facts then return nil, no_weights(path) or message, code end
  local tensors, left_out, kind = foreign.tensors(facts)
  if not tensors then return nil, no_weights(path) or left_out, kind end
  local differ = layers.differ(store(tensors).names(), facts.design.layers)
  if differ then return nil, ("%s: %s"):format(facts.path, differ), "data" end
  local config
  config, message, code = foreign.config(facts)
  if not config then return nil, message, code end
  config.dtype, config.torch_dtype = "float32", nil
  local opened
  if facts.tokenizer then opened, message, code = tokenizer.open(facts) end
  if facts.tokenizer and not opened then return nil, message, code end
  local existed = sys.exists(run)
  local lock, problem
  lock, problem, status = directory.lock(run)
  if not lock then return nil, problem, status end
  local saved
  saved, message, code = writing.save(run, {
    step = 0, model = store(tensors), config = config, tokenizer = opened,
    files = foreign.sentence_files(facts.path),
  })
  lock:close()
  if not saved then
    if not existed then sys.remove(run) end
    return nil, message, code
  end
  local list, parameters = foreign.list(tensors)
  return {
    from = facts.path, path = saved, task = facts.kind, heads = json.array(facts.heads), labels = facts.labels,
    parameters = parameters, tensors = list, left_out = json.array(left_out),
  }
end

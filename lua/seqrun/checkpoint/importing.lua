-- importing.lua - a Hugging Face directory as a checkpoint of ours: checked, with our names, in f32, with checksums.

local directory = require("seqrun.checkpoint.directory")
local failure = require("seqrun.base.failure")
local foreign = require("seqrun.checkpoint.foreign")
local json = require("seqrun.core.json")
local layers = require("seqrun.checkpoint.layers")
local pretrained = require("seqrun.checkpoint.pretrained")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")
local tokenizer = require("seqrun.checkpoint.tokenizer")
local writing = require("seqrun.checkpoint.writing")

---Whether there is something of this name other than an empty directory.
local function occupied(run)
  return sys.exists(run) and (not sys.is_dir(run) or #failure.must(sys.list(run)) > 0)
end

---Tensors as the parameters of a model, for saving.
local function store(tensors)
  return { names = function() return sorted(tensors) end, master = function(_, name) return tensors[name] end }
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

local function import(path, run)
  if occupied(run) then failure.raise("config", "%s is not empty; choose another directory", run) end
  if not sys.exists(path) then
    failure.raise("missing", "%s: no such directory%s", path, require("seqrun.base.guess").file_hint(path))
  end
  local facts = failure.must(pretrained.read(path))
  local tensors, left_out = foreign.tensors(facts)
  local differ = layers.differ(store(tensors).names(), facts.design.layers)
  if differ then failure.raise("data", "%s: %s", facts.path, differ) end
  local config = foreign.config(facts)
  config.dtype, config.torch_dtype = "float32", nil
  local opened = facts.tokenizer and failure.must(tokenizer.open(facts)) or nil
  local existed = sys.exists(run)
  local lock = failure.must(directory.lock(run))
  local saved, message, code = writing.save(run, {
    step = 0, model = store(tensors), config = config, tokenizer = opened,
    files = foreign.sentence_files(facts.path),
  })
  lock:close()
  if not saved and not existed then sys.remove(run) end
  failure.must(saved, message, code)
  local list, parameters = foreign.list(tensors)
  return {
    from = facts.path, path = saved, task = facts.kind, heads = json.array(facts.heads), labels = facts.labels,
    parameters = parameters, tensors = list, left_out = json.array(left_out),
  }
end

---Makes RUN/step-000000000 of a Hugging Face directory.  Nothing is left in `run` if it fails.
---@param path string
---@param run string a directory that does not exist or is empty
---@return seqrun.Imported|nil
---@return string? message
---@return string? code
return function(path, run)
  return failure.returned(import, path, (run:gsub("(.)/+$", "%1")))
end

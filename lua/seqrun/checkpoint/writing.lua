-- writing.lua - saves one checkpoint: collects its text files and tensors, writes them durably, removes old ones; at
-- once, or from a copy in memory while training continues.

local exact = require("seqrun.base.exact")
local pretty = require("seqrun.base.pretty_json")
local together = require("seqrun.checkpoint.together")
local tokenizer = require("seqrun.checkpoint.tokenizer")
local train = require("seqrun.core.train")

local writing = {}

---The text files of a checkpoint, by name.
local function text_files(t)
  local state = { step = t.step, state = t.state or {}, optimizer = t.moments.values }
  local files = { ["trainer/state.json"] = exact.encode(state) }
  if t.config then files["config.json"] = pretty.encode(t.config) end
  local kept, message, code = tokenizer.of_saved(t)
  if message then return nil, message, code end
  for name, text in pairs(kept and tokenizer.files(kept, t) or {}) do files[name] = text end
  for name, text in pairs(t.files or {}) do files[name] = text end
  return files
end

---The parameters of a store as tensors by name, without padding, as the files of their family hold them.
local function tensors_of(params)
  local tensors = {}
  for _, name in ipairs(params:names()) do tensors[name] = params:master(name):detach() end
  for _, param in ipairs(params.list or {}) do
    if param.transposed then tensors[param.name] = tensors[param.name]:transpose(1, 2):contiguous() end
  end
  return tensors
end

local function write_files(saving, files, plans)
  local names = {}
  for name in pairs(files) do names[#names + 1] = name end
  for name in pairs(plans) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local ok, message, code
    if files[name] then
      ok, message, code = saving:file(name, files[name])
    else
      ok, message, code = saving:safetensors(name, plans[name])
    end
    if not ok then return nil, message, code end
  end
  return true
end

local function total_bytes(files, plans)
  local bytes = 0
  for _, text in pairs(files) do bytes = bytes + #text end
  for _, plan in pairs(plans) do bytes = bytes + plan:bytes() end
  return bytes
end

---@class seqrun.Saved
---@field step integer steps applied
---@field model seqrun.Params
---@field opt? seqrun.Optimizer
---@field config? table Hugging Face's config.json, the result of model:hf_config()
---@field tokenizer? seqrun.core.text.tokenizer|seqrun.text.Stored as a data set has it
---@field vocab? string or a path of vocab.txt
---@field vocab_text? string or its contents
---@field cased? boolean the vocabulary is cased
---@field keep_accents? boolean lowercasing keeps accents
---@field state? table plain values: cursor, totals, seeds; kept exactly
---@field files? table<string, string> further files: ["trainer/plan.txt"] = text

---What this rank writes: text files, and plans of tensors; of a sharded optimizer the others write their moments only.
local function contents(t)
  local world = t.opt and t.opt.sharded and t.opt.world
  if t.opt then t.opt:gather() end
  local optimizer = t.opt and t.opt:state() or { tensors = nil, values = nil }
  local files, plans = {}, {}
  if not world or world.rank == 0 then
    local message, code
    files, message, code = text_files(setmetatable({ moments = optimizer }, { __index = t }))
    if not files then return nil, message, code end
    plans["model.safetensors"] = train.safetensors_plan(tensors_of(t.model), { format = "pt" })
  end
  if optimizer.tensors then plans[t.opt:file()] = train.safetensors_plan(optimizer.tensors, {}) end
  return files, plans
end

local function save_alone(run, step, files, plans)
  local saving, message, code = train.saving(run, step, total_bytes(files, plans))
  if not saving then return nil, message, code end
  local guard <close> = saving
  local ok
  ok, message, code = write_files(saving, files, plans)
  if not ok then return nil, message, code end
  return saving:commit()
end

---Saves with the other ranks; what this one failed to collect fails the checkpoint of all.
local function save_together(world, run, step, files, plans, code)
  local message = not files and plans or nil
  return together.save(world, run, step, files and total_bytes(files, plans) or 0, function(saving)
    if not files then return nil, message, code end
    return write_files(saving, files, plans)
  end)
end

---Copies a checkpoint into memory and starts to write it as `save` does.  Ranks that save together cannot: each waits
---for the others.
---@param copy seqrun.core.Background to wait for
---@param t seqrun.Saved
---@param options { keep?: integer, every?: integer }
---@return true|nil
---@return string? message
---@return string? code "memory": there is none for a copy
function writing.begin(copy, t, options)
  local files, plans, code = contents(t)
  if not files then return nil, plans, code end
  local ok, message
  ok, message, code = copy:begin(t.step, total_bytes(files, plans))
  if ok then ok, message, code = write_files(copy, files, plans) end
  if not ok then return nil, message, code end
  return copy:start(options.keep or 2, options.every or 0)
end

---Saves a checkpoint in the run's directory, RUN/step-000012345.  When this returns a path, the checkpoint
---survives a power cut; when it fails, the existing checkpoints are intact.  With a sharded optimizer all ranks save.
---@param run string
---@param t seqrun.Saved
---@param options? { keep?: integer, every?: integer } keep the newest `keep` (at least 2, default 2) and
---  those whose step is a multiple of `every`
---@return string|nil path
---@return string? message
---@return string? code
function writing.save(run, t, options)
  options = options or {}
  local world = t.opt and t.opt.sharded and t.opt.world
  local files, plans, code = contents(t)
  local ok, message
  if world then
    ok, message, code = save_together(world, run, t.step, files, plans, code)
  elseif files then
    ok, message, code = save_alone(run, t.step, files, plans)
  else
    message = plans
  end
  if not ok then return nil, message, code end
  local path = train.checkpoint_path(run, t.step)
  if world and world.rank > 0 then return path end
  ok, message = train.checkpoint_retain(run, t.step, options.keep or 2, options.every or 0)
  if not ok then return path, ("saved, but an old checkpoint could not be removed: %s"):format(message) end
  return path
end

return writing

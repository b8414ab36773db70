-- checkpoint - a Hugging Face directory plus `trainer/`, saved durably and verified on load.
--
--   runs/tiny/step-000000200/
--     config.json model.safetensors vocab.txt tokenizer_config.json    what Transformers reads
--     trainer/optim.safetensors state.json plan.txt config.yaml        what a resume needs
--     MANIFEST                                                         sizes and checksums of all
--
-- How it is written: core/store/saving.h.  A run's directory means its newest verified checkpoint.

local exact = require("seqrun.checkpoint.exact")
local json = require("seqrun.core.json")
local model = require("seqrun.checkpoint.model")
local moments = require("seqrun.checkpoint.moments")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local checkpoint = {}

---Makes the run's directory and takes its lock; "lock" when another run holds it.  Keep the result: the
---lock is released with it.
---@param dir string
---@return userdata|nil lock :close() releases it
---@return string? message
---@return string? code
function checkpoint.lock(dir) return train.run_dir(dir) end

---The checkpoints of a run, oldest first, verified or not.
---@param run string
---@return { step: integer, path: string }[]|nil
---@return string? message
---@return string? code
function checkpoint.list(run)
  local steps, message, code = train.checkpoint_list(run)
  if not steps then return nil, message, code end
  local list = {}
  for i, step in ipairs(steps) do list[i] = { step = step, path = train.checkpoint_path(run, step) } end
  return list
end

---The newest checkpoint that verifies; newer ones that fail are named by warnings.  "missing" when
---there is none, "data" when none can be trusted.
---@param run string
---@return string|nil path
---@return integer|string step or the message
---@return string? code
function checkpoint.latest(run) return train.checkpoint_latest(run) end

---Reads a whole checkpoint and compares it with its manifest.
---@param path string
---@return integer|nil step
---@return string? message
---@return string? code
function checkpoint.verify(path) return train.checkpoint_verify(path) end

---After a resume at `step`: checkpoints of later steps are renamed, since they belong to an abandoned
---branch of training.
---@param run string
---@param step integer
---@return true|nil
---@return string? message
---@return string? code
function checkpoint.set_aside(run, step) return train.checkpoint_set_aside(run, step) end

---A run's directory, a checkpoint or a file: what to load.  Checkpoints with a manifest are verified.
---@param path string
---@return string|nil path
---@return string? message
---@return string? code
function checkpoint.resolve(path)
  if not sys.exists(path) then return nil, ("%s: no such file or directory"):format(path), "missing" end
  if not sys.is_dir(path) then return path end
  if sys.exists(path .. "/MANIFEST") then
    local step, message, code = train.checkpoint_verify(path)
    if not step then return nil, message, code end
    return path
  end
  for _, name in ipairs { "/model.safetensors", "/model.safetensors.index.json" } do
    if sys.exists(path .. name) then return path end
  end
  local newest, message, code = train.checkpoint_latest(path)
  if newest then return newest end
  return nil, message, code
end

-- ---- saving ----------------------------------------------------------------------------------

---JSON on several lines, for files that people read.
local function pretty(value)
  local depth, quoted, escaped = 0, false, false
  local function newline() return "\n" .. ("  "):rep(depth) end
  local text = json.encode(value):gsub(".", function(c)
    if quoted then
      if escaped then escaped = false elseif c == "\\" then escaped = true elseif c == '"' then quoted = false end
      return c
    end
    if c == '"' then quoted = true end
    if c == "{" or c == "[" then depth = depth + 1; return c .. newline() end
    if c == "}" or c == "]" then depth = depth - 1; return newline() .. c end
    if c == "," then return c .. newline() end
    if c == ":" then return ": " end
    return c
  end)
  return (text:gsub("%[%s+%]", "[]"):gsub("{%s+}", "{}")) .. "\n"
end

local function tokenizer_config(t)
  return {
    do_lower_case = not t.cased, tokenizer_class = "BertTokenizer",
    model_max_length = t.config and t.config.max_position_embeddings or 512,
    cls_token = "[CLS]", sep_token = "[SEP]", pad_token = "[PAD]", unk_token = "[UNK]", mask_token = "[MASK]",
  }
end

---The text files of a checkpoint, by name.
local function text_files(t)
  local state = { step = t.step, state = t.state or {}, optimizer = t.moments.values }
  local files = { ["trainer/state.json"] = exact.encode(state) }
  if t.config then files["config.json"] = pretty(t.config) end
  local vocab = t.vocab_text
  if t.vocab then
    local message, code
    vocab, message, code = sys.read_file(t.vocab)
    if not vocab then return nil, message, code end
  end
  if vocab then files["vocab.txt"], files["tokenizer_config.json"] = vocab, pretty(tokenizer_config(t)) end
  for name, text in pairs(t.files or {}) do files[name] = text end
  return files
end

---The parameters of a store as tensors by name; without padding.
local function tensors_of(params)
  local tensors = {}
  for _, name in ipairs(params:names()) do tensors[name] = params:master(name):detach() end
  return tensors
end

local function write_all(saving, files, plans)
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
  return saving:commit()
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
---@field vocab? string path of vocab.txt
---@field vocab_text? string or its contents, as a data set has them
---@field cased? boolean the vocabulary is cased
---@field state? table plain values: cursor, totals, seeds; kept exactly
---@field files? table<string, string> further files: ["trainer/plan.txt"] = text

---Saves a checkpoint in the run's directory, RUN/step-000012345.  When this returns a path, the checkpoint
---survives a power cut; when it fails, the existing checkpoints are intact.
---@param run string
---@param t seqrun.Saved
---@param options? { keep?: integer, every?: integer } keep the newest `keep` (at least 2, default 2) and
---  those whose step is a multiple of `every`
---@return string|nil path
---@return string? message
---@return string? code
function checkpoint.save(run, t, options)
  options = options or {}
  local optimizer = t.opt and t.opt:state() or { tensors = nil, values = nil }
  local files, message, code = text_files(setmetatable({ moments = optimizer }, { __index = t }))
  if not files then return nil, message, code end
  local plans = { ["model.safetensors"] = train.safetensors_plan(tensors_of(t.model), { format = "pt" }) }
  if optimizer.tensors then
    plans["trainer/optim.safetensors"] = train.safetensors_plan(optimizer.tensors, {})
  end

  local saving
  saving, message, code = train.saving(run, t.step, total_bytes(files, plans))
  if not saving then return nil, message, code end
  local guard <close> = saving
  local ok
  ok, message, code = write_all(saving, files, plans)
  if not ok then return nil, message, code end
  local path = train.checkpoint_path(run, t.step)
  ok, message = train.checkpoint_retain(run, t.step, options.keep or 2, options.every or 0)
  if not ok then return path, ("saved, but an old checkpoint could not be removed: %s"):format(message) end
  return path
end

---@class seqrun.Saver
---@field failures integer in a row
local Saver = {}
Saver.__index = Saver

---Saves repeatedly and tolerates a disk that is full for a while.
---@param run string
---@param options? { keep?: integer, every?: integer, max_failures?: integer } max_failures: default 3
---@return seqrun.Saver
function checkpoint.saver(run, options)
  options = options or {}
  return setmetatable({ run = run, options = options, most = options.max_failures or 3, failures = 0 }, Saver)
end

---Saves unless this step has been saved.  A failure is a warning while there are fewer than
---`max_failures` in a row: then the path is nil, but there is no code.
---@param t seqrun.Saved
---@return string|nil path
---@return string? message
---@return string? code given when the run should end
function Saver:save(t)
  if self.step == t.step then return self.path end
  local path, message, code = checkpoint.save(self.run, t, self.options)
  if path then
    self.step, self.path, self.failures = t.step, path, 0
    return path, message
  end
  self.failures = self.failures + 1
  local lost = t.step - (self.step or 0)
  message = ("%s (step %d is not saved; %d steps are at risk)"):format(message, t.step, lost)
  if self.failures < self.most then return nil, message end
  return nil, message, code
end

---Tells the saver which checkpoint the run resumed from.
function Saver:resumed(step, path) self.step, self.path = step, path end

-- ---- loading ---------------------------------------------------------------------------------

---The trainer's plain values of a checkpoint: { step, state, optimizer }.
---@param path string
---@return table|nil
---@return string? message
---@return string? code
function checkpoint.state(path)
  local text, message, code = sys.read_file(path .. "/trainer/state.json", 1 << 28)
  if not text then return nil, message, code end
  local value
  value, message, code = exact.decode(text)
  if type(value) ~= "table" or math.type(value.step) ~= "integer" or type(value.state) ~= "table" then
    return nil, ("%s/trainer/state.json: %s"):format(path, message or "not a state"), code or "data"
  end
  return value
end

---config.json of a checkpoint, as a table.
---@param path string a directory, or a run's directory
---@return table|nil
---@return string? message
---@return string? code
function checkpoint.config(path)
  local folder, message, code = checkpoint.resolve(path)
  if not folder then return nil, message, code end
  local text
  text, message, code = sys.read_file(folder .. "/config.json", 1 << 20)
  if not text then return nil, message, code end
  local config
  config, message, code = json.decode(text)
  if type(config) ~= "table" then
    return nil, ("%s/config.json: %s"):format(folder, message or "not an object"), "data"
  end
  for key, value in pairs(config) do
    if value == json.null then config[key] = nil end
  end
  return config, nil, code
end

---The result of checkpoint.load.
---@class seqrun.Loaded
---@field path string
---@field report seqrun.LoadReport
---@field step? integer
---@field state? table

---Loads weights, and with `opt` the moments, from a run's directory, a checkpoint, a Hugging Face directory or
---a safetensors file.
---
---  carry   "resume": everything must be present; counts and state are restored too; "moments": weights
---          and moments, counts restart; "weights" (the default): weights alone
---@param path string
---  seed    initialises parameters that the checkpoint lacks; without it they are unchanged
---@param t { model: seqrun.Params, opt?: seqrun.Optimizer, carry?: "weights"|"moments"|"resume", seed?: integer }
---@return seqrun.Loaded|nil
---@return string? message
---@return string? code
function checkpoint.load(path, t)
  if type(t) ~= "table" or not t.model then
    error("checkpoint.load: expected the parameters to load, as in load(path, { model = bert.params })", 2)
  end
  local carry = t.carry or "weights"
  local folder, message, code = checkpoint.resolve(path)
  if not folder then return nil, message, code end
  local report
  report, message, code = model.load(folder, t.model, carry ~= "resume" and t.seed or nil)
  if not report then return nil, message, code end
  local loaded = { path = folder, report = report }
  if carry == "weights" then return loaded end

  local missing = report.missing[1]
  if carry == "resume" and missing then
    return nil, ("%s: has no parameter '%s'; a resume needs all of them"):format(folder, missing.name), "data"
  end
  if t.opt then
    local ok
    ok, message, code = moments.load(folder, t.opt)
    if not ok then return nil, message, code end
  end
  if carry ~= "resume" then return loaded end
  local values
  values, message, code = checkpoint.state(folder)
  if not values then return nil, message, code end
  if t.opt and values.optimizer then
    local ok
    ok, message, code = t.opt:restore(values.optimizer)
    if not ok then return nil, ("%s: %s"):format(folder, message), code end
  end
  loaded.step, loaded.state = values.step, values.state
  return loaded
end

-- ---- tensors in files ------------------------------------------------------------------------

---All tensors of a safetensors file, on the current device.
---@param path string
---@return table<string, seqrun.Tensor>|nil
---@return string|table message or the file's metadata
---@return string? code
function checkpoint.read_tensors(path)
  local file, message, code = train.safetensors(path)
  if not file then return nil, message, code end
  local guard <close> = file
  local tensors = {}
  for _, entry in ipairs(file:entries()) do
    local whole = entry.dtype:find("^[IUB]") and entry.dtype ~= "BF16"
    tensors[entry.name], message, code = file:read(entry.name, whole and "i32" or nil)
    if not tensors[entry.name] then return nil, message, code end
  end
  return tensors, file:metadata()
end

---Writes tensors to one safetensors file: the same tensors give the same bytes.
---@param path string
---@param tensors table<string, seqrun.Tensor> contiguous
---@param metadata? table<string, string> default { format = "pt" }
---@return true|nil
---@return string? message
---@return string? code
function checkpoint.write_tensors(path, tensors, metadata)
  local plan <close> = train.safetensors_plan(tensors, metadata or { format = "pt" })
  return plan:write(path)
end

---The vocabulary of a checkpoint and how it differs from another: see checkpoint/vocabulary.lua.
checkpoint.vocabulary = require("seqrun.checkpoint.vocabulary")

---Describes the file or directory at a path: see checkpoint/describe.lua.
---@param path string
---@return table|nil
---@return string? message
---@return string? code
function checkpoint.describe(path) return require("seqrun.checkpoint.describe").describe(path) end

return checkpoint

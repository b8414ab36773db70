-- directory.lua - a run's directory: its lock and its checkpoints, which are verified before they are trusted

local guess = require("seqrun.base.guess")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local directory = {}

---Makes the run's directory and takes its lock; "lock" when another run holds it.  Keep the result: the
---lock is released with it.
---@param dir string
---@return userdata|nil lock :close() releases it
---@return string? message
---@return string? code
function directory.lock(dir) return train.run_dir(dir) end

---The checkpoints of a run, oldest first, verified or not.
---@param run string
---@return { step: integer, path: string }[]|nil
---@return string? message
---@return string? code
function directory.list(run)
  local steps, message, code = train.checkpoint_list(run)
  if not steps then return nil, message, code end
  local list = {}
  for i, step in ipairs(steps) do list[i] = { step = step, path = train.checkpoint_path(run, step) } end
  return list
end

---The newest checkpoint that verifies; newer ones that are damaged are named by warnings.  "missing" when there is
---none, "data" when none can be trusted, "storage" when one cannot be read.
---@param run string
---@return string|nil path
---@return integer|string step or the message
---@return string? code
function directory.latest(run) return train.checkpoint_latest(run) end

---Reads a whole checkpoint and compares it with its manifest.
---@param path string
---@return integer|nil step
---@return string? message
---@return string? code
function directory.verify(path) return train.checkpoint_verify(path) end

---After a resume at `step`: checkpoints of later steps are renamed, since they belong to an abandoned
---branch of training.
---@param run string
---@param step integer
---@return true|nil
---@return string? message
---@return string? code
function directory.set_aside(run, step) return train.checkpoint_set_aside(run, step) end

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

---A run's directory, a checkpoint or a file: what to load.  Checkpoints with a manifest are verified.
---@param path string
---@return string|nil path
---@return string? message
---@return string? code
function directory.resolve(path)
  if not sys.exists(path) then
    return nil, ("%s: no such file or directory%s"):format(path, guess.file_hint(path)), "missing"
  end
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
  local why = code == "missing" and no_weights(path)
  return nil, why or message, why and "data" or code
end

return directory

---@meta

---A checkpoint being written; it is removed unless committed.
---@class seqrun.core.Saving
local Saving = {}

---Adds a file with these bytes.
---@param name string such as "trainer/state.json"
---@param bytes string
---@return true|nil
---@return string? message
---@return string? code
function Saving:file(name, bytes) end

---Adds a safetensors file.
---@param name string
---@param plan seqrun.core.SafetensorsPlan
---@return true|nil
---@return string? message
---@return string? code
function Saving:safetensors(name, plan) end

---Commits the checkpoint: from here on it survives a power cut.
---@return true|nil
---@return string? message
---@return string? code
function Saving:commit() end

---The temporary directory of the checkpoint.
---@return string
function Saving:draft() end

---The files written so far, for adopt() in the process that began the checkpoint.
---@return string|nil
---@return string? message
---@return string? code
function Saving:report() end

---Adds the files of another process to the checkpoint.
---@param report string
---@return true|nil
---@return string? message
---@return string? code
function Saving:adopt(report) end

---Ends the save.
function Saving:finish() end

---Checkpoints that a thread writes, one at a time: the files are copied into memory first.
---@class seqrun.core.Background
local Background = {}

---Begins a checkpoint; the code is "memory" if there is none for a copy.
---@param step integer
---@param bytes integer of all its files
---@return true|nil
---@return string? message
---@return string? code
function Background:begin(step, bytes) end

---Copies a file with these bytes.
---@param name string such as "trainer/state.json"
---@param bytes string
---@return true|nil
---@return string? message
---@return string? code
function Background:file(name, bytes) end

---Copies the tensors of a safetensors file.
---@param name string
---@param plan seqrun.core.SafetensorsPlan
---@return true|nil
---@return string? message
---@return string? code
function Background:safetensors(name, plan) end

---Starts the thread, which removes older checkpoints as checkpoint_retain() does.
---@param keep integer at least 2
---@param every? integer
---@return true|nil
---@return string? message
---@return string? code
function Background:start(keep, every) end

---Whether the thread has ended.
---@return boolean
function Background:done() end

---Waits for the thread; from here on the checkpoint survives a power cut.
---@return true|nil
---@return string? message of a failure, or the warning that an older checkpoint could not be removed
---@return string? code
function Background:wait() end

---Waits for the thread and frees the copy.
function Background:finish() end

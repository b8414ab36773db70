---@meta

---An open safetensors file.
---@class seqrun.core.Safetensors
local Safetensors = {}

---The entries of the header, sorted by name.
---@return { name: string, dtype: string, shape: integer[], count: integer, bytes: integer }[]
function Safetensors:entries() end

---The metadata of the header.
---@return table<string, string>
function Safetensors:metadata() end

---The first `count` elements of a tensor of the file (default all) into the first of a contiguous one.
---@param tensor seqrun.Tensor
---@param name string
---@param count? integer
---@return true|nil
---@return string? message
---@return string? code
function Safetensors:read_into(tensor, name, count) end

---A tensor of the file on the current device.
---@param name string
---@param dtype? string default: the device's compute dtype
---@return seqrun.Tensor|nil
---@return string? message
---@return string? code
function Safetensors:read(name, dtype) end

---Closes the file.
function Safetensors:close() end

---A safetensors file that is planned but not written.
---@class seqrun.core.SafetensorsPlan
local SafetensorsPlan = {}

---The size of the file to be written.
---@return integer
function SafetensorsPlan:bytes() end

---Writes the file atomically.
---@param path string
---@return true|nil
---@return string? message
---@return string? code
function SafetensorsPlan:write(path) end

---Frees the plan.
function SafetensorsPlan:release() end

-- tensor_file.lua - named tensors in one safetensors file

local check = require("seqrun.base.check")
local train = require("seqrun.core.train")

local tensor_file = {}

---All tensors of a safetensors file, on the current device.
---@param path string
---@return table<string, seqrun.Tensor>|nil
---@return string|table message or the file's metadata
---@return string? code
function tensor_file.read(path)
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
function tensor_file.write(path, tensors, metadata)
  check.value("write_tensors: path", path, "string")
  check.value("write_tensors: tensors", tensors, "table")
  local plan <close> = train.safetensors_plan(tensors, metadata or { format = "pt" })
  return plan:write(path)
end

return tensor_file

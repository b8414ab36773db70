-- listing.lua - the tensors that were exported or imported, as lines.

local listing = {}

---Prints the tensors, if wanted, and those left out.
---@param done { tensors: table[], left_out: table[] }
---@param tensors boolean
function listing.print(done, tensors)
  for _, one in ipairs(done.left_out) do print(("  left out  %s: %s"):format(one.name, one.reason)) end
  for _, t in ipairs(tensors and done.tensors or {}) do
    print(("    %-5s (%s)  %s"):format(t.dtype, table.concat(t.shape, ", "), t.name))
  end
end

return listing

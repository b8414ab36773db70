-- positions.lua - RoBERTa's positions: the k-th token that is not padding has position pad + 1 + k, and a padding token
-- in a text has position pad and does not count.

local tensor = require("seqrun.tensor")

---Ids as a list; a batch of a loader has them without a device.
local function ids_of(batch) return batch.host and batch:host("ids") or batch.ids:totable() end

---@param batch seqrun.Batch
---@param pad integer
---@return seqrun.Tensor # (T) i32 rows of the position table
return function(batch, pad)
  local layout, ids = batch.layout, ids_of(batch)
  local starts, positions = layout:starts(), {}
  for row = 1, layout:rows() do positions[row] = pad end -- slack
  for i, length in ipairs(layout:lengths()) do
    local next_one = pad + 1
    for row = starts[i] + 1, starts[i] + length do
      if ids[row] ~= pad then
        positions[row] = next_one
        next_one = next_one + 1
      end
    end
  end
  return tensor.tensor(positions, { dtype = "i32" })
end

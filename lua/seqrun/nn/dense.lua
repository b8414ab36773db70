-- dense.lua - packed attention with materialised scores: a mask and a softmax.
--
-- The reference for `ops.attention`, composed from matmul, where and softmax, and the dense baseline of the
-- benchmarks.  A row of S slots keeps S x S scores per head; two tokens attend to each other iff they belong to
-- the same sequence.  Slack rows are zero.

local check = require("seqrun.base.check")
local tensor = require("seqrun.tensor")

local dense = {}

---(T, 3 H) -> three tensors (blocks, heads, S, D).
local function split_heads(qkv, blocks, slots, heads)
  local size = qkv:size(2) // (3 * heads)
  local parts = qkv:reshape(blocks, slots, 3, heads, size):permute(3, 1, 4, 2, 5)
  return parts:select(1, 1), parts:select(1, 2), parts:select(1, 3), size
end

---The attention mask (blocks, 1, S, S) bool, and whether each row belongs to a sequence, (T, 1).
local function visibility(layout, blocks, slots)
  local owners = tensor.tensor(layout:owners(), { dtype = "i32" })
  local owner = owners:reshape(blocks, 1, slots, 1)
  local same = owner:eq(owner:transpose(3, 4))
  local owned = owners:ge(0)
  return same, owned
end

---@param qkv seqrun.Tensor (T, 3 H): [q heads | k heads | v heads] in a row
---@param layout seqrun.Layout no sequence crosses a multiple of `slots`
---@param options { heads: integer, scale?: number, dropout?: number, slots?: integer } slots: rows
---  that share one score matrix, default all T
---@return seqrun.Tensor # (T, H)
function dense.attention(qkv, layout, options)
  if (options.dropout or 0) > 0 then
    check.fail("dense_attention: dropout is not supported; set it to 0, or use ops.attention")
  end
  local rows, heads = qkv:size(1), options.heads
  local slots = options.slots or rows
  local blocks = rows // slots
  local q, k, v, size = split_heads(qkv, blocks, slots, heads)
  local same, owned = visibility(layout, blocks, slots)
  local scores = q:matmul(k:transpose(3, 4)) * (options.scale or size ^ -0.5)
  local masked = tensor.where(same, scores, -1e30)
  local mixed = masked:softmax(-1):matmul(v):permute(1, 3, 2, 4):reshape(rows, heads * size)
  return tensor.where(owned:reshape(rows, 1), mixed, 0)
end

return dense

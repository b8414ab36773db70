-- dense.lua - packed attention with materialised scores: a mask and a softmax.
--
-- The reference for `ops.attention`, composed from matmul, where and softmax, and the dense baseline of the
-- benchmarks.  A row of S slots keeps S x S scores per head; two tokens attend to each other iff they belong to
-- the same sequence.  Slack rows are zero.

local check = require("seqrun.base.check")
local ops = require("seqrun.tensor.ops")
local tensor = require("seqrun.tensor")

local dense = {}

---`count` heads of `size` columns from column `first` on, as (blocks, heads, S, D); each head `copies` times.
local function heads_of(qkv, blocks, slots, size, first, count, copies)
  local part = qkv:narrow(2, first, count * size):reshape(blocks, slots, count, 1, size)
  return part:expand(-1, -1, -1, copies, -1):permute(1, 3, 4, 2, 5):reshape(blocks, count * copies, slots, size)
end

---The attention mask (blocks, 1, S, S) bool, and whether each row belongs to a sequence, (T, 1).
local function visibility(layout, blocks, slots, window, causal)
  local owners = tensor.tensor(layout:owners(), { dtype = "i32" })
  local owner = owners:reshape(blocks, 1, slots, 1)
  local seen = owner:eq(owner:transpose(3, 4))
  local row = tensor.arange(0, slots - 1)
  local distance = row:reshape(slots, 1) - row:reshape(1, slots)
  if window then seen = seen:logical_and(distance:abs():le(window)) end
  if causal then seen = seen:logical_and(distance:ge(0)) end
  return seen, owners:ge(0)
end

---The probabilities with which rows attend to each other, (blocks, heads, S, S).
---@param qkv seqrun.Tensor as for dense.attention
---@param layout seqrun.Layout
---@param options table
---@return seqrun.Tensor probabilities
---@return seqrun.Tensor values (blocks, heads, S, D)
---@return seqrun.Tensor owned (T) bool, whether a row belongs to a sequence
function dense.probabilities(qkv, layout, options)
  local rows, heads, kv_heads = qkv:size(1), options.heads, options.kv_heads or options.heads
  local slots = options.slots or rows
  local blocks, size = rows // slots, qkv:size(2) // (heads + 2 * kv_heads)
  local function part(first, count, copies)
    return heads_of(qkv, blocks, slots, size, 1 + first * size, count, copies)
  end
  local q, shared = part(0, heads, 1), heads // kv_heads
  local k, v = part(heads, kv_heads, shared), part(heads + kv_heads, kv_heads, shared)
  local seen, owned = visibility(layout, blocks, slots, options.window, options.causal)
  local scores = q:matmul(k:transpose(3, 4)) * (options.scale or size ^ -0.5)
  return tensor.where(seen, scores, -1e30):softmax(-1), v, owned
end

---@param qkv seqrun.Tensor (T, (A + 2 K) D): [q heads | k heads | v heads] in a row
---@param layout seqrun.Layout no sequence crosses a multiple of `slots`
---@param options { heads: integer, kv_heads?: integer, scale?: number, window?: integer, causal?: boolean,
---  dropout?: number, slots?: integer, rows?: seqrun.Tensor } slots: rows that share one score matrix, default all T
---@return seqrun.Tensor # (T, H), or its rows
function dense.attention(qkv, layout, options)
  if (options.dropout or 0) > 0 then
    check.fail("dense_attention: dropout is not supported; set it to 0, or use ops.attention")
  end
  local rows = qkv:size(1)
  local weights, v, owned = dense.probabilities(qkv, layout, options)
  local mixed = weights:matmul(v):permute(1, 3, 2, 4):reshape(rows, options.heads * v:size(4))
  local all = tensor.where(owned:reshape(rows, 1), mixed, 0)
  return options.rows and ops.gather_rows(all, options.rows) or all
end

return dense

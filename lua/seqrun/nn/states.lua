-- states.lua - the hidden states that heads read: rows of targets, pooled rows, means over sequences.

local ops = require("seqrun.tensor.ops")
local tensor = require("seqrun.tensor")

---The hidden states that heads read.
---@class seqrun.States
---@field encoder seqrun.Encoder
---@field x seqrun.Tensor (T, H), or the rows of batch.last
---@field key "rows"|"places" index of a target's rows in x
---@field layout seqrun.Layout of the rows of x
local States = {}
States.__index = States

---The hidden state of a target's rows.
---@param target seqrun.Target
---@return seqrun.Tensor # (M, H); spans: (M, 2, H), their first and last rows
function States:rows(target)
  local rows = target[self.key]
  if target.reads ~= "spans" then return ops.gather_rows(self.x, rows) end
  return ops.gather_rows(self.x, rows:reshape(-1)):reshape(rows:size(1), 2, -1)
end

---The pooled hidden state of a target's rows.
---@param target seqrun.Target
---@return seqrun.Tensor # (M, H)
function States:pooled(target) return self.encoder:pool(self:rows(target)) end

---The sequences that a target's rows begin, one after the other: rows of x (M, S) and which of them are tokens (M, S).
local function sequences_of(self, target)
  local layout, int = self.layout, { dtype = "i32" }
  local longest = 1
  for _, length in ipairs(layout:lengths()) do longest = math.max(longest, length) end
  local first = target[self.key]:reshape(-1, 1)
  local owners = tensor.tensor(layout:owners(), int)
  local rows = (first + tensor.arange(0, longest - 1, 1, int):reshape(1, -1)):minimum(layout:rows() - 1)
  local function owner(of) return ops.gather_rows(owners, of:reshape(-1)):reshape(of:size(1), of:size(2)) end
  local inside = owner(rows):eq(owner(first)):logical_and((rows - first):ge(0))
  return rows, inside
end

---The mean of y over the tokens of the sequences that a target's rows begin.  Tokens are added in their order, so that
---packing changes nothing.
---@param y seqrun.Tensor (T, K) a row for each row of x
---@param target seqrun.Target whose rows are the first ones of sequences
---@return seqrun.Tensor # (M, K)
function States:mean(y, target)
  local rows, inside = sequences_of(self, target)
  local items, longest = rows:size(1), rows:size(2)
  local all = ops.gather_rows(y, rows:reshape(-1)):reshape(items, longest, -1)
  local kept = inside:reshape(items, longest, 1)
  local sum = tensor.where(kept, all, 0):sum(2)
  return sum / inside:to(y:dtype()):sum(2, true)
end

---Dropout of one state per item of a target, while its encoder trains: keyed by the item's sequence and its row in it.
---@param y seqrun.Tensor (M, H) such as rows(target) or pooled(target)
---@param target seqrun.Target
---@param options { p: number, site?: "head"|"user", layer?: integer }
---@return seqrun.Tensor # (M, H)
function States:drop(y, target, options)
  if not self.encoder.training then return y end
  if y:size(1) == self.x:size(1) then return ops.dropout(y, self.layout, options) end
  local rows = target[self.key]
  local all = ops.put_rows(tensor.zeros(self.x:size(1), y:size(2), { dtype = y:dtype() }), rows, y)
  return ops.gather_rows(ops.dropout(all, self.layout, options), rows)
end

---@param encoder seqrun.Encoder
---@param x seqrun.Tensor
---@param key "rows"|"places"
---@param layout seqrun.Layout
---@return seqrun.States
return function(encoder, x, key, layout)
  return setmetatable({ encoder = encoder, x = x, key = key, layout = layout }, States)
end

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

---The mean of y over the tokens of the sequences that a target's rows begin.  Tokens are added in their order, so that
---packing changes nothing.
---@param y seqrun.Tensor (T, K) a row for each row of x
---@param target seqrun.Target whose rows are the first ones of sequences
---@param dtype? string of the result; default: that of y
---@return seqrun.Tensor # (M, K)
function States:mean(y, target, dtype)
  local owners = tensor.tensor(self.layout:owners(), { dtype = "i32" })
  local means = ops.sequence_mean(y, self.layout)
  return ops.gather_rows(means, ops.gather_rows(owners, target[self.key])):to(dtype or y:dtype())
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

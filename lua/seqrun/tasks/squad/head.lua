-- head.lua - extractive question answering: the first and the last token of the answer, each a softmax over the
-- tokens of its own sequence.  [CLS], position 0, means "no answer in this window".

local ops = require("seqrun.tensor.ops")
local tensor = require("seqrun.tensor")
local where = require("seqrun.core.ops").where

local head = {
  name = "span", place = "spans", outputs = 2, architecture = "QuestionAnswering",
}

---Beyond the end of a sequence; exp() of it is zero.
local OUTSIDE = -1e30

local function longest(layout)
  local most = 1
  for _, length in ipairs(layout:lengths()) do most = math.max(most, length) end
  return most
end

---Rows of the hidden state by item and position, and whether the position is in the item's sequence.
---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Tensor rows (M, L) i32
---@return seqrun.Tensor inside (M, L) bool
local function rows_of(hidden, target)
  local layout = hidden.layout
  local int = { dtype = "i32" }
  local cls = target[hidden.key]:narrow(2, 1, 1) - target.labels:narrow(2, 1, 1)
  local rows = cls + tensor.arange(0, longest(layout) - 1, 1, int):reshape(1, -1)
  local last = layout:rows() - 1
  local clipped = rows:minimum(last)
  local owners = tensor.tensor(layout:owners(), int)
  local function owner(of) return ops.gather_rows(owners, of:reshape(-1)):reshape(of:size(1), of:size(2)) end
  return clipped, owner(clipped):eq(owner(cls)):logical_and(rows:le(last))
end

---Logits of start and end by position in the sequence of each item.
---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Tensor # (M, 2, L)
function head:logits(hidden, target)
  if target.reads ~= "spans" then
    error(("head '%s': its target reads %s; make it with { name = '%s', reads = 'spans' }"):format(self.name,
      target.reads, target.name), 0)
  end
  local rows, inside = rows_of(hidden, target)
  local items, length = rows:size(1), rows:size(2)
  local all = self:over(hidden.x, hidden)
  local spread = ops.gather_rows(all, rows:reshape(-1)):reshape(items, length, 2):transpose(2, 3)
  return where(inside:reshape(items, 1, length), spread, OUTSIDE)
end

---The mean of the cross entropies of start and end; an item is correct if both are.
function head:loss(hidden, target)
  if target.count == 0 then
    return { total = self:over(hidden.x, hidden):sum() * 0, count = 0 }
  end
  local logits = self:logits(hidden, target)
  local items = logits:size(1)
  local weights = (target.weights:reshape(items, 1) * 0.5):expand(items, 2):reshape(-1)
  local total, nll, correct = ops.cross_entropy(logits:reshape(2 * items, -1), target.labels:reshape(-1), weights)
  return { total = total, items = nll:reshape(items, 2):mean(2), correct = correct:reshape(items, 2):min(2) }
end

---@param batch seqrun.Batch
---@return number
function head:flops_of(batch) return 6 * 2 * self.encoder.design.hidden * batch.tokens end

return head

-- costs.lua - what an item costs while a head of classes trains: smoothed labels, and factors on its class.
--
-- With a share e of the label spread over C classes, the cross entropy of logits x and label y is
--   nll(y) + e (x[y] - mean x)
-- since nll(c) = log sum exp x - x[c].  The loss of evaluations is the plain one.

local ops = require("seqrun.tensor.ops")
local tensor = require("seqrun.tensor")

---@class seqrun.ClassCosts
---@field smoothing number share of a label that is spread over all classes
---@field factors? seqrun.Tensor (C) of the classes

local costs = {}

---x[label] - mean x of each row.
local function excess_of(x, labels)
  local classes = tensor.arange(0, x:size(2) - 1, 1, { dtype = "i32" }):reshape(1, -1)
  local own = classes:eq(labels:reshape(-1, 1)):to(x:dtype())
  return (x * own):sum(2) - x:mean(2)
end

---The loss of classes, as seqrun.Loss without its count.
---@param logits seqrun.Tensor (M, C)
---@param target seqrun.Target
---@param t seqrun.ClassCosts
---@return seqrun.Loss
function costs.loss(logits, target, t)
  local weights = target.weights
  if t.factors then weights = weights * ops.gather_rows(t.factors, target.labels) end
  local total, items, correct = ops.cross_entropy(logits, target.labels, weights)
  if t.smoothing > 0 then
    local excess = excess_of(logits:to(weights:dtype()), target.labels) * t.smoothing
    total, items = total + (excess * weights):sum(), items + excess:detach()
  end
  return { total = total, items = items, correct = correct, reduced = t.factors ~= nil }
end

return costs

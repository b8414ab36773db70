-- multilabel.lua - any number of labels for each sequence or pair: a sigmoid for each label, over the pooled [CLS].

local ops = require("seqrun.tensor.ops")
local task = require("seqrun.nn.heads.task")

local Multilabel = task.class {
  kind = "multilabel", name = "labels", layer = "classifier", pooler = true, counts = "labels",
  architecture = "BertForSequenceClassification", problem_type = "multi_label_classification",
}

---The mean over items and their labels; an item is correct if all its labels are.
function Multilabel:loss(hidden, target, batch)
  local x = self:real_logits(hidden, target, batch)
  local labels = target.labels:to(x:dtype()):reshape(-1, self.outputs)
  local items = ops.binary_cross_entropy(x, labels):mean(2)
  local right = x:detach():gt(0):eq(labels:gt(0.5)):to(x:dtype())
  return { total = (items * target.weights):sum(), items = items, correct = right:min(2) }
end

return Multilabel

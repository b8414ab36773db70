-- regress.lua - one or several values for each sequence or pair: mean squared error of a linear layer over [CLS].

local task = require("seqrun.nn.heads.task")

local Regress = task.class {
  kind = "regress", name = "label", layer = "classifier", pooler = true, counts = "values", default_outputs = 1,
  architecture = "BertForSequenceClassification", problem_type = "regression",
}

---The mean over items and their values.
function Regress:loss(hidden, target, batch)
  local x = self:real_logits(hidden, target, batch)
  local squares = (x - target.labels:to(x:dtype()):reshape(-1, self.outputs)):square()
  local items = squares:mean(2)
  return { total = (items * target.weights):sum(), items = items }
end

return Regress

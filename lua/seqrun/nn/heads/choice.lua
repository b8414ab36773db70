-- choice.lua - multiple choice: softmax over the scores of a question's choices, each a sequence of its own.
--
-- The choices of a question may lie in different packs, but in one micro-batch (seqrun/data/groups.lua).  Two targets:
-- `answer` has one item per question, the [CLS] of its right choice; `group` has the [CLS] of every choice, and the
-- question's number as its label.

local ops = require("seqrun.tensor.ops")
local task = require("seqrun.nn.heads.task")

local Choice = task.class {
  kind = "choice", name = "answer", layer = "classifier", pooler = true, outputs = 1,
  architecture = "BertForMultipleChoice",
}

---The target with all choices.
Choice.GROUP = "group"

---Below any score; exp() of it is zero.
local OUTSIDE = -1e30

---A score for each choice in the batch, in the order of the target `group`.
---@param hidden seqrun.States
---@param batch seqrun.Batch
---@return seqrun.Tensor # (N)
function Choice:logits(hidden, _, batch)
  local group = batch.targets[self.GROUP]
  if not group then
    error(("head '%s': the batch has no target '%s'; add it to the targets of the loader"):format(self.name,
      self.GROUP), 0)
  end
  return self:project(hidden, group):reshape(-1)
end

---Cross entropy over the choices of each question.
function Choice:loss(hidden, target, batch)
  local scores, group = self:logits(hidden, target, batch), batch.targets[self.GROUP]
  if target.count == 0 then return { total = scores:sum() * 0, count = 0 } end
  local right, all = target.rows:reshape(-1, 1), group.rows:reshape(1, -1) -- (Q, 1), (1, N)
  local place = right:eq(all):to(target.weights:dtype()):argmax(2) -- of the right choice among all
  local questions = ops.gather_rows(group.labels, place):reshape(-1, 1)
  local inside = questions:eq(group.labels:reshape(1, -1))
  local rows = require("seqrun.core.ops").where(inside, scores:reshape(1, -1), OUTSIDE)
  local total, items, correct = ops.cross_entropy(rows, place, target.weights)
  return { total = total, items = items, correct = correct }
end

return Choice

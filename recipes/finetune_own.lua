-- finetune_own.lua - a task of your own: a head with its own loss and its own metric.
--
-- This one predicts a number with the Huber loss, which outliers pull less than squares do, and reports the mean
-- absolute error.  The rest is that of the task regress; the loop is in finetune.lua, settings in finetune_own.yaml.
-- Models of such a task need its file: seqrun eval DIR test.csv --task recipes/finetune_own.lua

local sr = require "seqrun"

local task = sr.tasks.register {
  name = "robust", like = "regress", doc = "a number for each text or pair of texts, with the Huber loss",
  head = {
    loss = function(self, hidden, target, batch)
      local values = self:real_logits(hidden, target, batch):reshape(-1)
      local far = (values - target.labels:to(values:dtype()):reshape(-1)):abs()
      local near = far:minimum(1) -- squares up to 1, then linear
      local items = near * (far - near * 0.5)
      return {
        total = (items * target.weights):sum(), items = items:detach(),
        sums = { absolute_error = { far:detach():sum(), target.count } },
      }
    end,
  },
}
if ... == sr.tasks then return task end -- loaded by --task, or by task=FILE

assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(task)

-- finetune_own.lua - a task of your own: a head with its own loss and its own metric.
--
-- This one predicts a number with the Huber loss, which outliers pull less than squares do, and reports the mean
-- absolute error.  The rest is that of sr.tasks.regress; the loop is in finetune.lua, settings in finetune_own.yaml.

local sr = require "seqrun"

---A linear layer over the pooled state of [CLS].
local function robust(encoder)
  local specs, add = sr.nn.specs(encoder.config.initializer_range)
  add.linear("robust", 1, encoder.config.hidden_size)
  local head = { name = "label", specs = specs, pooler = true }

  function head:values(hidden, target)
    local weight, bias = self.params:get "robust.weight", self.params:get "robust.bias"
    return sr.ops.linear(hidden:pooled(target), weight, bias):reshape(-1)
  end

  function head:loss(hidden, target)
    local far = (self:values(hidden, target) - target.labels:reshape(-1)):abs()
    local near = far:minimum(1) -- squares up to 1, then linear
    local items = near * (far - near * 0.5)
    return {
      total = (items * target.weights):sum(), items = items:detach(),
      sums = { absolute_error = { far:detach():sum(), target.count } },
    }
  end

  function head:predict(hidden, target) return self:values(hidden, target):totable() end

  return head
end

assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(sr.tasks.regress:with { head = robust })

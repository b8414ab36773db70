-- tasks - what a kind of training adds to a run: its config keys, and what they mean to its parts.
--
-- A task is { keys, rules, without } for sr.run.open, and functions that turn a config into options of the loader, the
-- model and the optimizer.  They are loaded on first use.

local NAMES = {
  "pretraining", "curriculum", "mlperf", "classify", "regress", "multilabel", "choice", "tokens", "squad",
}

local known = {}
for _, name in ipairs(NAMES) do known[name] = true end

return setmetatable({ names = NAMES }, {
  __index = function(self, name)
    if not known[name] then
      local hint = require("seqrun.base.guess").hint(tostring(name), NAMES)
      error(("tasks: unknown task '%s'%s"):format(tostring(name), hint), 2)
    end
    local task = require("seqrun.tasks." .. name)
    rawset(self, name, task)
    return task
  end,
})

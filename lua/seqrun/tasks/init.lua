-- tasks - what a kind of training adds to a run: its config keys, and what they mean to its parts.
--
-- A task is { keys, rules } for sr.run.open, and functions that turn a config into options of the loader, the
-- model and the optimizer.

return { pretraining = require("seqrun.tasks.pretraining") }

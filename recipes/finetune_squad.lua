-- finetune_squad.lua - answers to questions, as spans of a context.
-- Settings: finetune_squad.yaml; the loop is in finetune.lua.

assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(require("seqrun").tasks.squad)

-- finetune_choice.lua - the right one of several choices for each question.
-- Settings: finetune_choice.yaml; the loop is in finetune.lua.

assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(require("seqrun").tasks.choice)

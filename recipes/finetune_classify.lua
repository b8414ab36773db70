-- finetune_classify.lua - a class for each text.
-- Settings: finetune_classify.yaml; the loop is in finetune.lua.

assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(require("seqrun").tasks.classify)

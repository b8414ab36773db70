-- finetune_pair.lua - a class for each pair of texts.
-- Settings: finetune_pair.yaml; the loop is in finetune.lua.

assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(require("seqrun").tasks.classify)

-- finetune_regress.lua - one or several numbers for each text or pair of texts.
-- Settings: finetune_regress.yaml; the loop is in finetune.lua.

assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(require("seqrun").tasks.regress)

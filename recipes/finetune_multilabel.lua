-- finetune_multilabel.lua - any number of labels for each text.
-- Settings: finetune_multilabel.yaml; the loop is in finetune.lua.

assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(require("seqrun").tasks.multilabel)

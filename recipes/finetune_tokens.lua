-- finetune_tokens.lua - a class for each word, such as names in a text.
-- Settings: finetune_tokens.yaml; the loop is in finetune.lua.

assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(require("seqrun").tasks.tokens)

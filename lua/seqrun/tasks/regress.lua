-- regress.lua - one or several numbers for each text or pair of texts.

return require("seqrun.tasks.finetuning").task { kind = "regress", column = "label", target = "label" }

-- multilabel.lua - any number of labels for each text or pair of texts.

return require("seqrun.tasks.finetuning").task { kind = "multilabel", column = "labels", target = "labels" }

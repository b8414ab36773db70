-- classify.lua - one class for each text or pair of texts.

return require("seqrun.tasks.finetuning").task {
  kind = "classify", column = "label", classes = true, target = "label",
}

-- squad.lua - answers to questions, as spans of a context; long contexts are several windows.

return require("seqrun.tasks.finetuning").task {
  kind = "squad", whole = true,
  target = { name = "span", reads = "spans", outside = "cls" }, -- [CLS] where the answer is in another window
}

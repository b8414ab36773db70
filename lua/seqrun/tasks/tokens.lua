-- tokens.lua - one class for each word, read from its first piece.

return require("seqrun.tasks.finetuning").task { kind = "tokens", column = "tags", classes = true, target = "tags" }

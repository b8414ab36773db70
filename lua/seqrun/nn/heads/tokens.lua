-- tokens.lua - one class for each labelled token: softmax over its hidden state.

return require("seqrun.nn.heads.task").class {
  kind = "tokens", name = "tags", layer = "classifier", counts = "classes", fewest = 2,
  architecture = "BertForTokenClassification",
}

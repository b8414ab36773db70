-- classify.lua - one class for each sequence or pair: softmax over the pooled [CLS].

return require("seqrun.nn.heads.task").class {
  kind = "classify", name = "label", layer = "classifier", pooler = true, counts = "classes", fewest = 2,
  architecture = "BertForSequenceClassification", problem_type = "single_label_classification",
}

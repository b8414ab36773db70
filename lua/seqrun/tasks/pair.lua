-- pair.lua - a class for each pair of texts: the task classify with two columns of text.

return {
  doc = "a class for each pair of texts: entailment, paraphrase", like = "classify",
  example = "data.train=train.tsv columns.text=sentence1 columns.pair=sentence2",
  settings = { columns = { text = "text", pair = "pair", label = { "label" } } },
}

-- pair.lua - a class for each pair of texts: the task classify with two columns of text.

return {
  doc = "a class for each pair of texts: entailment, paraphrase", like = "classify",
  settings = { columns = { text = "text", pair = "pair", label = { "label" } } },
}

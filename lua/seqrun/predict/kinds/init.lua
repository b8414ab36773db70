-- kinds - what `predict` reads and writes for each kind of head.
--
--   input              keys of an item: { keys, optional, lists }
--   reads              what of a sequence the head reads: "sequences" ([CLS]), "rows" or "spans"
--   sequences(item, t) the sequences of an item; default: its text, or text and pair, truncated
--   outputs(v, batch)  logits as nested lists to the output of each sequence; default: one list of each
--   result(item, t)    what is written about the item
--
-- `t` has head, tokenizer, max_len, counts and the options of the command.

local kinds = {}
for _, name in ipairs { "classify", "regress", "multilabel", "choice", "tokens", "squad" } do
  kinds[name] = require("seqrun.predict.kinds." .. name)
end
return kinds

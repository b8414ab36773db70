-- squad - answers to questions, as spans of a context; long contexts are several windows.

local prediction = require("seqrun.tasks.squad.prediction")
local reader = require("seqrun.tasks.squad.reader")

return {
  doc = "answers to questions, as spans of a context, from files of SQuAD 1.1 or 2.0",
  example = "data.train=train-v2.0.json data.dev=dev-v2.0.json",
  head = require("seqrun.tasks.squad.head"),
  reader = {
    new = reader.new, open = reader.open, columns = {}, formats = { json = "squad" }, known = "squad or jsonl",
    windows = true, questions = true,
  },
  scores = require("seqrun.tasks.squad.scores"), prediction = prediction,
  whole = true,
  refuses = { length = "it would cut answers out of their windows; use a metric, such as curriculum.length_rarity" },
  target = { name = "span", reads = "spans", outside = "cls" }, -- [CLS] where the answer is in another window
  settings = {
    data = { max_len = 384, held = 0 }, batch = { sequences = 12, micro_packs = 4 }, rate = { peak = 3e-5 },
  },
}

-- tokens.lua - a class for each word, such as names in a text: softmax over the hidden state of its first piece.

local conll = require("seqrun.tasks.tokens.conll")
local decode = require("seqrun.scores.decode")
local failure = require("seqrun.base.failure")
local frames = require("seqrun.text.frames")
local origin = require("seqrun.data.items")
local json = require("seqrun.core.json")
local labels = require("seqrun.data.readers.labels")
local one_line = require("seqrun.base.one_line")
local schemes = require("seqrun.scores.schemes")
local spans = require("seqrun.scores.spans")
local core_text = require("seqrun.core.text")
local windows = require("seqrun.data.readers.windows")

-- ---- examples --------------------------------------------------------------------------------

local Words = {}
Words.__index = Words

---@param job seqrun.readers.Job
local function reader(job)
  local columns = { tags = { type = "i32", per = "token" }, text = job.keep_text and { type = "bytes" } or nil }
  if job.options.too_long == "windows" then columns.source, columns.offset = { type = "i32" }, { type = "i32" } end
  return setmetatable({
    job = job, map = job.labels, columns = columns, labelled = "tags", dropped = 0,
  }, Words)
end

---What tokens are in a table.
local LIST = "the %s of a row must be a list, such as ['a', 'b'] in its cell; or write a .conll file, in which each "
  .. "line has a word and its label"

---Why this is not a list of words with as many labels.
local function check(self, record)
  local words, tags = record.text, record.label
  if type(words) ~= "table" then return "missing", LIST:format("words") end
  if self.job.unlabelled and (type(tags) ~= "table" or #tags == 0) then return nil end
  if type(tags) ~= "table" then return "missing", LIST:format("labels") end
  if #words ~= #tags then return "ragged", ("%d words, but %d labels"):format(#words, #tags) end
end

function Words:survey(record)
  if check(self, record) then return end
  self.counted = self.counted or labels.survey()
  for _, tag in ipairs(record.label) do
    if labels.clean(tag) then self.counted:add(labels.clean(tag), record) end
  end
  self.counted.rows = self.counted.rows + #record.label
end

function Words:surveyed()
  if not self.counted or #self.counted.names == 0 then return nil, "no word has a label; set columns.label" end
  local message
  self.map, message = self.counted:map(false)
  return self.map and true, message
end

---The label of a word: a number, or nil and why.
local function id_of(self, tag, word)
  if tag == nil and self.job.unlabelled then return -100 end
  local name = labels.clean(tag)
  if not name then return nil, "unlabelled", ("the word '%s' has no label"):format(one_line(word)) end
  local id = self.map.ids[name]
  if id then return id end
  return nil, "unknown", ("unknown label '%s' of '%s'; the labels are %s"):format(one_line(name), one_line(word),
    labels.list(self.map.names))
end

---The parts of a sentence that the model reads, at most max_len tokens each, and for each token the number of the part
---in which its word counts.  Of a sentence that is truncated, the first part is what training keeps of it, and the
---others are for predictions.
local function parts_of(self, ids, numbers)
  local job = self.job
  local overlap = job.options.too_long == "windows"
  if not overlap and not job.predicting then return { { 0, #ids } } end
  local room = frames.of(job.tokenizer):room(job.options.max_len)
  local list = windows.cut(#ids, room, overlap and math.min(job.options.stride, room // 2) or room, function(k)
    return numbers[k + 1] ~= numbers[k]
  end)
  return list, windows.best(list)
end

---The examples of a sentence.  The words that count in another part have no tag; a part in which none counts is left
---out.  For a prediction also the numbers of the words that count, and the places of their first tokens.
local function examples_of(self, record, ids, tags, numbers)
  local parts, best = parts_of(self, ids, numbers)
  local list, text, predicting = {}, self.job.keep_text and table.concat(record.text, " ") or nil, self.job.predicting
  for number, part in ipairs(parts) do
    local used, one = not best, { a = {}, tags = {}, text = text, rows = predicting and {}, words = predicting and {} }
    for k = part[1] + 1, part[2] do
      local tag = (not best or best[k] == number) and tags[k] or -100
      one.a[#one.a + 1], one.tags[#one.tags + 1], used = ids[k], tag, used or tag ~= -100
      if predicting and tag ~= -100 then one.rows[#one.rows + 1], one.words[#one.words + 1] = #one.a, tag end
    end
    if self.columns.source then one.source, one.offset = self.job.texts, part[1] end
    if used then list[#list + 1] = self.job:stamp(one, record) end
  end
  self.job:count(#parts > 1 and #list or 0)
  return list
end

function Words:make(record)
  local kind, why = check(self, record)
  if kind then return nil, kind, why end
  local labels_of, tags, words, used = {}, {}, record.text, 0
  for i, word in ipairs(words) do
    labels_of[i], kind, why = id_of(self, record.label and record.label[i], word)
    if not labels_of[i] then return nil, kind, why end
  end
  local ids, numbers = self.job.tokenizer:words(words)
  for i, number in ipairs(numbers) do
    local first = number ~= numbers[i - 1]
    tags[i], used = first and (self.job.predicting and number or labels_of[number]) or -100, used + (first and 1 or 0)
  end
  self.dropped = self.dropped + #words - used
  if #ids == 0 and not self.job.predicting then return nil, "empty", "the sentence has no tokens" end
  return examples_of(self, record, ids, tags, numbers)
end

function Words:notes()
  local notes = self.counted and self.counted:look_alikes() or {}
  if self.dropped > 0 then
    notes[#notes + 1] = self.dropped == 1 and "1 word has no tokens, so its label is not used"
      or ("%d words have no tokens, so their labels are not used"):format(self.dropped)
  end
  return self.job:add_windows(notes, "sentence")
end

-- ---- scores ---------------------------------------------------------------------------------------

---Accuracy, and F1 of spans (B-PER I-PER), or of classes if the tags do not mark spans; f1_greedy: that of the most
---probable tag of each word, where only valid sequences are predicted.
local scores = { shown = { "accuracy", "precision", "recall", "f1", "f1_greedy" } }

---The number of the example that a sentence begins with; its windows follow each other.
local function first_of(corpus, example)
  while failure.must(corpus:column("offset", example)) > 0 do example = example - 1 end
  return example
end

function scores.take(found, head, hidden, target, batch, loader)
  local from = {}
  for _, item in ipairs(origin.of(head, hidden, target, batch, loader)) do
    local uid = item.uid
    if not from[uid] then
      local part = loader:origin(uid)
      from[uid] = { sentence = part.offset and first_of(loader.data, part.example) or uid, offset = part.offset or 0 }
    end
    item.sentence, item.place = from[uid].sentence, from[uid].offset + item.position
    found[#found + 1] = item
  end
end

---Whether the tags are spans.
local function is_scheme(tags)
  for _, label in ipairs(tags or {}) do
    if label:find("^[BI]%-.") then return true end
  end
  return false
end

---The items of each sentence, in order, whichever windows they are of.
local function sequences_of(found)
  table.sort(found, function(a, b)
    if a.sentence ~= b.sentence then return a.sentence < b.sentence end
    return a.place < b.place
  end)
  local list, sentence = {}, nil
  for _, item in ipairs(found) do
    if item.sentence ~= sentence then list[#list + 1], sentence = {}, item.sentence end
    table.insert(list[#list], item)
  end
  return list
end

---Predicts the tags of a sentence.
local function decode_all(items, chain)
  local tags = schemes.decode(origin.column(items, "logits"), chain)
  for i, item in ipairs(items) do
    item.guess, item.greedy, item.logits = tags[i] - 1, decode.argmax(item.logits) - 1, nil
    item.wrong = item.guess ~= item.gold
  end
end

---A field of all items, and the names of the tags that it numbers by sequence.
local function field_of(sequences, field, names)
  local all, named = {}, {}
  for i, items in ipairs(sequences) do
    named[i] = {}
    for k, item in ipairs(items) do all[#all + 1], named[i][k] = item[field], names and names[item[field] + 1] end
  end
  return all, named
end

---Metrics of a field that has predictions.
local function score_of(sequences, field, head)
  local metrics = require("seqrun.scores")
  local gold, gold_names = field_of(sequences, "gold", head.labels)
  local guess, guess_names = field_of(sequences, field, head.labels)
  local confusion = metrics.confusion(gold, guess, head.outputs)
  local found = { accuracy = confusion:accuracy() }
  if not is_scheme(head.labels) then
    found.f1 = confusion:macro_f1()
    return found, { confusion = confusion }
  end
  local found_spans = metrics.spans(gold_names, guess_names)
  for _, name in ipairs { "precision", "recall", "f1" } do found[name] = found_spans[name] end
  return found, { spans = found_spans }
end

function scores.score(found, head)
  local sequences, chain = sequences_of(found), schemes.of_head(head)
  for _, items in ipairs(sequences) do decode_all(items, chain) end
  local values, details = score_of(sequences, "guess", head)
  values.f1_greedy = chain and score_of(sequences, "greedy", head).f1 or nil
  return values, details
end

---The words of tags belong together: one item per sequence, with the number of its wrong tags.
function scores.by_example(found)
  local list, of = {}, {}
  for _, item in ipairs(found) do
    local one = of[item.uid]
    if not one then
      one = { uid = item.uid, error = 0, count = 0, wrong = false, tags = {} }
      of[item.uid], list[#list + 1] = one, one
    end
    one.count = one.count + 1
    one.tags[one.count] = item
    if item.wrong then one.error, one.wrong = one.error + 1, true end
  end
  for _, one in ipairs(list) do
    one.gold, one.guess = one.count .. " tags", ("%d of them wrong"):format(one.error)
  end
  return list
end

---Wrong words that are named, of one sequence.
local MOST_NAMED = 8

---The token that a word ends with: the others of it have no tag.
local function end_of_word(marks, first, count)
  local last = first
  while last < count and marks[last + 1] == -100 do last = last + 1 end
  return last
end

---The wrong words of an item of by_example, with their tags and with the predicted ones.
---@param one table
---@param head seqrun.Head
---@param loader seqrun.Loader
---@return string label
---@return string predicted
function scores.described(one, head, loader)
  local from, corpus, gold, guess = loader:origin(one.uid), loader.data, {}, {}
  local ids, tokenizer = failure.must(corpus.core:unit(from.example)), corpus:tokenizer()
  local marks = failure.must(corpus:column("tags", from.example))
  local lead = frames.of(tokenizer):lead() - (from.first or 0)
  table.sort(one.tags, function(a, b) return a.position < b.position end)
  for _, item in ipairs(one.tags) do
    if item.wrong and #gold < MOST_NAMED then
      local first = item.position - lead + 1
      local last = end_of_word(marks, first, #ids)
      local word = tokenizer:decode(table.move(ids, first, last, 1, {})):match("^%s*(.-)%s*$")
      if from.offset then word = word:match("^%S*") end -- words behind it may count in another window
      gold[#gold + 1] = ("%s %s"):format(word, head.labels and head.labels[item.gold + 1] or item.gold)
      guess[#guess + 1] = ("%s %s"):format(word, head.labels and head.labels[item.guess + 1] or item.guess)
    end
  end
  return table.concat(gold, ", "), table.concat(guess, ", ")
end

-- ---- prediction -----------------------------------------------------------------------------------

---{"words": ["Paris", "sleeps"], "tags": ["B-LOC", "O"], "probabilities": [0.99, 0.98], "spans": [{"type": "LOC",
---"start": 0, "end": 5, "text": "Paris", "score": 0.99}]}.  A text is cut into words at white space and punctuation.  A
---word without tokens is in no input, as in training: it is O, or inside the span around it, without a probability.
local prediction = {
  input = { keys = { "text", "words" }, optional = { text = true, words = true }, lists = { words = true } },
  reads = "rows", roles = { text = "words" },
}

function prediction.prepare(item, t)
  local given = item.words or item.text or ""
  local listed = type(given) == "table"
  item.source = listed and table.concat(given, " ") or given
  item.words, item.starts, item.ends, item.bytes = core_text.split(item.source, t.split == "white")
  if not listed then return end
  item.words, item.starts, item.ends, item.bytes = given, {}, {}, {} -- each as it is, a space between two
  local point, byte = 0, 0
  for i, word in ipairs(given) do
    local points = utf8.len(word) or #word
    item.starts[i], item.ends[i], item.bytes[i] = point, point + points, byte
    point, byte = point + points + 1, byte + #word + 1
  end
end

---Logits of all words, in the order of the sequences.
function prediction.outputs(values, batch)
  local outputs, at = {}, 0
  for i, sequence in ipairs(batch.list) do
    outputs[i] = table.move(values, at + 1, at + #sequence.rows, 1, {})
    at = at + #sequence.rows
  end
  return outputs
end

---The spans that tags mark, in code points of the text, with the mean of the probabilities of their words.
local function spans_of(item, tags, probabilities)
  local list = json.array()
  for i, span in ipairs(spans.of(tags)) do
    local sum, count, last = 0, 0, span.last
    for k = span.first, last do
      if type(probabilities[k]) == "number" then sum, count = sum + probabilities[k], count + 1 end
    end
    list[i] = {
      type = span.type, start = item.starts[span.first], ["end"] = item.ends[last], score = decode.round(sum / count),
      text = item.source:sub(item.bytes[span.first] + 1, item.bytes[last] + #item.words[last]),
    }
  end
  return list
end

---What decodes the tags.
function prediction.chain(head, wanted) return schemes.of_head(head, wanted) or false end

function prediction.result(item, t)
  local names, tags, probabilities, outside = decode.names(t.head), json.array(), json.array(), json.null
  for _, name in ipairs(names) do outside = name == "O" and name or outside end
  local words, logits, before = {}, {}, 0
  for _, sequence in ipairs(item.sequences) do
    table.move(sequence.words, 1, #sequence.words, #words + 1, words)
    table.move(sequence.output, 1, #sequence.output, #logits + 1, logits)
  end
  for i = 1, #item.words do tags[i], probabilities[i] = outside, json.null end
  local best, p = schemes.decode(logits, t.chain)
  for i, word in ipairs(words) do
    local inside = t.chain and schemes.inside(best[i], t.chain)
    for k = before + 1, inside and word - 1 or before do tags[k] = names[inside] end
    tags[word], probabilities[word], before = names[best[i]], decode.round(p[i]), word
  end
  return {
    words = json.array(item.words), tags = tags, probabilities = probabilities,
    spans = is_scheme(names) and spans_of(item, tags, probabilities) or nil,
  }
end

-- ---- training -------------------------------------------------------------------------------------

---The tags of each sentence to train on, and the first example of each.
local function sequences_in(corpus)
  local list, examples, cut, units = {}, {}, corpus:known("offset"), corpus:units("train")
  table.sort(units)
  for _, example in ipairs(units) do
    if not cut or first_of(corpus, example) == example then list[#list + 1], examples[#examples + 1] = {}, example end
    for _, tag in ipairs(failure.must(corpus:column("tags", example))) do
      if tag ~= -100 then table.insert(list[#list], tag) end
    end
  end
  return list, examples
end

---The scheme that eval.decode names, or that the training data follow.
local function scheme_of(wanted, data)
  local names = data.labels
  if wanted == "greedy" or not names then return "none" end
  if wanted ~= "valid" then
    schemes.of_head({ labels = names, outputs = #names }, wanted, "eval.decode")
    return wanted
  end
  local sequences, examples = sequences_in(data.train)
  local name, wrong = schemes.of_sequences(names, sequences)
  local function say(format, ...) data.notes[#data.notes + 1] = "tags: " .. format:format(...) end
  if name then say("%s; evaluations and predictions keep to valid sequences of them", name) end
  if wrong then
    say("predicted one by one, as those of %s follow none of the schemes %s that the labels could be of; if this is a "
      .. "mistake in the data, eval.decode names the scheme", data.train:place(examples[wrong]),
      table.concat(schemes.NAMES, ", "))
  end
  return name or "none"
end

local function head_options(self, data, cfg)
  local options = require("seqrun.tasks.shared.finetuning").head_options(self, data)
  options.scheme, options.crf = scheme_of(cfg.eval.decode or "greedy", data), cfg.tune and cfg.tune.crf or nil
  return options
end

return {
  doc = "a class for each word of CoNLL files: names, parts of speech",
  example = "data.train=train.conll",
  head = {
    name = "tags", place = "tokens", counts = "classes", fewest = 2, architecture = "TokenClassification",
    kept = { scheme = "none", crf = false },
  },
  reader = {
    new = reader, open = conll.open, columns = {}, fields = { text = "texts", label = "texts" },
    formats = { txt = "conll", tsv = "conll" }, known = "conll or jsonl", cuts = true,
  },
  scores = scores, prediction = prediction,
  column = "tags", classes = true, target = "tags",
  head_options = head_options, settings = { data = { too_long = "windows" } },
  refuses = {}, -- each piece has the tags of its tokens
  keys = "seqrun.tasks.tokens.keys",
}

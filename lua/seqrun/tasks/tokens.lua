-- tokens.lua - a class for each word, such as names in a text: softmax over the hidden state of its first piece.

local counted = require("seqrun.base.format").counted
local decode = require("seqrun.scores.decode")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.data.readers.formats")
local frames = require("seqrun.text.frames")
local origin = require("seqrun.data.items")
local json = require("seqrun.core.json")
local labels = require("seqrun.data.readers.labels")
local one_line = require("seqrun.base.one_line")
local records = require("seqrun.data.readers.records")
local spans = require("seqrun.scores.spans")
local core_text = require("seqrun.core.text")

-- ---- CoNLL: a word per line, a blank line between sentences ------------------------------------

local Sentences = {}
Sentences.__index = Sentences

---CoNLL-U has comments before a sentence: "# newdoc", "# text = ...".
local function is_comment(cells, count, expected)
  return cells[1] == "#" and (cells[3] == "=" or count ~= expected)
end

local function open_next(self)
  local path = self.waiting[#self.files + 1]
  if not path then return nil end
  local rows, message, code = core_text.rows(path, formats.rows("conll", self.options))
  if not rows then return nil, message, code end
  self.files[#self.files + 1] = path
  self.rows, self.count, self.any = rows, nil, false
  return true
end

---Number of a column of words: "word" and "tag" are the first and the last.
local function place(given, usual, count)
  local number = math.tointeger(tonumber(given or usual))
  return number and number <= count and number or nil
end

---Makes the sentence useless; its place becomes that of its first bad row.
local function spoil(sentence, kind, line, why, ...)
  if not sentence.wrong then sentence.wrong, sentence.why, sentence.line = kind, why:format(...), line end
end

---Whether the cells of a row are empty: a blank line that holds tabs.
local function is_blank(cells, count)
  for i = 1, count do
    if cells[i]:find("%S") then return false end
  end
  return true
end

---CoNLL-U has ten columns; a row numbered 3-4 repeats words of the following rows, and one numbered 5.1 is not in the
---text.
local function is_no_word(cells, count) return count == 10 and cells[1]:find("^%d+[-.]%d+$") ~= nil end

---Adds a row to the sentence, or makes the sentence useless.
local function add_row(self, sentence, count, line)
  local columns, cells = self.options.columns, self.cells
  self.count = self.count or count
  local word, tag = place(columns.text, 1, count), place(columns.label, self.count, count)
  sentence.line = sentence.line or line
  if word and word == tag and self.options.optional.label ~= true then
    return spoil(sentence, "ragged", line, "the word and its tag are both column %d; CoNLL files have a word and a tag "
      .. "in each line", word)
  end
  if count ~= self.count then
    return spoil(sentence, "ragged", line, "%s instead of %d", counted(count, "column"), self.count)
  end
  local lacks = not word and "text" or not tag and not self.options.optional.label and "label"
  if lacks then
    return spoil(sentence, "ragged", line, "%s, but columns.%s is %s", counted(count, "column"), lacks,
      tostring(columns[lacks]))
  end
  sentence.text[#sentence.text + 1] = cells[word]
  sentence.label[#sentence.label + 1] = cells[tag]
end

---Reads rows up to the next blank line.
local function read_sentence(self)
  local sentence = { text = {}, label = {}, file = self.files[#self.files], file_index = #self.files }
  while true do
    local count, line, file, wrong, column = self.rows:next(self.cells)
    if not count then
      if line then return nil, line, file end
      self.rows:close()
      self.rows = nil
      return sentence
    end
    if count > 0 and not wrong and is_blank(self.cells, count) then count = 0 end
    if count == 0 and sentence.line then return sentence end
    if wrong then
      spoil(sentence, "unreadable", line, "column %d: %s", column, wrong)
    elseif count > 0 and self.cells[1] ~= "-DOCSTART-" and not is_no_word(self.cells, count) and
      not (not sentence.line and is_comment(self.cells, count, self.count)) then
      add_row(self, sentence, count, line)
    end
  end
end

---The next sentence; nil at the end.
---@return table? record
---@return string? message
---@return string? code
function Sentences:next()
  while true do
    if not self.rows then
      local opened, message, code = open_next(self)
      if not opened then return nil, message, code end
    end
    local sentence, message, code = read_sentence(self)
    if not sentence then return nil, message, code end
    if sentence.line then
      self.any = true
      return sentence
    end
    if not self.any then return nil, ("%s: the file has no words"):format(sentence.file), "data" end
  end
end

Sentences.close, Sentences.__close = records.close, records.close

---Opens CoNLL files, or tables of JSON.
local function open(options)
  local files = type(options.files) == "table" and options.files or { options.files }
  local format, message = formats.of(files[1] or "", options.reader, options.format)
  if not format then return nil, message, "config" end
  if format ~= "conll" then
    local columns = { text = "tokens", label = "tags" }
    for key, value in pairs(options.columns) do columns[key] = value end
    local given = setmetatable({ columns = columns }, { __index = options })
    return records.open(given)
  end
  message = formats.problem(files)
  if message then return nil, message, "data" end
  return setmetatable({ options = options, waiting = files, files = {}, cells = {} }, Sentences)
end

-- ---- examples --------------------------------------------------------------------------------

local Words = {}
Words.__index = Words

---@param job seqrun.readers.Job
local function reader(job)
  local columns = { tags = { type = "i32", per = "token" }, text = job.keep_text and { type = "bytes" } or nil }
  return setmetatable({ job = job, map = job.labels, columns = columns, labelled = "tags", dropped = 0 }, Words)
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
  local example = self.job:stamp({ a = ids, tags = tags }, record)
  if self.job.keep_text then example.text = table.concat(words, " ") end
  return example
end

function Words:notes()
  local notes = self.counted and self.counted:look_alikes() or {}
  if self.dropped > 0 then
    notes[#notes + 1] = self.dropped == 1 and "1 word has no tokens, so its label is not used"
      or ("%d words have no tokens, so their labels are not used"):format(self.dropped)
  end
  return notes
end

-- ---- scores ---------------------------------------------------------------------------------------

---Accuracy, and F1 of spans (B-PER I-PER), or of classes if the tags do not mark spans.
local scores = { shown = { "accuracy", "precision", "recall", "f1" } }

function scores.take(found, head, hidden, target, batch)
  local uids, positions = origin.uids(target, batch)
  local gold = target.labels:totable()
  for i, logits in ipairs(origin.logits(head, hidden, target, batch)) do
    found[#found + 1] = {
      uid = uids[i], position = positions[i], gold = gold[i], guess = decode.argmax(logits) - 1,
    }
  end
end

---Whether the tags are spans.
local function is_scheme(tags)
  for _, label in ipairs(tags or {}) do
    if label:find("^[BI]%-.") then return true end
  end
  return false
end

---The tags of each sequence, in order.
local function sequences_of(found, tags)
  table.sort(found, function(a, b)
    if a.uid ~= b.uid then return a.uid < b.uid end
    return a.position < b.position
  end)
  local gold, guess, uid = {}, {}, nil
  for _, item in ipairs(found) do
    if item.uid ~= uid then
      gold[#gold + 1], guess[#guess + 1], uid = {}, {}, item.uid
    end
    table.insert(gold[#gold], tags[item.gold + 1])
    table.insert(guess[#guess], tags[item.guess + 1])
  end
  return gold, guess
end

function scores.score(found, head)
  local metrics = require("seqrun.scores")
  local gold, guess = {}, {}
  for i, item in ipairs(found) do
    gold[i], guess[i], item.wrong = item.gold, item.guess, item.gold ~= item.guess
  end
  local confusion = metrics.confusion(gold, guess, head.outputs)
  local found_metrics = { accuracy = confusion:accuracy() }
  if not is_scheme(head.labels) then
    found_metrics.f1 = confusion:macro_f1()
    return found_metrics, { confusion = confusion }
  end
  local found_spans = metrics.spans(sequences_of(found, head.labels))
  for _, name in ipairs { "precision", "recall", "f1" } do found_metrics[name] = found_spans[name] end
  return found_metrics, { spans = found_spans }
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
      gold[#gold + 1] = ("%s %s"):format(word, head.labels and head.labels[item.gold + 1] or item.gold)
      guess[#guess + 1] = ("%s %s"):format(word, head.labels and head.labels[item.guess + 1] or item.guess)
    end
  end
  return table.concat(gold, ", "), table.concat(guess, ", ")
end

-- ---- prediction -----------------------------------------------------------------------------------

---{"words": ["Paris", "sleeps"], "tags": ["B-LOC", "O"], "probabilities": [0.99, 0.98], "spans": [{"type": "LOC",
---"start": 0, "end": 5, "text": "Paris", "score": 0.99}]}.  A text is cut into words at white space and punctuation.  A
---word without tokens is in no input, as in training: it is O, without a probability.
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

---A sentence in sequences of at most max_len tokens: the first is what training keeps of it, each other begins with the
---first word that does not begin before.
function prediction.pieces(example, t)
  local room, list, at, count = frames.of(t.tokenizer.core):room(t.max_len), {}, 1, #example.a
  while at <= count do
    local last = math.min(at + room - 1, count)
    local piece = { a = table.move(example.a, at, last, 1, {}), rows = {}, words = {} }
    for i = at, last do
      if example.tags[i] ~= -100 then
        piece.rows[#piece.rows + 1], piece.words[#piece.words + 1] = i - at + 1, example.tags[i]
      end
    end
    list[#list + 1], at = piece, last + 1
    while at <= count and example.tags[at] == -100 do at = at + 1 end
  end
  return list
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

function prediction.result(item, t)
  local names, tags, probabilities, outside = decode.names(t.head), json.array(), json.array(), json.null
  for _, name in ipairs(names) do outside = name == "O" and name or outside end
  for i = 1, #item.words do tags[i], probabilities[i] = outside, json.null end
  for _, sequence in ipairs(item.sequences) do
    for i, logits in ipairs(sequence.output) do
      local p = decode.softmax(logits)
      local best, word = decode.argmax(p), sequence.words[i]
      tags[word], probabilities[word] = names[best], decode.round(p[best])
    end
  end
  return {
    words = json.array(item.words), tags = tags, probabilities = probabilities,
    spans = is_scheme(names) and spans_of(item, tags, probabilities) or nil,
  }
end

return {
  doc = "a class for each word of CoNLL files: names, parts of speech",
  example = "data.train=train.conll",
  head = {
    name = "tags", place = "tokens", counts = "classes", fewest = 2, architecture = "TokenClassification",
  },
  reader = {
    new = reader, open = open, columns = {}, fields = { text = "texts", label = "texts" },
    formats = { txt = "conll", tsv = "conll" }, known = "conll or jsonl",
  },
  scores = scores, prediction = prediction,
  column = "tags", classes = true, target = "tags",
  refuses = {}, -- each piece has the tags of its tokens
}

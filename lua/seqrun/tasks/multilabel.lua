-- multilabel.lua - any number of labels for each text or pair of texts: a sigmoid for each, over the pooled [CLS].

local decisions = require("seqrun.scores.decisions")
local decode = require("seqrun.scores.decode")
local origin = require("seqrun.data.items")
local json = require("seqrun.core.json")
local labels = require("seqrun.data.readers.labels")
local one_line = require("seqrun.base.one_line")
local ops = require("seqrun.tensor.ops")
local ranked = require("seqrun.scores.ranked")

-- ---- head -----------------------------------------------------------------------------------------

local Head = {
  name = "labels", place = "sequence", counts = "labels",
  architecture = "SequenceClassification", problem_type = "multi_label_classification",
}

---The mean over items and their labels; an item is correct if all its labels are.
function Head:loss(hidden, target, batch)
  local x = self:real_logits(hidden, target, batch)
  local wanted = target.labels:to(x:dtype()):reshape(-1, self.outputs)
  local items = ops.binary_cross_entropy(x, wanted):mean(2)
  local right = x:detach():gt(0):eq(wanted:gt(0.5)):to(x:dtype())
  return { total = (items * target.weights):sum(), items = items, correct = right:min(2) }
end

-- ---- reading --------------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

---@param job seqrun.readers.Job
local function reader(job)
  local given = job.options.columns.label
  local map = job.labels
  if type(given) == "table" and not map then map = labels.map(given) end -- a column of 0 and 1 for each class
  return setmetatable({
    job = job, map = map, wide = type(given) == "table", columns = {}, labelled = "labels",
  }, Reader)
end

---The names in a cell, or a list of JSON.
local function names_in(self, value)
  if type(value) == "table" then return value end
  local names, at, separator = {}, 1, self.job.options.separator
  while value do
    local from, to = value:find(separator, at, true)
    names[#names + 1] = labels.clean(value:sub(at, from and from - 1))
    if not from then break end
    at = to + 1
  end
  return names
end

local BITS = { ["0"] = 0, ["1"] = 1, ["false"] = 0, ["true"] = 1, False = 0, True = 1 }

---Whether a list is a 0 or 1, or a truth value, for each label, not names of labels.
local function is_hot(list)
  if type(list) ~= "table" or #list < 2 then return false end
  for _, one in ipairs(list) do
    if not BITS[one] then return false end
  end
  return true
end

---A map of label_0, label_1 ... where every row is such a list, and all have one length.
local function map_of_hot(self)
  local names = {}
  for i = 1, self.hot do names[i] = ("label_%d"):format(i - 1) end
  return labels.map(names)
end

function Reader:survey(record)
  local size = is_hot(record.label) and #record.label
  if self.hot == nil then self.hot = size end
  self.hot = self.hot == size and size
  self.counted = self.counted or labels.survey()
  for _, name in ipairs(names_in(self, record.label)) do self.counted:add(name, record) end
  self.counted.rows = self.counted.rows + 1
end

function Reader:surveyed()
  if not self.counted then return nil, "the file has no rows" end
  if #self.counted.names == 0 then return nil, "no row has a label; set columns.label" end
  if self.hot then
    self.map, self.counted = map_of_hot(self), nil
    return true
  end
  if #self.counted.names == 2 and self.counted.counts["0"] and self.counted.counts["1"] then
    return nil, ("%s: the labels are 0 and 1; name a column of them for each label, columns.label=[a,b], or train with "
      .. "task=classify"):format(self.counted.first["1"])
  end
  local message
  self.map, message = self.counted:map(self.job.options.columns.header)
  return self.map and true, message
end

---A class whose name is made of names of classes, such as 'sea|war': the name, a class in it, what separates them.
local function joined(survey)
  for _, name in ipairs(survey.names) do
    for part, mark in name:gmatch("([^|;,/]+)%s*([|;,/])") do
      if survey.counts[labels.clean(part)] then return name, labels.clean(part), mark end
    end
  end
end

function Reader:notes()
  local notes = self.counted and self.counted:notes() or {}
  if self.hot then
    notes[1] = ("labels are lists of 0 and 1: label_0 to label_%d; data.labels names them"):format(self.hot - 1)
  end
  local name, part, mark = joined(self.counted or { names = {} })
  if name then
    local format = "warning: '%s' is a class beside '%s'; if '%s' separates labels, set data.separator='%s'"
    notes[#notes + 1] = format:format(one_line(name), one_line(part), mark, mark)
  end
  return self.job:add_windows(notes)
end

function Reader:shape() self.columns.labels = { type = "f32", size = #self.map.names, unlabelled = true } end

local function from_cells(self, record)
  local row = {}
  for i, name in ipairs(self.map.names) do
    local x = BITS[record.label[i]] or tonumber(record.label[i])
    if x ~= 0 and x ~= 1 then
      return nil, "number", ("column '%s' is '%s', not 0 or 1"):format(one_line(name), one_line(record.label[i] or ""))
    end
    row[i] = x
  end
  return row
end

local function from_names(self, record)
  local row, first = {}, self.map.names[1]
  if is_hot(record.label) and not BITS[first] then
    if #record.label == #self.map.names then return from_cells(self, record) end
    return nil, "type", ("a list of %d numbers for %d labels, %s"):format(#record.label, #self.map.names,
      labels.list(self.map.names))
  end
  for i = 1, #self.map.names do row[i] = 0 end
  for _, name in ipairs(names_in(self, record.label)) do
    local id, kind, why = labels.id_of(self.map, name)
    if not id then return nil, kind, why end
    row[id + 1] = 1
  end
  return row
end

function Reader:make(record)
  local example, kind, why = self.job:example(record)
  if not example then return nil, kind, why end
  if self.job.predicting then return self.job:whole(example) end
  if self.wide then
    example.labels, kind, why = from_cells(self, record)
  else
    example.labels, kind, why = from_names(self, record)
  end
  if not example.labels then return nil, kind, why end
  if #example.labels == 1 then example.labels = example.labels[1] end -- a column of size 1 has plain values
  return self.job:whole(example)
end

-- ---- scores ---------------------------------------------------------------------------------------

---Exact sets, F1 over all decisions, the mean F1 of the labels, ROC-AUC and average precision.
local scores = {
  shown = { "accuracy", "f1", "f1_macro", "roc_auc", "average_precision" }, sets = true, decides = "labels",
}

function scores.take(found, ...)
  for _, item in ipairs(origin.of(...)) do
    local wanted = origin.list(item.gold)
    item.gold = {}
    for k in ipairs(item.logits) do item.gold[k] = wanted[k] >= 0.5 and 1 or 0 end
    found[#found + 1] = item
  end
end

---Adds the metrics of what is predicted with some thresholds; an item keeps what the last of them say.
local function add(result, found, decide, ending)
  local metrics = require("seqrun.scores")
  for _, item in ipairs(found) do
    item.guess, item.wrong, item.error = {}, false, 0
    for k, p in ipairs(item.all) do
      item.guess[k] = decisions.has(item.all, k, decide) and 1 or 0
      item.wrong = item.wrong or item.gold[k] ~= item.guess[k]
      item.error = math.max(item.error, math.abs(p - item.gold[k]))
    end
  end
  local gold, guess = origin.column(found, "gold"), origin.column(found, "guess")
  result["accuracy" .. ending] = metrics.multilabel_accuracy(gold, guess)
  result["f1" .. ending] = metrics.multilabel_f1(gold, guess)
  result["f1_macro" .. ending] = metrics.multilabel_f1(gold, guess, "macro")
end

function scores.score(found, head)
  local result, decide, p, positive, plain = {}, head.decide, {}, {}, {}
  for _, item in ipairs(found) do
    item.all = decisions.probabilities(item.logits, decide, true)
    for k, x in ipairs(item.logits) do
      p[#p + 1], positive[#positive + 1] = item.all[k], item.gold[k] == 1
      if decide and decide.temperature then plain[#p] = decode.sigmoid(x) end
    end
    item.logits = nil
  end
  if decide and decide.thresholds then add(result, found, nil, "_at_half") end
  add(result, found, decide, "")
  local by_label = ranked.add(result, found, head, true)
  return result, { ranked = by_label, calibration = decisions.calibration(p, positive, plain) }
end

-- ---- prediction -----------------------------------------------------------------------------------

---{"labels": ["a"], "probabilities": {"a": 0.8, "b": 0.1}}; labels of at least one half, or their threshold
local prediction = {
  input = { keys = { "text", "pair" }, optional = { pair = true } }, reads = "sequences", rows = true,
  activation = "Sigmoid",
}

function prediction.result(item, t)
  local labelled, all = json.array(), {}
  local p = decisions.probabilities(decisions.pooled(item.sequences, t.windows, true), t.head.decide, true)
  for k, name in ipairs(decode.names(t.head)) do
    if decisions.has(p, k, t.head.decide) then labelled[#labelled + 1] = name end
    all[name] = decode.round(p[k])
  end
  return { labels = labelled, probabilities = all }
end

return {
  doc = "any number of labels for each text: emotions, subjects",
  example = "data.train=train.jsonl columns.text=comment columns.label=labels",
  head = Head, reader = { new = reader, documents = true }, scores = scores, prediction = prediction,
  settings = { columns = { text = "text", label = { "label" } } },
  column = "labels", target = "labels",
}

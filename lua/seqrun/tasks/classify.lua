-- classify.lua - a class for each text or pair of texts: softmax over the pooled [CLS].

local decisions = require("seqrun.scores.decisions")
local decode = require("seqrun.scores.decode")
local origin = require("seqrun.data.items")
local labels = require("seqrun.data.readers.labels")
local ranked = require("seqrun.scores.ranked")

-- ---- reading --------------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

---@param job seqrun.readers.Job
local function reader(job)
  local columns = { label = { type = "i32" } }
  return setmetatable({ job = job, map = job.labels, columns = columns, labelled = "label" }, Reader)
end

---Counts the labels, where there is no map yet.
function Reader:survey(record)
  self.counted = self.counted or labels.survey()
  local name = labels.clean(record.label)
  if not name then return end
  self.counted:add(name, record)
  self.counted.rows = self.counted.rows + 1
end

---@return boolean? done
---@return string? message
function Reader:surveyed()
  if not self.counted then return nil, "the file has no rows" end
  if self.counted.rows == 0 then return nil, "no row has a label; set columns.label" end
  self.counted:without_dash()
  local message
  self.map, message = self.counted:map(self.job.options.columns.header)
  return self.map and true, message
end

function Reader:make(record)
  local example, kind, why = self.job:example(record)
  if not example then return nil, kind, why end
  if record.label == nil and self.job.unlabelled then
    example.label = -100
    return self.job:whole(example)
  end
  example.label, kind, why = labels.id_of(self.map, record.label)
  if not example.label then return nil, kind, why end
  return self.job:whole(example)
end

function Reader:notes() return self.job:add_windows(self.counted and self.counted:notes() or {}) end

-- ---- scores ---------------------------------------------------------------------------------------

---Accuracy, F1 (of class 1 of two, else the mean over classes), Matthews, ROC-AUC and average precision.
local scores = {
  shown = { "accuracy", "f1", "matthews", "roc_auc", "average_precision" }, decides = "classes",
  metrics = { "accuracy", "f1", "f1_macro", "matthews", "roc_auc", "average_precision" },
}

---What an item is predicted as; its logits are used up.
local function settle(item, head)
  local decide = head.decide or {}
  item.all = decisions.probabilities(item.logits, decide)
  item.guess = decisions.class(item.all, decide) - 1
  item.half = decide.thresholds and decode.argmax(item.all) - 1
  item.plain = decide.temperature and decode.softmax(item.logits)[item.guess + 1]
  item.p, item.wrong, item.logits = item.all[item.guess + 1], item.guess ~= item.gold, nil
end

function scores.take(found, head, ...)
  for _, item in ipairs(origin.of(head, ...)) do
    if head.outputs > ranked.MOST and not head.deciding and not item.source then
      settle(item, head)
      item.all = nil
    end
    found[#found + 1] = item
  end
end

---Accuracy and F1 of one class for each item, by a field of the items.
local function of_guesses(found, key, outputs)
  local metrics = require("seqrun.scores")
  local gold, guess = origin.column(found, "gold"), origin.column(found, key)
  local confusion = metrics.confusion(gold, guess, outputs)
  local macro = confusion:macro_f1()
  return confusion, macro, outputs == 2 and metrics.f1(gold, guess) or macro
end

function scores.score(found, head)
  local correct, decide = {}, head.decide
  for i, item in ipairs(found) do
    if item.logits then settle(item, head) end
    correct[i] = not item.wrong
  end
  local confusion, macro, f1 = of_guesses(found, "guess", head.outputs)
  local result = { accuracy = confusion:accuracy(), f1 = f1, f1_macro = macro, matthews = confusion:matthews() }
  if decide and decide.thresholds then
    local at_half, _, f1_at_half = of_guesses(found, "half", head.outputs)
    result.accuracy_at_half, result.f1_at_half = at_half:accuracy(), f1_at_half
  end
  local by_class = ranked.add(result, found, head)
  return result, {
    f1_class = head.outputs == 2 and (head.labels or { "0", "1" })[2] or nil, confusion = confusion, ranked = by_class,
    calibration = decisions.calibration(origin.column(found, "p"), correct, origin.column(found, "plain")),
  }
end

-- ---- prediction -----------------------------------------------------------------------------------

---{"label": "yes", "probability": 0.93, "probabilities": {"no": 0.07, "yes": 0.93}}
local prediction = {
  input = { keys = { "text", "pair" }, optional = { pair = true } }, reads = "sequences", rows = true,
  submission = "labels", activation = "Softmax",
}

function prediction.result(item, t)
  local p = decisions.probabilities(decisions.pooled(item.sequences, t.windows), t.head.decide)
  local names, all, best = decode.names(t.head), {}, decisions.class(p, t.head.decide)
  for i, name in ipairs(names) do all[name] = decode.round(p[i]) end
  return { label = names[best], probability = decode.round(p[best]), probabilities = all }
end

return {
  doc = "a class for each text: sentiment, topic, acceptability",
  example = "data.train=train.csv columns.text=sentence columns.label=label",
  head = {
    name = "label", place = "sequence", counts = "classes", fewest = 2,
    architecture = "SequenceClassification", problem_type = "single_label_classification",
    is_default = function(outputs) return outputs > 1 end,
  },
  reader = { new = reader, fields = { label = "text" }, documents = true }, scores = scores, prediction = prediction,
  settings = { columns = { text = "text", label = { "label" } } },
  column = "label", classes = true, target = "label",
}

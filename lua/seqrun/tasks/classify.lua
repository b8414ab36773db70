-- classify.lua - a class for each text or pair of texts: softmax over the pooled [CLS].

local decode = require("seqrun.scores.decode")
local origin = require("seqrun.data.items")
local labels = require("seqrun.data.readers.labels")

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
    return example
  end
  example.label, kind, why = labels.id_of(self.map, record.label)
  if not example.label then return nil, kind, why end
  return example
end

function Reader:notes() return self.counted and self.counted:notes() or {} end

-- ---- scores ---------------------------------------------------------------------------------------

---Accuracy, F1 (of class 1 of two, else the mean over classes), Matthews.
local scores = {
  shown = { "accuracy", "f1", "matthews" }, metrics = { "accuracy", "f1", "f1_macro", "matthews" },
}

function scores.take(found, head, hidden, target, batch)
  local uids, gold = origin.uids(target, batch), target.labels:totable()
  for i, logits in ipairs(origin.logits(head, hidden, target, batch)) do
    local p = decode.softmax(logits)
    local guess = decode.argmax(p)
    found[#found + 1] = {
      uid = uids[i], gold = gold[i], guess = guess - 1, p = p[guess], p_gold = p[gold[i] + 1],
      wrong = guess - 1 ~= gold[i],
    }
  end
end

local function column(found, key)
  local list = {}
  for i, item in ipairs(found) do list[i] = item[key] end
  return list
end

function scores.score(found, head)
  local metrics = require("seqrun.scores")
  local gold, guess = column(found, "gold"), column(found, "guess")
  local correct = {}
  for i, item in ipairs(found) do correct[i] = not item.wrong end
  local confusion = metrics.confusion(gold, guess, head.outputs)
  local macro = confusion:macro_f1()
  return {
    accuracy = confusion:accuracy(), f1 = head.outputs == 2 and metrics.f1(gold, guess) or macro, f1_macro = macro,
    matthews = confusion:matthews(),
  }, {
    f1_class = head.outputs == 2 and (head.labels or { "0", "1" })[2] or nil, confusion = confusion,
    calibration = metrics.calibration(column(found, "p"), correct),
  }
end

-- ---- prediction -----------------------------------------------------------------------------------

---{"label": "yes", "probability": 0.93, "probabilities": {"no": 0.07, "yes": 0.93}}
local prediction = {
  input = { keys = { "text", "pair" }, optional = { pair = true } }, reads = "sequences", rows = true,
  submission = "labels", activation = "Softmax",
}

function prediction.result(item, t)
  local p, names, all = decode.softmax(item.sequences[1].output), decode.names(t.head), {}
  for i, name in ipairs(names) do all[name] = decode.round(p[i]) end
  local best = decode.argmax(p)
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
  reader = { new = reader, fields = { label = "text" } }, scores = scores, prediction = prediction,
  settings = { columns = { text = "text", label = { "label" } } },
  column = "label", classes = true, target = "label",
}

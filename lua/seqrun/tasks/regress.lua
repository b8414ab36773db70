-- regress.lua - one or several numbers for each text or pair of texts: mean squared error of a linear layer over the
-- pooled [CLS].

local decode = require("seqrun.scores.decode")
local origin = require("seqrun.data.items")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local labels = require("seqrun.data.readers.labels")
local one_line = require("seqrun.base.one_line")

-- ---- head -----------------------------------------------------------------------------------------

local Head = {
  name = "label", place = "sequence", counts = "values", default_outputs = 1,
  architecture = "SequenceClassification", problem_type = "regression",
  is_default = function(outputs) return outputs == 1 end,
}

---The mean over items and their values.
function Head:loss(hidden, target, batch)
  local x = self:real_logits(hidden, target, batch)
  if target.labels:numel() ~= target.weights:numel() * self.outputs then
    failure.raise("data", "the head '%s' predicts %d values of each example, the data have %d; name as many columns "
      .. "(columns.label)", self.name, self.outputs, target.labels:numel() // math.max(1, target.weights:numel()))
  end
  local squares = (x - target.labels:to(x:dtype()):reshape(-1, self.outputs)):square()
  local items = squares:mean(2)
  return { total = (items * target.weights):sum(), items = items }
end

-- ---- reading --------------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

---@param job seqrun.readers.Job
local function reader(job)
  local given = job.options.columns.label
  local size = type(given) == "table" and #given or 1
  local label = { type = "f32", size = size, unlabelled = true }
  return setmetatable({ job = job, size = size, columns = { label = label } }, Reader)
end

local function numbers_of(self, record)
  local list = {}
  local given = type(record.label) == "table" and record.label or { record.label }
  if #given > self.size then
    return nil, "type", ("columns.label is a list of %d numbers; name as many columns"):format(#given)
  end
  for i = 1, self.size do
    local number, hint = labels.number(given[i], record)
    if not number then return nil, "number", ("'%s' is not a number%s"):format(one_line(given[i] or ""), hint) end
    list[i] = number
  end
  return self.size == 1 and list[1] or list
end

---Adds the values of a row to their sums.
function Reader:count(values)
  self.sums = self.sums or {}
  for k, value in ipairs(type(values) == "table" and values or { values }) do
    local sums = self.sums[k] or { 0.0, 0.0 }
    self.sums[k] = { sums[1] + value, sums[2] + value * value }
  end
end

---What the head, whose outputs begin near 0, learns fast: values of about this size.
local NEAR = 10

---Proposes to scale values that are far from 0.
local function far_notes(self)
  local notes = {}
  for k, sums in ipairs(self.sums) do
    local mean = sums[1] / self.rows
    local deviation = math.sqrt(math.max(0, sums[2] / self.rows - mean * mean))
    if math.max(math.abs(mean), deviation) > NEAR then
      local column = self.size > 1 and (" %d of columns.label"):format(k) or ""
      notes[#notes + 1] = ("warning: the values%s have mean %.4g and deviation %.4g; outputs begin near 0 and need "
        .. "many steps to get there: train on (value - %.4g) / %.4g, and scale predictions back"):format(column,
        mean, deviation, mean, math.max(deviation, 1e-3 * math.abs(mean)))
    end
  end
  return notes
end

function Reader:make(record)
  local example, kind, why = self.job:example(record)
  if not example then return nil, kind, why end
  if record.label == nil and self.job.unlabelled and self.size == 1 then
    example.label = 0 / 0
    return example
  end
  example.label, kind, why = numbers_of(self, record)
  if not example.label then return nil, kind, why end
  self:count(example.label)
  local key = self.size == 1 and example.label or table.concat(example.label, " ")
  self.rows, self.varied, self.first = (self.rows or 0) + 1, self.varied or self.rows and key ~= self.first, key
  return example
end

---What the values mean for training.
function Reader:advice()
  if (self.rows or 0) < 2 then return {} end
  if self.varied then return far_notes(self) end
  return { ("warning: all %d rows have the value %s, so there is nothing to learn; see columns.label"):format(
    self.rows, self.first) }
end

-- ---- scores ---------------------------------------------------------------------------------------

---What a row of logits predicts: themselves, but for a cross-encoder with a sigmoid.
local function predicted(head, values)
  for i, x in ipairs(head.activation and values or {}) do values[i] = decode.sigmoid(x) end
  return values
end

---Pearson and Spearman correlation, the mean over the values if there are several.
local scores = { shown = { "pearson", "spearman" } }

function scores.take(found, head, ...)
  for _, item in ipairs(origin.of(head, ...)) do
    item.gold, item.guess, item.error = origin.list(item.gold), predicted(head, item.logits), 0
    for k, value in ipairs(item.guess) do item.error = math.max(item.error, math.abs(value - item.gold[k])) end
    found[#found + 1] = item
  end
end

---The mean of a correlation over the values; nil if it is nowhere defined.
local function mean_of(found, count, correlation)
  local sum, defined = 0, 0
  for k = 1, count do
    local function values(key) return origin.column(origin.column(found, key), k) end
    local value = #found > 1 and correlation(values "gold", values "guess")
    if value then sum, defined = sum + value, defined + 1 end
  end
  return defined > 0 and sum / defined or nil
end

function scores.score(found, head)
  local metrics = require("seqrun.scores")
  return {
    pearson = mean_of(found, head.outputs, metrics.pearson), spearman = mean_of(found, head.outputs, metrics.spearman),
  }, {}
end

-- ---- prediction -----------------------------------------------------------------------------------

---{"value": 3.42}, or {"values": [3.42, 0.1]}
local prediction = {
  input = { keys = { "text", "pair" }, optional = { pair = true } }, reads = "sequences", rows = true,
  submission = "labels", activation = "Sigmoid",
}

function prediction.result(item, t)
  local values = predicted(t.head, item.sequences[1].output)
  for i, x in ipairs(values) do values[i] = tonumber(("%.7g"):format(x)) end
  if #values == 1 then return { value = values[1] } end
  return { values = json.array(values) }
end

return {
  doc = "one or several numbers for each text or pair of texts: similarity, rating",
  example = "data.train=train.csv columns.pair=second columns.label=score",
  head = Head, reader = { new = reader }, scores = scores, prediction = prediction,
  settings = { columns = { text = "text", label = { "label" } } },
  column = "label", target = "label",
}

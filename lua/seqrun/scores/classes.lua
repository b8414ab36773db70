-- classes.lua - scores of class labels: accuracy, F1, Matthews, and the confusion matrix behind them.
--
-- Labels are integers from 0.  Definitions are those of scikit-learn; where a ratio has the denominator 0, it is 0.

local check = require("seqrun.base.check")

local classes = {}

local MOST = 1 << 20 -- classes
local DENSE = 4096 -- classes of a matrix that is written out: it has the square

---A row of a larger matrix has the counts that are not 0; rows without any are one.
local SPARSE = { __index = function() return 0 end }
local NONE = setmetatable({}, SPARSE)

---@class seqrun.Confusion
---@field size integer K
---@field total integer
---@field dense boolean its rows have all counts, also those of 0
---@field [integer] integer[] [i][j]: items of class i - 1 that were predicted as j - 1
local Confusion = {}
Confusion.__index = Confusion

local function ratio(a, b) return b > 0 and a / b or 0.0 end

local function check_pair(what, gold, guess)
  check.value(what .. ": labels", gold, "table")
  check.value(what .. ": predictions", guess, "table")
  if #gold ~= #guess then check.fail("%s: %d labels, but %d predictions", what, #gold, #guess) end
  if #gold == 0 then check.fail("%s: no items to score", what) end
end

---The label of an item, when it is a class.
local function class_of(what, name, i, label, size)
  local class = math.type(label) and math.tointeger(label)
  if not class or class < 0 then
    check.fail("%s: %s %d is %s; labels are integers from 0", what, name, i, check.show(label))
  end
  if class >= MOST then
    check.fail("%s: %s %d is %d; at most %d classes can be scored, from 0", what, name, i, class, MOST)
  end
  if size and class >= size then
    check.fail("%s: %s %d is %d, but there are %d classes, from 0", what, name, i, class, size)
  end
  return class
end

---Checks two lists of class numbers; returns the number of classes.
local function size_of(what, gold, guess, size)
  check_pair(what, gold, guess)
  if size ~= nil then size = check.integer(what .. ": size", size, 1, MOST) end
  local most = 0
  for i = 1, #gold do
    most = math.max(most, class_of(what, "label", i, gold[i], size), class_of(what, "prediction", i, guess[i], size))
  end
  return size or most + 1
end

---The confusion matrix for the function `what`.
local function confusion_of(what, gold, guess, size)
  size = size_of(what, gold, guess, size)
  local self = setmetatable({ size = size, total = #gold, dense = size <= DENSE }, Confusion)
  for i = 1, size do
    self[i] = self.dense and {} or NONE
    for j = 1, self.dense and size or 0 do self[i][j] = 0 end
  end
  for i = 1, #gold do
    local row = self[gold[i] + 1]
    if row == NONE then
      row = setmetatable({}, SPARSE)
      self[gold[i] + 1] = row
    end
    row[guess[i] + 1] = row[guess[i] + 1] + 1
  end
  return self
end

---The confusion matrix of two lists of class numbers, from 0.
---@param gold integer[]
---@param guess integer[]
---@param size? integer number of classes; default: as many as occur
---@return seqrun.Confusion
function classes.confusion(gold, guess, size) return (confusion_of("scores.confusion", gold, guess, size)) end

---Precision, recall and F1 of each class; `count` items have it, `predicted` were predicted to.
---@return { precision: number, recall: number, f1: number, count: integer, predicted: integer }[]
function Confusion:classes()
  local list, counts, guessed = {}, {}, {}
  for k = 1, self.size do
    counts[k] = 0
    for j, n in pairs(self[k]) do counts[k], guessed[j] = counts[k] + n, (guessed[j] or 0) + n end
  end
  for k = 1, self.size do
    local count, predicted, hits = counts[k], guessed[k] or 0, self[k][k]
    list[k] = {
      precision = ratio(hits, predicted), recall = ratio(hits, count), f1 = ratio(2 * hits, count + predicted),
      count = count, predicted = predicted,
    }
  end
  return list
end

---Share of items on the diagonal.
---@return number
function Confusion:accuracy()
  local hits = 0
  for k = 1, self.size do hits = hits + self[k][k] end
  return hits / self.total
end

---Mean of F1 over the classes that occur, as label or as prediction.
---@return number
function Confusion:macro_f1()
  local sum, n = 0, 0
  for _, class in ipairs(self:classes()) do
    if class.count + class.predicted > 0 then sum, n = sum + class.f1, n + 1 end
  end
  return sum / n
end

---Matthews correlation coefficient of any number of classes; 0 if only one class occurs.
---Source: Gorodkin 2004, doi:10.1016/j.compbiolchem.2004.09.006.
---@return number
function Confusion:matthews()
  local n, hits, cross, counts, predicted = self.total, 0, 0, 0, 0
  for k, class in ipairs(self:classes()) do
    hits, cross = hits + self[k][k], cross + class.count * class.predicted
    counts, predicted = counts + class.count ^ 2, predicted + class.predicted ^ 2
  end
  local spread = math.sqrt(n * n - predicted) * math.sqrt(n * n - counts)
  return spread > 0 and (hits * n - cross) / spread or 0.0
end

---The share of predictions that equal their label, for the function `what`.
local function accuracy_of(what, gold, guess)
  check_pair(what, gold, guess)
  local hits = 0
  for i = 1, #gold do hits = hits + (gold[i] == guess[i] and 1 or 0) end
  return hits / #gold
end

---Share of predictions that equal their label.
---@param gold integer[]
---@param guess integer[]
---@return number
function classes.accuracy(gold, guess) return (accuracy_of("scores.accuracy", gold, guess)) end

---Matthews correlation coefficient.
---@param gold integer[]
---@param guess integer[]
---@return number
function classes.matthews(gold, guess) return confusion_of("scores.matthews", gold, guess):matthews() end

---F1 of class labels.
---@param gold integer[]
---@param guess integer[]
---@param mean? "binary"|"macro"|"micro" binary (the default): of class `positive`; macro: mean over the classes that
---  occur; micro: over all items, which is the accuracy
---@param positive? integer 1
---@return number
function classes.f1(gold, guess, mean, positive)
  mean = check.choice("scores.f1: mean", mean or "binary", { "binary", "macro", "micro" })
  positive = check.integer("scores.f1: positive", positive == nil and 1 or positive, 0)
  if mean == "micro" then return (accuracy_of("scores.f1", gold, guess)) end
  local confusion = confusion_of("scores.f1", gold, guess)
  if mean == "macro" then return confusion:macro_f1() end
  local class = confusion:classes()[positive + 1]
  return class and class.f1 or 0.0
end

---Checks lists of zeros and ones.
local function check_sets(what, gold, guess)
  check_pair(what, gold, guess)
  for i = 1, #gold do
    local a, b = gold[i], guess[i]
    if type(a) ~= "table" or type(b) ~= "table" then
      check.fail("%s: item %d: expected lists of zeros and ones, got %s and %s", what, i, check.show(a), check.show(b))
    end
    if #a ~= #b then check.fail("%s: item %d has %d labels, but %d predictions", what, i, #a, #b) end
    for k = 1, #a do
      for _, x in ipairs { a[k], b[k] } do
        if x ~= 0 and x ~= 1 then
          check.fail("%s: item %d: expected zeros and ones, got %s", what, i, check.show(x))
        end
      end
    end
  end
end

---F1 of sets of labels: each item is a list of K zeros and ones.
---@param gold integer[][]
---@param guess integer[][]
---@param mean? "micro"|"macro" micro (the default): over all decisions; macro: mean over the K labels
---@return number
function classes.multilabel_f1(gold, guess, mean)
  check_sets("scores.multilabel_f1", gold, guess)
  mean = check.choice("scores.multilabel_f1: mean", mean or "micro", { "macro", "micro" })
  local hits, either, all_hits, all = {}, {}, 0, 0
  for i = 1, #gold do
    for k = 1, #gold[i] do
      local a, b = gold[i][k], guess[i][k]
      hits[k], either[k] = (hits[k] or 0) + 2 * a * b, (either[k] or 0) + a + b
      all_hits, all = all_hits + 2 * a * b, all + a + b
    end
  end
  if mean == "micro" then return ratio(all_hits, all) end
  local sum = 0
  for k = 1, #hits do sum = sum + ratio(hits[k], either[k]) end
  return sum / #hits
end

---Share of items whose whole set of labels is right.
---@param gold integer[][]
---@param guess integer[][]
---@return number
function classes.multilabel_accuracy(gold, guess)
  check_sets("scores.multilabel_accuracy", gold, guess)
  local hits = 0
  for i = 1, #gold do
    local same = true
    for k = 1, #gold[i] do same = same and gold[i][k] == guess[i][k] end
    hits = hits + (same and 1 or 0)
  end
  return hits / #gold
end

return classes

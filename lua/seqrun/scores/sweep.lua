-- sweep.lua - what each threshold on a probability would give: ROC-AUC, average precision, curves, the best threshold.
--
-- Definitions are those of scikit-learn.  What the items do not define is nil: ROC-AUC without items of both kinds,
-- average precision without positive ones.

local check = require("seqrun.base.check")

local sweep = {}

---@class seqrun.Sweep
---@field positives integer
---@field total integer
---@field [integer] { score: number, predicted: integer, hits: integer } the distinct scores, largest first: how many
---  items have at least this one, and how many of them are positive

---@param what string the function, for messages
---@param gold integer[] 1 for positive items, else 0
---@param score number[]
---@return seqrun.Sweep
local function swept(what, gold, score)
  check.value(what .. ": labels", gold, "table")
  check.list(what .. ": scores", check.value(what .. ": scores", score, "table"), "number")
  if #gold ~= #score then check.fail("%s: %d labels, but %d scores", what, #gold, #score) end
  if #gold == 0 then check.fail("%s: no items to score", what) end
  local order, self = {}, { positives = 0, total = #gold }
  for i = 1, #gold do
    if gold[i] ~= 0 and gold[i] ~= 1 then check.fail("%s: label %d is %s, not 0 or 1", what, i, check.show(gold[i])) end
    if score[i] ~= score[i] then check.fail("%s: score %d is NaN", what, i) end
    order[i] = i
  end
  table.sort(order, function(a, b) return score[a] > score[b] end)
  for k, i in ipairs(order) do
    self.positives = self.positives + gold[i]
    if k == #order or score[order[k + 1]] < score[i] then
      self[#self + 1] = { score = score[i], predicted = k, hits = self.positives }
    end
  end
  return self
end

---@param gold integer[]
---@param score number[]
---@return seqrun.Sweep
function sweep.of(gold, score) return (swept("scores.sweep", gold, score)) end

---The probability that a positive item has the larger score than one that is not; of equal ones, half.
---@param s seqrun.Sweep
---@return number|nil
function sweep.area(s)
  local others, sum, hits, misses = s.total - s.positives, 0, 0, 0
  if s.positives == 0 or others == 0 then return nil end
  for _, step in ipairs(s) do
    sum = sum + (step.predicted - step.hits - misses) * (hits + step.hits) / 2
    hits, misses = step.hits, step.predicted - step.hits
  end
  return sum / (s.positives * others)
end

---The sum of (R_n - R_n-1) P_n over the thresholds.
---@param s seqrun.Sweep
---@return number|nil
function sweep.precision(s)
  if s.positives == 0 then return nil end
  local sum, hits = 0, 0
  for _, step in ipairs(s) do
    sum, hits = sum + (step.hits - hits) * step.hits / step.predicted, step.hits
  end
  return sum / s.positives
end

---@param gold integer[] 1 for positive items, else 0
---@param score number[]
---@return number|nil # nil unless there are items of both kinds
function sweep.roc_auc(gold, score) return sweep.area(swept("scores.roc_auc", gold, score)) end

---@param gold integer[] 1 for positive items, else 0
---@param score number[]
---@return number|nil # nil without positive items
function sweep.average_precision(gold, score)
  return sweep.precision(swept("scores.average_precision", gold, score))
end

---The curve of recall and precision, about `most` points.
---@param s seqrun.Sweep
---@param most integer
---@return { [1]: number, [2]: number, [3]: number }[] # recall, precision, threshold
function sweep.curve(s, most)
  local list, last = {}, -1
  for i, step in ipairs(s) do
    local recall = step.hits / s.positives
    if recall - last >= 1 / most or i == #s then
      list[#list + 1], last = { recall, step.hits / step.predicted, step.score }, recall
    end
  end
  return list
end

return sweep

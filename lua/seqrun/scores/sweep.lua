-- sweep.lua - what each threshold on a probability would give: ROC-AUC, average precision, the curve of both.
--
-- Definitions are those of scikit-learn.  What the items do not define is nil: ROC-AUC without items of both kinds,
-- average precision without positive ones.

local check = require("seqrun.base.check")

local sweep = {}

---Goes through the distinct scores, largest first: a score, how many items have at least this one, and how many of
---these are positive.
---@param what string the function, for messages
---@param gold integer[] 1 for positive items, else 0
---@param score number[]
---@return fun(): number?, integer?, integer?
---@return integer positives
function sweep.steps(what, gold, score)
  check.value(what .. ": labels", gold, "table")
  check.list(what .. ": scores", check.value(what .. ": scores", score, "table"), "number")
  if #gold ~= #score then check.fail("%s: %d labels, but %d scores", what, #gold, #score) end
  if #gold == 0 then check.fail("%s: no items to score", what) end
  local with, without = {}, {} -- sorted apart, as numbers are faster to sort than what belongs to them
  for i = 1, #gold do
    if gold[i] ~= 0 and gold[i] ~= 1 then check.fail("%s: label %d is %s, not 0 or 1", what, i, check.show(gold[i])) end
    if score[i] ~= score[i] then check.fail("%s: score %d is NaN", what, i) end
    local list = gold[i] == 1 and with or without
    list[#list + 1] = score[i]
  end
  table.sort(with)
  table.sort(without)
  local i, k = #with, #without
  return function()
    if i + k == 0 then return nil end
    local here = math.max(with[i] or -math.huge, without[k] or -math.huge)
    while with[i] == here do i = i - 1 end
    while without[k] == here do k = k - 1 end
    return here, #gold - i - k, #with - i
  end, #with
end

---All of it in one pass.  ROC-AUC is the probability that a positive item has the larger score than one that is not, of
---equal ones half; average precision the sum of (R_n - R_n-1) P_n over the thresholds.
---@param what string
---@param gold integer[]
---@param score number[]
---@param most? integer points of the curve, about; none without
---@return { positives: integer, roc_auc?: number, average_precision?: number, points?: number[][] } points: recall,
---  precision and threshold
function sweep.all(what, gold, score, most)
  local step, positives = sweep.steps(what, gold, score)
  local others, points = #gold - positives, most and positives > 0 and {} or nil
  local area, precisions, hits, misses, last = 0, 0, 0, 0, -1
  for here, predicted, found in step do
    area = area + (predicted - found - misses) * (hits + found) / 2
    precisions = precisions + (found - hits) * found / predicted
    hits, misses = found, predicted - found
    if points and (hits / positives - last >= 1 / most or predicted == #gold) then
      last = hits / positives
      points[#points + 1] = { last, hits / predicted, here }
    end
  end
  return {
    positives = positives, points = points, average_precision = positives > 0 and precisions / positives or nil,
    roc_auc = positives > 0 and others > 0 and area / (positives * others) or nil,
  }
end

---@param gold integer[] 1 for positive items, else 0
---@param score number[]
---@return number|nil # nil unless there are items of both kinds
function sweep.roc_auc(gold, score) return sweep.all("scores.roc_auc", gold, score).roc_auc end

---@param gold integer[] 1 for positive items, else 0
---@param score number[]
---@return number|nil # nil without positive items
function sweep.average_precision(gold, score)
  return sweep.all("scores.average_precision", gold, score).average_precision
end

return sweep

-- regress.lua - values of sequences: Pearson and Spearman correlation, the mean over the values if there are several.

local items = require("seqrun.data.items")
local scores = require("seqrun.scores")

local regress = { shown = { "pearson", "spearman" } }

function regress.take(found, head, hidden, target, batch)
  local uids, gold = items.uids(target, batch), target.labels:totable()
  for i, values in ipairs(items.logits(head, hidden, target, batch)) do
    local wanted, error = items.list(gold[i]), 0
    for k, value in ipairs(values) do error = math.max(error, math.abs(value - wanted[k])) end
    found[#found + 1] = { uid = uids[i], gold = wanted, guess = values, error = error }
  end
end

---The mean of a correlation over the values; nil if it is nowhere defined.
local function mean_of(found, count, correlation)
  local sum, defined = 0, 0
  for k = 1, count do
    local gold, guess = {}, {}
    for i, item in ipairs(found) do gold[i], guess[i] = item.gold[k], item.guess[k] end
    local value = #found > 1 and correlation(gold, guess)
    if value then sum, defined = sum + value, defined + 1 end
  end
  return defined > 0 and sum / defined or nil
end

function regress.score(found, head)
  return {
    pearson = mean_of(found, head.outputs, scores.pearson), spearman = mean_of(found, head.outputs, scores.spearman),
  }, {}
end

return regress

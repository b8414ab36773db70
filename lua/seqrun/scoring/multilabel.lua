-- multilabel.lua - sets of labels: exact sets, F1 over all decisions, and the mean F1 of the labels.

local decode = require("seqrun.scoring.decode")
local items = require("seqrun.data.items")
local scores = require("seqrun.scores")

local multilabel = { shown = { "accuracy", "f1", "f1_macro" } }

function multilabel.take(found, head, hidden, target, batch)
  local uids, gold = items.uids(target, batch), target.labels:totable()
  for i, logits in ipairs(items.logits(head, hidden, target, batch)) do
    local wanted = items.list(gold[i])
    local item = { uid = uids[i], gold = {}, guess = {}, wrong = false, error = 0 }
    for k, logit in ipairs(logits) do
      local p = decode.sigmoid(logit)
      item.gold[k], item.guess[k] = wanted[k] >= 0.5 and 1 or 0, p >= 0.5 and 1 or 0
      item.wrong = item.wrong or item.gold[k] ~= item.guess[k]
      item.error = math.max(item.error, math.abs(p - item.gold[k]))
    end
    found[#found + 1] = item
  end
end

function multilabel.score(found)
  local gold, guess = {}, {}
  for i, item in ipairs(found) do gold[i], guess[i] = item.gold, item.guess end
  return {
    accuracy = scores.multilabel_accuracy(gold, guess), f1 = scores.multilabel_f1(gold, guess),
    f1_macro = scores.multilabel_f1(gold, guess, "macro"),
  }, {}
end

return multilabel

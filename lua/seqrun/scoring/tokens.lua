-- tokens.lua - tags of words: accuracy, and F1 of spans (B-PER I-PER), or of classes if the tags are no spans.

local decode = require("seqrun.scoring.decode")
local items = require("seqrun.data.items")
local scores = require("seqrun.scores")

local tokens = { shown = { "accuracy", "precision", "recall", "f1" } }

function tokens.take(found, head, hidden, target, batch)
  local uids, positions = items.uids(target, batch)
  local gold = target.labels:totable()
  for i, logits in ipairs(items.logits(head, hidden, target, batch)) do
    found[#found + 1] = {
      uid = uids[i], position = positions[i], gold = gold[i], guess = decode.argmax(logits) - 1,
    }
  end
end

---Whether the tags are spans.
local function is_scheme(labels)
  for _, label in ipairs(labels or {}) do
    if label:find("^[BI]%-.") then return true end
  end
  return false
end

---The tags of each sequence, in order.
local function sequences_of(found, labels)
  table.sort(found, function(a, b)
    if a.uid ~= b.uid then return a.uid < b.uid end
    return a.position < b.position
  end)
  local gold, guess, uid = {}, {}, nil
  for _, item in ipairs(found) do
    if item.uid ~= uid then
      gold[#gold + 1], guess[#guess + 1], uid = {}, {}, item.uid
    end
    table.insert(gold[#gold], labels[item.gold + 1])
    table.insert(guess[#guess], labels[item.guess + 1])
  end
  return gold, guess
end

function tokens.score(found, head)
  local gold, guess = {}, {}
  for i, item in ipairs(found) do
    gold[i], guess[i], item.wrong = item.gold, item.guess, item.gold ~= item.guess
  end
  local confusion = scores.confusion(gold, guess, head.outputs)
  local metrics = { accuracy = confusion:accuracy() }
  if not is_scheme(head.labels) then
    metrics.f1 = confusion:macro_f1()
    return metrics, { confusion = confusion }
  end
  local spans = scores.spans(sequences_of(found, head.labels))
  metrics.precision, metrics.recall, metrics.f1 = spans.precision, spans.recall, spans.f1
  return metrics, { spans = spans }
end

return tokens

-- classify.lua - classes of sequences: accuracy, F1 (of class 1 of two, else the mean over classes), Matthews.

local decode = require("seqrun.scoring.decode")
local items = require("seqrun.data.items")
local scores = require("seqrun.scores")

local classify = {
  shown = { "accuracy", "f1", "matthews" }, metrics = { "accuracy", "f1", "f1_macro", "matthews" },
}

function classify.take(found, head, hidden, target, batch)
  local uids, gold = items.uids(target, batch), target.labels:totable()
  for i, logits in ipairs(items.logits(head, hidden, target, batch)) do
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

function classify.score(found, head)
  local gold, guess = column(found, "gold"), column(found, "guess")
  local correct = {}
  for i, item in ipairs(found) do correct[i] = not item.wrong end
  local confusion = scores.confusion(gold, guess, head.outputs)
  local macro = confusion:macro_f1()
  return {
    accuracy = confusion:accuracy(), f1 = head.outputs == 2 and scores.f1(gold, guess) or macro, f1_macro = macro,
    matthews = confusion:matthews(),
  }, { confusion = confusion, calibration = scores.calibration(column(found, "p"), correct) }
end

return classify

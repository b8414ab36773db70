-- choice.lua - {"choice": 1, "probability": 0.7, "probabilities": [0.3, 0.7]}; choices count from 0, as labels do

local decode = require("seqrun.scoring.decode")
local json = require("seqrun.core.json")
local texts = require("seqrun.predict.texts")

local choice = { input = { keys = { "text", "choices" }, lists = { choices = true } }, reads = "sequences" }

function choice.sequences(item, t)
  local list, cut = {}, false
  for i, one in ipairs(item.choices) do
    local a, b = t.tokenizer.core:ids(item.text), t.tokenizer.core:ids(one)
    cut = texts.truncate(a, b, t.max_len - 3) or cut
    list[i] = { a = a, b = b }
  end
  if cut then t.counts.cut = (t.counts.cut or 0) + 1 end
  return list
end

---One score for each sequence.
function choice.outputs(values) return values end

function choice.result(item)
  local scores = {}
  for i, sequence in ipairs(item.sequences) do scores[i] = sequence.output end
  if #scores == 0 then return { error = "no choices" } end
  local p = decode.softmax(scores)
  local best = decode.argmax(p)
  for i = 1, #p do p[i] = decode.round(p[i]) end
  return { choice = best - 1, probability = p[best], probabilities = json.array(p) }
end

return choice

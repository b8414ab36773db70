-- prediction.lua - the cosine similarity of pairs of texts: {"similarity": 0.83}.

local frames = require("seqrun.text.frames")
local roles = require("seqrun.tasks.embed.roles")
local truncate = require("seqrun.data.truncate")

local prediction = {
  input = { keys = { "text", "pair" } }, reads = "sequences", rows = true, fields = true, submission = "labels",
  usual = roles.usual,
}

---Each text of a pair is a sequence of its own.
function prediction.sequences(item, t)
  local list, cut, frame = {}, false, frames.of(t.tokenizer.core)
  for i, text in ipairs { item.text, item.pair } do
    local ids = t.tokenizer.core:ids(text)
    cut = truncate(ids, nil, frame:room(t.max_len)) or cut
    list[i] = { a = ids }
  end
  if cut then t.counts.cut = (t.counts.cut or 0) + 1 end
  return list
end

function prediction.result(item)
  local a, b = item.sequences[1].output, item.sequences[2].output
  local dot, aa, bb = 0, 0, 0
  for i, x in ipairs(a) do dot, aa, bb = dot + x * b[i], aa + x * x, bb + b[i] * b[i] end
  return { similarity = tonumber(("%.7g"):format(dot / math.max(1e-24, math.sqrt(aa * bb)))) }
end

return prediction

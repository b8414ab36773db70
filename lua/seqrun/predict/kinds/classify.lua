-- classify.lua - {"label": "yes", "probability": 0.93, "probabilities": {"no": 0.07, "yes": 0.93}}

local decode = require("seqrun.scoring.decode")

local classify = { input = { keys = { "text", "pair" }, optional = { pair = true } }, reads = "sequences" }

function classify.result(item, t)
  local p, names, all = decode.softmax(item.sequences[1].output), decode.names(t.head), {}
  for i, name in ipairs(names) do all[name] = decode.round(p[i]) end
  local best = decode.argmax(p)
  return { label = names[best], probability = decode.round(p[best]), probabilities = all }
end

return classify

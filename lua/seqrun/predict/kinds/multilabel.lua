-- multilabel.lua - {"labels": ["a"], "probabilities": {"a": 0.8, "b": 0.1}}; labels of at least one half

local classify = require("seqrun.predict.kinds.classify")
local decode = require("seqrun.scoring.decode")
local json = require("seqrun.core.json")

local multilabel = { input = classify.input, reads = "sequences" }

function multilabel.result(item, t)
  local labels, all = json.array(), {}
  for i, name in ipairs(decode.names(t.head)) do
    local p = decode.sigmoid(item.sequences[1].output[i])
    if p >= 0.5 then labels[#labels + 1] = name end
    all[name] = decode.round(p)
  end
  return { labels = labels, probabilities = all }
end

return multilabel

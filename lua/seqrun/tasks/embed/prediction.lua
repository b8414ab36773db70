-- prediction.lua - the cosine similarity of pairs of texts: {"similarity": 0.83}.

local failure = require("seqrun.base.failure")
local roles = require("seqrun.tasks.embed.roles")

local prediction = {
  input = { keys = { "text", "pair" } }, reads = "sequences", rows = true, fields = true, submission = "labels",
  usual = roles.usual,
}

---@param t seqrun.Predictor
function prediction.prepare(_, t)
  if (t.head.prompt or "") ~= "" and t.head.skips_prompt then
    failure.raise("data", "the pooling of the model leaves out its prompt (include_prompt: false), which only `seqrun "
      .. "encode` and the recipes sts and search do")
  end
end

function prediction.result(item)
  local a, b = item.sequences[1].output, item.sequences[2].output
  local dot, aa, bb = 0, 0, 0
  for i, x in ipairs(a) do dot, aa, bb = dot + x * b[i], aa + x * x, bb + b[i] * b[i] end
  return { similarity = tonumber(("%.7g"):format(dot / math.max(1e-24, math.sqrt(aa * bb)))) }
end

return prediction

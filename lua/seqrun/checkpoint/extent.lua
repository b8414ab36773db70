-- extent.lua - whether the model that a config.json describes is as large as the tensors beside it: memory is allocated
-- by the config, so that a small file could otherwise take all of it.

local cost = require("seqrun.nn.cost")
local text = require("seqrun.base.format")

local extent = {}

---A config may describe this multiple of the tensors' parameters, as where a head is yet to be made, and
---always this many.
extent.TIMES, extent.FREE = 2, 1 << 20

---Parameters of the matrices of the encoder and of the heads that the directory names.
local function described(facts)
  local d, outputs = facts.design, 1.0 * (facts.outputs or 0)
  for _, head in ipairs(facts.task_heads or {}) do
    outputs = outputs + (math.tointeger(head.outputs) or type(head.labels) == "table" and #head.labels or 0)
  end
  local dense = facts.sentences.dense
  if dense then outputs = outputs + dense.outputs * (dense.residual and 2 or 1) end
  local rows = 1.0 * d.vocabulary + (d.position_rows or 0) + d.types
  return rows * d.embedding + 1.0 * cost.matrices(d) + outputs * d.hidden
end

---Why a config does not belong to tensors of this many elements; nil if it may.
---@param facts seqrun.Pretrained
---@param elements number
---@return string|nil
function extent.problem(facts, elements)
  local wanted = described(facts)
  if wanted <= extent.TIMES * elements + extent.FREE then return nil end
  return ("describes a model of %s parameters, but its tensors have %s; one of the two belongs to another model")
    :format(text.count(wanted), text.count(elements))
end

return extent

-- nsp.lua - the next-sentence head: two classes over the pooled [CLS].

local check = require("seqrun.base.check")
local ops = require("seqrun.tensor.ops")
local part = require("seqrun.nn.model.part")
local specs = require("seqrun.nn.model.specs")

---@class seqrun.NextSentence: seqrun.Head
local NextSentence = part.class()
NextSentence.pooler = true

---The next-sentence head: two classes over the pooled [CLS].
---@param encoder seqrun.Encoder
---@param prefix? string of parameter names; default none, as in Hugging Face's files
---@return seqrun.NextSentence
local function new(encoder, prefix)
  local name = encoder.heads.nsp
  if not name then
    check.fail("heads.nsp: the family %s has no next-sentence head; in a recipe, set data.nsp=false",
      encoder.family.name)
  end
  local list, add = specs.new(encoder.design.std)
  add.linear((prefix or "") .. name, 2, encoder.design.hidden)
  return setmetatable({ name = "nsp", encoder = encoder, layer = (prefix or "") .. name, specs = list }, NextSentence)
end

---@param x seqrun.Tensor (N, H) rows of [CLS]
---@return seqrun.Tensor # (N, 2)
function NextSentence:logits(x) return self:linear(self.encoder:pool(x), self.layer) end

---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Loss
function NextSentence:loss(hidden, target)
  local logits = self:logits(hidden:rows(target))
  local total, items, correct = ops.cross_entropy(logits, target.labels, target.weights)
  return { total = total, items = items, correct = correct }
end

---@param batch seqrun.Batch
---@param count integer rows
---@return number
function NextSentence:flops_of(_, count)
  local h = self.encoder.design.hidden
  return 6 * (h * h + 2 * h) * count
end

return { new = new }

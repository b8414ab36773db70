-- replaced.lua - the head of ELECTRA's discriminator: whether each token is the one of the text, or was replaced.

local check = require("seqrun.base.check")
local ops = require("seqrun.tensor.ops")
local part = require("seqrun.nn.model.part")
local specs = require("seqrun.nn.model.specs")
local transform = require("seqrun.nn.heads.transform")

---@class seqrun.ReplacedTokens: seqrun.Head
---@field factor? number of its loss in the total
local ReplacedTokens = part.class()

---The head that detects replaced tokens.
---@param encoder seqrun.Encoder
---@param prefix? string of parameter names; default none, as in Hugging Face's files
---@return seqrun.ReplacedTokens
local function new(encoder, prefix)
  local place = encoder.heads.replaced
  if not place then
    check.fail("heads.replaced: the family %s has no head for replaced tokens; choose electra", encoder.family.name)
  end
  prefix = prefix or ""
  local d = encoder.design
  local list, add = specs.new(d.std)
  transform.add(list, encoder, place, prefix, d.hidden)
  add.linear(prefix .. place.layer, 1, d.hidden)
  encoder.whole = true -- all rows are read
  return setmetatable({
    name = "replaced", encoder = encoder, prefix = prefix, place = place, specs = list,
  }, ReplacedTokens)
end

---@param x seqrun.Tensor (M, H)
---@return seqrun.Tensor # (M, 1), above 0 where a token was probably replaced
function ReplacedTokens:logits(x)
  local inner = transform.apply(self.encoder, x, self.place, self.prefix)
  return self:linear(inner, self.prefix .. self.place.layer)
end

---Binary cross entropy over tokens; labels: 1 where a token was replaced.
---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Loss
function ReplacedTokens:loss(hidden, target)
  local dtype = target.weights:dtype()
  local logits, labels = self:logits(hidden:rows(target)):to(dtype):reshape(-1), target.labels:to(dtype)
  local items = ops.binary_cross_entropy(logits, labels)
  local correct = logits:detach():gt(0):eq(labels:gt(0.5)):to(dtype)
  return {
    total = (items * target.weights):sum(), items = items, correct = correct, factor = self.factor,
    sums = { replaced_rate = { labels:sum(), labels:size(1) } },
  }
end

---@param batch seqrun.Batch
---@param count integer rows
---@return number
function ReplacedTokens:flops_of(_, count)
  local h = self.encoder.design.hidden
  return 6 * (h * h + h) * count
end

return { new = new }

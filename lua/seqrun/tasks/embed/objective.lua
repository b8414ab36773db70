-- objective.lua - the losses over all vectors of an update, and their gradients: no tape of the encoder is needed.
--
--     local found = objective.new(options):of(vectors, texts)     -- found.value, found.gradient (N, D)
--
-- Similarities are computed by blocks of queries, so that memory grows with the vectors only.

local cosent = require("seqrun.tasks.embed.cosent")
local ops = require("seqrun.tensor.ops")
local same = require("seqrun.tasks.embed.same")
local tensor = require("seqrun.tensor")
local texts = require("seqrun.tasks.embed.texts")

---@class seqrun.EmbedOptions
---@field loss "mnrl"|"cosent"|"mse"
---@field temperature number
---@field learn boolean the temperature is a parameter
---@field both boolean also from positives to anchors
---@field dims? integer[] prefixes of the vectors that are trained, too
---@field teacher? seqrun.Tensor (N, D) a vector for each row of the file
---@field block? integer similarities that are in memory at once

---@class seqrun.Objective
---@field options seqrun.EmbedOptions
local Objective = {}
Objective.__index = Objective

local INT = { dtype = "i32" }
local BLOCK = 1 << 19 -- 2 MiB of similarities
local SMALLEST = 1e-12 -- of a norm, as in PyTorch's normalize()
local MOST = 100 -- of 1 / temperature, where it is learned

---Vectors divided by their lengths.
---@param x seqrun.Tensor (N, D)
---@return seqrun.Tensor
local function unit(x) return x / x:square():sum(2, true):sqrt():maximum(SMALLEST) end

---A copy without history, with a gradient that lives as long.
local function leaf_of(x)
  local leaf = x:detach():clone():requires_grad_()
  leaf:set_grad(tensor.zeros(leaf:shape(), { dtype = leaf:dtype() }))
  return leaf
end

---@param options seqrun.EmbedOptions
---@return seqrun.Objective
local function new(options) return setmetatable({ options = options }, Objective) end

---The places of the anchors, the positives and the hard negatives; texts are in their order.
local function parts_of(list)
  local anchors, positives, all = 0, 0, #list
  for _, text in ipairs(list) do
    if text.part == texts.ANCHOR then anchors = anchors + 1 end
    if text.part == texts.POSITIVE then positives = positives + 1 end
  end
  return anchors, positives, all - anchors - positives
end

local function slice(list, first, count) return table.move(list, first, first + count - 1, 1, {}) end

-- ---- InfoNCE -------------------------------------------------------------------------------------

---Adds the cross entropy of queries over candidates, whose first ones are the right ones, and its gradients.
---@param t { units: seqrun.Tensor, queries: integer[], candidates: integer[], out: table, weight: number,
---  block: integer, scale: fun(): seqrun.Tensor|number } queries, candidates: the first before, and their number
local function cross_entropy(t, found)
  local before, count = table.unpack(t.queries)
  local width = t.candidates[2]
  local rows = math.max(1, t.block // width)
  for first = 1, count, rows do
    local scope <close> = tensor.scope()
    local last = math.min(first + rows - 1, count)
    local queries = t.units:narrow(1, before + first, last - first + 1)
    local similarities = queries:matmul(t.units:narrow(1, t.candidates[1] + 1, width):t()) * t.scale()
    local right = tensor.arange(first - 1, last - 1, 1, INT)
    local weights = tensor.full({ last - first + 1 }, t.weight, { dtype = t.units:dtype() })
    local total, _, correct = ops.cross_entropy(same.leave_out(similarities, t.out, first, last), right, weights)
    total:backward()
    found.value = found.value + total:item()
    found.correct = found.correct + (t.counts and correct:sum():item() or 0)
  end
end

---1 / temperature as the similarities are multiplied with it.
local function scale_of(self, learned)
  local fixed = 1 / self.options.temperature
  if not learned then return function() return fixed end end
  return function() return (learned:exp() * fixed):minimum(MOST) end
end

---InfoNCE: each anchor is to find its positive among all positives and hard negatives of the update.
local function mnrl(self, units, list, found, learned)
  local anchors, positives, negatives = parts_of(list)
  local block, both = self.options.block or BLOCK, self.options.both
  local asked, answers = slice(list, 1, anchors), slice(list, anchors + 1, positives + negatives)
  local forth = {
    units = units, queries = { 0, anchors }, candidates = { anchors, positives + negatives }, counts = true,
    out = same.find(asked, answers), weight = (both and 0.5 or 1) / anchors, scale = scale_of(self, learned),
    block = block,
  }
  found.count = anchors
  cross_entropy(forth, found)
  if not both then return end
  cross_entropy({
    units = units, queries = { anchors, positives }, candidates = { 0, anchors }, weight = 0.5 / anchors,
    out = same.find(slice(answers, 1, positives), asked), scale = forth.scale, block = block,
  }, found)
end

-- ---- scored pairs --------------------------------------------------------------------------------

local function scored(self, units, list, found)
  local pairs_ = #list // 2
  local cosines = (units:narrow(1, 1, pairs_) * units:narrow(1, pairs_ + 1, pairs_)):sum(2)
  local scores = {}
  for i = 1, pairs_ do scores[i] = list[i].score end
  local value, gradient = cosent(cosines:detach():totable(), scores, 1 / self.options.temperature)
  cosines:backward(tensor.tensor(gradient, { dtype = cosines:dtype() }))
  found.value, found.count = found.value + value, pairs_
end

-- ---- a teacher's vectors -------------------------------------------------------------------------

---Mean squared error to the teacher's vectors, of as many of their numbers.
local function imitate(self, vectors, list, found, dim)
  local rows = {}
  for i, text in ipairs(list) do rows[i] = text.group end
  local wanted = ops.gather_rows(self.options.teacher, tensor.tensor(rows, INT)):narrow(2, 1, dim)
  local total = (vectors - wanted:to(vectors:dtype())):square():mean()
  total:backward()
  found.value, found.count = found.value + total:item(), #list
end

-- ---- all of them ---------------------------------------------------------------------------------

local LOSSES = { mnrl = mnrl, cosent = scored }

---Adds the loss of the first `dim` numbers of the vectors.
local function add(self, vectors, list, found, dim, learned)
  local part = dim < vectors:size(2) and vectors:narrow(2, 1, dim) or vectors
  if self.options.loss == "mse" then return imitate(self, part, list, found, dim) end
  local units = unit(part)
  local leaf = leaf_of(units) -- blocks add up here; through the norms goes their sum
  LOSSES[self.options.loss](self, leaf, list, found, learned)
  units:backward(leaf:grad())
end

---@class seqrun.EmbedLoss
---@field value number
---@field gradient seqrun.Tensor (N, D)
---@field scale? seqrun.Tensor gradient of the logarithm of the scale, if it is learned
---@field count integer items
---@field correct integer anchors whose positive is nearest

---The loss of an update and its gradient.
---@param vectors seqrun.Tensor (N, D) f32 of texts in the order of texts.order
---@param list seqrun.EmbedText[] in that order
---@param learned? seqrun.Tensor the parameter that the temperature depends on
---@return seqrun.EmbedLoss
function Objective:of(vectors, list, learned)
  local guard <close> = tensor.enable_grad()
  local found = { value = 0, correct = 0, count = 0 }
  local leaf, scale = leaf_of(vectors), learned and leaf_of(learned:to(vectors:dtype()))
  for _, dim in ipairs(self.options.dims or { vectors:size(2) }) do
    found.correct = 0
    add(self, leaf, list, found, dim, scale)
  end
  found.gradient, found.scale = leaf:grad(), scale and scale:grad()
  return found
end

return { new = new, unit = unit }

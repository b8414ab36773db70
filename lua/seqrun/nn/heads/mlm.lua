-- mlm.lua - the masked-LM head: a transform, then logits over the vocabulary, tied to the word embeddings.

local check = require("seqrun.base.check")
local ops = require("seqrun.tensor.ops")
local part = require("seqrun.nn.model.part")
local specs = require("seqrun.nn.model.specs")
local transform = require("seqrun.nn.heads.transform")

---@class seqrun.MaskedLM: seqrun.Head
local MaskedLM = part.class()

---What a family says about its masked-LM head.
---@class seqrun.MaskedLMNames: seqrun.Transform without `dense`, the decoder reads the hidden state
---@field bias? string name of the decoder's bias
---@field weight? string name of a decoder that is not tied to the word embeddings
---@field repeats? string files repeat the word embeddings under this name, and the bias, if it has another

---Adds the decoder: its bias, and its weights if they are not the word embeddings.
local function add_decoder(add, encoder, names, prefix)
  local d, rows = encoder.design, { pad_rows_to = encoder.VOCAB_MULTIPLE, longer = encoder.PADDED }
  if names.weight then add.weight(prefix .. names.weight, { d.vocabulary, d.embedding }, rows) end
  local again = names.repeats and prefix .. names.repeats
  if names.bias then
    local bias = prefix .. names.bias
    rows.tied = again and again .. ".bias" ~= bias and { again .. ".bias" } or nil
    add.bias(bias, { d.vocabulary }, rows)
  end
  if again and not names.weight then encoder:tie_words(again .. ".weight") end
end

---The masked-LM head: logits over the vocabulary, in most families tied to the word embeddings.
---@param encoder seqrun.Encoder
---@param prefix? string of parameter names; default none, as in Hugging Face's files
---@return seqrun.MaskedLM
local function new(encoder, prefix)
  local names, d = encoder.heads.mlm, encoder.design
  if not names then check.fail("heads.mlm: the family %s has no masked-LM head", encoder.family.name) end
  prefix = prefix or ""
  local list, add = specs.new(d.std)
  if names.dense then transform.add(list, encoder, names, prefix, d.embedding) end
  add_decoder(add, encoder, names, prefix)
  return setmetatable({ name = "mlm", encoder = encoder, prefix = prefix, names = names, specs = list }, MaskedLM)
end

---The input of the decoder: dense layer, activation, norm, where the family has them.
---@param x seqrun.Tensor (M, H)
---@return seqrun.Tensor # (M, H)
function MaskedLM:transform(x)
  return self.names.dense and transform.apply(self.encoder, x, self.names, self.prefix) or x
end

---Weights and bias of the decoder.
local function decoder(self)
  local names, p = self.names, self.params
  return names.weight and p:get(self.prefix .. names.weight) or self.encoder:words(),
    names.bias and p:get(self.prefix .. names.bias) or nil
end

---Logits over the vocabulary; the loss does not keep them.
---@param x seqrun.Tensor (M, H)
---@return seqrun.Tensor # (M, V)
function MaskedLM:logits(x) return ops.linear(self:transform(x), decoder(self)) end

---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Loss
function MaskedLM:loss(hidden, target)
  local x = self:transform(hidden:rows(target))
  local words, bias = decoder(self)
  local total, items, correct = ops.mlm_loss(x, words, bias, target.labels, target.weights)
  return { total = total, items = items, correct = correct }
end

---@param batch seqrun.Batch
---@param count integer rows
---@return number
function MaskedLM:flops_of(_, count)
  local d = self.encoder.design
  return 6 * ((self.names.dense and d.hidden * d.embedding or 0) + d.embedding * d.vocabulary) * count
end

---The loss of a unigram model: token frequencies of the training data (counts plus one).
---@param counts integer[] counts[id + 1]
---@return fun(labels: integer[]): number # the sum over labels
function MaskedLM.unigram(counts)
  local total = #counts
  for _, count in ipairs(counts) do total = total + count end
  local log_total = math.log(total)
  return function(labels)
    local sum = 0
    for _, id in ipairs(labels) do sum = sum + log_total - math.log(counts[id + 1] + 1) end
    return sum
  end
end

---@param corpus seqrun.Corpus
---@return seqrun.Baseline
function MaskedLM:baseline(corpus)
  local unigram
  return {
    loss = self.name, metric = "unigram_loss", title = "unigram model",
    score = function(batch)
      local target = batch.targets[self.name]
      if not target then return nil end
      unigram = unigram or MaskedLM.unigram(require("seqrun.base.failure").must(corpus:counts()))
      local labels = target.labels:totable()
      return unigram(labels), #labels
    end,
  }
end

return { new = new, unigram = MaskedLM.unigram }

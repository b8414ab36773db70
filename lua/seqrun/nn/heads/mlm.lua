-- mlm.lua - the masked-LM head: a transform, then logits over the vocabulary, tied to the word embeddings.  The head of
-- causal models is the same under another name.

local check = require("seqrun.base.check")
local ops = require("seqrun.tensor.ops")
local part = require("seqrun.nn.model.part")
local specs = require("seqrun.nn.model.specs")
local tensor = require("seqrun.tensor")
local transform = require("seqrun.nn.heads.transform")

---Rows of a chunk whose logits exist together.
local ROWS = 1024

---@class seqrun.MaskedLM: seqrun.Head
---@field factor? number of its loss in the total
---@field perplexity? boolean it is reported
---@field chunks? boolean too many rows to store their logits at once
local MaskedLM = part.class()

---What a family says about its masked-LM head.
---@class seqrun.MaskedLMNames: seqrun.Transform without `dense`, the decoder reads the hidden state
---@field bias? string name of the decoder's bias
---@field weight? string name of a decoder that is not tied to the word embeddings
---@field repeats? string files repeat the word embeddings under this name, and the bias, if it has another

---Adds the decoder: its bias, and its weights if they are not the word embeddings.
local function add_decoder(add, encoder, names, prefix)
  local d, rows = encoder.design, { pad_rows_to = encoder.VOCAB_MULTIPLE, longer = encoder.PADDED, looked_up = true }
  if names.weight then add.weight(prefix .. names.weight, { d.vocabulary, d.embedding }, rows) end
  local again = names.repeats and prefix .. names.repeats
  if names.bias then
    local bias = prefix .. names.bias
    rows.tied = again and again .. ".bias" ~= bias and { again .. ".bias" } or nil
    add.bias(bias, { d.vocabulary }, rows)
  end
  if again and not names.weight then encoder:tie_words(again .. ".weight") end
end

---A head with logits over the vocabulary.
---@param name string
---@param names seqrun.MaskedLMNames
---@param encoder seqrun.Encoder
---@param prefix? string
---@return seqrun.MaskedLM
local function make(name, names, encoder, prefix)
  prefix = prefix or ""
  local list, add = specs.new(encoder.design.std)
  if names.dense then transform.add(list, encoder, names, prefix, encoder.design.embedding) end
  add_decoder(add, encoder, names, prefix)
  return setmetatable({ name = name, encoder = encoder, prefix = prefix, names = names, specs = list }, MaskedLM)
end

---The masked-LM head: logits over the vocabulary, in most families tied to the word embeddings.
---@param encoder seqrun.Encoder
---@param prefix? string of parameter names; default none, as in Hugging Face's files
---@return seqrun.MaskedLM
local function new(encoder, prefix)
  local names = encoder.heads.mlm
  if not names then
    check.fail("heads.mlm: the family %s has no masked-LM head%s", encoder.family.name,
      encoder.design.causal and "; it is causal: use sr.nn.heads.causal, or recipes/causal.lua" or "")
  end
  return make("mlm", names, encoder, prefix)
end

---The head of a causal model: each row gives the logits of the token after it.
---@param encoder seqrun.Encoder
---@param prefix? string of parameter names; default none, as in Hugging Face's files
---@return seqrun.MaskedLM
local function causal(encoder, prefix)
  local names = encoder.heads.causal
  if not names then
    check.fail("heads.causal: the family %s is bidirectional, so a token would see itself; choose a causal one, such "
      .. "as gpt2", encoder.family.name)
  end
  encoder.whole = true -- nearly all rows are read
  local head = make("causal", names, encoder, prefix)
  head.perplexity, head.chunks = true, true
  return head
end

---What turns a causal head's model into one that is trained on masked sequences too: the same logits, as the target
---`mlm`, whose labels are one row after the rows they are predicted from.
---@param head seqrun.MaskedLM
---@return seqrun.MaskedLM
local function masked_too(head)
  local own = { name = "mlm", encoder = head.encoder, prefix = head.prefix, names = head.names, specs = head.specs }
  return setmetatable(own, MaskedLM)
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

---Logits over the vocabulary of what transform() returns.
---@param x seqrun.Tensor (M, H)
---@return seqrun.Tensor # (M, V)
function MaskedLM:decode(x) return ops.linear(x, decoder(self)) end

---Logits over the vocabulary; the loss does not keep them.
---@param x seqrun.Tensor (M, H)
---@return seqrun.Tensor # (M, V)
function MaskedLM:logits(x) return self:decode(self:transform(x)) end

---The loss of many rows in chunks: the gradient of logits exists for one chunk at a time, whose logits are computed
---again in the backward pass.
local function by_chunks(x, words, bias, target)
  local total, items, correct = nil, {}, {}
  for first = 1, x:size(1), ROWS do
    local count = math.min(ROWS, x:size(1) - first + 1)
    local labels, weights = target.labels:narrow(1, first, count), target.weights:narrow(1, first, count)
    local sum, nll, right = ops.recompute(function(rows)
      return ops.mlm_loss(rows, words, bias, labels, weights)
    end, x:narrow(1, first, count))
    items[#items + 1], correct[#correct + 1], total = nll, right, total and total + sum or sum
  end
  return total, tensor.cat(items), tensor.cat(correct)
end

---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Loss
function MaskedLM:loss(hidden, target)
  local x = self:transform(hidden:rows(target))
  local words, bias = decoder(self)
  local total, items, correct
  if self.chunks and x:requires_grad() and x:size(1) > ROWS then
    total, items, correct = by_chunks(x, words, bias, target)
  else
    total, items, correct = ops.mlm_loss(x, words, bias, target.labels, target.weights)
  end
  return { total = total, items = items, correct = correct, factor = self.factor, perplexity = self.perplexity }
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
    loss = self.name, metric = self.name == "mlm" and "unigram_loss" or "causal_unigram_loss", title = "unigram model",
    score = function(batch)
      local target = batch.targets[self.name]
      if not target then return nil end
      unigram = unigram or MaskedLM.unigram(require("seqrun.base.failure").must(corpus:counts()))
      local labels = target.labels:totable()
      return unigram(labels), #labels
    end,
  }
end

return { new = new, causal = causal, masked_too = masked_too, unigram = MaskedLM.unigram }

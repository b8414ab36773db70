-- mlm.lua - the masked-LM head: a transform, then logits over the vocabulary, tied to the word embeddings.

local ops = require("seqrun.tensor.ops")
local part = require("seqrun.nn.model.part")
local specs = require("seqrun.nn.model.specs")

---@class seqrun.MaskedLM: seqrun.Head
local MaskedLM = part.class()

---The masked-LM head: logits over the vocabulary, tied to the word embeddings.
---@param encoder seqrun.Encoder
---@param prefix? string of parameter names; default "cls."
---@return seqrun.MaskedLM
local function new(encoder, prefix)
  prefix = (prefix or "cls.") .. "predictions."
  local config = encoder.config
  local list, add = specs.new(config.initializer_range)
  add.linear(prefix .. "transform.dense", config.hidden_size, config.hidden_size)
  add.norm(prefix .. "transform.LayerNorm", config.hidden_size)
  add.bias(prefix .. "bias", { config.vocab_size }, {
    pad_rows_to = encoder.VOCAB_MULTIPLE, longer = encoder.PADDED, tied = { prefix .. "decoder.bias" },
  })
  encoder:tie_words(prefix .. "decoder.weight")
  return setmetatable({ name = "mlm", encoder = encoder, prefix = prefix, specs = list }, MaskedLM)
end

---The input of the decoder: dense layer, activation, norm.
---@param x seqrun.Tensor (M, H)
---@return seqrun.Tensor # (M, H)
function MaskedLM:transform(x)
  local dense = self:linear(x, self.prefix .. "transform.dense", { act = self.encoder:activation() })
  return self.encoder:norm(dense, nil, self.prefix .. "transform.LayerNorm", {})
end

---Logits over the vocabulary; the loss does not keep them.
---@param x seqrun.Tensor (M, H)
---@return seqrun.Tensor # (M, V)
function MaskedLM:logits(x)
  return ops.linear(self:transform(x), self.encoder:words(), self.params:get(self.prefix .. "bias"))
end

---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Loss
function MaskedLM:loss(hidden, target)
  local x, bias = self:transform(hidden:rows(target)), self.params:get(self.prefix .. "bias")
  local total, items, correct = ops.mlm_loss(x, self.encoder:words(), bias, target.labels, target.weights)
  return { total = total, items = items, correct = correct }
end

---@param batch seqrun.Batch
---@param count integer rows
---@return number
function MaskedLM:flops_of(_, count)
  local h = self.encoder.config.hidden_size
  return 6 * (h * h + h * self.encoder.config.vocab_size) * count
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

-- evaluate.lua - how well a model does on held-back documents, and what a model that knows only how
-- often each token occurs would do on the same masked tokens.

local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local evaluate = {}

---Mean loss of the unigram model (training counts plus one) on labels.
---@param counts integer[] counts[id + 1] of the training tokens
---@return fun(labels: integer[]): number # the sum over labels
function evaluate.unigram(counts)
  local total = #counts
  for _, count in ipairs(counts) do total = total + count end
  local log_total = math.log(total)
  return function(labels)
    local sum = 0
    for _, id in ipairs(labels) do sum = sum + log_total - math.log(counts[id + 1] + 1) end
    return sum
  end
end

local function sum_of(x) return x and x:sum():item() or 0 end

---Adds one micro-batch to the sums.
local function score(sums, model, batch, unigram)
  local scope <close> = tensor.scope()
  local no_grad <close> = tensor.no_grad()
  local losses = model:losses(batch)
  local mlm = batch.targets.mlm
  sums.mlm = sums.mlm + sum_of(losses.mlm_nll)
  sums.correct = sums.correct + sum_of(losses.mlm_correct)
  sums.masked = sums.masked + batch.masked
  if mlm and unigram then sums.unigram = sums.unigram + unigram(mlm.labels:totable()) end
  if losses.nsp then
    sums.nsp_correct = sums.nsp_correct + sum_of(losses.nsp_correct)
    sums.pairs = sums.pairs + batch.sequences
  end
end

---Scores all batches of the updates that are asked for; false when a signal came before the last.
local function score_all(sums, model, loader, options)
  local done = 0
  while options.updates == 0 or done < options.updates do
    local update = loader:next()
    if not update then break end
    for batch in update:batches() do
      if sys.caught() then return false end
      score(sums, model, batch, options.unigram)
    end
    done = done + 1
  end
  return true
end

---@param model table losses(batch), training
---@param loader seqrun.Loader of the held-back part, one epoch
---@param options { from: table, updates: integer, unigram?: function } from: the cursor where it
---  begins; updates: at most so many, 0 for all
---@return { mlm_loss: number, mlm_accuracy: number, nsp_accuracy: number?, unigram_loss: number? }|nil
---  nil when a signal asked the run to stop
function evaluate.run(model, loader, options)
  local sums = { mlm = 0, correct = 0, masked = 0, unigram = 0, nsp_correct = 0, pairs = 0 }
  local training = model.training
  model.training = false
  loader:seek(options.from)
  local whole = score_all(sums, model, loader, options)
  model.training = training
  if not whole then return nil end
  local masked = math.max(1, sums.masked)
  return {
    mlm_loss = sums.mlm / masked, mlm_accuracy = sums.correct / masked, masked = sums.masked,
    nsp_accuracy = sums.pairs > 0 and sums.nsp_correct / sums.pairs or nil,
    unigram_loss = options.unigram and sums.unigram / masked or nil,
  }
end

return evaluate

-- class_costs.lua - the keys tune.label_smoothing and tune.class_weights, for the head of a task.

local failure = require("seqrun.base.failure")
local head_task = require("seqrun.nn.heads.task")
local labels = require("seqrun.data.readers.labels")
local tensor = require("seqrun.tensor")

---How often each class occurs among the examples to train on.
local function counts_of(corpus, column, classes)
  local counts, cut = {}, corpus:known("window_share")
  for i = 1, classes do counts[i] = 0 end
  for _, example in ipairs(corpus:units("train")) do
    local value = failure.must(corpus:column(column, example))
    local share = cut and failure.must(corpus:column("window_share", example)) or 1 -- of a text
    for _, label in ipairs(type(value) == "table" and value or { value }) do
      if label >= 0 then counts[label + 1] = counts[label + 1] + share end
    end
  end
  return counts
end

---Factors that make classes count alike, 1 on average over the examples.
local function balanced(counts)
  local all, present, factors = 0, 0, {}
  for _, count in ipairs(counts) do all, present = all + count, present + (count > 0 and 1 or 0) end
  for i, count in ipairs(counts) do factors[i] = count > 0 and all / (present * count) or 1.0 end
  return factors
end

---The factors that a config gives, one for each class.
local function given(words, names)
  local factors = {}
  for i, word in ipairs(words) do
    factors[i] = tonumber(word)
    if not factors[i] or not (factors[i] >= 0 and factors[i] < 1e6) then
      failure.raise("config", "tune.class_weights: '%s' is not a factor; give a number of at least 0 for each class, "
        .. "or balanced", word)
    end
  end
  if #factors ~= #names then
    failure.raise("config", "tune.class_weights has %d numbers, but the data have %d classes: %s", #factors, #names,
      labels.list(names))
  end
  return factors
end

---"no 0.61, yes 2.75".
local function text_of(names, factors)
  local words = {}
  for i = 1, math.min(#names, 20) do words[i] = ("%s %.3g"):format(names[i], factors[i]) end
  return table.concat(words, ", ") .. (#names > 20 and (" and %d more"):format(#names - 20) or "")
end

---Sets what items cost the head of a model while it trains, and says it.
---@param task seqrun.FinetuningTask
---@param cfg table
---@param data seqrun.FinetuningData
---@param model seqrun.Bert
return function(task, cfg, data, model)
  local smoothing, words = cfg.tune.label_smoothing, cfg.tune.class_weights
  if smoothing == 0 and not words then return end
  local head = model.heads[1]
  if not task.classes or head.loss ~= head_task.methods.loss then
    failure.raise("config", "tune.%s requires one class for each item, which the task %s does not have; leave it out",
      words and "class_weights" or "label_smoothing", task.name or task.kind)
  end
  head.costs = { smoothing = smoothing }
  if smoothing > 0 then
    table.insert(data.notes, ("tune.label_smoothing: %g of each label is spread over %d classes"):format(smoothing,
      head.outputs))
  end
  if not words then return end
  local names, even = labels.names(head.labels, head.outputs), #words == 1 and words[1] == "balanced"
  local factors = even and balanced(counts_of(data.train, task.column, head.outputs)) or given(words, names)
  head.costs.factors = tensor.tensor(factors):keep()
  table.insert(data.notes, ("tune.class_weights: %s%s"):format(text_of(names, factors), even and " (balanced)" or ""))
end

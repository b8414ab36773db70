-- crf.lua - a linear-chain conditional random field over the words of a sentence, for a head of classes of words.
--
-- The score of tags y of words with logits x is
--   start[y1] + sum x[t, yt] + sum transitions[y(t-1), yt] + end[yn]
-- and the loss of a sentence the log of the sum of exp(score) over all sequences of tags, minus the score of its own:
-- the negative log-likelihood, by the forward algorithm.  An update has the mean over its words.  The sentences of a
-- batch take each step together, longest first, so that those that have ended are at the end.
--
-- Names and shapes of parameters are those of pytorch-crf.  Source: Lafferty et al. 2001.

local ops = require("seqrun.tensor.ops")
local tensor = require("seqrun.tensor")

local crf = {}

local INT = { dtype = "i32" }

---Adds the parameters of a head of C classes, zero at first.
---@param add table of specs.new
---@param prefix string
---@param classes integer
function crf.add(add, prefix, classes)
  add.bias(prefix .. "crf.transitions", { classes, classes }, { keep = "f32" }) -- from, to
  add.bias(prefix .. "crf.start_transitions", { classes }, { keep = "f32" })
  add.bias(prefix .. "crf.end_transitions", { classes }, { keep = "f32" })
end

---The parameters of a head.
---@param head seqrun.TaskHead
---@return seqrun.Tensor transitions
---@return seqrun.Tensor first
---@return seqrun.Tensor last
function crf.parameters(head)
  local function get(name) return head.params:get(head.prefix .. "crf." .. name) end
  return get "transitions", get "start_transitions", get "end_transitions"
end

---The items of each sentence in the order of their rows, the longest sentences first.
local function sentences_of(target, batch)
  local owners, list, of = batch.layout:owners(), {}, {}
  for item, row in ipairs(target.rows:totable()) do
    local owner = owners[row + 1]
    if not of[owner] then
      of[owner] = {}
      list[#list + 1] = of[owner]
    end
    table.insert(of[owner], item - 1)
  end
  table.sort(list, function(a, b) return #a > #b or #a == #b and a[1] < b[1] end)
  return list
end

---The items step by step, how many sentences take each step, and the number of the sentence of each item.
local function steps_of(sentences, count)
  local order, widths, sentence_of = {}, {}, {}
  for i = 1, count do sentence_of[i] = 0 end
  for step = 1, #sentences[1] do
    widths[step] = 0
    for s, items in ipairs(sentences) do
      if #items < step then break end
      order[#order + 1], widths[step], sentence_of[items[step] + 1] = items[step], s, s - 1
    end
  end
  return order, widths, sentence_of
end

---log sum exp over the last dimension.
local function log_sum_exp(x)
  local most = x:detach():max(-1, true)
  return (x - most):exp():sum(-1):log() + most:squeeze(-1)
end

---The score of each item in its own sentence: its logit, and the transition to it.
local function own_scores(x, labels, widths, transitions, first)
  local classes, parts, at = x:size(2), {}, 0
  for step, width in ipairs(widths) do
    local y = labels:narrow(1, at + 1, width)
    parts[step] = step == 1 and ops.gather_rows(first, y) or ops.gather_rows(transitions:reshape(-1),
      labels:narrow(1, at - widths[step - 1] + 1, width) * classes + y)
    at = at + width
  end
  local places = tensor.arange(0, x:size(1) - 1, 1, INT) * classes + labels
  return tensor.cat(parts) + ops.gather_rows(x:reshape(-1), places)
end

---The negative log-likelihood of each sentence.
local function losses_of(x, labels, widths, transitions, first, last)
  local into, own = transitions:transpose(1, 2):reshape(1, x:size(2), -1),
    own_scores(x, labels, widths, transitions, first)
  local sums, scores, at, ends, golds = nil, nil, 0, {}, {}
  for step, width in ipairs(widths) do
    local now, gold = x:narrow(1, at + 1, width), own:narrow(1, at + 1, width)
    sums = step == 1 and now + first
      or log_sum_exp(sums:narrow(1, 1, width):reshape(width, 1, -1) + into) + now
    scores = step == 1 and gold or scores:narrow(1, 1, width) + gold
    local left = widths[step + 1] or 0
    if left < width then -- the others end here
      local y = labels:narrow(1, at + left + 1, width - left)
      table.insert(ends, 1, sums:narrow(1, left + 1, width - left))
      table.insert(golds, 1, scores:narrow(1, left + 1, width - left) + ops.gather_rows(last, y))
    end
    at = at + width
  end
  return log_sum_exp(tensor.cat(ends) + last) - tensor.cat(golds)
end

---The loss of a head, in place of that of nn/heads/task.lua.
---@param self seqrun.TaskHead
---@param hidden seqrun.States
---@param target seqrun.Target
---@param batch seqrun.Batch
---@return seqrun.Loss
function crf.loss(self, hidden, target, batch)
  local logits, count = self:real_logits(hidden, target, batch), target.rows:size(1)
  if count == 0 then return { total = logits:sum() * 0, count = 0 } end
  local sentences = sentences_of(target, batch)
  local order, widths, sentence_of = steps_of(sentences, count)
  local firsts, lengths = {}, {}
  for s, items in ipairs(sentences) do firsts[s], lengths[s] = items[1], #items end
  order = tensor.tensor(order, INT)
  local each = losses_of(ops.gather_rows(logits, order), ops.gather_rows(target.labels, order), widths,
    crf.parameters(self))
  local weights = ops.gather_rows(target.weights, tensor.tensor(firsts, INT)) -- words of a sentence have the same
  local mean = each:detach() / tensor.tensor(lengths, { dtype = logits:dtype() })
  return { total = (each * weights):sum(), items = ops.gather_rows(mean, tensor.tensor(sentence_of, INT)) }
end

return crf

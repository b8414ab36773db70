-- score - how probable a model finds a text: the sum over its tokens of the logarithm of their probability, after the
-- tokens before them if the model is causal (log-likelihood), else each masked alone (pseudo-log-likelihood).
--
--     local score = sr.must(sr.score.open("runs/pretrain"))
--     print(score:one("She was very happy.").score)
--     for result, item in score:each { { sentence_good = "A day.", sentence_bad = "A days." } } do ... end
--
-- A text of n tokens becomes n sequences that share their ids, each with one mask; only the masked rows reach the last
-- feed-forward block and the head.  A pair is scored in one go, and a tie is exact: a sequence has the same bits
-- whatever it is computed with.  For a causal model a text is one sequence; its first token counts only where the
-- tokenizer puts a special token before it.
--
-- Source: Salazar et al. 2020, arXiv:1910.14659.

local batches = require("seqrun.predict.batches")
local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local frames = require("seqrun.text.frames")
local masked_model = require("seqrun.predict.masked_model")
local opening = require("seqrun.predict.opening")
local tensor = require("seqrun.tensor")

local score = {}

---@class seqrun.Scorer
---@field model seqrun.Bert
---@field tokenizer seqrun.text.Tokenizer
---@field max_len integer
---@field rows integer tokens of a batch
---@field causal boolean
local Scorer = {}
Scorer.__index = Scorer
Scorer.__name = "seqrun.Scorer"
require("seqrun.base.strict").seal(Scorer, "the scorer", { "model", "tokenizer", "max_len", "rows", "room",
  "causal", "lead" })

---@class seqrun.TextScore
---@field score? number sum of natural logarithms over the tokens, special tokens excluded
---@field tokens? integer
---@field good? number score of the good sentence of a pair
---@field bad? number
---@field correct? boolean whether the good one is more probable; nil on a tie
---@field error? string why it cannot be scored

local function open(path, options)
  local opened = masked_model.open("score texts", path, setmetatable({ causal = "too" }, { __index = options }))
  local frame = frames.of(opened.tokenizer.core)
  return setmetatable({
    model = opened.model, tokenizer = opened.tokenizer, max_len = opened.max_len, rows = options.rows or 4096,
    room = frame:room(opened.max_len), causal = opened.causal, lead = frame:lead(),
  }, Scorer)
end

---Opens a run, a checkpoint or a Hugging Face directory with a masked-LM head, or of a causal model.
---
---  rows    tokens of a batch, 4096
---@param path string
---@param options? { max_len?: integer, rows?: integer, precision?: "f32"|"bf16", average?: boolean }
---@return seqrun.Scorer|nil
---@return string? message
---@return string? code
function score.open(path, options)
  check.value("score.open: path", path, "string")
  return failure.returned(open, path, check.typed("score.open", options, opening.OPTIONS))
end

---The fields of an item: a text, or a pair.
score.FIELDS = {
  keys = { "text", "sentence_good", "sentence_bad" },
  optional = { text = true, sentence_good = true, sentence_bad = true },
}

---Why an item cannot be scored; nil if it can.
local function problem_of(item)
  if item.wrong then return item.wrong end
  if item.text and (item.sentence_good or item.sentence_bad) then
    return "has a text and a pair; give 'text', or 'sentence_good' and 'sentence_bad'"
  end
  if item.text then return nil end
  for _, key in ipairs { "sentence_good", "sentence_bad" } do
    if not item[key] then return ("has no '%s'; a pair needs both sentences"):format(key) end
  end
end

---Adds the sequence of a text whose tokens a causal model predicts one after the other.
local function add_whole(self, list, ids)
  local first = self.lead > 0 and 1 or 2 -- the first token that is predicted
  if #ids < first then return nil, "the text has one token, with nothing before it" end
  local rows = {}
  for i = first, #ids do rows[#rows + 1] = i - 1 end
  list[#list + 1] = { a = ids, rows = rows }
  return 1
end

---Adds a sequence for each token of a text; returns how many, or nil and why the text cannot be scored.
local function add_copies(self, list, text)
  local ids = self.tokenizer.core:ids(text)
  if #ids == 0 then return nil, "the text is empty" end
  if #ids > self.room then
    return nil, ("has %d tokens, but the model reads %d; shorten the text"):format(#ids, self.room)
  end
  if self.causal then return add_whole(self, list, ids) end
  for i = 1, #ids do list[#list + 1] = { a = ids, masked = i, rows = { i } } end
  return #ids
end

---The sequences of an item, `counts` of them for each of its texts; none, and `wrong`, if it cannot be scored.
local function sequences_of(self, item)
  local list, counts, why = {}, {}, problem_of(item)
  for i, text in ipairs(why and {} or item.text and { item.text } or { item.sentence_good, item.sentence_bad }) do
    counts[i], why = add_copies(self, list, text)
    if not counts[i] then break end
  end
  if why then return { wrong = why } end
  list.counts = counts
  return list
end

---The sum of the logarithms of the probabilities of each sequence's masked token, or of its tokens after the first.
local function compute(self, batch)
  local target, labels, outputs, at = batches.target(batch, "rows"), {}, {}, 0
  for _, sequence in ipairs(batch.list) do
    for _, row in ipairs(sequence.rows) do labels[#labels + 1] = sequence.a[sequence.masked or row + 1] end
  end
  target.labels, target.weights = tensor.tensor(labels, { dtype = "i32" }), tensor.ones(#labels)
  local loss = self.model.heads[1]:loss(self.model.encoder:states(batch), target)
  local values = (loss.items:to("f32") * -1):totable()
  for i, sequence in ipairs(batch.list) do
    outputs[i] = 0.0
    for k = at + 1, at + #sequence.rows do outputs[i] = outputs[i] + values[k] end
    at = at + #sequence.rows
  end
  return outputs
end

---Tokens that count in the score of the text whose first sequence is this one.
local function tokens_of(sequence, count) return sequence.masked and count or #sequence.rows end

---@return seqrun.TextScore
local function result(_, item)
  local list, sums, at = item.sequences, {}, 0
  if list.wrong then return { error = list.wrong } end
  for i, count in ipairs(list.counts) do
    local sum = 0.0
    for k = at + 1, at + count do sum = sum + list[k].output end
    sums[i], at = sum, at + count
  end
  if item.text then return { score = sums[1], tokens = tokens_of(list[1], list.counts[1]) } end
  local correct
  if sums[1] ~= sums[2] then correct = sums[1] > sums[2] end
  return { good = sums[1], bad = sums[2], correct = correct }
end

---The score of each text, or of both sentences of each pair, in their order, and the item.  What cannot be scored
---gives { error = }.
---@param items (string|table)[]|fun(): (string|table)? texts, { text = }, or { sentence_good =, sentence_bad = }
---@return fun(): seqrun.TextScore?, table?
function Scorer:each(items)
  return masked_model.each("score", self, items, {
    fields = score.FIELDS, sequences = sequences_of, compute = compute, result = result,
  })
end

---The score of one text, or of one pair.
---@type fun(self: seqrun.Scorer, text: string|table): seqrun.TextScore a text, or { sentence_good =, sentence_bad = }
Scorer.one = masked_model.one "score"

function Scorer:__tostring() return ("scores texts of at most %d tokens"):format(self.max_len) end

return score

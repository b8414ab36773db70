-- score - how probable a masked-LM model finds a text: its pseudo-log-likelihood, the sum over the tokens of the
-- logarithm of their probability, each masked alone.
--
--     local score = sr.must(sr.score.open("runs/pretrain"))
--     print(score:one("She was very happy.").score)
--     for result, item in score:each { { sentence_good = "A day.", sentence_bad = "A days." } } do ... end
--
-- A text of n tokens becomes n sequences that share their ids, each with one mask; only the masked rows reach the last
-- feed-forward block and the head.  A pair is scored in one go, and a tie is exact: a sequence has the same bits
-- whatever it is computed with.
--
-- Source: Salazar et al. 2020, arXiv:1910.14659.

local batches = require("seqrun.predict.batches")
local check = require("seqrun.base.check")
local frames = require("seqrun.text.frames")
local masked_model = require("seqrun.predict.masked_model")
local stream = require("seqrun.predict.stream")
local tensor = require("seqrun.tensor")

local score = {}

---@class seqrun.Scorer
---@field model seqrun.Bert
---@field tokenizer seqrun.text.Tokenizer
---@field max_len integer
---@field rows integer tokens of a batch
local Scorer = {}
Scorer.__index = Scorer
Scorer.__name = "seqrun.Scorer"
require("seqrun.base.strict").seal(Scorer, "the scorer", { "model", "tokenizer", "max_len", "rows", "room" })

---@class seqrun.TextScore
---@field score? number sum of natural logarithms over the tokens, special tokens excluded
---@field tokens? integer
---@field good? number score of the good sentence of a pair
---@field bad? number
---@field correct? boolean whether the good one is more probable; nil on a tie
---@field error? string why it cannot be scored

local OPTIONS = { max_len = true, rows = true, precision = true, average = true }

---Opens a run, a checkpoint or a Hugging Face directory with a masked-LM head.
---
---  rows    tokens of a batch, 4096
---@param path string
---@param options? { max_len?: integer, rows?: integer, precision?: "f32"|"bf16", average?: boolean }
---@return seqrun.Scorer|nil
---@return string? message
---@return string? code
function score.open(path, options)
  options = check.options("score.open", options, OPTIONS)
  local opened, message, code = masked_model.open("score.open", "score texts", path, options)
  if not opened then return nil, message, code end
  return setmetatable({
    model = opened.model, tokenizer = opened.tokenizer, max_len = opened.max_len, rows = options.rows or 4096,
    room = frames.of(opened.tokenizer.core):room(opened.max_len),
  }, Scorer)
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

---Adds a sequence for each token of a text; returns how many, or nil and why the text cannot be scored.
local function add_copies(self, list, text)
  local ids = self.tokenizer.core:ids(text)
  if #ids == 0 then return nil, "the text is empty" end
  if #ids > self.room then
    return nil, ("has %d tokens, but the model reads %d; shorten the text"):format(#ids, self.room)
  end
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

---The logarithm of the probability of the masked token of each sequence of a batch.
local function compute(self, batch)
  local target, labels = batches.target(batch, "rows"), {}
  for i, sequence in ipairs(batch.list) do labels[i] = sequence.a[sequence.masked] end
  target.labels, target.weights = tensor.tensor(labels, { dtype = "i32" }), tensor.ones(#labels)
  local loss = self.model:head("mlm"):loss(self.model.encoder:states(batch), target)
  return (loss.items:to("f32") * -1):totable()
end

---@return seqrun.TextScore
local function result(item)
  local list, sums, at = item.sequences, {}, 0
  if list.wrong then return { error = list.wrong } end
  for i, count in ipairs(list.counts) do
    local sum = 0.0
    for k = at + 1, at + count do sum = sum + list[k].output end
    sums[i], at = sum, at + count
  end
  if item.text then return { score = sums[1], tokens = list.counts[1] } end
  local correct
  if sums[1] ~= sums[2] then correct = sums[1] > sums[2] end
  return { good = sums[1], bad = sums[2], correct = correct }
end

---The score of each text, or of both sentences of each pair, in their order, and the item.  What cannot be scored
---gives { error = }.
---@param items (string|table)[]|fun(): (string|table)? texts, { text = }, or { sentence_good =, sentence_bad = }
---@return fun(): seqrun.TextScore?, table?
function Scorer:each(items)
  local next_done = stream {
    items = require("seqrun.predict.items")("score", items, score.FIELDS),
    sequences = function(item) return sequences_of(self, item) end,
    compute = function(batch) return compute(self, batch) end,
    tokenizer = self.tokenizer.core, rows = self.rows,
  }
  return function()
    local item = next_done()
    if item then return result(item), item end
  end
end

---The score of one text, or of one pair.
---@param text string|table a text, or { sentence_good =, sentence_bad = }
---@return seqrun.TextScore
function Scorer:one(text)
  local found = self:each { text }()
  if found.error then check.fail("score: %s", found.error) end
  return found
end

function Scorer:__tostring() return ("scores texts of at most %d tokens"):format(self.max_len) end

return score

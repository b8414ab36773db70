-- fill - what a masked-LM model puts in the place of [MASK], or of what its tokenizer has for it, such as <mask>.
--
--     local fill = sr.must(sr.fill.open("runs/pretrain"))
--     local found = fill:one("She was very [MASK].")
--     print(found.text, found.masks[1][1].token, found.masks[1][1].probability)
--     for found, item in fill:each { "A [MASK] day.", "The [MASK] and the [MASK]." } do ... end

local batches = require("seqrun.predict.batches")
local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local frames = require("seqrun.text.frames")
local masked_model = require("seqrun.predict.masked_model")
local opening = require("seqrun.predict.opening")
local tensor = require("seqrun.tensor")

local fill = {}

---@class seqrun.Filler
---@field model seqrun.Bert
---@field tokenizer seqrun.text.Tokenizer
---@field max_len integer
---@field top integer candidates of each [MASK]
---@field words boolean only whole words are candidates
---@field mask string how a mask is written in a text
local Filler = {}
Filler.__index = Filler
Filler.__name = "seqrun.Filler"
require("seqrun.base.strict").seal(Filler, "the filler",
  { "model", "tokenizer", "max_len", "top", "words", "rows", "mask", "candidates", "allowed" })

---@class seqrun.Filled
---@field text string the text with the best candidates in place of [MASK]; several are chosen one after the other, the
---  most probable first
---@field masks seqrun.FillCandidate[][] for each [MASK], the candidates that the text as given leads to

---@class seqrun.FillCandidate
---@field token string as the tokenizer decodes it: "happy", "##ing", " happy" of byte-level BPE
---@field id integer
---@field probability number among all tokens of the vocabulary

local OPTIONS = opening.with { top = { 1 }, words = "boolean" }

---The text that a token adds to a text before it, which shows the space that a word begins with.
local function added_by(tokenizer, id)
  local before = tokenizer:ids("a")
  local size = #tokenizer:decode(before, true)
  before[#before + 1] = id
  return tokenizer:decode(before, true):sub(size + 1)
end

---Whether a token can be a word alone; letters beyond ASCII are bytes of 0x80 and more.
local function is_word(tokenizer, id)
  if tokenizer:vocab() then
    local token = tokenizer:token(id)
    return token:find("^[%w\x80-\xff]") ~= nil
  end
  return added_by(tokenizer, id):find("^ [%w\x80-\xff]") ~= nil
end

---A row of ones for the candidates and zeros for all other tokens of the model.
local function allowed(ids, size)
  local row = {}
  for i = 1, size do row[i] = 0 end
  for _, id in ipairs(ids) do row[id + 1] = 1 end
  return tensor.tensor { row }
end

local function open_model(path, options)
  local opened = masked_model.open("fill in [MASK]", path, {
    max_len = options.max_len, precision = options.precision, literal = false, average = options.average,
  })
  local core = opened.tokenizer.core
  local self = {
    model = opened.model, tokenizer = opened.tokenizer, max_len = opened.max_len, top = options.top or 5,
    words = options.words ~= false, rows = options.rows, mask = core:token(core:special("mask")),
  }
  self.candidates = masked_model.candidates(core, nil, self.words and is_word or nil)
  self.allowed = allowed(self.candidates, opened.facts.design.vocabulary)
  return setmetatable(self, Filler)
end

---Opens a run, a checkpoint or a Hugging Face directory with a masked-LM head.
---
---  top     candidates of each [MASK], 5
---  words   only whole words, the default; false: all tokens, such as pieces ("##ing") and punctuation
---  rows    tokens of a batch, 2048
---  average  with the moving average of the weights
---@param path string
---@param options? { top?: integer, words?: boolean, max_len?: integer, rows?: integer, precision?: "f32"|"bf16",
---  average?: boolean }
---@return seqrun.Filler|nil
---@return string? message
---@return string? code
function fill.open(path, options)
  check.value("fill.open: path", path, "string")
  return failure.returned(open_model, path, check.typed("fill.open", options, OPTIONS))
end

---The `top` candidates of one [MASK] from the probabilities of all tokens.
local function best_of(self, probabilities)
  local best = {}
  for _, id in ipairs(self.candidates) do
    local p = probabilities[id + 1]
    if #best < self.top or p > best[#best].probability then
      local at = #best + 1
      while at > 1 and best[at - 1].probability < p do at = at - 1 end
      table.insert(best, at, { id = id, probability = p })
      best[self.top + 1] = nil
    end
  end
  for _, one in ipairs(best) do one.token = self.tokenizer.core:decode({ one.id }, true) end
  return best
end

---The probabilities of all tokens at each [MASK] of a batch: (M, V).
local function probabilities_of(self, batch)
  local target = batches.target(batch, "rows")
  local states = self.model.encoder:states(batch)
  return self.model:head("mlm"):logits(states:rows(target)):to("f32"):softmax(-1)
end

---The candidates of each [MASK] of each sequence of a batch.
local function compute(self, batch)
  local probabilities, outputs, at = probabilities_of(self, batch), {}, 0
  for i, sequence in ipairs(batch.list) do
    outputs[i] = {}
    for m = 1, #sequence.rows do
      at = at + 1
      outputs[i][m] = best_of(self, probabilities:narrow(1, at, 1):reshape(-1):totable())
    end
  end
  return outputs
end

-- ---- the item -----------------------------------------------------------------------------------

local LIKE = { "%[[Mm][Aa][Ss][Kk]%]", "<[Mm][Aa][Ss][Kk]>", "{[Mm][Aa][Ss][Kk]}", "__+" }

---Why a text without a mask cannot be used.
local function no_mask(text, mask)
  for _, pattern in ipairs(LIKE) do
    local written = text:match(pattern)
    if written then return ("no %s; did you mean it by '%s'?"):format(mask, written) end
  end
  return ("no %s; write it in place of the word to fill in"):format(mask)
end

---The sequence of an item; none, and `wrong`, the reason, if it cannot be used.
local function sequences_of(self, item)
  if item.wrong then return { wrong = item.wrong } end
  local tokenizer = self.tokenizer.core
  local ids, mask = tokenizer:ids(item.text), tokenizer:special("mask")
  local rows = {}
  for i, id in ipairs(ids) do
    if id == mask then rows[#rows + 1] = i end
  end
  local room = frames.of(tokenizer):room(self.max_len)
  if #rows == 0 then return { wrong = no_mask(item.text, self.mask) } end
  if rows[#rows] > room then
    local long = "a %s is token %d, but the model reads %d tokens; shorten the text"
    return { wrong = long:format(self.mask, rows[#rows], room) }
  end
  return { { a = table.move(ids, 1, math.min(#ids, room), 1, {}), rows = rows } }
end

---Whether a mask takes the space before it.
local function eats_space(tokenizer, mask) return #tokenizer:ids("a " .. mask) == #tokenizer:ids("a") + 1 end

---Puts a token in the place of the first mask of a text; pieces are joined to the text before them.
local function put(self, text, id)
  local tokenizer = self.tokenizer.core
  local first, last = text:find(self.mask, 1, true)
  local before, after = text:sub(1, first - 1), text:sub(last + 1)
  if not tokenizer:vocab() then
    local added = added_by(tokenizer, id) -- with the space that a word begins with
    if eats_space(tokenizer, self.mask) then before = before:gsub("%s+$", "") end
    if before == "" or before:find("%s$") then added = added:gsub("^ ", "") end
    return before .. added, after
  end
  local token = tokenizer:token(id)
  local piece = token:match("^##(.+)")
  if piece then return before:gsub("%s+$", "") .. piece, after end
  if before:find("^%s*$") or before:find("[.!?]%s+$") then token = token:gsub("^%l", string.upper) end
  return before .. token, after
end

---The best candidate of each [MASK] at some rows of a text, now that others are filled in.
local function update_best(self, ids, open)
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  local rows = {}
  for i, one in ipairs(open) do rows[i] = one.row end
  local batch = batches.make({ { a = ids, rows = rows } }, self.tokenizer.core)
  local probabilities = probabilities_of(self, batch) * self.allowed
  local best, most = probabilities:argmax(2):totable(), probabilities:max(2):totable()
  for i, one in ipairs(open) do one.id, one.probability = best[i], most[i] end
end

---The most probable first.
local function by_probability(a, b)
  if a.probability ~= b.probability then return a.probability > b.probability end
  return a.row < b.row
end

---Of more masks than this, several are filled in at a time.
local PASSES = 32

---The ids of all masks, the most probable first; each is chosen with those before it in place.
local function choose(self, sequence)
  local chosen, open, ids = {}, {}, table.move(sequence.a, 1, #sequence.a, 1, {})
  for m, row in ipairs(sequence.rows) do
    local best = sequence.output[m][1]
    open[m] = { mask = m, row = row, id = best.id, probability = best.probability }
  end
  local at_once = math.ceil(#open / PASSES)
  while #open > 0 do
    table.sort(open, by_probability)
    for _, one in ipairs(table.move(open, 1, math.min(at_once, #open), 1, {})) do
      chosen[one.mask], ids[one.row] = one.id, one.id
    end
    open = table.move(open, at_once + 1, #open, 1, {})
    table.sort(open, function(a, b) return a.row < b.row end)
    if #open > 0 then update_best(self, ids, open) end
  end
  return chosen
end

local function result(self, item)
  if item.sequences.wrong then return { error = item.sequences.wrong } end
  local sequence = item.sequences[1]
  local done, rest = "", item.text
  for _, id in ipairs(choose(self, sequence)) do done, rest = put(self, done .. rest, id) end
  return { text = done .. rest, masks = sequence.output }
end

---What fills each text, in their order, and the item: a string, or { text = }.  A text that cannot be used gives
---{ error = }.
---@param items (string|table)[]|fun(): (string|table)?
---@return fun(): seqrun.Filled?, table?
function Filler:each(items)
  return masked_model.each("fill", self, items, {
    fields = { keys = { "text" } }, sequences = sequences_of, compute = compute, result = result,
  })
end

---What fills one text.
---@type fun(self: seqrun.Filler, text: string): seqrun.Filled
Filler.one = masked_model.one "fill"

function Filler:__tostring()
  return ("fills in %s: %d candidates, %s, at most %d tokens"):format(self.mask, self.top,
    self.words and "whole words" or "all tokens", self.max_len)
end

return fill

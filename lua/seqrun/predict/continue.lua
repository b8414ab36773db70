-- continue - how a causal model continues with a text: the most probable token again and again, or tokens drawn with a
-- seed.
--
--     local continue = sr.must(sr.continue.open("runs/causal"))
--     print(continue:one("She was").text)
--     local drawn = sr.must(sr.continue.open("gpt2", { temperature = 0.8, seed = 1 }))
--     for found, item in drawn:each { "A day", "The" } do ... end
--
-- A text has the same continuation whatever it shares a batch with: logits have the same bits, and draws are keyed by
-- the seed, the number of the text and the place of the token.  A token costs a forward pass over itself, and attention
-- over the text (predict/cached.lua).

local cached = require("seqrun.predict.cached")
local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local frames = require("seqrun.text.frames")
local masked_model = require("seqrun.predict.masked_model")
local opening = require("seqrun.predict.opening")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local continue = {}

---@class seqrun.Continuer
---@field model seqrun.Bert
---@field tokenizer seqrun.text.Tokenizer
---@field max_len integer
---@field tokens integer most tokens that are added
---@field temperature number 0: the most probable token
---@field top integer draws are among the most probable ones; 0: all
---@field seed integer of the draws
local Continuer = {}
Continuer.__index = Continuer
Continuer.__name = "seqrun.Continuer"
require("seqrun.base.strict").seal(Continuer, "the continuer",
  { "model", "tokenizer", "max_len", "tokens", "temperature", "top", "seed", "rows", "allowed", "ends", "number" })

---@class seqrun.Continued
---@field text string the text with what was added
---@field added string
---@field ids integer[] of the tokens that were added
---@field score number sum of the logarithms of their probabilities, as the model gives them
---@field ended boolean whether the model ended the text
---@field error? string why the text cannot be continued

local OPTIONS = opening.with { tokens = { 1 }, temperature = true, top = { 0 }, seed = { 0 } }

---Ids that end a text: what the tokenizer puts behind one, and the end in the config.
local function ends_of(tokenizer, config)
  local ends, tail = {}, tokenizer:frame().tail.ids
  if tail[1] then ends[tail[1]] = true end
  if config.eos_token_id then ends[config.eos_token_id] = true end
  return ends
end

local function open_model(path, o)
  local opened = masked_model.open("continue texts", path, {
    max_len = o.max_len, precision = o.precision, average = o.average, causal = true,
  })
  local core = opened.tokenizer.core
  local ends = ends_of(core, opened.facts.config)
  return setmetatable({
    tokens = o.tokens or 40, top = o.top or 0, seed = o.seed or 0, temperature = o.temperature or 0, number = 0,
    model = opened.model, tokenizer = opened.tokenizer, max_len = opened.max_len, rows = o.rows or 2048, ends = ends,
    allowed = masked_model.candidates(core, ends), -- what may follow; of special tokens those that end a text
  }, Continuer)
end

---Opens a run, a checkpoint or a Hugging Face directory of a causal model.
---
---  tokens       most tokens that are added, 40
---  temperature  of draws; 0, the default: the most probable token
---  top          draws are among this many of the most probable tokens; 0, the default: among all
---  rows         tokens of a batch, 2048
---@param path string
---@param options? { tokens?: integer, temperature?: number, top?: integer, seed?: integer, max_len?: integer,
---  rows?: integer, precision?: "f32"|"bf16", average?: boolean }
---@return seqrun.Continuer|nil
---@return string? message
---@return string? code
function continue.open(path, options)
  local o = check.typed("continue.open", options, OPTIONS)
  local heat = o.temperature or 0
  if type(heat) ~= "number" or not (heat >= 0) or heat == math.huge then
    check.fail("continue.open: temperature is %s; expected a number of at least 0, such as 0.8", tostring(heat))
  end
  return failure.returned(open_model, check.value("continue.open: path", path, "string"), o)
end

-- ---- one token ------------------------------------------------------------------------------------

---The logarithms of the probabilities of what may follow each text, a list each.
local function logarithms(self, texts, open)
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  return self.model:head("causal"):logits(texts:encode(open)):to("f32"):log_softmax(-1):totable()
end

---The most probable of the ids that may follow.
local function best_of(self, row)
  local best
  for _, id in ipairs(self.allowed) do
    if not best or row[id + 1] > row[best + 1] then best = id end
  end
  return best
end

---The ids among which one is drawn.
local function among(self, row)
  if self.top == 0 or self.top >= #self.allowed then return self.allowed end
  local ids = table.move(self.allowed, 1, #self.allowed, 1, {})
  table.sort(ids, function(a, b) return row[a + 1] > row[b + 1] or row[a + 1] == row[b + 1] and a < b end)
  return table.move(ids, 1, self.top, 1, {})
end

---An id drawn from the distribution at the temperature; `at` is in [0, 1).
local function drawn(self, row, at)
  local ids, highest, weights, sum = among(self, row), row[best_of(self, row) + 1], {}, 0
  for i, id in ipairs(ids) do
    weights[i] = math.exp((row[id + 1] - highest) / self.temperature)
    sum = sum + weights[i]
  end
  local left = at * sum
  for i, id in ipairs(ids) do
    left = left - weights[i]
    if left < 0 then return id end
  end
  return ids[#ids]
end

---Adds a token to each of some texts.
local function advance(self, texts, open)
  for i, row in ipairs(logarithms(self, texts, open)) do
    local one = open[i]
    local id = self.temperature == 0 and best_of(self, row) or drawn(self, row, one.draws[#one.ids + 1])
    one.score = one.score + row[id + 1]
    one.ended = self.ends[id] or false
    if not one.ended then one.ids[#one.ids + 1], one.all[#one.all + 1] = id, id end
  end
end

-- ---- texts ----------------------------------------------------------------------------------------

---Numbers in [0, 1) for the tokens of text number `uid`.
local function draws_of(self, uid)
  local scope <close> = tensor.scope()
  return tensor.zeros(self.tokens):uniform_(0, 1, { seed = self.seed, uid = uid }):totable()
end

---What is to be done with an item.
local function begin(self, item)
  local one = { item = item, number = self.number, error = item.wrong, ids = {}, score = 0.0, ended = false }
  self.number = self.number + 1
  if one.error then return one end
  local tokenizer = self.tokenizer.core
  one.all = tokenizer:ids(item.text)
  one.given, one.room = #one.all, self.max_len - frames.of(tokenizer):lead()
  if #one.all + frames.of(tokenizer):lead() == 0 then
    one.error = "the text is empty, and the tokenizer has no token that begins a text; write at least a word"
  elseif #one.all >= one.room then
    one.error = ("has %d tokens, which leaves no room: the model reads %d; shorten the text"):format(#one.all, one.room)
  elseif self.temperature > 0 then
    one.draws = draws_of(self, one.number)
  end
  return one
end

local function is_open(self, one)
  return not one.error and not one.ended and #one.ids < self.tokens and #one.all < one.room
end

---Those that go on.
local function opened(self, list)
  local open = {}
  for _, one in ipairs(list) do
    if is_open(self, one) then open[#open + 1] = one end
  end
  return open
end

---What a continuation adds to a text, with the space that a word begins with.
local function added_by(self, one)
  local tokenizer = self.tokenizer.core
  local before = tokenizer:decode(table.move(one.all, 1, one.given, 1, {}), true)
  local whole = tokenizer:decode(one.all, true)
  if whole:sub(1, #before) == before then return whole:sub(#before + 1) end
  return " " .. tokenizer:decode(one.ids, true)
end

local function result(self, one)
  if one.error then return { error = one.error } end
  local added = added_by(self, one)
  return { text = one.item.text .. added, added = added, ids = one.ids, score = one.score, ended = one.ended }
end

---Continues some texts; false on a signal.
local function run(self, list)
  local open = opened(self, list)
  for _, one in ipairs(open) do one.most = math.min(one.room, #one.all + self.tokens) end
  local texts = cached.new(self.model.encoder, self.tokenizer.core, open)
  while #open > 0 do
    advance(self, texts, open)
    if sys.caught() then return false end
    open = opened(self, open)
  end
  return true
end

---How each text goes on, in their order, and the item: a string, or { text = }.  A text that cannot be continued gives
---{ error = }.  Draws are keyed by the number of the text since the continuer was opened.
---@param items (string|table)[]|fun(): (string|table)?
---@return fun(): seqrun.Continued?, table?
function Continuer:each(items)
  local next_item = require("seqrun.predict.items")("continue", items, { keys = { "text" } })
  local at_once, ready, at = math.max(1, self.rows // self.max_len), {}, 0
  return function()
    at = at + 1
    if at > #ready then
      ready, at = {}, 1
      while #ready < at_once do
        local item = next_item()
        if not item then break end
        ready[#ready + 1] = begin(self, item)
      end
      if not run(self, ready) then ready = {} end
    end
    if ready[at] then return result(self, ready[at]), ready[at].item end
  end
end

---How one text continues.
---@type fun(self: seqrun.Continuer, text: string): seqrun.Continued
Continuer.one = masked_model.one "continue"

function Continuer:__tostring()
  local how = self.temperature == 0 and "the most probable tokens"
    or ("draws at temperature %g with seed %d"):format(self.temperature, self.seed)
  return ("continues texts: %s, at most %d of them, at most %d in all"):format(how, self.tokens, self.max_len)
end

return continue

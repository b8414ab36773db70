-- cached.lua - a causal encoder that reads texts as they grow: of the tokens before, it keeps what attention reads.
--
-- Each text has rows of its own, in which the queries, keys and values of each layer stay.  Products, which take nearly
-- all of the time, run over the new tokens; these attend to the rows of all, by the same op as without, so that a text
-- has the bits of a pass over all of it.

local frames = require("seqrun.text.frames")
local ops = require("seqrun.tensor.ops")
local tensor = require("seqrun.tensor")

local INT = { dtype = "i32" }

---A text that grows.
---@class seqrun.GrowingText
---@field all integer[] its tokens so far, without special ones
---@field most integer tokens that it may come to have

---@class seqrun.Cached
---@field encoder seqrun.Encoder
---@field frame seqrun.text.Frames
---@field blocks table<seqrun.GrowingText, { first: integer, seen: integer }> rows of a text; tokens encoded so far
---@field rows integer of all texts
---@field kept table<integer, seqrun.Tensor> (rows, ...) by layer: what its attention reads
---@field now table the layout of all texts, the rows of their new tokens, and where these are in a batch
local Cached = {}
Cached.__index = Cached

---Attention of new rows to those before them.
local function attend(self, qkv, options)
  local kept, now, at = self.kept[options.layer], self.now, 1
  if not kept then
    kept = tensor.zeros(self.rows, qkv:size(2), { dtype = qkv:dtype() }):keep()
    self.kept[options.layer] = kept
  end
  for i, count in ipairs(now.counts) do
    kept:narrow(1, now.firsts[i] + 1, count):copy_(qkv:narrow(1, at, count))
    at = at + count
  end
  options.rows = now.new
  return ops.attention(kept, now.layout, options)
end

---@param encoder seqrun.Encoder
---@param tokenizer seqrun.core.text.tokenizer
---@param texts seqrun.GrowingText[]
---@return seqrun.Cached
function Cached.new(encoder, tokenizer, texts)
  local self = setmetatable({ frame = frames.of(tokenizer), blocks = {}, rows = 0, kept = {} }, Cached)
  for _, one in ipairs(texts) do
    self.blocks[one] = { first = self.rows, seen = 0 }
    self.rows = self.rows + self.frame:lead() + one.most
  end
  -- positions of RoBERTa's kind depend on all ids of a text: it is encoded again each time
  self.anew = encoder.design.skip ~= nil
  self.limit = encoder.design.longest
  self.encoder = setmetatable({
    attention = function(qkv, _, options) return attend(self, qkv, options) end,
  }, { __index = encoder })
  return self
end

---The new tokens of some texts as a batch.
local function batch_of(self, open)
  local ids, types, positions, new, last = {}, {}, {}, {}, {}
  local counts, firsts, lengths, starts = {}, {}, {}, {}
  for i, one in ipairs(open) do
    local block, own, kinds = self.blocks[one], {}, {}
    local seen = self.anew and 0 or block.seen
    self.frame:append(own, kinds, one.all, nil, true)
    for k = seen + 1, #own do
      ids[#ids + 1], types[#types + 1], positions[#positions + 1] = own[k], kinds[k], k - 1
      new[#new + 1] = block.first + k - 1
    end
    counts[i], firsts[i], lengths[i], starts[i] = #own - seen, block.first + seen, #own, block.first
    last[i], block.seen = #ids - 1, #own
  end
  self.now = {
    counts = counts, firsts = firsts, new = tensor.tensor(new, INT),
    layout = tensor.layout { lens = lengths, starts = starts, rows = self.rows },
  }
  local layout = tensor.layout { lens = counts, rows = #ids }
  local shorter, order = layout:shorten(last)
  return {
    ids = tensor.tensor(ids, INT), types = tensor.tensor(types, INT), layout = layout,
    positions = not self.anew and { positions = tensor.tensor(positions, INT), limit = self.limit } or nil,
    last = { layout = shorter, rows = tensor.tensor(order, INT) },
  }
end

---The last hidden state of the last token of each text.
---@param open seqrun.GrowingText[] some of the texts, each with a token more than before
---@return seqrun.Tensor # (N, H)
function Cached:encode(open)
  local batch = batch_of(self, open)
  return self.encoder:encode(batch, batch.last)
end

return Cached

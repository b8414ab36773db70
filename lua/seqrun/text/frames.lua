-- frames.lua - the special tokens around texts: [CLS] A [SEP] B [SEP] of BERT, <s> A </s></s> B </s> of RoBERTa.
--
--     local frame = frames.of(tokenizer)
--     frame:room(128, true)            tokens that a pair may have within 128
--     frame:append(ids, types, a, b)   appends a pair with its special tokens

---@class seqrun.text.Frames
---@field pad integer the value of rows that belong to no sequence
---@field private parts table<boolean, table> of a text (false) and of a pair
---@field private sizes table<boolean, integer>
local Frames = {}
Frames.__index = Frames

local frames = {}

local known = setmetatable({}, { __mode = "k" })

local function size_of(frame) return #frame.lead.ids + #frame.middle.ids + #frame.tail.ids end

---The frames of a tokenizer.
---@param tokenizer seqrun.core.text.tokenizer
---@return seqrun.text.Frames
function frames.of(tokenizer)
  local found = known[tokenizer]
  if not found then
    local single, pair = tokenizer:frame(), tokenizer:frame(true)
    found = setmetatable({
      pad = tokenizer:special("pad") or 0, parts = { [false] = single, [true] = pair },
      sizes = { [false] = size_of(single), [true] = size_of(pair) },
    }, Frames)
    known[tokenizer] = found
  end
  return found
end

---How a text, or a pair, is framed: "[CLS] A [SEP] B [SEP]".
---@param tokenizer seqrun.core.text.tokenizer
---@param pair boolean
---@return string
function frames.shown(tokenizer, pair)
  local frame, words = tokenizer:frame(pair), {}
  local function add(part, text)
    for _, id in ipairs(part.ids) do words[#words + 1] = tokenizer:token(id) end
    words[#words + 1] = text
  end
  add(frame.lead, "A")
  add(frame.middle, pair and "B" or nil)
  add(frame.tail)
  return table.concat(words, " ")
end

---The number of special tokens around a text, or around a pair.
---@param pair? any a second text, or whether there is one
---@return integer
function Frames:size(pair) return self.sizes[pair and true or false] end

---The tokens that a text, or a pair, may have so that all fit.
---@param max_len integer
---@param pair? any
---@return integer
function Frames:room(max_len, pair) return max_len - self:size(pair) end

---Special tokens before the first text.
---@param pair? any
---@return integer
function Frames:lead(pair) return #self.parts[pair and true or false].lead.ids end

---Special tokens between the texts of a pair.
---@return integer
function Frames:middle() return #self.parts[true].middle.ids end

local function append_part(ids, types, part)
  for i, id in ipairs(part.ids) do ids[#ids + 1], types[#types + 1] = id, part.types[i] end
end

local function append_text(ids, types, text, type_id)
  table.move(text, 1, #text, #ids + 1, ids)
  for i = #types + 1, #ids do types[i] = type_id end
end

---Appends a text, or a pair, with its special tokens.
---@param ids integer[]
---@param types integer[]
---@param a integer[]
---@param b? integer[]
---@param open? boolean without special tokens at the end
---@return integer tokens
function Frames:append(ids, types, a, b, open)
  local frame, before = self.parts[b ~= nil], #ids
  append_part(ids, types, frame.lead)
  append_text(ids, types, a, frame.types[1])
  append_part(ids, types, frame.middle)
  if b then append_text(ids, types, b, frame.types[2]) end
  if not open then append_part(ids, types, frame.tail) end
  return #ids - before
end

return frames

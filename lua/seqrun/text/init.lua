-- text - text to ids: vocabularies, tokenizers, sentences.
--
--     local vocab = sr.must(sr.text.vocab("vocab.txt"))
--     local tokenizer = sr.must(sr.text.tokenizer { vocab = vocab })
--     local ids = tokenizer:encode("She was very [MASK].", { specials = true })
--     print(tokenizer:decode(ids))

local check = require("seqrun.base.check")
local core = require("seqrun.core.text")

local text = {}

---Reads a vocabulary: one token per line, the id is the line number from 0.
---@param path string
---@return seqrun.core.text.vocab? vocab
---@return string? message
---@return string? code
function text.vocab(path) return core.vocab(path) end

---@class seqrun.text.Tokenizer
---@field core seqrun.core.text.tokenizer for C functions
---@field vocab seqrun.core.text.vocab
---@field lowercase boolean
local Tokenizer = {}
Tokenizer.__index = Tokenizer
require("seqrun.base.strict").seal(Tokenizer, "the tokenizer", { "core", "vocab", "lowercase" })
Tokenizer.__name = "seqrun.text.Tokenizer"

function Tokenizer:__tostring()
  return ("tokenizer, %s, %s"):format(self.lowercase and "uncased" or "cased", tostring(self.vocab))
end

local TOKENIZER = { vocab = true, lowercase = true, keep_accents = true, literal = true }

---A tokenizer that gives the ids of Hugging Face's BertWordPieceTokenizer.
---
---`lowercase` is on unless it is false, and then strips accents unless `keep_accents`.  Special
---tokens written in a text, such as [MASK], become their ids unless `literal`.
---@param t { vocab: string|seqrun.core.text.vocab, lowercase?: boolean, keep_accents?: boolean, literal?: boolean }
---@return seqrun.text.Tokenizer? tokenizer
---@return string? message
---@return string? code
function text.tokenizer(t)
  check.options("text.tokenizer", t, TOKENIZER)
  if t.vocab == nil then check.fail("text.tokenizer: 'vocab' is missing; give a path or a vocabulary") end
  local vocab, lowercase = t.vocab, t.lowercase ~= false
  if type(vocab) == "string" then
    local message, code
    vocab, message, code = core.vocab(vocab)
    if not vocab then return nil, message, code end
  end
  local options = { lowercase = lowercase, keep_accents = t.keep_accents, specials = not t.literal }
  return setmetatable({ core = core.tokenizer(vocab, options), vocab = vocab, lowercase = lowercase }, Tokenizer)
end

---Puts [CLS] before the first part and [SEP] after each, with a token type for each id.
local function frame(vocab, parts, offsets)
  local ids, types, places = { vocab:special("cls") }, { 0 }, { { 0, 0 } }
  for number, part in ipairs(parts) do
    table.move(part.ids, 1, #part.ids, #ids + 1, ids)
    if offsets then table.move(part.offsets, 1, #part.ids, #places + 1, places) end
    ids[#ids + 1] = vocab:special("sep")
    places[#places + 1] = { 0, 0 }
    while #types < #ids do types[#types + 1] = number - 1 end
  end
  return ids, types, offsets and places or nil
end

---The ids of a line, or of a pair of lines.
---
---`specials` adds [CLS] and [SEP] (a pair always has them); `offsets` adds { first, last } of each
---token, in code points of its line.
---@param line string
---@param pair? string|table a second line, or the options
---@param options? { specials?: boolean, offsets?: boolean }
---@return integer[] ids
---@return { types: integer[], offsets?: integer[][] } more token types, and offsets if asked for
function Tokenizer:encode(line, pair, options)
  if type(pair) == "table" then pair, options = nil, pair end
  options = check.options("encode", options, { specials = true, offsets = true })
  local parts = {}
  for _, one in ipairs { line, pair } do
    local ids, offsets = self.core:ids(one, options.offsets)
    parts[#parts + 1] = { ids = ids, offsets = offsets }
  end
  if pair or options.specials then
    local ids, types, offsets = frame(self.vocab, parts, options.offsets)
    return ids, { types = types, offsets = offsets }
  end
  local types = {}
  for i = 1, #parts[1].ids do types[i] = 0 end
  return parts[1].ids, { types = types, offsets = parts[1].offsets }
end

---The tokens of a line as they are spelled in the vocabulary.
---@param line string
---@return string[]
function Tokenizer:tokens(line)
  local list = self.core:ids(line)
  for i, id in ipairs(list) do list[i] = self.vocab:token(id) end
  return list
end

---Running text from ids; specials are left out unless `options.specials`.
---@param ids integer[]
---@param options? { specials?: boolean }
---@return string
function Tokenizer:decode(ids, options) return self.vocab:decode(ids, options and options.specials) end

local TRAIN = {
  files = true, size = true, min_frequency = true, limit_alphabet = true, lowercase = true, keep_accents = true,
  word_limit = true, threads = true,
}

---@class seqrun.text.train
---@field files string|string[]
---@field size? integer total number of tokens, 30522 by default
---@field min_frequency? integer of a pair, 2 by default
---@field limit_alphabet? integer different characters, 1000 by default
---@field lowercase? boolean true by default
---@field keep_accents? boolean
---@field word_limit? integer different words kept while counting, 2^23 by default
---@field threads? integer all by default

---Trains a vocabulary on text files; the result does not depend on the number of threads.
---@param t seqrun.text.train
---@return seqrun.core.text.vocab? vocab
---@return table|string|nil counts of words and of what was left out; the message on failure
---@return string? code
function text.train(t)
  check.options("text.train", t, TRAIN)
  if t.files == nil then check.fail("text.train: 'files' is missing; give a path or a list of paths") end
  local options = {}
  for key in pairs(TRAIN) do options[key] = t[key] end
  options.files = nil
  options.lowercase = t.lowercase ~= false
  return core.train(t.files, options)
end

local SENTENCES = { files = true, format = true, limit = true }

---Iterates over sentences: `for sentence, document in assert(sr.text.sentences { files = "emma.txt" }) do`.
---
---`format` is "prose" (wrapped lines, blank line between documents) or "lines" (one sentence a line).
---Errors during the iteration are raised.
---@param t { files: string|string[], format?: "prose"|"lines", limit?: integer }
---@return (fun(): string?, integer?)? next
---@return string? message
---@return string? code
---@return userdata? closing
function text.sentences(t)
  check.options("text.sentences", t, SENTENCES)
  if t.files == nil then check.fail("text.sentences: 'files' is missing; give a path or a list of paths") end
  local sentences, problem, status = core.sentences(t.files, { format = t.format, limit = t.limit })
  if not sentences then return nil, problem, status end
  return function()
    local sentence, document, code = sentences:next()
    if not sentence and code then error(document, 0) end
    return sentence, document
  end, nil, nil, sentences
end

return text

-- text - text to ids: vocabularies, tokenizers, sentences.
--
--     local vocab = sr.must(sr.text.vocab("vocab.txt"))
--     local tokenizer = sr.must(sr.text.tokenizer { vocab = vocab }) -- or { path = "DIR" }
--     local ids = tokenizer:encode("She was very [MASK].", { specials = true })
--     print(tokenizer:decode(ids))

local check = require("seqrun.base.check")
local core = require("seqrun.core.text")
local failure = require("seqrun.base.failure")
local frames = require("seqrun.text.frames")
local inputs = require("seqrun.text.inputs")
local stored = require("seqrun.text.stored")

local text = {}

---Reads a vocabulary: one token per line, the id is the line number from 0.
---@param path string
---@return seqrun.core.text.vocab? vocab
---@return string? message
---@return string? code
function text.vocab(path) return core.vocab(path) end

---@class seqrun.text.Tokenizer
---@field core seqrun.core.text.tokenizer for C functions
---@field vocab seqrun.core.text.vocab|false of BERT's WordPiece; false for all others
---@field lowercase boolean
local Tokenizer = {}
Tokenizer.__index = Tokenizer
require("seqrun.base.strict").seal(Tokenizer, "the tokenizer", { "core", "vocab", "lowercase" })
Tokenizer.__name = "seqrun.text.Tokenizer"

function Tokenizer:__tostring()
  if self.vocab then
    return ("tokenizer, %s, %s"):format(self.lowercase and "uncased" or "cased", tostring(self.vocab))
  end
  return tostring(self.core)
end

local TOKENIZER = { vocab = true, path = true, lowercase = true, keep_accents = true, literal = true }

---@class seqrun.text.tokenizer
---@field path? string
---@field vocab? string|seqrun.core.text.vocab|seqrun.core.text.tokenizer
---@field lowercase? boolean
---@field keep_accents? boolean
---@field literal? boolean

---A tokenizer that gives the ids of Hugging Face's tokenizers.
---
---`path` is a directory with a tokenizer.json or a vocab.txt, or one of these files; `vocab` is a vocabulary of BERT or
---the path of one.  With a vocabulary `lowercase` is on unless it is false or the tokens have capital letters, and then
---strips accents unless `keep_accents`; a tokenizer.json says that itself.  Special tokens written in a text, such as
---[MASK], become their ids unless `literal`.
---@param t seqrun.text.tokenizer
---@return seqrun.text.Tokenizer? tokenizer
---@return string? message
---@return string? code
function text.tokenizer(t)
  check.options("text.tokenizer", t, TOKENIZER)
  local from = t.path or t.vocab
  if from == nil then
    check.fail("text.tokenizer: 'path' and 'vocab' are missing; give a directory, a tokenizer.json or a vocabulary")
  end
  local tokenizer, message, code = stored.tokenizer(from, {
    lowercase = t.lowercase, keep_accents = t.keep_accents, literal = t.literal == true,
  })
  if not tokenizer then return nil, message, code end
  local fields = { core = tokenizer, vocab = tokenizer:vocab() or false, lowercase = tokenizer:lowercase() }
  return setmetatable(fields, Tokenizer)
end

---The ids of a line, or of a pair of lines.
---
---`specials` adds the special tokens around it, such as [CLS] and [SEP] (a pair always has them); `offsets` adds
---{ first, last } of each token, in code points of its line.
---@param line string
---@param pair? string|table a second line, or the options
---@param options? { specials?: boolean, offsets?: boolean }
---@return integer[] ids
---@return { types: integer[], offsets?: integer[][] } more token types, and offsets if asked for
function Tokenizer:encode(line, pair, options)
  if type(pair) == "table" then pair, options = nil, pair end
  options = check.options("encode", options, { specials = true, offsets = true })
  local parts, spans, ids, types, offsets = {}, {}, {}, {}, nil
  for i, one in ipairs { line, pair } do parts[i], spans[i] = self.core:ids(one, options.offsets) end
  if not pair and not options.specials then
    for i = 1, #parts[1] do types[i] = 0 end
    return parts[1], { types = types, offsets = spans[1] }
  end
  local frame = frames.of(self.core)
  frame:append(ids, types, parts[1], parts[2])
  if options.offsets then
    offsets = {}
    for i = 1, #ids do offsets[i] = { 0, 0 } end
    local at = frame:lead(pair) + 1
    table.move(spans[1], 1, #spans[1], at, offsets)
    if pair then table.move(spans[2], 1, #spans[2], at + #spans[1] + frame:middle(), offsets) end
  end
  return ids, { types = types, offsets = offsets }
end

---The ids of a text that is given as a list of words, each of which keeps the space before it; with the number of each
---token's word and, for each, { first, last } in code points of its word.
---@param words string[]
---@return integer[] ids
---@return integer[] numbers
---@return integer[][] offsets
function Tokenizer:words(words) return self.core:words(words) end

---The tokens of a line as they are spelled in the vocabulary.
---@param line string
---@return string[]
function Tokenizer:tokens(line)
  local list = self.core:ids(line)
  for i, id in ipairs(list) do list[i] = self.core:token(id) end
  return list
end

---Running text from ids; specials are left out unless `options.specials`.
---@param ids integer[]
---@param options? { specials?: boolean }
---@return string
function Tokenizer:decode(ids, options) return self.core:decode(ids, options and options.specials or false) end

local TRAIN = {
  files = true, size = true, min_frequency = true, limit_alphabet = true, lowercase = true, keep_accents = true,
  word_limit = true, threads = true, columns = true, where = true,
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
---@field columns? { text: string } of JSONL: the member of a record that has its text, "text" by default
---@field where? string of JSONL: which records, such as "lang == 'en'"

---Trains a vocabulary on text files, or on the texts of JSONL; the result does not depend on the number of threads.
---@param t seqrun.text.train
---@return seqrun.core.text.vocab? vocab
---@return table|string|nil counts of words and of what was left out; the message on failure
---@return string? code
function text.train(t)
  check.options("text.train", t, TRAIN)
  if t.files == nil then check.fail("text.train: 'files' is missing; give a path or a list of paths") end
  local options = {}
  for key in pairs(TRAIN) do options[key] = t[key] end
  options.files, options.columns, options.where = nil, nil, nil
  options.lowercase = t.lowercase ~= false
  local records, message, code = failure.returned(inputs.texts, t.files, t, "text.train")
  if message then return nil, message, code end
  options.records = records
  return core.train(t.files, options)
end

local SENTENCES = { files = true, format = true, limit = true }

---Iterates over sentences: `for sentence, document in assert(sr.text.sentences { files = "emma.txt" }) do`.
---
---`format` is "prose" (wrapped lines, blank line between documents), "lines" (one sentence a line) or "documents" (one
---document a line).
---Errors during the iteration are raised.
---@param t { files: string|string[], format?: "prose"|"lines"|"documents", limit?: integer }
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
    if not sentence and code then failure.raise(code, "%s", document) end
    return sentence, document
  end, nil, nil, sentences
end

return text

-- corpus.lua - an opened data set, as a person meets it.

local check = require("seqrun.base.check")
local kinds = require("seqrun.base.kinds")
local commas = require("seqrun.base.format").commas
local core = require("seqrun.core.data")
local failure = require("seqrun.base.failure")
local held_classes = require("seqrun.data.dataset.held_classes")
local output = require("seqrun.base.output")
local stored = require("seqrun.text.stored")
local sys = require("seqrun.core.sys")

---@class seqrun.Corpus
---@field core seqrun.core.data.dataset
---@field private about table what core:info() says
---@field files string[]
local Corpus = {}
Corpus.__index = Corpus
require("seqrun.base.strict").seal(Corpus, "the data set", { "core", "about", "files" })
Corpus.__name = "seqrun.Corpus"

---@class seqrun.OpenOptions
---@field held? number fraction of the tokens held out
---@field split? "tail"|"keyed" the last documents, or documents by a keyed coin; by default the last, with a warning
---  where the last examples lack a class that the others have
---@field seed? integer of that coin, and of folds
---@field folds? integer the number of folds; equal examples are in the same one
---@field fold? integer the one that is held out, from 1
---@field hold? integer[] numbers of the examples that are held out, from 1, instead
---@field vocab? string|seqrun.core.text.vocab|seqrun.core.text.tokenizer another one is refused; of a vocab.txt without
---  its casing
---@field cache? integer bytes of tokens kept in memory

local OPEN = { held = true, split = true, seed = true, folds = true, fold = true, hold = true, vocab = true,
  cache = true }

---Whether this is a vocabulary, which does not record the casing.
local function is_vocabulary(given)
  if type(given) == "string" then return not given:find("%.json$") and not sys.is_dir(given) end
  return type(given) == "userdata" and not given.frame
end

---@param path string|string[] several are one data set, each a source of it, of which a part is held out
---@param options? seqrun.OpenOptions
---@return seqrun.Corpus? corpus
---@return string? message
---@return string? code
function Corpus.open(path, options)
  local files = type(path) == "table" and path or { path }
  options = check.options("data.open", options, OPEN)
  local vocab, tokenizer
  if options.vocab then
    local problem, why
    tokenizer, problem, why = stored.tokenizer(options.vocab, { literal = true })
    if not tokenizer then return nil, problem, why end
    if is_vocabulary(options.vocab) then vocab, tokenizer = tokenizer:vocab(), nil end
  end
  local opened, message, code = core.open(files, {
    held = options.held, split = options.split, seed = options.seed, folds = options.folds, fold = options.fold,
    hold = options.hold, cache = options.cache, vocab = vocab, tokenizer = tokenizer,
  })
  if not opened then return nil, message, code end
  local corpus = setmetatable({ core = opened, about = opened:info(), files = files }, Corpus)
  if #files > 1 and corpus:known("window_share") then -- texts are numbered in each file
    return nil, ("%s: its texts are cut in windows, so it cannot be read together with others; give it alone, or make "
      .. "one data set of all files"):format(files[1]), "data"
  end
  local problem = options.split == nil and not options.folds and not options.hold and held_classes(corpus)
  if problem then output.note("warning: %s", problem) end
  return corpus
end

function Corpus:__tostring()
  local a = self.about
  local held = a.kind == "text" and a.cut and "the last sentences of the one document" or commas(a.held.units)
  local casing = a.tokenizer ~= "WordPiece" and a.tokenizer or a.lowercase and "uncased" or "cased"
  return ("data set %s: %s tokens, %s%s, vocabulary %s (%s), held-out %s with %s tokens"):format(
    a.path, commas(a.tokens), a.kind == "text" and commas(a.sentences) .. " sentences in " or "",
    a.kind == "text" and commas(a.documents) .. " documents" or commas(a.examples) .. " examples",
    commas(a.vocab_size), casing, held, commas(a.held.tokens))
end

---What is in it: kind, tokens, sentences, documents (or examples), vocab_size, lowercase, digest and,
---for train and held, how many units and tokens.
---@return table
function Corpus:info() return self.core:info() end

---The metadata of the file.
---@return table<string, string>
function Corpus:meta() return self.core:meta() end

---The columns of the file; those with values of examples say what they belong to (per: "example" or "token") and how
---many each has (size; 0: a list).
---@return { name: string, type: string, count: integer, bytes: integer, per?: string, size?: integer }[]
function Corpus:columns() return self.core:columns() end

---A column of this name as columns() has it; nil if there is none.
---@param name string
---@return { name: string, type: string, count: integer, bytes: integer, per?: string, size?: integer }|nil
function Corpus:known(name)
  for _, column in ipairs(self:columns()) do
    if column.name == name then return column end
  end
end

---The values of a column that belong to example number i, from 1: a number, a list (for "token": of all tokens of A,
---then of B), or a string.
---@param name string
---@param i integer
---@return number|number[]|string|nil value
---@return string? message
---@return string? code
function Corpus:column(name, i) return self.core:value(name, i) end

---The names of the files of a data set of several, its sources: short, and each its own; nil if it has one.
---@return string[]|nil
function Corpus:sources()
  local names, taken = {}, {}
  for i, path in ipairs(self.files) do
    local name = path:match("[^/]*$"):gsub("%.%w+$", ""):gsub("%-" .. ("%x"):rep(12) .. "$", ""):gsub("[^%w_]", "_")
    names[i] = taken[name] and ("%s_%d"):format(name, i) or name
    taken[name], taken[names[i]] = true, true
  end
  return #names > 1 and names or nil
end

---The class names of a data set that was made from labelled files, in the order of their ids.
---@return string[]|nil
function Corpus:labels()
  for key, value in pairs(self.core:meta()) do
    if key:find("^labels%.") then return require("seqrun.core.json").decode(value) end
  end
end

---Where example number i, from 1, comes from: "train.csv:17", or the number of the example.
---@param i integer
---@return string
function Corpus:place(i)
  local meta = self.core:meta()
  for source = #self.files, 2, -1 do
    local first = self.about.sources[source].first
    if i >= first then
      return failure.must(Corpus.open(self.files[source], { held = 0 })):place(i - first + 1)
    end
  end
  local files = meta.files and require("seqrun.core.json").decode(meta.files)
  if not files then return ("%s: example %d"):format(self.files[1], i) end
  local function at(column) return failure.must(self:column(column, i)) end
  local file = files[at("file") + 1]
  local kind = kinds.get(meta.task)
  if kind and kind.reader.questions then return ("%s: question %s"):format(file, at("id")) end
  return ("%s:%d"):format(file, at("line"))
end

---@return integer
function Corpus:vocab_size() return self.about.vocab_size end

---@return boolean
function Corpus:lowercase() return self.about.lowercase end

---The tokenizer that it carries; special tokens written in a text are plain text to it.
---@return seqrun.core.text.tokenizer
function Corpus:tokenizer() return self.core:tokenizer() end

---The numbers of a part's examples (documents), from 1.
---@param part? "train"|"held"
---@return integer[]
function Corpus:units(part) return self.core:units(part) end

---How often each token occurs in a part: counts[id + 1].
---@param part? "train"|"held"
---@return integer[]? counts
---@return string? message
---@return string? code
function Corpus:counts(part) return self.core:counts(part) end

---Document (or example) number i, from 1, as text: its sentences (or segments), one per line.
---@param i integer
---@return string? text
---@return string? message
---@return string? code
function Corpus:decode(i)
  local ids, lengths, code = self.core:unit(i)
  if not ids then return nil, lengths, code end
  local lines, at, tokenizer = {}, 1, self:tokenizer()
  for _, length in ipairs(lengths) do
    lines[#lines + 1] = tokenizer:decode(table.move(ids, at, at + length - 1, 1, {})):gsub("^ ", "")
    at = at + length
  end
  return table.concat(lines, "\n")
end

---A loader that only looks.
local function table_of(self, part, epoch, max_len, options)
  local given = { data = self, part = part, epoch = epoch, max_len = max_len, solver = "none", packs = 1, prefetch = 0 }
  for key, value in pairs(options or {}) do given[key] = value end
  return require("seqrun.data.loader").open(given)
end

---Tokens of each example of an epoch, by uid + 1: what packing is about.
---@param part? "train"|"held"
---@param epoch? integer from 0
---@param max_len? integer
---@param options? { nsp?: boolean, short_seq_prob?: number, short_seq_by?: string, seed?: integer, too_long?: string }
---@return integer[]? lengths
---@return string? message
---@return string? code
function Corpus:lengths(part, epoch, max_len, options)
  local loader, message, code = table_of(self, part, epoch, max_len, options)
  if not loader then return nil, message, code end
  return loader:lengths(epoch)
end

---How many examples of an epoch have each length: histogram[tokens].
---@param part? "train"|"held"
---@param epoch? integer from 0
---@param max_len? integer
---@param options? table as for lengths()
---@return integer[]? histogram
---@return string? message
---@return string? code
function Corpus:histogram(part, epoch, max_len, options)
  local lengths, message, code = self:lengths(part, epoch, max_len, options)
  if not lengths then return nil, message, code end
  local counts = {}
  for i = 1, max_len or 128 do counts[i] = 0 end
  for _, length in ipairs(lengths) do counts[length] = counts[length] + 1 end
  return counts
end

return Corpus

-- vocabulary.lua - whether a checkpoint and a data set have the same vocabulary

local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

local vocabulary = {}

local MOST_BYTES = 1 << 26

---The tokens of a vocabulary's text, one per line.
local function tokens_of(text)
  local tokens = {}
  for line in text:gsub("\n$", ""):gmatch("([^\n]*)\n?") do tokens[#tokens + 1] = (line:gsub("\r$", "")) end
  if tokens[#tokens] == "" then tokens[#tokens] = nil end -- gmatch ends with an empty match
  return tokens
end

---The tokens of tokenizer.json as the text of a vocab.txt; nil if they are not a WordPiece vocabulary without gaps.
local function from_tokenizer(tree)
  local model = type(tree) == "table" and tree.model
  if type(model) ~= "table" or model.type ~= "WordPiece" or type(model.vocab) ~= "table" then return nil end
  local tokens, count = {}, 0
  local function add(token, id)
    if tokens[id + 1] == nil then count = count + 1 end
    tokens[id + 1] = token
  end
  for token, id in pairs(model.vocab) do add(token, id) end
  for _, added in ipairs(tree.added_tokens or {}) do add(added.content, added.id) end
  for i = 1, count do
    if tokens[i] == nil then return nil end
  end
  return table.concat(tokens, "\n") .. "\n"
end

---The vocabulary of a checkpoint's directory, of vocab.txt or tokenizer.json; nil if absent.
---@param folder string
---@return string|nil
function vocabulary.read(folder)
  local text = sys.read_file(folder .. "/vocab.txt", MOST_BYTES)
  if text then return text end
  local tokenizer = sys.read_file(folder .. "/tokenizer.json", MOST_BYTES)
  return tokenizer and from_tokenizer(json.decode(tokenizer)) or nil
end

---How two vocabularies differ, in a sentence; nil if they are equal.
---@param mine string
---@param theirs string
---@return string|nil
function vocabulary.difference(mine, theirs)
  if mine == theirs then return nil end
  local a, b = tokens_of(mine), tokens_of(theirs)
  for i = 1, math.max(#a, #b) do
    if a[i] ~= b[i] then
      local text = "%d and %d tokens, first difference at id %d: '%s' and '%s'"
      return text:format(#a, #b, i - 1, a[i] or "", b[i] or "")
    end
  end
end

local MOST_UNUSED = 0.1 -- of the rows: sizes are rounded up to multiples of 64 or 128

---A warning about a vocabulary much smaller than the model's embeddings, as of a file that was cut; nil otherwise.
---@param tokens integer
---@param rows integer
---@return string|nil
function vocabulary.too_small(tokens, rows)
  if tokens >= rows * (1 - MOST_UNUSED) then return nil end
  return ("vocab.txt has %d tokens, but the model has embeddings of %d; is the file complete?"):format(tokens, rows)
end

return vocabulary

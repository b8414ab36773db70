-- vocabulary.lua - whether a checkpoint and a data set have the same tokenizer, and whether it fits a model

local frames = require("seqrun.text.frames")
local stored = require("seqrun.text.stored")

local vocabulary = {}

---The tokenizer of a checkpoint's directory; nil without a message where there is none.
---@param folder string
---@return seqrun.core.text.tokenizer|nil
---@return string? message
---@return string? code
function vocabulary.read(folder)
  local found, message, code = stored.read(folder)
  if not found then return nil, message, code end
  return found:open { literal = true }
end

---The first token in which two tokenizers differ.
local function other_token(a, b)
  for id = 0, math.max(#a, #b) - 1 do
    local mine, theirs = a:token(id), b:token(id)
    if mine ~= theirs then
      local text = "%d and %d tokens, first difference at id %d: '%s' and '%s'"
      return text:format(#a, #b, id, mine or "", theirs or "")
    end
  end
end

local function casing(tokenizer)
  local _, lowercase, keep_accents = tokenizer:plain()
  return lowercase and (keep_accents and "uncased with accents" or "uncased") or "cased"
end

---The first role that two tokenizers give to different tokens.
local function other_role(a, b)
  for _, role in ipairs { "pad", "unk", "cls", "sep", "mask" } do
    local mine, theirs = a:special(role), b:special(role)
    if mine ~= theirs then
      local function shown(tokenizer, id) return id and ("'%s' (%d)"):format(tokenizer:token(id), id) or "none" end
      return ("the %s token is %s and %s"):format(role, shown(a, mine), shown(b, theirs))
    end
  end
end

---How two tokenizers differ, in a sentence; nil if they give the same ids.
---@param mine seqrun.core.text.tokenizer
---@param theirs seqrun.core.text.tokenizer
---@return string|nil
function vocabulary.difference(mine, theirs)
  if mine:fingerprint() == theirs:fingerprint() then return nil end
  if mine:kind() ~= theirs:kind() then return ("%s and %s"):format(mine:kind(), theirs:kind()) end
  local found = other_token(mine, theirs)
  if found then return found end
  if casing(mine) ~= casing(theirs) then return ("%s and %s"):format(casing(mine), casing(theirs)) end
  found = other_role(mine, theirs)
  if found then return found end
  local a, b = frames.shown(mine, true), frames.shown(theirs, true)
  if a ~= b then return ("pairs are %s and %s"):format(a, b) end
  return "the same tokens, but other merges, scores, special tokens or rules of splitting; fingerprints "
    .. mine:fingerprint() .. " and " .. theirs:fingerprint()
end

local MOST_UNUSED = 0.1 -- of the rows: sizes are rounded up to multiples of 64 or 128

---A warning about a tokenizer much smaller than the model's embeddings, as of a file that was cut; nil otherwise.
---@param tokens integer
---@param rows integer
---@return string|nil
function vocabulary.too_small(tokens, rows)
  if tokens >= rows * (1 - MOST_UNUSED) then return nil end
  return ("the tokenizer has %d tokens, but the model has embeddings of %d; is the file complete?"):format(tokens, rows)
end

---Why a tokenizer has ids that the model has no embeddings of; nil otherwise.
---@param tokens integer
---@param rows integer
---@return string|nil
function vocabulary.too_large(tokens, rows)
  if tokens <= rows then return nil end
  return ("the vocabulary has %d tokens, but the model only %d"):format(tokens, rows)
end

return vocabulary

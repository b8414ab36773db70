-- unknown.lua - data that the tokenizer does not know: text of another language, casing or vocabulary.

local text = require("seqrun.base.format")

---Tokens that are looked at, and documents or examples; the share of unknown ones that is told.
local TOKENS, UNITS, SHARE = 100000, 400, 0.1

---Why the texts of a data set are not those that its tokenizer was made for; nil if most tokens are known.
---@param corpus seqrun.Corpus|nil
---@return string|nil
return function(corpus)
  local tokenizer = corpus and corpus.tokenizer and corpus:tokenizer()
  local unk, about = tokenizer and tokenizer:special("unk"), corpus and corpus:info()
  local count = about and (about.examples or about.documents)
  if not unk or not count or count == 0 then return nil end
  local seen, lost = 0, 0
  for k = 0, math.min(UNITS, count) - 1 do
    local ids = corpus.core:unit(1 + k * count // math.min(UNITS, count))
    for _, id in ipairs(ids or {}) do
      seen, lost = seen + 1, lost + (id == unk and 1 or 0)
      if seen == TOKENS then break end
    end
    if seen == TOKENS then break end
  end
  if seen == 0 or lost < SHARE * seen then return nil end
  return ("%.0f %% of the tokens of %s are unknown to its tokenizer (of %s looked at): are language and casing "
    .. "those of the vocabulary?"):format(100 * lost / seen, tostring(about.path), text.commas(seen))
end

-- texts.lua - a text, or a pair of them, as one sequence that fits the model.

local frames = require("seqrun.text.frames")
local markers = require("seqrun.text.markers")
local truncate = require("seqrun.data.truncate")

local texts = {}

---A function from an item with `text` (and `pair`) to its sequence.
---@param tokenizer seqrun.text.Tokenizer
---@param max_len integer
---@param counts table `cut` counts the truncated ones
---@return fun(item: table): seqrun.InferenceSequence[]
function texts.framing(tokenizer, max_len, counts)
  local frame = frames.of(tokenizer.core)
  return function(item)
    markers(tokenizer.core, item.text)
    local a = tokenizer.core:ids(item.text)
    local b = item.pair and tokenizer.core:ids(item.pair)
    if truncate(a, b, frame:room(max_len, b)) then counts.cut = (counts.cut or 0) + 1 end
    return { { a = a, b = b } }
  end
end

return texts

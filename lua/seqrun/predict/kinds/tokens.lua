-- tokens.lua - {"words": ["Paris", "sleeps"], "tags": ["B-LOC", "O"], "probabilities": [0.99, 0.98]}
--
-- A text is cut into words at white space.  A word has the tag of its first piece.  Texts that do not fit the model are
-- cut between words into several sequences.

local decode = require("seqrun.scoring.decode")
local json = require("seqrun.core.json")

local tokens = { input = { keys = { "text", "words" }, optional = { text = true, words = true },
  lists = { words = true } }, reads = "rows" }

---A word that the tokenizer drops, such as a control character.
local function ids_of(tokenizer, word)
  local ids = tokenizer.core:ids(word)
  return #ids > 0 and ids or { tokenizer.vocab:special("unk") }
end

local function words_of(text)
  local words = {}
  for word in text:gmatch("%S+") do words[#words + 1] = word end
  return words
end

function tokens.sequences(item, t)
  item.words = item.words or words_of(item.text or "")
  local room, list, current = t.max_len - 2, {}, nil
  for _, word in ipairs(item.words) do
    local ids = ids_of(t.tokenizer, word)
    local size = math.min(#ids, room)
    if not current or #current.a + size > room then
      current = { a = {}, rows = {} }
      list[#list + 1] = current
    end
    current.rows[#current.rows + 1] = #current.a + 1
    table.move(ids, 1, size, #current.a + 1, current.a)
  end
  return list
end

---Logits of all words, in the order of the sequences.
function tokens.outputs(values, batch)
  local outputs, at = {}, 0
  for i, sequence in ipairs(batch.list) do
    outputs[i] = table.move(values, at + 1, at + #sequence.rows, 1, {})
    at = at + #sequence.rows
  end
  return outputs
end

function tokens.result(item, t)
  local names, tags, probabilities = decode.names(t.head), json.array(), json.array()
  for _, sequence in ipairs(item.sequences) do
    for _, logits in ipairs(sequence.output) do
      local p = decode.softmax(logits)
      local best = decode.argmax(p)
      tags[#tags + 1], probabilities[#probabilities + 1] = names[best], decode.round(p[best])
    end
  end
  return { words = json.array(item.words), tags = tags, probabilities = probabilities }
end

return tokens

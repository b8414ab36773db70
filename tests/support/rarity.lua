-- rarity.lua - vocabulary rarity of lists of token ids; `seqrun analyze` computes the same for a data set.
--
-- The rarity of a sequence is the sum over its tokens of -ln p(token).  p comes from the counts of all tokens, in which
-- an unseen one counts once.  Combined with the length, it breaks ties: length C + truncated rarity.
--
-- Source: Li et al. 2022, arXiv:2212.03597, and the program published with it.

local core = require("seqrun.core.metric")

---@class seqrun.RarityOptions
---@field sequences integer[][] token ids, [CLS] and [SEP] included
---@field padded_counts integer number of counts: the size of the padded vocabulary plus 1
---@field max_seq integer maximum length of a sequence

---@class seqrun.RarityRow
---@field seqlen integer
---@field rarity_nats number
---@field vocab_rarity integer rarity_nats, truncated
---@field seqlen_vocab_rarity integer

local function count(sequences, slots)
  local counts = {}
  for id = 1, slots do counts[id] = 0 end
  for _, ids in ipairs(sequences) do
    for _, id in ipairs(ids) do counts[id + 1] = counts[id + 1] + 1 end
  end
  return counts
end

---The rarity of each sequence.
---@param t seqrun.RarityOptions
---@return seqrun.RarityRow[] rows
---@return { denominator: integer, seqlen_coefficient: integer } facts
local function rarity(t)
  local weights, denominator, largest = core.rarity(count(t.sequences, t.padded_counts))
  local coefficient, rows = math.tointeger(core.rarity_coefficient(largest, t.max_seq)), {}
  for i, ids in ipairs(t.sequences) do
    local nats = 0.0
    for _, id in ipairs(ids) do nats = nats + weights[id + 1] end
    local whole = math.tointeger(nats // 1)
    rows[i] = {
      seqlen = #ids, rarity_nats = nats, vocab_rarity = whole, seqlen_vocab_rarity = #ids * coefficient + whole,
    }
  end
  return rows, { denominator = math.tointeger(denominator), seqlen_coefficient = coefficient }
end

return rarity

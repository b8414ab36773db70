-- rarity.lua - vocabulary rarity, and its combination with the length, against rarity_golden.tsv.

local rarity = require("tests.support.rarity")
local tsv = require("tests.support.golden.tsv")

local golden = {}

---"# vocab_size=12 padded_counts=13 ..." as numbers.
local function facts_of(comments)
  local facts = {}
  for _, line in ipairs(comments) do
    for key, value in line:gmatch("([%w_]+)=(%d+)") do facts[key] = math.tointeger(tonumber(value)) end
  end
  return facts
end

---@param folder string
---@param report seqrun.GoldenReport
function golden.check(folder, report)
  local lines, comments = tsv.read(folder .. "/rarity_golden.tsv")
  if not lines then return end
  local facts, sequences = facts_of(comments), {}
  for i, line in ipairs(lines) do sequences[i] = tsv.ids(line.token_ids) end
  local rows, found = rarity { sequences = sequences, padded_counts = facts.padded_counts, max_seq = facts.max_seq }
  for _, key in ipairs { "denominator", "seqlen_coefficient" } do
    if facts[key] then report:row("rarity", key, { { key, tostring(facts[key]), found[key] } }) end
  end
  for i, line in ipairs(lines) do
    report:row("rarity", "sample " .. line.sample, {
      { "seqlen", line.seqlen, rows[i].seqlen }, { "rarity_nats", line.rarity_nats, rows[i].rarity_nats, 1e-12 },
      { "vocab_rarity", line.vocab_rarity, rows[i].vocab_rarity },
      { "seqlen_vocab_rarity", line.seqlen_vocab_rarity, rows[i].seqlen_vocab_rarity },
    })
  end
end

return golden

-- spans.lua - F1 of labelled spans in sequences of tags (B-PER I-PER O): a span counts if its type and both ends match.
--
-- Tags of the schemes IOB1, IOB2, IOE, IOBES, BILOU and BMES, by the rules of conlleval, seqeval's default: an I-X
-- after O or after another type starts a span.
--
-- Source: Tjong Kim Sang and De Meulder 2003, arXiv:cs/0306050.

local check = require("seqrun.base.check")

local spans = {}

---The letters of BILOU and BMES in those of IOBES.
local LETTERS = { L = "E", U = "S", M = "I" }

---Letter and type of a tag; a tag without such a letter is the type alone.
local function split(tag)
  local letter, kind = tag:match("^([BIESLUM])%-(.+)$")
  if letter then return LETTERS[letter] or letter, kind end
  if tag:find("^[BIESO]$") then return tag, "_" end
  return "I", tag
end

local ENDS = { BB = 1, BS = 1, BO = 1, IB = 1, IS = 1, IO = 1 }
local STARTS = { EE = 1, EI = 1, SE = 1, SI = 1, OE = 1, OI = 1 }

local function ends(before, kind_before, letter, kind)
  if before == "E" or before == "S" or ENDS[before .. letter] then return true end
  return before ~= "O" and kind_before ~= kind
end

local function starts(before, kind_before, letter, kind)
  if letter == "B" or letter == "S" or STARTS[before .. letter] then return true end
  return letter ~= "O" and kind_before ~= kind
end

---The spans of a sequence of tags.
---@param tags string[]
---@return { type: string, first: integer, last: integer }[] # positions from 1
function spans.of(tags)
  local list, before, kind_before, first = {}, "O", "", 1
  for i = 1, #tags + 1 do
    local letter, kind = split(tags[i] or "O")
    if ends(before, kind_before, letter, kind) then
      list[#list + 1] = { type = kind_before, first = first, last = i - 1 }
    end
    if starts(before, kind_before, letter, kind) then first = i end
    before, kind_before = letter, kind
  end
  return list
end

local function keys_of(tags, counts, field)
  local set = {}
  for _, span in ipairs(spans.of(tags)) do
    set[("%d %d %s"):format(span.first, span.last, span.type)] = span.type
    local count = counts[span.type] or { gold = 0, predicted = 0, hits = 0 }
    counts[span.type], count[field] = count, count[field] + 1
  end
  return set
end

local function rates(count)
  local precision = count.predicted > 0 and count.hits / count.predicted or 0.0
  local recall = count.gold > 0 and count.hits / count.gold or 0.0
  local f1 = precision + recall > 0 and 2 * precision * recall / (precision + recall) or 0.0
  return { precision = precision, recall = recall, f1 = f1, count = count.gold, predicted = count.predicted }
end

---Precision, recall and F1 over all spans of all sequences, and by type.
---@param gold string[][] tags of each sequence
---@param guess string[][]
---@return { precision: number, recall: number, f1: number, count: integer, predicted: integer,
---  types: table<string, table> }
function spans.score(gold, guess)
  check.value("scores.spans: labels", gold, "table")
  check.value("scores.spans: predictions", guess, "table")
  if #gold ~= #guess then check.fail("scores.spans: %d sequences, but %d predictions", #gold, #guess) end
  local counts, all = {}, { gold = 0, predicted = 0, hits = 0 }
  for i = 1, #gold do
    for _, tags in ipairs { gold[i], guess[i] } do
      check.list("scores.spans", check.value(("scores.spans: sequence %d"):format(i), tags, "table"), "string")
    end
    if #gold[i] ~= #guess[i] then
      check.fail("scores.spans: sequence %d has %d tags, but %d predictions", i, #gold[i], #guess[i])
    end
    local right, ours = keys_of(gold[i], counts, "gold"), keys_of(guess[i], counts, "predicted")
    for key, kind in pairs(ours) do
      if right[key] then counts[kind].hits = counts[kind].hits + 1 end
    end
  end
  local types = {}
  for kind, count in pairs(counts) do
    types[kind] = rates(count)
    for key in pairs(all) do all[key] = all[key] + count[key] end
  end
  local result = rates(all)
  result.types = types
  return result
end

return spans

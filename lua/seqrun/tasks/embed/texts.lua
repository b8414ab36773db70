-- texts.lua - what the loss knows of each text of a batch: its row of the file, its part in it, its score, and which
-- other texts are the same.
--
-- It travels as five integers in the column `about`: row, part (0 anchor, 1 positive, 2 ... negatives), two words that
-- identify the text, and the bits of the score.

local sys = require("seqrun.core.sys")

local texts = {}

---@class seqrun.EmbedText
---@field group integer its row of the file, from 0
---@field part integer 0: anchor, 1: positive, 2 ...: hard negatives
---@field same string equal for equal texts
---@field score? number of its row

texts.COLUMN, texts.SIZE = "about", 5
texts.ANCHOR, texts.POSITIVE, texts.NEGATIVE = 0, 1, 2

---Bits of a score that is not there: a NaN.
local NO_SCORE = 0x7fc00000

---The numbers of a text.
---@param group integer
---@param part integer
---@param ids string its tokens
---@param score? number
---@return integer[]
function texts.pack(group, part, ids, score)
  local digest = sys.hash(ids)
  local function word(first) return tonumber(digest:sub(first, first + 7), 16) & 0x7fffffff end
  local bits = score and string.unpack("<i4", string.pack("<f", score)) or NO_SCORE
  return { group, part, word(1), word(9), bits }
end

---@param row integer[]
---@return seqrun.EmbedText
function texts.unpack(row)
  local score = row[5] ~= NO_SCORE and string.unpack("<f", string.pack("<i4", row[5])) or nil
  return { group = row[1], part = row[2], same = row[3] .. "/" .. row[4], score = score }
end

---The places of texts in an order that no packing changes: by part, anchors first, then by row.
---@param list seqrun.EmbedText[]
---@return integer[] places from 1
function texts.order(list)
  local places = {}
  for i = 1, #list do places[i] = i end
  table.sort(places, function(i, j)
    local a, b = list[i], list[j]
    local first, second = math.min(a.part, texts.NEGATIVE), math.min(b.part, texts.NEGATIVE)
    if first ~= second then return first < second end
    if a.group ~= b.group then return a.group < b.group end
    return a.part < b.part
  end)
  return places
end

return texts

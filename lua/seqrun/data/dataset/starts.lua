-- starts.lua - the column word_starts of a data set that is written: a bit for each token, eight a byte.

local must = require("seqrun.base.failure").must

local Starts = {}
Starts.__index = Starts

---@param writer seqrun.core.data.writer
local function new(writer)
  return setmetatable({ writer = writer, column = writer:column("word_starts", "u8"), bits = 0, count = 0 }, Starts)
end

---Appends whether each token of a segment begins a word.
---@param starts boolean[]
function Starts:add(starts)
  local bytes = {}
  for _, start in ipairs(starts) do
    if start then self.bits = self.bits | 1 << self.count end
    self.count = self.count + 1
    if self.count == 8 then
      bytes[#bytes + 1] = string.char(self.bits)
      self.bits, self.count = 0, 0
    end
  end
  must(self.writer:append(self.column, table.concat(bytes)))
end

---Writes the bits that are left.
function Starts:finish()
  if self.count > 0 then must(self.writer:append(self.column, string.char(self.bits))) end
end

return new

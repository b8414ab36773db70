-- text_order.lua - whether two lists hold the same texts, and in the same order: by two digests of each.

local sys = require("seqrun.core.sys")

---@class seqrun.TextOrder
---@field texts integer the same for the same texts in any order
---@field order integer the same for the same texts in the same order
local TextOrder = {}
TextOrder.__index = TextOrder

---Adds the next text, without the white space around it, which formats keep or not.
---@param text string
function TextOrder:add(text)
  local plain = text:match("^%s*(.-)%s*$")
  self.texts, self.order = self.texts + sys.key(plain), sys.key(plain, self.order)
end

---The digests as text.
---@return { texts: string, order: string }
function TextOrder:digests() return { texts = ("%016x"):format(self.texts), order = ("%016x"):format(self.order) } end

---@return seqrun.TextOrder
return function() return setmetatable({ texts = 0, order = 0 }, TextOrder) end

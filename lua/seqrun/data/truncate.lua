-- truncate.lua - shortens a segment, or the longer of two, so that they fit into a sequence.

---Shortens a list to its first `size` elements.
local function shorten(list, size)
  for i = #list, size + 1, -1 do list[i] = nil end
end

---Tokens that two segments keep, as Hugging Face's tokenizers truncate "longest first".
local function shares(a, b, room)
  local short = math.min(a, b)
  local long = math.max(short, room - short)
  if short + long > room then short, long = room // 2, room - room // 2 end
  if a > b then return long, short end
  return short, long
end

---Truncates a segment, or the longer of two, so that they fit.
---@param a integer[]
---@param b? integer[]
---@param room integer tokens of both
---@return boolean cut
return function(a, b, room)
  if #a + (b and #b or 0) <= room then return false end
  local in_a, in_b = room, 0
  if b then in_a, in_b = shares(#a, #b, room) end
  shorten(a, in_a)
  shorten(b or {}, in_b)
  return true
end

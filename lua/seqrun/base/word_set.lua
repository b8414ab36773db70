-- word_set.lua - the words of a text, as a set.

---@param text string
---@return table<string, boolean>
return function(text)
  local set = {}
  for word in text:gmatch("%S+") do set[word] = true end
  return set
end

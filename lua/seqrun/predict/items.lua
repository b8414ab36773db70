-- items.lua - what a caller passes as items, a list or an iterator, as an iterator.

---@param items any[]|fun(): any
---@return fun(): any # nil at the end
return function(items)
  if type(items) ~= "table" then return items end
  local at = 0
  return function()
    at = at + 1
    return items[at]
  end
end

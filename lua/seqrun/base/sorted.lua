-- sorted.lua - the keys of a table, in order.

---@generic K
---@param map table<K, any>
---@return K[]
return function(map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

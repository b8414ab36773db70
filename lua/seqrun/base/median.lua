-- median.lua - the middle of some numbers; of an even count the lower of the two.

---@param values number[] stays as it is
---@return number
return function(values)
  local list = table.move(values, 1, #values, 1, {})
  table.sort(list)
  return list[(#list + 1) // 2]
end

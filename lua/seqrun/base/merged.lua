-- merged.lua - a new table with the entries of several, the later ones winning.

---@param ... table|false|nil
---@return table
return function(...)
  local whole = {}
  for i = 1, select("#", ...) do
    for key, value in pairs((select(i, ...)) or {}) do whole[key] = value end
  end
  return whole
end

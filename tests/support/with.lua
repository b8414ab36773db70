-- with.lua - options with others over them; both tables stay as they are.

---@param options table
---@param more? table
---@return table
return function(options, more)
  local all = {}
  for _, from in ipairs { options, more or {} } do
    for key, value in pairs(from) do all[key] = value end
  end
  return all
end

-- total.lua - the sum of the numbers of a table in the order of their names: the order of pairs(), which differs from
-- run to run, would change the last bits, and with them the rank of layouts that are equal.
local sorted = require("seqrun.base.sorted")

---@param parts table<string, number>
---@return number
return function(parts)
  local names, sum = sorted(parts), 0
  for _, name in ipairs(names) do sum = sum + parts[name] end
  return sum
end

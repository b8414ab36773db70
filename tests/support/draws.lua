-- draws.lua - pseudo-random numbers that are the same everywhere.

---A source of numbers from 0 to n - 1.
---@param seed integer
---@return fun(n: integer): integer
return function(seed)
  local state = seed
  return function(n)
    state = (state * 1103515245 + 12345) & 0x7fffffff
    return (state >> 16) % n
  end
end

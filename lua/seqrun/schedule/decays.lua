-- decays.lua - what is left of peak - floor after a part of a decay, from 0 to 1.

local decays = {}

---Shapes of a decay, in the order in which they are listed.
decays.NAMES = { "linear", "cosine", "1-sqrt", "constant" }

decays.SHAPES = {
  linear = function(part) return 1 - part end,
  cosine = function(part) return 0.5 * (math.cos(math.pi * part) + 1) end,
  ["1-sqrt"] = function(part) return 1 - math.sqrt(part) end,
  constant = function() return 1 end,
}

---Half of a cosine from 1 towards `bend`, which an inverse square root continues with the same slope where the cosine
---is half way down, at `length`.
---@param bend number above 0, below 1
---@param length number
---@return fun(x: number): number
function decays.cosine_inverse_sqrt(bend, length)
  local delta = length * (1 + bend - math.pi * (1 - bend)) / (math.pi * (1 - bend))
  local gamma = 0.5 * (1 + bend) * math.sqrt(length + delta)
  return function(x)
    if x < length then return bend + (1 - bend) * 0.5 * (1 + math.cos(math.pi * x / (2 * length))) end
    return gamma / math.sqrt(x + delta)
  end
end

return decays

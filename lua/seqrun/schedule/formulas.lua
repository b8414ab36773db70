-- formulas.lua - the value of each type of schedule at x, before it is clamped.
--
-- The order of operations is part of the meaning: in double precision (x / total)^(1/degree) times the range, plus the
-- minimum, rounded down, gives other values than a rearranged formula.

local formulas = {}

---Rounds down to a multiple of the quantum; the reference rounds to an integer first, whatever the quantum is.
local function rounded(v, quantum, faithful)
  if not quantum then return v end
  if faithful or quantum % 1 == 0 then
    v = math.floor(v)
    return v - v % quantum
  end
  return math.floor(v / quantum + 1e-9) * quantum
end

---From min at 0 along a root to max at `total`, and beyond; linear is degree 1.
function formulas.root(s, x)
  local v = (x / s.total) ^ (1 / s.degree) * (s.max - s.min) + s.min
  return math.min(rounded(v, s.quantum, s.faithful), s.max)
end

formulas.linear = formulas.root

---values[i] up to and including upto[i], then the last.
function formulas.discrete(s, x)
  for i, last in ipairs(s.upto) do
    if x <= last then return s.values[i] end
  end
  return s.values[#s.values]
end

function formulas.constant(s) return s.max end

return formulas

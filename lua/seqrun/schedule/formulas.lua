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

---The sum of the first n values min, min + quantum, ...
local function sum(s, n) return n * s.min + s.quantum * (n * (n - 1) // 2) end

---Each value from min to max holds for a part of `total` that is proportional to it: a size of a batch for as many
---updates as every other.
function formulas.proportional(s, x)
  local count = (s.max - s.min) // s.quantum + 1
  local low, high, all = 1, count, sum(s, count)
  while low < high do -- the first whose end is beyond x
    local middle = (low + high) // 2
    if x < math.ceil(s.total * sum(s, middle) / all) then high = middle else low = middle + 1 end
  end
  return s.min + (low - 1) * s.quantum
end

return formulas

-- correlation.lua - Pearson and Spearman correlation of two lists of numbers, as SciPy computes them.

local check = require("seqrun.base.check")

local correlation = {}

local function check_pair(what, x, y)
  check.list(what, check.value(what .. ": x", x, "table"), "number")
  check.list(what, check.value(what .. ": y", y, "table"), "number")
  if #x ~= #y then check.fail("%s: %d and %d numbers", what, #x, #y) end
  if #x < 2 then check.fail("%s: a correlation needs at least 2 items, got %d", what, #x) end
end

---Whether all are equal, or one is not a number.
local function is_undefined(x)
  local equal = true
  for i = 1, #x do
    if x[i] ~= x[i] then return true end
    equal = equal and x[i] == x[1]
  end
  return equal
end

---Deviations from the mean, divided by the largest so that their squares do not overflow.
local function deviations(x)
  local sum, most = 0, 0
  for i = 1, #x do sum = sum + x[i] end
  local mean, d = sum / #x, {}
  for i = 1, #x do
    d[i] = x[i] - mean
    most = math.max(most, math.abs(d[i]))
  end
  for i = 1, #d do d[i] = d[i] / most end
  return d
end

---Pearson correlation; nil where it is not defined: a list is constant, or has NaN or infinity.
---@param x number[]
---@param y number[]
---@return number|nil
function correlation.pearson(x, y)
  check_pair("scores.pearson", x, y)
  if is_undefined(x) or is_undefined(y) then return nil end
  local a, b = deviations(x), deviations(y)
  local ab, aa, bb = 0, 0, 0
  for i = 1, #a do ab, aa, bb = ab + a[i] * b[i], aa + a[i] * a[i], bb + b[i] * b[i] end
  local r = ab / (math.sqrt(aa) * math.sqrt(bb))
  return r == r and math.max(-1, math.min(1, r)) or nil
end

---Ranks from 1; equal values share the mean of their ranks.
---@param x number[]
---@return number[]
function correlation.ranks(x)
  local order, ranks = {}, {}
  for i = 1, #x do order[i] = i end
  table.sort(order, function(i, j) return x[i] < x[j] end)
  local first = 1
  while first <= #order do
    local last = first
    while last < #order and x[order[last + 1]] == x[order[first]] do last = last + 1 end
    for k = first, last do ranks[order[k]] = (first + last) / 2 end
    first = last + 1
  end
  return ranks
end

---Spearman rank correlation; nil if one of the lists is constant or has NaN.
---@param x number[]
---@param y number[]
---@return number|nil
function correlation.spearman(x, y)
  check_pair("scores.spearman", x, y)
  if is_undefined(x) or is_undefined(y) then return nil end
  return correlation.pearson(correlation.ranks(x), correlation.ranks(y))
end

return correlation

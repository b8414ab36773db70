-- decode.lua - logits as plain lists to probabilities, classes and answers.

local decode = {}

---@param logits number[]
---@return number[] # sums to 1
function decode.softmax(logits)
  local most, sum, p = -math.huge, 0, {}
  for i = 1, #logits do most = math.max(most, logits[i]) end
  for i = 1, #logits do
    p[i] = math.exp(logits[i] - most)
    sum = sum + p[i]
  end
  for i = 1, #p do p[i] = p[i] / sum end
  return p
end

---@param x number
---@return number
function decode.sigmoid(x) return 1 / (1 + math.exp(-x)) end

---The place of the largest value, the first of equal ones.
---@param values number[]
---@return integer
function decode.argmax(values)
  local best = 1
  for i = 2, #values do
    if values[i] > values[best] then best = i end
  end
  return best
end

---Six digits after the point, for output.
---@param x number
---@return number
function decode.round(x) return math.floor(x * 1e6 + 0.5) / 1e6 end

---The places of the n largest values among those allowed, largest first.
local function largest(values, n, allowed)
  local places = {}
  for i = 1, #values do
    if allowed(i) then places[#places + 1] = i end
  end
  table.sort(places, function(a, b)
    if values[a] ~= values[b] then return values[a] > values[b] end
    return a < b
  end)
  return table.move(places, 1, math.min(n, #places), 1, {})
end

---Candidates for the first and the last token of an answer.
local CANDIDATES = 20

---Gives all spans of the best candidates of a window to a function: first <= last, both allowed, at most `longest`
---tokens; positions from 1.
local function each_span(first, last, allowed, longest, take)
  local ends = largest(last, CANDIDATES, allowed)
  for _, i in ipairs(largest(first, CANDIDATES, allowed)) do
    for _, k in ipairs(ends) do
      if k >= i and k - i < longest then take(i, k, first[i] + last[k]) end
    end
  end
end

---The best span of a window.
---@param first number[] logits
---@param last number[]
---@param allowed fun(i: integer): boolean
---@param longest integer tokens of a span
---@return { first: integer, last: integer, score: number }|nil
function decode.span(first, last, allowed, longest)
  local best
  each_span(first, last, allowed, longest, function(i, k, score)
    if not best or score > best.score then best = { first = i, last = k, score = score } end
  end)
  return best
end

---All spans of the best candidates of a window, in no order.
---@return { first: integer, last: integer, score: number }[]
function decode.spans(first, last, allowed, longest)
  local list = {}
  each_span(first, last, allowed, longest, function(i, k, score)
    list[#list + 1] = { first = i, last = k, score = score }
  end)
  return list
end

---Names of the classes.
function decode.names(head)
  local names = head.labels or {}
  for i = #names + 1, head.outputs do names[i] = ("LABEL_%d"):format(i - 1) end
  return names
end

return decode

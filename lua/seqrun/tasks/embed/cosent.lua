-- cosent.lua - the CoSENT loss: pairs whose scores differ are to differ in cosine in the same order.
--
--     loss = log(1 + sum over i, j with score_i < score_j of exp(scale (cos_i - cos_j)))
--
-- The sum over all couples of pairs factors: sum_j exp(-scale cos_j) times the sum of exp(scale cos_i) over the pairs
-- of smaller scores.  So, sorted by score, it takes n log n and doubles on the host, in an order that the rows decide.

---Places of the scores in ascending order; of equal scores, in the order of the list.
local function ascending(scores)
  local order = {}
  for i = 1, #scores do order[i] = i end
  table.sort(order, function(i, j)
    if scores[i] ~= scores[j] then return scores[i] < scores[j] end
    return i < j
  end)
  return order
end

---Sums of `terms` over all places before the scores of each one's, in an order; those of equal scores excluded.
local function sums_before(order, scores, terms)
  local before, sum, waiting = {}, 0.0, 0.0
  for k, i in ipairs(order) do
    if k > 1 and scores[i] ~= scores[order[k - 1]] then sum, waiting = sum + waiting, 0.0 end
    before[i], waiting = sum, waiting + terms[i]
  end
  return before
end

local function reversed(list)
  local out = {}
  for i = #list, 1, -1 do out[#out + 1] = list[i] end
  return out
end

---@param cosines number[]
---@param scores number[]
---@param scale number at most 100: exp(2 scale) is a double
---@return number loss
---@return number[] gradient to the cosines
return function(cosines, scores, scale)
  local up, down = {}, {}
  for i, c in ipairs(cosines) do up[i], down[i] = math.exp(scale * c), math.exp(-scale * c) end
  local order = ascending(scores)
  local smaller, larger = sums_before(order, scores, up), sums_before(reversed(order), scores, down)
  local total = 1.0
  for _, i in ipairs(order) do total = total + down[i] * smaller[i] end
  local gradient = {}
  for i = 1, #cosines do gradient[i] = scale * (up[i] * larger[i] - down[i] * smaller[i]) / total end
  return math.log(total), gradient
end

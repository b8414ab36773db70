-- same.lua - candidates that are not negatives of a query, though they belong to another row: the same text as its
-- positive or as the query itself, and the positives of other rows with the same query.

local sorted = require("seqrun.base.sorted")
local tensor = require("seqrun.tensor")

local same = {}

local INT = { dtype = "i32" }

---Places by text.
local function by_text(list)
  local places = {}
  for i, text in ipairs(list) do
    places[text.same] = places[text.same] or {}
    table.insert(places[text.same], i)
  end
  return places
end

---The candidates that are left out for each query, by its number; nil where there are none.
---@param queries seqrun.EmbedText[]
---@param candidates seqrun.EmbedText[] candidate i is the right one of query i
---@return table<integer, integer[]>
function same.find(queries, candidates)
  local texts, asked, found = by_text(candidates), by_text(queries), {}
  for i, query in ipairs(queries) do
    local out = {}
    local function leave_out(list)
      for _, place in ipairs(list or {}) do
        if place ~= i and not out[place] then out[place] = true end
      end
    end
    leave_out(texts[candidates[i].same])
    leave_out(texts[query.same])
    leave_out(asked[query.same])
    if next(out) then
      local list = sorted(out)
      found[i] = list
    end
  end
  return found
end

---Below any similarity: exp() of it is zero.
local OUTSIDE = -1e30

---Similarities of queries first..last with these candidates left out.
---@param similarities seqrun.Tensor (last - first + 1, C)
---@param found table<integer, integer[]>
---@param first integer
---@param last integer
---@return seqrun.Tensor
function same.leave_out(similarities, found, first, last)
  local width, cells = similarities:size(2), {}
  for i = first, last do
    for _, place in ipairs(found[i] or {}) do cells[#cells + 1] = (i - first) * width + place - 1 end
  end
  if #cells == 0 then return similarities end
  local flat = similarities:reshape(-1, 1)
  local values = tensor.full({ #cells, 1 }, OUTSIDE, { dtype = flat:dtype() })
  return require("seqrun.tensor.ops").put_rows(flat, tensor.tensor(cells, INT), values):reshape(-1, width)
end

return same

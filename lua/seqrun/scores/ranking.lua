-- ranking.lua - how well queries find the texts that answer them: nDCG, MRR, recall, as trec_eval computes them.
--
-- Only the ranks of the right texts are needed, and a rank is the number of texts with a larger similarity: nothing is
-- sorted, and similarities are computed by blocks.  Of equal similarities, the text that comes first in the corpus has
-- the better rank.

local ops = require("seqrun.tensor.ops")
local sorted = require("seqrun.base.sorted")
local tensor = require("seqrun.tensor")

local ranking = {}

local INT = { dtype = "i32" }
local BLOCK = 1 << 21 -- similarities in memory at once
local OUTSIDE = -1e30

---@class seqrun.RankingTask
---@field queries seqrun.Tensor (Q, D) unit vectors
---@field documents seqrun.Tensor (N, D)
---@field wanted table<integer, number>[] of each query: grades above 0 by number of the document, from 1
---@field lost? table<integer, number[]> of each query: grades of texts that the corpus lacks, which are never found
---@field own table<integer, integer> documents that are the query itself, which do not count

---The ranks of some documents, each for a query.
local function ranks_of(t, list, first, last)
  local scope <close> = tensor.scope()
  local count, width = last - first + 1, t.documents:size(1)
  local rows, places, cells, own = {}, {}, {}, {}
  for i = first, last do
    local query, document = list[i][1], list[i][2]
    local k = i - first
    rows[k + 1], places[k + 1], cells[k + 1] = query - 1, document - 1, k * width + document - 1
    if t.own[query] then own[#own + 1] = k * width + t.own[query] - 1 end
  end
  local all = ops.gather_rows(t.queries, tensor.tensor(rows, INT)):matmul(t.documents:t()):reshape(-1, 1)
  if #own > 0 then
    all = ops.put_rows(all, tensor.tensor(own, INT), tensor.full({ #own, 1 }, OUTSIDE, { dtype = all:dtype() }))
  end
  local right = ops.gather_rows(all, tensor.tensor(cells, INT)):reshape(count, 1)
  local table_ = all:reshape(count, width)
  local earlier = tensor.arange(0, width - 1, 1, INT):reshape(1, -1):lt(tensor.tensor(places, INT):reshape(-1, 1))
  local before = table_:gt(right):logical_or(table_:eq(right):logical_and(earlier))
  return before:to("f32"):sum(2):totable()
end

---The ranks of the wanted documents, from 1, by query: lists of { rank, grade }.
local function all_ranks(t)
  local list, found = {}, {}
  for query, wanted in ipairs(t.wanted) do
    found[query] = {}
    for _, document in ipairs(sorted(wanted)) do list[#list + 1] = { query, document } end
  end
  local rows = math.max(1, BLOCK // t.documents:size(1))
  for first = 1, #list, rows do
    local last = math.min(first + rows - 1, #list)
    for i, before in ipairs(ranks_of(t, list, first, last)) do
      local query, document = table.unpack(list[first + i - 1])
      table.insert(found[query], { rank = math.tointeger(before) + 1, grade = t.wanted[query][document] })
    end
  end
  for query, grades in pairs(t.lost or {}) do
    for _, grade in ipairs(grades) do table.insert(found[query], { rank = math.huge, grade = grade }) end
  end
  return found
end

local function discount(rank) return math.log(rank + 1, 2) end

---The discounted gain of the first ten over that of the best order.
local function ndcg(ranks, most)
  local gain, grades, best = 0, {}, 0
  for i, one in ipairs(ranks) do
    if one.rank <= most then gain = gain + one.grade / discount(one.rank) end
    grades[i] = one.grade
  end
  table.sort(grades, function(a, b) return a > b end)
  for i = 1, math.min(most, #grades) do best = best + grades[i] / discount(i) end
  return gain / best
end

local function best_rank(ranks)
  local best = math.huge
  for _, one in ipairs(ranks) do best = math.min(best, one.rank) end
  return best
end

local function recall(ranks, most)
  local count = 0
  for _, one in ipairs(ranks) do count = count + (one.rank <= most and 1 or 0) end
  return count / #ranks
end

---What answers what in a set in BEIR's form.  As trec_eval has it, a text that is judged but not in the corpus is one
---that is not found.
---@param documents string[] names
---@param queries string[]
---@param qrels table<string, table<string, number>>
---@return table<integer, number>[] wanted
---@return table<integer, integer> own
---@return table<integer, number[]> lost
---@return string? problem
function ranking.judged(documents, queries, qrels)
  local place, wanted, own, lost, any = {}, {}, {}, {}, false
  for i, name in ipairs(documents) do
    if place[name] then return wanted, own, lost, ("the corpus has two texts with the _id '%s'"):format(name) end
    place[name] = i
  end
  for i, name in ipairs(queries) do
    wanted[i], own[i], lost[i] = {}, place[name], {}
    for document, grade in pairs(qrels[name] or {}) do
      any = true
      if not place[document] then
        table.insert(lost[i], grade)
      elseif place[document] ~= own[i] then
        wanted[i][place[document]] = grade
      end
    end
  end
  local problem = not any and "none of the queries is judged" or nil
  return wanted, own, lost, problem
end

---Metrics of queries that have an answer: the mean over them.
---@param t seqrun.RankingTask
---@return table<string, number> # ndcg_at_10, mrr_at_10, recall_at_1, recall_at_10, recall_at_100
function ranking.score(t)
  local sums, count = { ndcg_at_10 = 0, mrr_at_10 = 0, recall_at_1 = 0, recall_at_10 = 0, recall_at_100 = 0 }, 0
  for _, ranks in ipairs(all_ranks(t)) do
    if #ranks > 0 then
      count = count + 1
      local first = best_rank(ranks)
      sums.ndcg_at_10 = sums.ndcg_at_10 + ndcg(ranks, 10)
      sums.mrr_at_10 = sums.mrr_at_10 + (first <= 10 and 1 / first or 0)
      for _, most in ipairs { 1, 10, 100 } do
        sums["recall_at_" .. most] = sums["recall_at_" .. most] + recall(ranks, most)
      end
    end
  end
  for name, sum in pairs(sums) do sums[name] = count > 0 and sum / count or nil end
  return sums
end

return ranking

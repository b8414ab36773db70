-- scores.lua - how good vectors are: correlation with the scores of pairs, or how well queries find their texts.

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local ranking = require("seqrun.scores.ranking")
local ranking_files = require("seqrun.tasks.embed.ranking_files")
local tensor = require("seqrun.tensor")
local texts = require("seqrun.tasks.embed.texts")
local objective = require("seqrun.tasks.embed.objective")
local items_of = require("seqrun.data.items")

local scores = {
  shown = { "spearman", "pearson", "ndcg_at_10", "mrr_at_10", "recall_at_1", "recall_at_10", "recall_at_100" },
}

function scores.take(found, head, hidden, target, batch)
  local vectors = objective.unit(head:vectors(hidden, target):to("f32"))
  local bytes, width = vectors:contiguous():tostring_bytes(), 4 * vectors:size(2)
  local uids = items_of.uids(target, batch)
  for i, text in ipairs(head:texts(target)) do
    text.uid, text.vector = uids[i], bytes:sub((i - 1) * width + 1, i * width)
    text.wrong = false -- a text alone is not a mistake
    found[#found + 1] = text
  end
end

---The vectors of items as one tensor.
local function matrix(items)
  local parts = {}
  for i, item in ipairs(items) do parts[i] = item.vector end
  return tensor.from_string(table.concat(parts), { #items, #items[1].vector // 4 }, "f32")
end

---Items by part, in the order of their rows.
local function by_part(found)
  local parts = {}
  table.sort(found, function(a, b) return a.uid < b.uid end)
  for _, item in ipairs(found) do
    local part = math.min(item.part, texts.NEGATIVE)
    parts[part] = parts[part] or {}
    table.insert(parts[part], item)
  end
  return parts
end

---Correlations of the cosines of pairs with their scores.
local function similarity(parts)
  local metrics = require("seqrun.scores")
  local anchors, others = parts[texts.ANCHOR], parts[texts.POSITIVE]
  local cosines, gold = (matrix(anchors) * matrix(others)):sum(2):totable(), {}
  for i, item in ipairs(anchors) do gold[i] = item.score end
  if #gold < 2 then return {} end
  return { spearman = metrics.spearman(gold, cosines), pearson = metrics.pearson(gold, cosines) }
end

---The texts of a column, by uid.
local function names_of(loader, items)
  local names = {}
  for i, item in ipairs(items) do names[i] = failure.must(loader.data:column("name", item.uid + 1)) end
  return names
end

---Queries and judgements of a set in BEIR's form.
local function judged(parts, loader, qrels)
  local queries, documents = parts[texts.ANCHOR] or {}, parts[texts.POSITIVE] or {}
  local wanted, own, lost, problem = ranking.judged(names_of(loader, documents), names_of(loader, queries), qrels)
  if problem then failure.raise("data", "%s: %s", tostring(loader.data:info().path), problem) end
  return { queries = matrix(queries), documents = matrix(documents), wanted = wanted, own = own, lost = lost }
end

---Queries and judgements of pairs: each anchor is to find the positives of its text among all texts.
local function of_pairs(parts)
  local documents, place, answers = {}, {}, {}
  for part = texts.POSITIVE, texts.NEGATIVE do
    for _, item in ipairs(parts[part] or {}) do
      if not place[item.same] then
        documents[#documents + 1] = item
        place[item.same] = #documents
      end
    end
  end
  local queries, wanted, number = {}, {}, {}
  for _, item in ipairs(parts[texts.POSITIVE] or {}) do answers[item.group] = place[item.same] end
  for _, item in ipairs(parts[texts.ANCHOR]) do
    if not number[item.same] then
      queries[#queries + 1] = item
      number[item.same], wanted[#queries] = #queries, {}
    end
    if answers[item.group] then wanted[number[item.same]][answers[item.group]] = 1 end
  end
  return { queries = matrix(queries), documents = matrix(documents), wanted = wanted, own = {} }
end

---The judgements that the data set was made with.
local function qrels_of(loader)
  local files = json.decode(loader.data:meta().files or "[]")
  local sets = ranking_files.of(files)
  return sets and ranking_files.qrels(sets.qrels)
end

function scores.score(found, _, loader)
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  local parts, qrels = by_part(found), qrels_of(loader)
  if qrels then return ranking.score(judged(parts, loader, qrels)), {} end
  if not parts[texts.ANCHOR] or not parts[texts.POSITIVE] then return {}, {} end
  if found[1].score then return similarity(parts), {} end
  return ranking.score(of_pairs(parts)), {}
end

return scores

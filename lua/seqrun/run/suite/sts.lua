-- sts.lua - how well an encoder's cosines follow the scores of pairs of texts, and how well it finds texts.
--
-- Pairs are rows of CSV, TSV or JSON lines with the columns sentence1, sentence2 and score, or a file as STS, the STS
-- benchmark, GLUE and SICK publish it.  A directory in BEIR's form is for retrieval.

local encoding = require("seqrun.predict.encoding")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local metrics = require("seqrun.scores")
local ranking = require("seqrun.scores.ranking")
local ranking_files = require("seqrun.tasks.embed.ranking_files")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.core.text")

local sts = {}

-- ---- pairs -----------------------------------------------------------------------------------------

---@class seqrun.ScoredPairs
---@field first string[]
---@field second string[]
---@field scores number[]

---Names of the columns: sentences and score.
local NAMES = {
  { "sentence1", "sentence2", "score" }, { "sentence1", "sentence2", "label" },
  { "sentence1", "sentence2", "similarity_score" }, { "sentence_A", "sentence_B", "relatedness_score" },
}

---Numbers of the columns by how many a line without header has: the STS benchmark's files, and GLUE's.
local NUMBERS = { [7] = { 6, 7, 5 }, [8] = { 6, 7, 5 }, [9] = { 6, 7, 5 }, [10] = { 8, 9, 10 }, [3] = { 1, 2, 3 } }

---The places of the columns; whether the line names them.  Three columns may have any names.
local function places_of(cells, count, columns)
  local at = {}
  for i = 1, count do at[cells[i]] = i end
  for _, names in ipairs(columns and { columns } or NAMES) do
    if at[names[1]] and at[names[2]] and at[names[3]] then return { at[names[1]], at[names[2]], at[names[3]] }, true end
  end
  if not columns then return NUMBERS[count], count == 3 and not tonumber(cells[3]) end
end

local function add(found, first, second, score, place)
  local value = tonumber(score)
  if type(first) ~= "string" or type(second) ~= "string" or not value then
    failure.raise("data", "%s: expected two sentences and a score", place)
  end
  local n = #found.scores + 1
  found.first[n], found.second[n], found.scores[n] = first, second, value + 0.0
end

---The rows of a file as cells: of tabs, also where its name ends in .csv, or of CSV.
local function rows_of(path)
  local plain = path:gsub("%.gz$", "")
  local format = plain:find("%.csv$") and "quoted" or "literal"
  if format == "quoted" then
    local lines <close> = failure.must(text.rows(path, { format = "lines" }))
    local cells = {}
    if (lines:next(cells) or 0) > 0 and cells[1]:find("\t", 1, true) then format = "literal" end
  end
  return failure.must(text.rows(path, { format = format, delimiter = format == "quoted" and "," or "\t" }))
end

---The next row: how many cells and its line; nil at the end of the file.
local function next_of(rows, cells)
  local count, line, code = rows:next(cells)
  if not count and line then failure.raise(code, "%s", line) end
  return count, line
end

local function read_table(found, path, columns)
  local rows <close>, cells, places = rows_of(path), {}, nil
  while true do
    local count, line = next_of(rows, cells)
    if not count then return end
    if count > 0 and not places then
      local named
      places, named = places_of(cells, count, columns)
      if not places then
        local wanted = columns and table.concat(columns, ", ")
          or "sentence1, sentence2 and score (name others with columns.text, columns.pair, columns.label)"
        failure.raise("data", "%s: no columns %s, nor a published form: %s", path, wanted,
          table.concat(cells, ", ", 1, count):sub(1, 100))
      end
      if named then count = 0 end
    end
    if count > 0 then
      add(found, cells[places[1]], cells[places[2]], cells[places[3]], ("%s:%d"):format(path, line))
    end
  end
end

local function read_objects(found, path, columns)
  local rows <close>, cells = failure.must(text.rows(path, { format = "lines", limit = 16 << 20 })), {}
  while true do
    local count, line = next_of(rows, cells)
    if not count then return end
    local object = count > 0 and json.decode(cells[1])
    if count > 0 then
      object = type(object) == "table" and object or {}
      local names = columns or { "sentence1", "sentence2", object.score and "score" or "label" }
      add(found, object[names[1]], object[names[2]], object[names[3]], ("%s:%d"):format(path, line))
    end
  end
end

---Pairs whose scores are in a file beside it: STS.input.NAME.txt and STS.gs.NAME.txt; pairs without score are left out.
local function read_semeval(found, path)
  local gold = path:gsub("STS%.input%.", "STS.gs.")
  local scores <close>, score = failure.must(text.rows(gold, { format = "lines" })), {}
  local rows <close>, cells = failure.must(text.rows(path, { format = "literal", delimiter = "\t" })), {}
  while next_of(scores, score) do
    local count, line = next_of(rows, cells)
    if not count or count < 2 then failure.raise("data", "%s: fewer pairs than %s has scores", path, gold) end
    if tonumber(score[1]) then add(found, cells[1], cells[2], score[1], ("%s:%d"):format(path, line)) end
  end
  local more, line
  repeat more, line = next_of(rows, cells) until more ~= 0
  if more then failure.raise("data", "%s:%d: more pairs than %s has scores", path, line, gold) end
end

---The pairs of a file.
---@param path string
---@param columns? string[] names of the columns: two texts and the score
---@return seqrun.ScoredPairs
function sts.read(path, columns)
  local found = { first = {}, second = {}, scores = {} }
  local name = path:match("([^/]*)$")
  if name:find("^STS%.input%.") then
    read_semeval(found, path)
  elseif name:gsub("%.gz$", ""):find("%.jsonl$") then
    read_objects(found, path, columns)
  else
    read_table(found, path, columns)
  end
  if #found.scores < 2 then failure.raise("data", "%s: too few pairs with scores", path) end
  return found
end

-- ---- scores ----------------------------------------------------------------------------------------

---The vectors of texts, of length 1.
local function vectors_of(encoder, texts, role)
  local options, parts, at = setmetatable({ bytes = true }, { __index = encoder:as(role) }), {}, 0
  for item in encoding.each(function()
    at = at + 1
    return texts[at] and { text = texts[at] }
  end, options) do
    parts[#parts + 1] = item.vector
  end
  local x = tensor.from_string(table.concat(parts), { #parts, encoder.size }, "f32")
  return x / x:square():sum(2, true):sqrt():maximum(1e-12)
end

local function of_pairs(encoder, path, columns)
  local pairs_ = sts.read(path, columns)
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  local cosines = (vectors_of(encoder, pairs_.first) * vectors_of(encoder, pairs_.second)):sum(2):totable()
  return {
    spearman = metrics.spearman(pairs_.scores, cosines), pearson = metrics.pearson(pairs_.scores, cosines),
  }, #cosines
end

---The texts of a set for retrieval, and which answer which.
local function read_set(path)
  local sets = ranking_files.of(ranking_files.expand { path })
  local records <close> = ranking_files.open({ columns = {} }, sets)
  local documents, queries = { names = {}, texts = {} }, { names = {}, texts = {} }
  while true do
    local record, message, code = records:next()
    if not record then
      if message then failure.raise(code, "%s", message) end
      break
    end
    if record.wrong then failure.raise("data", "%s:%d: %s", record.file, record.line, record.why) end
    local list = record.file == sets.corpus and documents or queries
    list.names[#list.names + 1], list.texts[#list.texts + 1] = record.name, record.text
  end
  return documents, queries, ranking_files.qrels(sets.qrels)
end

local function of_set(encoder, path)
  local documents, queries, judged = read_set(path)
  local wanted, own, lost, problem = ranking.judged(documents.names, queries.names, judged)
  if problem then failure.raise("data", "%s: %s", path, problem) end
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  local found = ranking.score {
    queries = vectors_of(encoder, queries.texts, "query"), wanted = wanted, own = own, lost = lost,
    documents = vectors_of(encoder, documents.texts, "document"),
  }
  return found, #queries.names
end

---@class seqrun.StsScore
---@field path string
---@field kind "pairs"|"retrieval"
---@field count integer pairs, or queries
---@field metrics table<string, number>
---@field reason? string why there are none

---Scores an encoder on a file of pairs, or a directory in BEIR's form.
---@param encoder seqrun.TextEncoder
---@param path string
---@param columns? string[] names of the columns of a file, as for sts.read
---@return seqrun.StsScore
function sts.score(encoder, path, columns)
  local retrieval = sys.is_dir(path)
  local found, count, code = failure.returned(retrieval and of_set or of_pairs, encoder, path, columns)
  if code == "stopped" then failure.raise(code, "%s", count) end
  return {
    path = path, kind = retrieval and "retrieval" or "pairs", metrics = found or {}, count = found and count or 0,
    reason = not found and count or nil,
  }
end

---The metric of a kind of data that is averaged.
sts.HEADLINE = { pairs = "spearman", retrieval = "ndcg_at_10" }

---The mean over the scores of a kind; nil unless all have one.
---@param scores seqrun.StsScore[]
---@param kind "pairs"|"retrieval"
---@return number|nil mean
---@return integer count of those that have a score
function sts.mean(scores, kind)
  local sum, count, all = 0, 0, 0
  for _, score in ipairs(scores) do
    if score.kind == kind then
      local value = score.metrics[sts.HEADLINE[kind]]
      all = all + 1
      if value then sum, count = sum + value, count + 1 end
    end
  end
  return count > 0 and sum / count or nil, count, all
end

return sts

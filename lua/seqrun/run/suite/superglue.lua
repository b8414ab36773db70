-- superglue.lua - the tasks of SuperGLUE: their files as published, and plain files of those that are nested.
--
--   COPA      a choice between two sentences, after the premise and its question
--   WiC       the word and the first sentence, and the second sentence
--   WSC       the text with its pronoun between asterisks, and its candidate
--   MultiRC   the passage, and a question with an answer that is right or not
--   ReCoRD    the passage, and the query with an entity in its gap that is right or not
--
-- Source: Wang et al. 2019, arXiv:1905.00537; super.gluebenchmark.com/tasks.

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local measure = require("seqrun.run.suite.measure")
local sys = require("seqrun.core.sys")

---The rows of a nested object, as { text =, pair =, label =, ... }.
local rows_of = {}

function rows_of.COPA(object, add)
  local asked = object.question == "cause" and "What was the cause?" or "What happened as a result?"
  add { text = object.premise .. " " .. asked, choices = json.array { object.choice1, object.choice2 },
    label = tostring(object.label) }
end

function rows_of.WiC(object, add)
  add { text = object.word .. ": " .. object.sentence1, pair = object.sentence2, label = tostring(object.label) }
end

---The text with asterisks around a span that begins in word number `index`, from 0.
local function marked(text, index, span)
  local at = text:find("%S")
  for _ = 1, index do
    local gap = at and text:find("%s", at)
    at = gap and text:find("%S", gap)
  end
  local from, to = text:find(span, at or #text, true)
  if not from then return nil end
  return text:sub(1, from - 1) .. "*" .. span .. "*" .. text:sub(to + 1)
end

function rows_of.WSC(object, add, place)
  local target = object.target
  local text = marked(object.text, target.span2_index, target.span2_text)
  if not text then failure.raise("data", "%s: the text does not have '%s' there", place, target.span2_text) end
  add { text = text, pair = target.span1_text, label = tostring(object.label) }
end

function rows_of.MultiRC(object, add, place)
  local passage = object.passage
  for i, question in ipairs(passage.questions) do
    for _, answer in ipairs(question.answers) do
      add { text = passage.text, pair = question.question .. " " .. answer.text, label = tostring(answer.label),
        group = ("%s/%d"):format(place, i) }
    end
  end
end

---The entities of a passage, each once, in their order.
local function entities_of(passage)
  local list, seen = {}, {}
  for _, place in ipairs(passage.entities) do -- characters from 0, the last one included
    local first = utf8.offset(passage.text, place.start + 1)
    local after = utf8.offset(passage.text, place["end"] + 2)
    local name = first and passage.text:sub(first, (after or #passage.text + 1) - 1)
    if name and not seen[name] then seen[name], list[#list + 1] = true, name end
  end
  return list
end

function rows_of.ReCoRD(object, add, place)
  local entities = entities_of(object.passage)
  for i, query in ipairs(object.qas) do
    local right, list = {}, json.array {}
    for _, answer in ipairs(query.answers) do right[answer.text], list[#list + 1] = true, answer.text end
    for _, entity in ipairs(entities) do
      add { text = object.passage.text, pair = (query.query:gsub("@placeholder", (entity:gsub("%%", "%%%%")))),
        label = right[entity] and "1" or "0", group = ("%s/%d"):format(place, i), entity = entity, answers = list }
    end
  end
end

---Writes the rows of a nested file; they are there whole or not at all.
local function flatten(make, from, to)
  if sys.exists(to) then return end
  local out = failure.must(io.open(to .. ".part", "wb"))
  local number = 0
  local lines <close> = failure.must(require("seqrun.core.text").rows(from, { format = "lines", limit = 16 << 20 }))
  local cells = {}
  local count, line, code = lines:next(cells)
  while count do
    number = number + 1
    local place = ("%s:%d"):format(from, number)
    local object, why = json.decode(count > 0 and cells[1] or "{}")
    if type(object) ~= "table" then failure.raise("data", "%s: not a JSON object: %s", place, tostring(why)) end
    local ok, problem = pcall(make, object, function(row) failure.must(out:write(json.encode(row), "\n")) end, place)
    if not ok then
      if failure.of(problem) then error(problem, 0) end
      failure.raise("data", "%s: not an object of this task: a field is missing or has another type", place)
    end
    count, line, code = lines:next(cells)
  end
  failure.must(out:close())
  if line then failure.raise(code, "%s", line) end
  failure.must(os.rename(to .. ".part", to))
end

---Plain files of a nested task, named by what they are made from.
---@param name string
local function prepare(name)
  return function(paths, out)
    failure.must(sys.make_dirs(out))
    local plain = { folder = paths.folder }
    for _, part in ipairs { "train", "dev" } do
      local digest = failure.must(sys.hash_file(paths[part]))
      plain[part] = ("%s/%s-%s.jsonl"):format(out, part, digest:sub(1, 12))
      flatten(rows_of[name], paths[part], plain[part])
    end
    return plain
  end
end

local function columns(text, pair) return { ["columns.text"] = text, ["columns.pair"] = pair } end

local TASKS = {
  { name = "BoolQ", task = "pair", metrics = { "accuracy" }, fields = columns("question", "passage"), tokens = 256 },
  { name = "CB", task = "pair", metrics = { "f1_macro", "accuracy" }, fields = columns("premise", "hypothesis") },
  { name = "COPA", task = "choice", metrics = { "accuracy" } },
  {
    name = "MultiRC", task = "pair", metrics = { "f1", "exact_match" }, fields = columns("text", "pair"), tokens = 512,
    measured = function(paths) return measure.groups(paths.dev, measure.whole_groups) end,
  },
  {
    name = "ReCoRD", task = "pair", metrics = { "answer_f1", "exact_match" }, fields = columns("text", "pair"),
    tokens = 512, measured = function(paths) return measure.groups(paths.dev, measure.best_of_groups) end,
  },
  { name = "RTE", task = "pair", metrics = { "accuracy" }, fields = columns("premise", "hypothesis"), tokens = 256 },
  { name = "WiC", task = "pair", metrics = { "accuracy" }, fields = columns("text", "pair") },
  { name = "WSC", task = "pair", metrics = { "accuracy" }, fields = columns("text", "pair") },
}

for _, task in ipairs(TASKS) do
  task.suite, task.folders = "SuperGLUE", { task.name }
  task.train, task.dev = { "train.jsonl" }, { "val.jsonl", "dev.jsonl", "validation.jsonl" }
  task.prepare, task.usual = rows_of[task.name] and prepare(task.name), task.fields or {}
  if task.tokens then task.usual["data.max_len"] = tostring(task.tokens) end
end

return TASKS

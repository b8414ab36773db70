-- choice.lua - multiple choice: softmax over the scores of a question's choices, each a sequence of its own.
--
-- The choices of a question may lie in different packs, but in one micro-batch (data/loader/groups.lua);
-- batch.sequences counts questions.  Two targets: `answer` has one item per question, the [CLS] of its right choice;
-- `group` has the [CLS] of every choice, and the question's number as its label.

local counted = require("seqrun.base.format").counted
local decode = require("seqrun.scores.decode")
local failure = require("seqrun.base.failure")
local origin = require("seqrun.data.items")
local json = require("seqrun.core.json")
local labels = require("seqrun.data.readers.labels")
local one_line = require("seqrun.base.one_line")
local ops = require("seqrun.tensor.ops")
local together = require("seqrun.tasks.shared.together")

-- ---- head -----------------------------------------------------------------------------------------

local Head = {
  name = "answer", place = "choice", outputs = 1, architecture = "MultipleChoice",
}

---The target with all choices.
local GROUP = "group"

---Below any score; exp() of it is zero.
local OUTSIDE = -1e30

---A score for each choice in the batch, in the order of the target `group`.
---@param hidden seqrun.States
---@param batch seqrun.Batch
---@return seqrun.Tensor # (N)
function Head:logits(hidden, _, batch)
  local group = batch.targets[GROUP]
  if not group then
    error(("head '%s': the batch has no target '%s'; add it to the targets of the loader"):format(self.name,
      GROUP), 0)
  end
  return self:project(hidden, group):reshape(-1)
end

---Cross entropy over the choices of each question.
function Head:loss(hidden, target, batch)
  local scores, group = self:logits(hidden, target, batch), batch.targets[GROUP]
  if target.count == 0 then return { total = scores:sum() * 0, count = 0 } end
  local right, all = target.rows:reshape(-1, 1), group.rows:reshape(1, -1) -- (Q, 1), (1, N)
  local place = right:eq(all):to(target.weights:dtype()):argmax(2) -- of the right choice among all
  local questions = ops.gather_rows(group.labels, place):reshape(-1, 1)
  local inside = questions:eq(group.labels:reshape(1, -1))
  local rows = require("seqrun.core.ops").where(inside, scores:reshape(1, -1), OUTSIDE)
  local total, items, correct = ops.cross_entropy(rows, place, target.weights)
  return { total = total, items = items, correct = correct }
end

-- ---- reading --------------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

local COLUMNS = {
  label = { type = "i32" }, answer = { type = "i32" }, group = { type = "i32" }, choice = { type = "i32" },
}

---@param job seqrun.readers.Job
local function reader(job)
  return setmetatable({ job = job, map = job.labels, columns = COLUMNS, groups = 0, labelled = "label" }, Reader)
end

---Readers of a question; files with a column for each choice have equally many.
local function count_of(record) return type(record.choices) == "table" and #record.choices or 0 end

function Reader:survey(record)
  self.counted = self.counted or labels.survey()
  local name = labels.clean(record.label)
  if name then self.counted:add(name, record) end
  self.counted.rows = self.counted.rows + 1
  self.most = math.max(self.most or 0, count_of(record))
end

---"0", "1", ... if labels are positions from 0, of which some may not be right in any question.
local function positions(names, count)
  local first = false
  for _, name in ipairs(names) do
    local x = name:find("^%d+$") and math.tointeger(tonumber(name))
    if not x or x >= count then return nil end
    first = first or x == 0
  end
  local all = {}
  for i = 1, first and count or 0 do all[i] = tostring(i - 1) end
  return first and labels.map(all) or nil
end

---The map of labels: positions, or every choice is right at least once, or they are named by `labels`.
function Reader:surveyed()
  local names = self.counted and self.counted.names or {}
  if #names == 0 then return nil, "no row has a label; set columns.label" end
  local message
  self.map = positions(names, self.most) or #names == 1 and labels.map(names)
  if not self.map then self.map, message = self.counted:map(self.job.options.columns.header) end
  if self.map and #self.map.names ~= self.most then
    return nil, ("%s (%s) for %d choices; set data.labels to those of all choices, in order"):format(
      counted(#names, "different label"), labels.list(names), self.most)
  end
  return self.map and true, message
end

local function right_of(self, record)
  if not labels.clean(record.label) and self.job.unlabelled then return -100 end
  local id, kind, why = labels.id_of(self.map, record.label)
  if not id or id < #record.choices then return id, kind, why end
  return nil, "unknown", ("the label is '%s', but there are %d choices"):format(one_line(record.label), #record.choices)
end

---The texts of a choice: A is the text, and the start of the choice if there is one; B the choice.
local function texts(record, choice)
  local stem = record.pair
  return { text = record.text, pair = stem and stem ~= "" and stem .. " " .. choice or choice }
end

function Reader:make(record)
  local count, most = count_of(record), self.map and #self.map.names or math.huge
  if count < 2 or count > most then
    return nil, "ragged", ("%d choices instead of 2%s; set columns.choices"):format(count,
      most < math.huge and most > 2 and (" to %d"):format(most) or "")
  end
  local right, kind, why = right_of(self, record)
  if not right then return nil, kind, why end
  local list = {}
  for i, choice in ipairs(record.choices) do
    local one = texts(record, choice)
    one.line, one.file, one.file_index, one.id = record.line, record.file, record.file_index, record.id
    list[i], kind, why = self.job:example(one)
    if not list[i] then return nil, kind, why end
    if right ~= i - 1 and choice == record.choices[right + 1] then
      return nil, "contradiction", ("choices %d and %d are the same text, and only one of them is right"):format(
        math.min(right, i - 1), math.max(right, i - 1))
    end
    list[i].label, list[i].group, list[i].choice = right, self.groups, i - 1
    list[i].answer = right == i - 1 and 1 or -100
  end
  self.groups = self.groups + 1
  return list
end

---What it means that one label is that of all questions.
function Reader:advice()
  local names = self.counted and self.counted.names or {}
  return #names == 1 and { ("warning: the right choice is '%s' in all %s; if it is another, see columns.label"):format(
    one_line(names[1]), counted(self.counted.rows, "question")) } or {}
end

-- ---- scores ---------------------------------------------------------------------------------------

---The share of questions whose right choice has the largest score.
local scores = { shown = { "accuracy" } }

---The questions of a batch by number: rows of their choices, and scores.
local function questions_of(head, hidden, target, batch)
  local group, questions = batch.targets.group, {}
  local values, numbers = origin.logits(head, hidden, target, batch), group.labels:totable()
  for i, row in ipairs(group.rows:totable()) do
    local question = questions[numbers[i]] or { rows = {}, scores = {} }
    questions[numbers[i]] = question
    table.insert(question.rows, row)
    table.insert(question.scores, values[i])
  end
  return questions
end

function scores.take(found, head, hidden, target, batch)
  if target.count == 0 then return end
  local uids, right = origin.uids(target, batch), {}
  for i, row in ipairs(target.rows:totable()) do right[row] = uids[i] end
  for _, question in pairs(questions_of(head, hidden, target, batch)) do
    local p = decode.softmax(question.scores)
    local guess, gold = decode.argmax(p), nil
    for i, row in ipairs(question.rows) do gold = right[row] and i or gold end
    if gold then
      found[#found + 1] = {
        uid = right[question.rows[gold]], gold = gold - 1, guess = guess - 1, p = p[guess], p_gold = p[gold],
        wrong = guess ~= gold,
      }
    end
  end
end

function scores.score(found)
  local hits = 0
  for _, item in ipairs(found) do hits = hits + (item.wrong and 0 or 1) end
  return { accuracy = hits / #found }, {}
end

-- ---- prediction -----------------------------------------------------------------------------------

---{"choice": 1, "probability": 0.7, "probabilities": [0.3, 0.7]}; choices count from 0, as labels do
local prediction = {
  input = { keys = { "text", "choices" }, lists = { choices = true } }, reads = "sequences", rows = true, fields = true,
  submission = "labels",
}

---One score for each sequence.
function prediction.outputs(values) return values end

function prediction.result(item)
  local values = {}
  for i, sequence in ipairs(item.sequences) do values[i] = sequence.output end
  local p = decode.softmax(values)
  local best = decode.argmax(p)
  for i = 1, #p do p[i] = decode.round(p[i]) end
  return { choice = best - 1, probability = p[best], probabilities = json.array(p) }
end

-- ---- training -------------------------------------------------------------------------------------

local TOGETHER = "the choices of a question belong in one micro-batch, but a curriculum draws single sequences"

local task = {
  doc = "the right one of several choices for each question; batch.sequences counts questions",
  example = "data.train=train.jsonl columns.text=question columns.choices=endings",
  head = Head, scores = scores, prediction = prediction, whole = true, target = "answer",
  refuses = { length = TOGETHER, metrics = TOGETHER },
  reader = {
    new = reader, columns = { text = "text", label = "label", choices = "choices" }, fields = { label = "text" },
    pairs = true,
  },
  settings = {
    columns = { text = "text", label = { "label" }, choices = { "choices" } }, batch = { sequences = 16 },
    data = { held = 0 },
  },
}

function task:targets() return { "answer", "group" } end

function task:loader(cfg, data, part)
  if cfg.batch.by == "packs" then
    failure.raise("config", "batch.by=packs would separate the choices of a question; leave it out")
  end
  return together.loader(self, cfg, data, part, { says = "has %d choices", size = 4 })
end

return task

-- reader.lua - files of pairs, triplets, scored pairs and single texts: each text is an example of its own.

local counted = require("seqrun.base.format").counted
local labels = require("seqrun.data.readers.labels")
local one_line = require("seqrun.base.one_line")
local ranking_files = require("seqrun.tasks.embed.ranking_files")
local records = require("seqrun.data.readers.records")
local roles = require("seqrun.tasks.embed.roles")
local texts = require("seqrun.tasks.embed.texts")

local Reader = {}
Reader.__index = Reader

---@param job seqrun.readers.Job
local function new(job)
  job.wants_pair = false -- the texts of a row are examples, not segments
  return setmetatable({
    job = job, groups = 0, counts = {}, values = {},
    columns = {
      [texts.COLUMN] = { type = "i32", size = texts.SIZE }, group = { type = "i32" }, name = { type = "bytes" },
    },
  }, Reader)
end

---The records of files, or of the three files of a set for retrieval.
local function open(options)
  local sets = ranking_files.of(options.files)
  if sets then return ranking_files.open(options, sets) end
  if not roles.given(options.columns) then
    local usual = roles.usual(options.files[1], options)
    for _, path in ipairs(options.files) do roles.check(path, options, usual) end
    for role, column in pairs(usual) do options.columns[role] = column end
  end
  return records.open(options)
end

---The score of a record; nil if it has none.
local function score_of(self, record)
  if not self.job.options.columns.label then return nil end
  local given = type(record.label) == "table" and record.label[1] or record.label
  local x, hint = labels.number(given, record)
  if x then return x end
  return nil, ("the score is '%s', not a number%s; see columns.label"):format(one_line(labels.clean(given) or ""), hint)
end

---Adds negatives, each a text or of JSONL a list of them; empty ones are left out.
local function add_negatives(list, more)
  for _, text in ipairs(type(more) == "table" and more or { more }) do
    if type(text) == "table" and #text > 0 then
      add_negatives(list, text)
    elseif type(text) ~= "string" or text:find("%S") then
      list[#list + 1] = text
    end
  end
end

---The texts of a record in the order of their parts.
local function texts_of(self, record)
  local list = { record.text }
  if self.job.options.columns.pair or record.pair then list[2] = record.pair or "" end
  add_negatives(list, record.choices)
  return list
end

local PARTS = { "the anchor", "the positive" }

---The text with its prompt, where there is one: those of a search have a role.
local function prompted(self, record, text, part)
  local prompts, columns = self.job.options.prompts, self.job.options.columns
  if not prompts or type(text) ~= "string" then return text end
  local role = columns.pair and not columns.label or record.part
  return (prompts[not role and "default" or part == texts.ANCHOR and "query" or "document"] or "") .. text
end

---An example of one text.
local function example_of(self, record, text, part, score)
  text = prompted(self, record, text, part)
  local example, kind, why = self.job:example {
    text = text, line = record.line, file_index = record.file_index, id = record.id,
  }
  if not example then return nil, kind, why:gsub("the text", PARTS[part + 1] or "a negative") end
  if self.job.predicting then return example end
  example[texts.COLUMN] = texts.pack(self.groups, part, example.a, score)
  example.group, example.name = self.groups, record.name or ""
  return example
end

---Counts for the notes.
local function count(self, list, score)
  local counts = self.counts
  counts.rows = (counts.rows or 0) + 1
  counts.texts = math.max(counts.texts or 0, #list)
  counts.negatives = (counts.negatives or 0) + math.max(0, #list - 2)
  for part, example in ipairs(list) do
    local varied = self.values[part] or { first = example.a, equal = 0 }
    self.values[part] = varied
    if example.a == varied.first then varied.equal = varied.equal + 1 end
  end
  if not score then return end
  self.low, self.high = math.min(self.low or score, score), math.max(self.high or score, score)
end

function Reader:make(record)
  local score, why = score_of(self, record)
  if why then return nil, "number", why end
  local list, seen = {}, {}
  for i, text in ipairs(texts_of(self, record)) do
    local example, kind, problem = example_of(self, record, text, record.part or i - 1, score)
    if not example then return nil, kind, problem end
    if i > 2 and example.a == list[2].a then
      return nil, "contradiction", "a negative is the positive itself; see columns.choices"
    end
    if i <= 2 or not seen[example.a] then list[#list + 1] = example end
    if i > 2 then seen[example.a] = true end
  end
  count(self, list, score)
  self.groups = self.groups + 1
  return list
end

local NAMES = { "anchor", "positive" }

---Warnings about texts and scores that are all the same.
function Reader:advice()
  local notes = {}
  if (self.counts.rows or 0) < 2 then return notes end
  for part = 1, 2 do
    local varied = self.values[part]
    if varied and varied.equal == self.counts.rows then
      notes[#notes + 1] = ("warning: the %s is the same text in all %d rows, so there is nothing to learn from it; "
        .. "see columns.%s"):format(NAMES[part], self.counts.rows, part == 1 and "text" or "pair")
    end
  end
  if self.low and self.low == self.high then
    notes[#notes + 1] = ("warning: all %d rows have the score %g, so there is nothing to learn; see columns.label")
      :format(self.counts.rows, self.low)
  end
  return notes
end

function Reader:notes()
  local counts = self.counts
  if not counts.rows then return {} end
  if self.low then
    return { ("%s, scores %g to %g"):format(counted(counts.rows, "scored pair"), self.low, self.high) }
  end
  local negatives = counts.negatives > 0 and " with " .. counted(counts.negatives, "hard negative") or ""
  return { counted(counts.rows, counts.texts == 1 and "text" or "pair") .. negatives }
end

return { new = new, open = open, columns = {}, fields = { label = "text", choices = "filled" } }

-- readers - labelled files to data sets: classes, numbers, choices, words with tags, questions with answers.
--
--     local report = sr.must(sr.data.read {
--       task = "classify", files = "reviews.csv", out = "reviews.sqr", vocab = "vocab.txt",
--       columns = { text = "review", label = "stars" },
--     })
--
-- Files are streamed: memory does not depend on their size, but for the ids of rows, which must differ.  They are
-- read twice where the labels have no numbers yet.  Either the whole data set appears or none.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local frames = require("seqrun.text.frames")
local json = require("seqrun.core.json")
local kinds = require("seqrun.base.kinds")
local jobs = require("seqrun.data.readers.job")
local live = require("seqrun.draw.live")
local problems = require("seqrun.data.readers.problems")
local records = require("seqrun.data.readers.records")
local same_file = require("seqrun.base.same_file")
local shown = require("seqrun.base.one_line")
local sys = require("seqrun.core.sys")
local stored = require("seqrun.text.stored")

local must = failure.must

---@class seqrun.ReadOptions
---@field task string name of a task, or "none": rows without labels
---@field files string|string[]
---@field out string the .sqr file
---@field vocab string|seqrun.core.text.vocab|seqrun.core.text.tokenizer a directory, a tokenizer.json, a vocab.txt, or
---  what was read from one
---@field lowercase? boolean of a vocabulary, true
---@field keep_accents? boolean of a vocabulary
---@field format? "auto"|"csv"|"tsv"|"jsonl"|"conll"|"squad" auto: by the name of the file
---@field delimiter? string one byte
---@field quotes? "auto"|"yes"|"no" whether quotes enclose cells; auto: in CSV
---@field limit? integer bytes of a row
---@field columns? table { text =, pair =, label =, id =, choices =, header = }: names, or numbers from 1
---@field separator? string between several labels in one cell, ","
---@field labels? string[] the classes in the order of their ids; nil: those of the files, sorted
---@field unlabelled? boolean rows need no label
---@field bad? "error"|"skip" what to do with rows that cannot be used
---@field keep_text? boolean keep the texts in the data set, true
---@field max_len? integer tokens of a window, squad: 384
---@field stride? integer tokens between the starts of two windows, squad: 128
---@field too_long? "windows" sentences of tokens longer than max_len are read in windows; else they are one example
---@field query? integer tokens of a question, squad: 64
---@field windows? string|boolean classify, multilabel: texts longer than max_len become several examples
---@field progress? fun(line: string)
---@field specials? boolean vocab parses special tokens in texts, which makes other examples
---@field prompts? { default?: string, query?: string, document?: string } embed: put before texts

---@class seqrun.ReadReport
---@field path string
---@field examples integer
---@field rows integer that were used: questions, sentences
---@field labels? string[]
---@field counts table<string, integer> rows that were left out, by kind
---@field notes string[]

local OPTIONS = {
  task = true, files = true, out = true, vocab = true, lowercase = true, keep_accents = true, format = true,
  delimiter = true, quotes = true, limit = true, columns = true, separator = true, labels = true, unlabelled = true,
  bad = true, keep_text = true, max_len = true, stride = true, query = true, progress = true, specials = true,
  prompts = true, windows = true, too_long = true,
}
local COLUMNS = { text = true, pair = true, label = true, id = true, choices = true, header = true }

---Rows between two looks at the clock.
local ROWS = 1000

local readers = {}

---How the files of a task are read.
---
---  new(job)      makes examples of records: make(record), and survey(record), surveyed(), shape(), notes()
---  open(options) the records; default: rows of tables
---  columns       those that are read unless others are named; { text = "text", label = "label" }
---  formats       what an ambiguous ending means: { json = "squad" }; known: the formats that a message names
---  pairs         every example has two segments, whatever the columns
---  documents     texts that are too long may be cut in windows, which are examples (data.windows)
---  cuts          sentences that are too long may be cut in windows
---  windows       examples are windows of at most max_len tokens; questions: rows are named by the id of a question
---@param task string
---@return table|nil
---@return string? problem
function readers.of(task)
  if task == "none" then return require("seqrun.data.readers.plain") end
  local kind, problem = kinds.find(task)
  return kind and kind.reader, problem
end

-- ---- options ---------------------------------------------------------------------------------

local USUAL = { separator = ",", bad = "error", max_len = 384, stride = 128, query = 64 }

---The columns by name: "text" and "label" by default.
local function columns_of(options)
  local columns = {}
  for key, value in pairs(options.columns or {}) do
    columns[key] = type(value) == "table" and #value == 1 and value[1] or value
  end
  local usual = options.reader.columns or { text = "text", label = "label" }
  for key, value in pairs(usual) do columns[key] = columns[key] or value end
  if options.task == "none" then columns.label = nil end
  return columns
end

---Refuses windows of a kind that a task does not have.
---@param given { task: string, windows?: string|boolean, too_long?: string }
---@param reader table of the task
function readers.check_windows(given, reader)
  if given.windows and not reader.documents then
    failure.raise("config", "data.windows is for texts with labels (task=classify, multilabel), not for task=%s; leave "
      .. "it out", given.task)
  end
  if given.too_long == "windows" and not reader.cuts then
    failure.raise("config", "data.too_long=windows is for sentences whose words have tags (task=tokens), not for "
      .. "task=%s; choose truncate or error", given.task)
  end
end

---The options with their defaults.
local function complete(given)
  check.options("data.read", given, OPTIONS)
  check.options("data.read: columns", given.columns, COLUMNS)
  local reader, problem = readers.of(given.task)
  if not reader then check.fail("data.read: %s", problem) end
  readers.check_windows(given, reader)
  check.choice("data.read: bad", given.bad or "error", { "error", "skip" })
  for _, key in ipairs { "max_len", "stride", "query" } do
    if given[key] ~= nil then check.integer("data.read: " .. key, given[key], 1, 65535) end
  end
  if not given.files or not given.out or not given.vocab then
    check.fail("data.read: give files, out and vocab")
  end
  local options = {}
  for key, value in pairs(USUAL) do options[key] = value end
  for key, value in pairs(given) do options[key] = value end
  options.reader = reader
  if type(given.files) ~= "table" then options.files = { given.files } end
  if #options.files == 0 then failure.raise("config", "data: no files are given") end
  options.columns = columns_of(options)
  options.optional = { label = options.unlabelled, id = false }
  return options
end

---Bytes of a list in the metadata of a data set.
local META = 64 << 10

---Refuses a list that does not fit into the metadata.
local function check_size(what, list)
  if not list or #json.encode(list) <= META then return end
  failure.raise("data", "data.read: the %d %s have more than %d bytes, too many to keep with the data set", #list, what,
    META)
end

-- ---- sources and makers ------------------------------------------------------------------------

---Opens the files as records.
local function source_of(options) return must((options.reader.open or records.open)(options)) end

---Reads all files once to number the labels.
local function survey(options, maker)
  local source <close>, found = source_of(options), problems.new("error")
  while true do
    local record, message, code = source:next()
    if message then failure.raise(code, "%s", message) end
    if not record then break end
    if record.wrong then
      found:add(record.wrong, ("%s:%d"):format(record.file, record.line), "%s", record.why)
    else
      maker:survey(record)
    end
  end
  local done, message = maker:surveyed()
  if done then return end
  local verdict = options.bad == "error" and found:verdict(0) -- the first row that cannot be read may be the reason
  local placed = message:find("^[^%s]+:%d+: ") and message
  failure.raise("data", "%s", verdict or placed or ("%s: %s"):format(options.files[1], message))
end

-- ---- the stream of examples --------------------------------------------------------------------

---@class seqrun.readers.Stream
local Stream = {}
Stream.__index = Stream

local function add_problem(self, record, kind, why)
  local name = record.id or ("number %d"):format(record.line)
  local place = self.options.reader.questions and ("%s: question %s"):format(record.file, shown(name))
    or ("%s:%d"):format(record.file, record.line)
  self.problems:add(kind, place, "%s", why)
end

---Whether an id is new; reports it if not.
local function check_id(self, record)
  local id = record.id
  if id == nil then return true end
  local before = self.seen[id]
  if before then
    add_problem(self, record, "duplicate", ("id '%s' was used in line %d"):format(shown(id), before))
    return false
  end
  self.seen[id] = record.line
  return true
end

---What a wrong name of a column makes a copy of the text.
local COPIED = { "label", "pair" }

---Counts rows whose label or second text is the text itself.
local function count_copies(self, record)
  for _, role in ipairs(COPIED) do
    if record.text and record[role] == record.text then self.copies[role] = (self.copies[role] or 0) + 1 end
  end
end

---Counts rows that repeat the text of an earlier one, and those of them with another label.
local function count_repeats(self, record)
  if type(record.text) ~= "string" or self.options.reader.windows then return end
  local key = sys.key(record.text)
  if record.pair then key = sys.key(record.pair, key) end
  local repeats = self.repeats
  local line = repeats.lines[key]
  if not line then
    repeats.lines[key], repeats.labels[key] = record.line, record.label
    return
  end
  repeats.count = repeats.count + 1
  local label = repeats.labels[key]
  if type(record.label) ~= "string" or label == record.label then return end
  repeats.other = repeats.other + 1
  repeats.first = repeats.first or ("%s:%d ('%s', '%s' in line %d)"):format(record.file, record.line,
    shown(record.label), shown(label or ""), line)
end

---A warning about equal texts with different labels.
local function repeats_notes(self)
  local other = self.repeats.other
  if other == 0 then return {} end
  return { ("warning: %d of %d rows have the text of an earlier row with another label, the first is %s"):format(other,
    self.rows, self.repeats.first) }
end

---Warnings about rows whose label or second text is the text itself, if most are.
local function copies_notes(self)
  local notes = {}
  for _, role in ipairs(COPIED) do
    local count = self.copies[role] or 0
    if count > 1 and count > self.rows / 2 then
      notes[#notes + 1] = ("warning: in %d of %d rows the %s is the text itself; check columns.%s"):format(
        count, self.rows, role == "pair" and "second text" or "label", role)
    end
  end
  return notes
end

---The examples of a record; nil if it cannot be used.
local function examples_of(self, record)
  if record.wrong then
    add_problem(self, record, record.wrong, record.why)
    return nil
  end
  local made, kind, why = self.maker:make(record)
  if not made then
    add_problem(self, record, kind, why)
    return nil
  end
  if not check_id(self, record) then return nil end
  count_copies(self, record)
  if made.a or self.options.windows then count_repeats(self, record) end
  self.rows = self.rows + 1
  return made.a and { made } or made
end

---Progress, and the wish to stop.
local function look_around(self)
  if sys.caught() then failure.raise("stopped", "data: stopped on request; no data set was written") end
  self.working:at(self.rows, self.source.files[#self.source.files])
end

---The next example; nil at the end.
function Stream:next()
  while not self.queue[self.at] do
    local record, message, code = self.source:next()
    if message then failure.raise(code, "%s", message) end
    if not record then
      self.working:finish()
      message = self.problems:verdict(self.rows) or self.rows == 0 and ("%s: no rows"):format(self.source.files[1])
      if message then failure.raise("data", "%s", message) end
      return nil
    end
    self.read = self.read + 1
    if self.read % ROWS == 0 then look_around(self) end
    self.queue, self.at = examples_of(self, record) or {}, 1
  end
  self.at = self.at + 1
  return self.queue[self.at - 1]
end

local function stream_of(options, source, maker)
  return setmetatable({
    options = options, source = source, maker = maker, problems = problems.new(options.bad), queue = {}, at = 1,
    seen = {}, copies = {}, repeats = { count = 0, other = 0, lines = {}, labels = {} }, rows = 0, read = 0,
    working = live.work("reading", { unit = "rows", print = options.progress, quiet = not options.progress }),
  }, Stream)
end

-- ---- the data set ----------------------------------------------------------------------------

local function columns_to_write(job, maker)
  local columns = job:columns()
  for name, column in pairs(maker.columns) do columns[name] = column end
  return columns
end

---What there is to say about the rows, and apart from it what they mean for training.
local function notes_of(stream, maker)
  local notes = stream.problems:notes()
  for _, more in ipairs { copies_notes(stream), repeats_notes(stream), maker.notes and maker:notes() or {} } do
    table.move(more, 1, #more, #notes + 1, notes)
  end
  return notes, maker.advice and maker:advice() or {}
end

---The metadata, complete only after the last example.
local function meta_of(options, stream, maker)
  return function()
    local notes, advice = notes_of(stream, maker)
    local meta = {
      task = options.task, files = json.encode(json.array(stream.source.files)),
      notes = json.encode(json.array(notes)), advice = json.encode(json.array(advice)),
    }
    if stream.repeats.count > 0 then meta.repeats = tostring(stream.repeats.count) end
    if maker.counted then meta.classes = maker.counted:text() end
    if maker.map then meta["labels." .. maker.labelled] = json.encode(json.array(maker.map.names)) end
    return meta
  end
end

local function write(options, job, maker)
  local source <close> = source_of(options)
  local stream = stream_of(options, source, maker)
  local count = must(require("seqrun.data.dataset.write") {
    out = options.out, vocab = job.tokenizer, columns = columns_to_write(job, maker),
    examples = function() return stream:next() end, meta = meta_of(options, stream, maker),
    source = table.concat(options.files, " "):sub(1, 4096),
  })
  local notes, advice = notes_of(stream, maker)
  return {
    path = options.out, examples = count, rows = stream.rows, labels = maker.map and maker.map.names,
    counts = stream.problems.counts, notes = table.move(advice, 1, #advice, #notes + 1, notes),
  }
end

local function read(given)
  local options = complete(given)
  local own, problem = same_file(options.out, options.files, "out")
  if not own then failure.raise("config", "data.read: %s", problem) end
  local tokenizer = stored.literal(options)
  if options.reader.windows and frames.of(tokenizer):room(options.max_len, true) <= options.query then
    failure.raise("config", "data.read: windows of %d tokens (data.max_len) have no room for questions of %d "
      .. "(data.query); raise data.max_len or lower data.query", options.max_len, options.query)
  end
  local job = jobs.new(options, tokenizer)
  local maker = options.reader.new(job)
  if maker.survey and not maker.map then survey(options, maker) end
  check_size("labels", maker.map and maker.map.names)
  check_size("names of files", options.files)
  if maker.shape then maker:shape() end
  return write(options, job, maker)
end

---Makes a data set from labelled files.  The report says how many examples it has, which labels, and what was left out.
---@param given seqrun.ReadOptions
---@return seqrun.ReadReport? report
---@return string? message
---@return string? code
function readers.read(given) return failure.returned(read, given) end

---What makes the examples of a record as the reader of a task does, without its labels.  Ids are lists.
---@param reader table of a task
---@param t { tokenizer: seqrun.core.text.tokenizer, max_len?: integer, stride?: integer, query?: integer,
---  prompts?: table, windows?: string, too_long?: string }
---@return fun(record: table): table? made, string? kind, string? why
function readers.builder(reader, t)
  local options = {
    reader = reader, columns = {}, keep_text = false, unlabelled = true, predicting = true, prompts = t.prompts,
    windows = t.windows, too_long = t.too_long,
  }
  for key, value in pairs(USUAL) do options[key] = t[key] or value end
  local maker = reader.new(jobs.new(options, t.tokenizer))
  return function(record) return maker:make(record) end
end

return readers

-- reader.lua - SQuAD 1.1 and 2.0 JSON to windows of a context.
--
-- A window is a pair, [CLS] question [SEP] part of the context [SEP].  Windows start `stride` tokens after each other
-- until one reaches the end of the context.  A token that is in several windows is the `best` token of the one in
-- which it has most context on both sides.
--
-- Source: Devlin et al. 2018, arXiv:1810.04805, and the program published with it (windows, best context).

local counted = require("seqrun.base.format").counted
local fields = require("seqrun.data.readers.fields")
local json = require("seqrun.core.json")
local frames = require("seqrun.text.frames")
local one_line = require("seqrun.base.one_line")
local sys = require("seqrun.core.sys")
local windows = require("seqrun.data.readers.windows")
local words = require("seqrun.core.text")

-- ---- the file, an article at a time ------------------------------------------------------------

---Bytes of a file, which is kept in memory; SQuAD has 42 MB.
local LIMIT = 256 << 20

local Articles = {}
Articles.__index = Articles

local function bad_file(path, format, ...)
  return nil, ("%s: %s; SQuAD files are {\"data\": [{\"paragraphs\": [...]}]}"):format(path, format:format(...)), "data"
end

---The place of the first article: after the bracket of "data", at the top level.
local function find_data(path, bytes)
  local at = bytes:match("^%s*{%s*()", bytes:sub(1, 3) == "\xEF\xBB\xBF" and 4 or 1)
  if not at then return bad_file(path, "not a JSON object") end
  while true do
    local key, after = json.decode_at(bytes, at)
    local value = key and bytes:match("^%s*:%s*()", after)
    if type(key) ~= "string" or not value then return bad_file(path, "no \"data\" in it") end
    if key == "data" then
      local first = bytes:match("^%[%s*()", value)
      if first then return first end
      return bad_file(path, "\"data\" is not a list")
    end
    local _, message
    _, after, message = json.decode_at(bytes, value)
    if message then return bad_file(path, "byte %d: %s", value, after) end
    at = bytes:match("^%s*,%s*()", after)
    if not at then return bad_file(path, "no \"data\" in it") end
  end
end

---Lines that are joined at once: a table of all would be larger than the text.
local LINES = 4096

---The text of a compressed file.
local function unpacked(path)
  local rows, message, code = words.rows(path, { format = "lines", limit = LIMIT })
  if not rows then return nil, message, code end
  local guard <close> = rows
  local parts, lines, cells, size = {}, {}, {}, 0
  local count
  repeat
    count, message, code = rows:next(cells)
    lines[#lines + 1] = count and (count > 0 and cells[1] or "")
    if #lines == LINES or not count then
      parts[#parts + 1] = table.concat(lines, "\n")
      lines, size = {}, size + #parts[#parts] + 1
    end
    if size > LIMIT then
      return nil, ("%s: has more than %d MiB when it is unpacked"):format(path, LIMIT >> 20), "data"
    end
  until not count
  if message then return nil, message, code end
  return table.concat(parts, "\n")
end

local function contents(path)
  local bytes, message, code = sys.read_file(path, LIMIT)
  if bytes and bytes:find("^\x1F\x8B") then return unpacked(path) end
  return bytes, message, code
end

---Opens the next file.
local function open_next(self)
  local path = self.waiting[#self.files + 1]
  if not path then return nil end
  local bytes, message, code = contents(path)
  if not bytes then return nil, code == "data" and message .. "; split it into several files" or message, code end
  self.files[#self.files + 1] = path
  self.bytes, self.path = bytes, path
  self.at, message, code = find_data(path, bytes)
  return self.at and true, message, code
end

---The next article; nil at the end of the file.
local function next_article(self)
  local bytes, at = self.bytes, self.at
  if bytes:find("^%s*%]", at) then return nil end
  local article, after, code = json.decode_at(bytes, at)
  if type(article) ~= "table" or code then
    return bad_file(self.path, "article at byte %d: %s", at, type(after) == "string" and after or "not an object")
  end
  self.at = bytes:match("^%s*,%s*()", after) or bytes:match("^%s*()%]", after)
  if not self.at then return bad_file(self.path, "the file ends in the article at byte %d", at) end
  return article
end

---The answers of a question as { text =, answer_start = } each, also where the file has a list of each field; nil if it
---does not say.
local function answers_in(question)
  local answers = question.answers
  if question.is_impossible == true then
    local has = type(answers) == "table" and #(answers.text or answers) > 0
    return {}, has and "the question is_impossible, but it has answers" or nil
  end
  if answers == nil then return nil end
  if type(answers) ~= "table" then return nil, "\"answers\" is not a list" end
  local starts = answers.answer_start
  if starts == nil then return answers end
  if type(answers.text) ~= "table" or type(starts) ~= "table" or #answers.text ~= #starts then
    return nil, "\"answers\" needs as many items of answer_start as of text"
  end
  local list = {}
  for i, text in ipairs(answers.text) do list[i] = { text = text, answer_start = starts[i] } end
  return list
end

---A question as a record.
local function record_of(self, question, paragraph)
  self.line = self.line + 1
  local record = { line = self.line, file = self.path, file_index = #self.files }
  if type(question) ~= "table" then
    record.id, record.wrong, record.why = ("number %d"):format(self.line), "type", "it is not an object"
    return record
  end
  record.text, record.context = fields.text(question.question), fields.text(paragraph.context)
  record.id, record.answers, record.unusable = fields.text(question.id), answers_in(question)
  return record
end

---Appends the questions of an article to the queue.
local function queue(self, article)
  if type(article.paragraphs) ~= "table" then return bad_file(self.path, "an article has no \"paragraphs\"") end
  for i, paragraph in ipairs(article.paragraphs) do
    local questions = type(paragraph) == "table" and paragraph.qas
    if type(questions) ~= "table" then
      return bad_file(self.path, "paragraph %d behind question %d has no list \"qas\"", i, self.line)
    end
    for _, question in ipairs(questions) do self.queue[#self.queue + 1] = record_of(self, question, paragraph) end
  end
  return true
end

---The next question; nil at the end.
---@return table? record
---@return string? message
---@return string? code
function Articles:next()
  while self.first > #self.queue do
    local article, message, code
    self.queue, self.first = {}, 1
    if self.bytes then article, message, code = next_article(self) end
    if message then return nil, message, code end
    local done
    if article then
      done, message, code = queue(self, article)
    else
      self.bytes, self.line = nil, 0
      done, message, code = open_next(self)
    end
    if not done then return nil, message, code end
  end
  self.first = self.first + 1
  return self.queue[self.first - 1]
end

function Articles:close() self.bytes = nil end

Articles.__close = Articles.close

---@param options table files
local function open(options)
  local files = type(options.files) == "table" and options.files or { options.files }
  return setmetatable({ waiting = files, files = {}, queue = {}, first = 1, line = 0 }, Articles)
end

-- ---- answers ---------------------------------------------------------------------------------

---First and last byte of an answer in its context, from 0, last excluded; or nil and why.
local function bytes_of(context, answer)
  local start = type(answer) == "table" and math.tointeger(answer.answer_start)
  local wanted = type(answer) == "table" and answer.text
  if not start or type(wanted) ~= "string" or wanted == "" then return nil, "an answer needs text and answer_start" end
  local from = start >= 0 and start <= #context and utf8.offset(context, start + 1)
  if from and context:sub(from, from + #wanted - 1) == wanted then return from - 1, from - 1 + #wanted end
  local found = context:find(wanted, 1, true)
  local where = found and (", but at %d"):format(utf8.len(context, 1, found) - 1) or ", which does not contain it"
  return nil, ("the answer '%s' is not at character %d of its context%s"):format(one_line(wanted), start, where)
end

---The tokens that an answer covers, from 0, both included; nil if it covers none.
local function tokens_of(places, from, to)
  local first, last
  for k = 1, #places // 2 do
    if places[2 * k - 1] < to and places[2 * k] > from then
      first = first or k - 1
      last = k - 1
    end
  end
  return first, last
end

-- ---- examples --------------------------------------------------------------------------------

local COLUMNS = {
  span = { type = "i32", size = 2 }, source = { type = "i32" }, offset = { type = "i32" },
  chars = { type = "i32", per = "token", size = 2 }, best = { type = "i32", per = "token" },
  answers = { type = "bytes" }, id = { type = "bytes" },
}

local Squad = {}
Squad.__index = Squad

---@param job seqrun.readers.Job
local function new(job)
  local columns = {}
  for name, column in pairs(COLUMNS) do columns[name] = column end
  if job.keep_text then columns.text, columns.pair = { type = "bytes" }, { type = "bytes" } end
  return setmetatable({
    job = job, columns = columns, questions = 0, windows = 0, unanswerable = 0,
  }, Squad)
end

---The tokens of a context, which many questions share.
local function context_of(self, context)
  if self.context ~= context then
    local ids, places = self.job.tokenizer:places(context)
    self.context, self.ids, self.places = context, ids, places
  end
  return self.ids, self.places
end

---The accepted answers: their texts, and the first one's tokens.
local function answers_of(record, places)
  local texts, first, last = json.array {}, nil, nil
  for i, answer in ipairs(record.answers or {}) do
    local from, to = bytes_of(record.context, answer)
    if not from then return nil, "mismatch", to end
    if i == 1 then
      first, last = tokens_of(places, from, to)
      if not first then return nil, "mismatch", ("the answer '%s' has no tokens"):format(one_line(answer.text)) end
    end
    texts[i] = answer.text
  end
  return texts, first, last
end

---One window as an example.
local function window_of(question, context, w, first, last)
  local from, to = context.windows[w][1], context.windows[w][2]
  local a, b, chars, best, n = question, {}, {}, {}, #question
  for k = 1, n do chars[2 * k - 1], chars[2 * k], best[k] = -1, -1, 0 end
  for k = from, to - 1 do
    local i = k - from + 1
    b[i] = context.ids[k + 1]
    chars[2 * (n + i) - 1], chars[2 * (n + i)] = context.places[2 * k + 1], context.places[2 * k + 2]
    best[n + i] = context.best[k + 1] == w and 1 or 0
  end
  local inside = first and first >= from and last < to
  local span = inside and { first - from + n, last - from + n } or { -1, -1 }
  return { a = a, b = b, chars = chars, best = best, span = span, offset = from }
end

---What makes a question useless, if anything: the kind of the problem, and why.
local function problem(record, predicting)
  if type(record.text) ~= "string" or type(record.context) ~= "string" or not predicting and not record.id then
    return "missing", "a question needs id, question and context"
  end
  if not record.text:find("%S") then return "empty", "the question is empty" end
  if not record.context:find("%S") then return "empty", "the context is empty" end
end

---The tokens of a question, at most `query`.
local function question_of(self, text)
  local ids = self.job.tokenizer:ids(text)
  self.cut = (self.cut or 0) + (#ids > self.job.options.query and 1 or 0)
  return table.move(ids, 1, math.min(#ids, self.job.options.query), 1, {})
end

function Squad:make(record)
  local kind, why = problem(record, self.job.predicting)
  if kind then return nil, kind, why end
  if record.unusable and not self.job.predicting then return nil, "type", record.unusable end
  if not record.answers and not self.job.unlabelled then
    return nil, "unlabelled", "no \"answers\"; a question that has none says \"answers\": []"
  end
  local ids, places = context_of(self, record.context)
  local texts, first, last = answers_of(self.job.predicting and {} or record, places)
  if not texts then return nil, first, last end
  local question = question_of(self, record.text)
  if #question == 0 and not self.job.predicting or #ids == 0 then
    return nil, "empty", "the question or its context has no tokens"
  end
  local options, frame = self.job.options, frames.of(self.job.tokenizer)
  local list = windows.cut(#ids, frame:room(options.max_len, true) - #question, options.stride)
  local context = { ids = ids, places = places, windows = list, best = windows.best(list, 0.01) }
  local made, answers = {}, json.encode(texts)
  for w = 1, #list do
    local one = window_of(question, context, w, first, last)
    one.source, one.answers, one.id = self.questions, answers, record.id
    if self.job.keep_text then one.text, one.pair = record.context, record.text end
    made[w] = self.job:stamp(one, record)
  end
  self.questions, self.windows = self.questions + 1, self.windows + #made
  self.unanswerable = self.unanswerable + (#texts == 0 and 1 or 0)
  return made
end

function Squad:notes()
  local lines = { ("%s, %d without an answer, in %s"):format(counted(self.questions, "question"), self.unanswerable,
    counted(self.windows, "window")) }
  if (self.cut or 0) > 0 then
    lines[2] = ("questions longer than %d tokens are cut: %d"):format(self.job.options.query, self.cut)
  end
  return lines
end

return { open = open, new = new }

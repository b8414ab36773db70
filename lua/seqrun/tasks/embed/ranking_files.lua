-- ranking_files.lua - sets for retrieval in BEIR's form: corpus.jsonl, queries.jsonl, and which texts answer a query.
--
--     DIR/corpus.jsonl      {"_id": "d1", "title": "...", "text": "..."}
--     DIR/queries.jsonl     {"_id": "q1", "text": "..."}
--     DIR/qrels/test.tsv    query-id, corpus-id, score, with a header

local failure = require("seqrun.base.failure")
local fields = require("seqrun.data.readers.fields")
local json = require("seqrun.core.json")
local packed = require("seqrun.base.packed")
local records = require("seqrun.data.readers.records")
local sys = require("seqrun.core.sys")
local text = require("seqrun.core.text")
local texts = require("seqrun.tasks.embed.texts")

local files = {}

---Splits of the judgements, in the order in which they are looked for.
local SPLITS = { "test", "dev", "validation", "train" }

local function find(folder, names)
  for _, name in ipairs(names) do
    for _, ending in ipairs(packed.ENDINGS) do
      if sys.exists(folder .. "/" .. name .. ending) then return folder .. "/" .. name .. ending end
    end
  end
  failure.raise("data", "%s: a directory for retrieval needs corpus.jsonl, queries.jsonl and qrels/test.tsv; it has no "
    .. "%s", folder, names[1])
end

---The files of directories in BEIR's form; other names stay as they are.
---@param list string[]|nil
---@return string[]|nil
function files.expand(list)
  if not list then return nil end
  local out = {}
  for _, path in ipairs(list) do
    if sys.is_dir(path) then
      local qrels = {}
      for i, split in ipairs(SPLITS) do qrels[i] = ("qrels/%s.tsv"):format(split) end
      for _, names in ipairs { { "corpus.jsonl" }, { "queries.jsonl" }, qrels } do out[#out + 1] = find(path, names) end
    else
      out[#out + 1] = path
    end
  end
  return out
end

---The three files of a set, if these are such files.
---@param list string[]
---@return { corpus: string, queries: string, qrels: string }|nil
function files.of(list)
  local found = {}
  for _, path in ipairs(list) do
    local name = packed.bare(path):match("([^/]*)$")
    if name == "corpus.jsonl" then found.corpus = path end
    if name == "queries.jsonl" then found.queries = path end
    if name:find("%.tsv$") then found.qrels = path end
  end
  return #list == 3 and found.corpus and found.queries and found.qrels and found or nil
end

---The judgements above 0: by query, the grade of each text of the corpus.
---@param path string
---@return table<string, table<string, number>>
function files.qrels(path)
  local rows <close> = failure.must(text.rows(path, { format = "literal", delimiter = "\t" }))
  local found, cells, any = {}, {}, false
  while true do
    local count, line = rows:next(cells)
    if not count then
      if line then failure.raise("data", "%s", line) end
      break
    end
    local grade = tonumber(cells[count])
    if count > 0 and line > 1 or grade then
      local query, document = cells[1], count == 4 and cells[3] or cells[2] -- TREC's have a column between
      if count < 3 or not grade then
        failure.raise("data", "%s:%d: expected query-id, corpus-id and score, separated by tabs", path, line)
      end
      if grade > 0 then
        found[query] = found[query] or {}
        found[query][document], any = grade, true
      end
    end
  end
  if not any then failure.raise("data", "%s: no text of the corpus answers any query", path) end
  return found
end

-- ---- records ---------------------------------------------------------------------------------------

local Records = {}
Records.__index = Records

---@param options table of the reader
---@param sets { corpus: string, queries: string, qrels: string }
function files.open(options, sets)
  options.columns = { id = options.columns.id }
  return setmetatable({
    sets = sets, files = { sets.corpus, sets.queries, sets.qrels }, at = 0, judged = files.qrels(sets.qrels),
  }, Records)
end

---Goes on to the next file; false after the last.
local function open_next(self)
  self.at = self.at + 1
  local path = ({ self.sets.corpus, self.sets.queries })[self.at]
  if not path then return false end
  self.rows = failure.must(text.rows(path, { format = "lines", limit = 16 << 20 }))
  return true
end

---A line as a record; nil for a query that nothing answers.
local function record_of(self, line, number)
  local object, why = json.decode(line)
  local record = { line = number, file = self.files[self.at], file_index = self.at }
  local id = type(object) == "table" and fields.text(object._id or object.id)
  if not id or type(object.text) ~= "string" then
    record.wrong, record.why = "unreadable", object == nil and "not a JSON object: " .. why
      or "expected an object with _id and text"
    return record
  end
  record.name = id
  if self.at == 2 and not self.judged[record.name] then return nil end
  local title = type(object.title) == "string" and object.title ~= "" and object.title .. " " or ""
  record.text = title .. object.text
  record.part = self.at == 1 and texts.POSITIVE or texts.ANCHOR
  return record
end

---The next record; nil at the end.
function Records:next()
  local cells = {}
  while self.rows or open_next(self) do
    local count, line, code = self.rows:next(cells)
    if count and count > 0 then
      local record = record_of(self, cells[1], line)
      if record then return record end
    elseif not count then
      if line then return nil, line, code end
      self.rows:close()
      self.rows = nil
    end
  end
end

Records.close, Records.__close = records.close, records.close

return files

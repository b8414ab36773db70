-- records.lua - files to records, one at a time: { text =, pair =, label =, id =, choices =, line =, file = }.
--
-- A record that cannot be used has `wrong`, its kind, and `why`; `headless` ones are of a table without header.
-- The table of a record is used again for the next.

local columns = require("seqrun.data.readers.columns")
local counted = require("seqrun.base.format").counted
local fields = require("seqrun.data.readers.fields")
local formats = require("seqrun.data.readers.formats")
local guess = require("seqrun.base.guess")
local kinds = require("seqrun.base.kinds")
local json = require("seqrun.core.json")
local sorted = require("seqrun.base.sorted")
local text = require("seqrun.core.text")

---@class seqrun.readers.Records
---@field files string[] those that were opened so far
local Records = {}
Records.__index = Records

---@class seqrun.RecordOptions
---@field files string|string[] "-" is standard input
---@field task? string
---@field format? "auto"|"csv"|"tsv"|"jsonl"
---@field delimiter? string one byte
---@field quotes? "auto"|"yes"|"no" whether quotes enclose cells; auto: in CSV
---@field limit? integer bytes of a row
---@field columns table { text =, pair =, label =, id =, choices =, header = }: names, or numbers from 1
---@field optional? table<string, boolean> columns that may be missing

---How the task of the files reads them; nil: as rows.
local function reader_of(options)
  return options.reader or (kinds.get(options.task) or {}).reader
end

---Opens the files one after the other.
---@param options seqrun.RecordOptions
---@return seqrun.readers.Records? records
---@return string? message
---@return string? code
local function open(options)
  local files = type(options.files) == "table" and options.files or { options.files }
  if #files == 0 then return nil, "data: no files are given", "config" end
  local clash, ends = columns.problem(options.columns), formats.problem(files)
  if clash then return nil, "data: " .. clash, "config" end
  if ends then return nil, ends, "data" end
  for _, path in ipairs(files) do
    local format, message = formats.of(path, reader_of(options), options.format)
    if not format then return nil, message, "config" end
  end
  return setmetatable({
    options = options, waiting = files, files = {}, next_file = 1, cells = {}, record = {},
    optional = options.optional or {}, fields = (reader_of(options) or {}).fields or {},
  }, Records)
end

-- ---- cells and objects to records ------------------------------------------------------------

local function bad(record, wrong, why, ...)
  record.wrong, record.why = wrong, select("#", ...) > 0 and why:format(...) or why
  return record
end

---Copies what `found` names into the record.
local function fill(self, record, cells)
  for role, at in pairs(self.found) do
    if type(at) == "table" then
      local list = {}
      for i, one in ipairs(at) do list[i] = cells[one] end
      record[role] = list
    else
      local wanted = self.fields[role] or fields.USUAL[role]
      record[role] = cells[at] and fields.read(cells[at], wanted == "texts" and "either" or wanted)
    end
  end
  return record
end

---Whether a row is the header once more, as in files that were joined.
local function is_header(self, count)
  for i = 1, count do
    if self.cells[i] ~= self.names[i] then return false end
  end
  return count > 1
end

local function cells_to_record(self, count)
  local record = self.record
  if self.names and is_header(self, count) then
    return bad(record, "header", "the header once more, as in files that were joined; remove the line")
  end
  if count ~= self.count then
    return bad(record, "ragged", "%s instead of %d", counted(count, "column"), self.count)
  end
  return fill(self, record, self.cells)
end

local ROLES = { "text", "pair", "label", "id", "choices" }

---The value of a key that a column names; false after a problem, which the record then reports.
---@param wanted string what fields.read may give
local function value_of(self, object, role, key, wanted)
  local value = object[key]
  if value ~= nil and value ~= json.null then
    local given, why = fields.read(value, wanted, key)
    if given == nil then bad(self.record, "type", why) end
    return given or false
  end
  if self.optional[role] then return nil end
  if value ~= nil then
    bad(self.record, "missing", "'%s' is null", key)
  else
    bad(self.record, "missing", "no '%s', which columns.%s names%s", key, role, guess.hint(key, sorted(object)))
  end
  return false
end

local function object_to_record(self, line)
  local record, given = self.record, self.options.columns
  local object, why = json.decode(line)
  if type(object) ~= "table" or #object > 0 then
    return bad(record, "unreadable", "not a JSON object%s", object == nil and ": " .. why or "")
  end
  for _, role in ipairs(ROLES) do
    local columns_of, wanted, value = given[role], self.fields[role] or fields.USUAL[role], nil
    if type(columns_of) == "table" then
      if wanted == "texts" then wanted = "text" end
      value = {}
      for i, key in ipairs(columns_of) do
        value[i] = value_of(self, object, role, key, wanted)
        if value[i] == false then return record end
      end
    elseif columns_of ~= nil then
      value = value_of(self, object, role, columns_of, wanted)
      if value == false then return record end
    end
    record[role] = value
  end
  return record
end

-- ---- files -----------------------------------------------------------------------------------

---A hint for tables that were split by the wrong delimiter.
local function delimiter_hint(header)
  if #header ~= 1 then return nil end
  for _, one in ipairs { "\t", ";", "," } do
    if header[1]:find(one, 1, true) then
      return (", or data.delimiter to '%s'"):format(one == "\t" and "\\t" or one)
    end
  end
end

---The next row that is not empty; count is nil at the end of the file.
local function next_row(self)
  local pending = self.pending
  if pending then
    self.pending = nil
    return table.unpack(pending, 1, 5)
  end
  local count, line, file, wrong, column
  repeat count, line, file, wrong, column = self.rows:next(self.cells) until count ~= 0
  return count, line, file, wrong, column
end

---Reads the header, if there is one, and finds the columns.
local function start_table(self, path)
  local given = self.options.columns
  local header = columns.has_header(given)
  local count, line, file, wrong, column = next_row(self)
  if not count then
    if line then return nil, line, file end -- message, code
    return nil, ("%s: the file is empty"):format(path), "data"
  end
  if header and wrong then return nil, ("%s:%d: column %d: %s"):format(path, line, column, wrong), "data" end
  local names = header and table.move(self.cells, 1, count, 1, {}) or nil
  local message
  self.count = count
  self.found, message = columns.find(given, names, count, self.optional, delimiter_hint(self.cells))
  local name = path == "-" and "standard input" or path
  if not self.found then return nil, ("%s%s%s"):format(name, message:find("^:") and "" or " ", message), "data" end
  self.headless, self.names = not header, names
  if self.headless then self.pending = { count, line, path, wrong, column } end
  return true
end

local function open_next(self)
  local path = self.waiting[self.next_file]
  self.next_file = self.next_file + 1
  self.files[#self.files + 1] = path
  self.format = formats.of(path, reader_of(self.options), self.options.format)
  local rows, message, code = text.rows(path, formats.rows(self.format, self.options))
  if not rows then return nil, message, code end
  self.rows, self.path, self.pending = rows, path, nil
  if self.format == "jsonl" then
    self.headless = false
    return true
  end
  return start_table(self, path)
end

local function clear(record)
  for key in pairs(record) do record[key] = nil end
  return record
end

---The next record; nil at the end.
---@return table? record
---@return string? message
---@return string? code
function Records:next()
  while true do
    if not self.rows then
      if self.next_file > #self.waiting then return nil end
      local opened, message, code = open_next(self)
      if not opened then return nil, message, code end
    end
    local count, line, file, wrong, column = next_row(self)
    if count then
      local record = clear(self.record)
      record.line, record.file, record.file_index, record.headless = line, file, #self.files, self.headless
      if wrong then return bad(record, "unreadable", "column %d: %s", column, wrong) end
      if self.format == "jsonl" then return object_to_record(self, self.cells[1]) end
      return cells_to_record(self, count)
    end
    if line then return nil, line, file end -- message, code
    self.rows:close()
    self.rows = nil
  end
end

---Closes the file that is open; of other readers too, whose rows are `rows`.
function Records:close()
  if self.rows then self.rows:close() end
  self.rows = nil
end

Records.__close = Records.close

return { open = open, close = Records.close }

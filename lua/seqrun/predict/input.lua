-- input.lua - lines of files or standard input as items: plain text, tab-separated fields, or JSON objects.
--
-- An item that cannot be used has `wrong`, the reason.

local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")
local fields = require("seqrun.data.readers.fields")
local formats = require("seqrun.data.readers.formats")
local json = require("seqrun.core.json")
local one_line = require("seqrun.base.one_line")
local output = require("seqrun.base.output")
local text = require("seqrun.core.text")

local input = {}

---Bytes of a line.
local LIMIT = 16 << 20

---How rows of a format are cut.
local ROWS = { lines = "lines", tsv = "literal", csv = "quoted", jsonl = "lines" }

---@class seqrun.InputOptions
---@field files string[] "-" is standard input
---@field format "lines"|"tsv"|"csv"|"jsonl"
---@field keys string[] what an item needs: { "text" }, { "text", "pair" }; the fields of a row in their order
---@field optional? table<string, boolean> keys that may be missing
---@field lists? table<string, boolean> keys whose values are lists: of JSON, or all further fields of a row
---@field aliases? table<string, string> other keys of objects that the value of a key may have
---@field named? string the words of the command line that name columns, such as columns.text=NAME; nil: a first row
---  that looks like a header is one of text
---@field option? string that sets the format, "--format"

---The keys of the fields of a row: lists that may be missing are of JSON alone.
local function row_of(t)
  local row = {}
  for _, key in ipairs(t.keys) do
    if not (t.lists and t.lists[key] and t.optional and t.optional[key]) then row[#row + 1] = key end
  end
  return row
end

---What is wrong with a row of `count` fields.
local function wrong_count(count, t)
  return ("%s; expected %s, separated by %s%s"):format(counted(count, "field"), table.concat(t.row, ", "),
    t.format == "csv" and "commas" or "tabs", t.named and "; or name columns: " .. t.named or "")
end

---Cells of headers: names that texts and their companions usually have.
local NAMES = {}
for name in ("text texts sentence sentence1 sentence2 sentence_good sentence_bad good bad anchor positive query "
  .. "question answer context review title body content id idx index label labels score"):gmatch("%S+") do
  NAMES[name] = true
end

---Refuses a first row that looks like a header whose columns nobody named; one name alone may be a text.
local function check_header(item, cells, count, t)
  local known, plain, names = false, true, table.move(cells, 1, count, 1, {})
  if t.format == "lines" then
    names = {}
    for name in cells[1]:gmatch("[^,\t]+") do names[#names + 1] = name end
  end
  for _, name in ipairs(names) do
    known, plain = known or NAMES[name:lower()], plain and name:find("^[%w_.-]+$")
  end
  if not known or t.format == "lines" and #names == 1 then return end
  local shown, option = one_line(table.concat(names, ", "), 60), t.option or "--format"
  local way = t.format ~= "lines" and ("name its columns: %s, or if it is a row number them: columns.text=1"):format(
    t.named) or ("say %s csv or %s tsv, or if it is a text %s lines"):format(option, option, option)
  if #names > 1 and plain then
    failure.raise("data", "%s:%d: '%s' looks like the header of a table; %s", item.file, item.line, shown, way)
  end
  output.note("warning: %s:%d: '%s' is read as a row; if it is a header, %s", item.file, item.line, shown, way)
end

local function take_cells(item, cells, count, t)
  for i, key in ipairs(t.row) do
    if t.lists and t.lists[key] and i <= count then
      item[key] = table.move(cells, i, count, 1, {})
      count = i
    elseif i <= count then
      item[key] = cells[i]
    elseif not (t.optional and t.optional[key]) then
      item.wrong = wrong_count(count, t)
    end
  end
  if count > #t.row then item.wrong = wrong_count(count, t) end
end

---What is wrong with an item that has none of the keys.
local function nothing_in(item, t)
  for _, key in ipairs(t.keys) do
    if item[key] ~= nil then return nil end
  end
  return ("has no '%s'"):format(table.concat(t.keys, "' or '"))
end

---The value of a key, or the list that an alias of it has, and which of them.
local function value_in(object, key, t)
  local value, aliases = object[key], t.aliases or {}
  if value == nil and type(object[aliases[key]]) == "table" then return object[aliases[key]], aliases[key] end
  for _, alias in pairs(aliases) do
    if alias == key and type(value) == "table" then return nil, key end
  end
  return value, key
end

local function take_object(item, line, t)
  local object, why = json.decode(line)
  if type(object) ~= "table" or #object > 0 then
    item.wrong = "not a JSON object" .. (object == nil and ": " .. why or "")
    return
  end
  for _, key in ipairs(t.keys) do
    local list = t.lists and t.lists[key]
    local value, name = value_in(object, key, t)
    if value ~= nil then
      local given, wrong = fields.read(value, list and "texts" or "text", name)
      item[key], item.wrong = given, item.wrong or wrong
    elseif not (t.optional and t.optional[key]) then
      item.wrong = ("'%s' must be %s"):format(key, list and "a list of strings" or "a string")
    end
  end
  local rounded = fields.is_rounded(object.id)
  item.id = not rounded and object.id or nil
  item.wrong = item.wrong or rounded and select(2, fields.read(object.id, "text", "id")) or nothing_in(item, t)
end

---Whether an item has no text to read; a sentence of no words has no tags either, and is none of these.
local function is_blank(item, t)
  return item.text ~= nil and t.keys[2] ~= "words" and not item.text:find("%S")
end

---Items in their order; a damaged or unreadable file raises a failure.
---@param t seqrun.InputOptions
---@return (fun(): table?)? next
---@return string? message
---@return string? code
---@return userdata? rows to close
function input.open(t)
  local problem = formats.problem(t.files)
  if problem then return nil, problem, "data" end
  local delimiter = t.format == "tsv" and "\t" or t.format == "csv" and "," or nil
  local rows, message, code = text.rows(t.files, { format = ROWS[t.format], delimiter = delimiter, limit = LIMIT })
  if not rows then return nil, message, code end
  local cells = {}
  t.row = row_of(t)
  return function()
    local count, line, file, wrong, column = rows:next(cells)
    if not count then
      if line then failure.raise(file, "%s", line) end
      return nil
    end
    local item = { line = line, file = file }
    if wrong then
      item.wrong = ("column %d: %s"):format(column, wrong)
    elseif t.format == "jsonl" then
      take_object(item, cells[1] or "", t)
    elseif count == 0 then
      item[t.keys[1]] = ""
      if #t.keys > 1 and not (t.optional or {})[t.keys[2]] then item.wrong = "an empty line" end
    else
      if t.named and line == 1 then check_header(item, cells, count, t) end
      take_cells(item, cells, count, t)
    end
    if not item.wrong and is_blank(item, t) then item.wrong = "the text is empty" end
    return item
  end, nil, nil, rows
end

return input

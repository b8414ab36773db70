-- conll.lua - files of words: CoNLL, a word per line and a blank line between sentences, or tables with lists of words.

local counted = require("seqrun.base.format").counted
local formats = require("seqrun.data.readers.formats")
local records = require("seqrun.data.readers.records")
local core_text = require("seqrun.core.text")

local Sentences = {}
Sentences.__index = Sentences

---CoNLL-U has comments before a sentence: "# newdoc", "# text = ...".
local function is_comment(cells, count, expected)
  return cells[1] == "#" and (cells[3] == "=" or count ~= expected)
end

local function open_next(self)
  local path = self.waiting[#self.files + 1]
  if not path then return nil end
  local rows, message, code = core_text.rows(path, formats.rows("conll", self.options))
  if not rows then return nil, message, code end
  self.files[#self.files + 1] = path
  self.rows, self.count, self.any = rows, nil, false
  return true
end

---Number of a column of words: "word" and "tag" are the first and the last.
local function place(given, usual, count)
  local number = math.tointeger(tonumber(given or usual))
  return number and number <= count and number or nil
end

---Makes the sentence useless; its place becomes that of its first bad row.
local function spoil(sentence, kind, line, why, ...)
  if not sentence.wrong then sentence.wrong, sentence.why, sentence.line = kind, why:format(...), line end
end

---Whether the cells of a row are empty: a blank line that holds tabs.
local function is_blank(cells, count)
  for i = 1, count do
    if cells[i]:find("%S") then return false end
  end
  return true
end

---CoNLL-U has ten columns; a row numbered 3-4 repeats words of the following rows, and one numbered 5.1 is not in the
---text.
local function is_no_word(cells, count) return count == 10 and cells[1]:find("^%d+[-.]%d+$") ~= nil end

---Adds a row to the sentence, or makes the sentence useless.
local function add_row(self, sentence, count, line)
  local columns, cells = self.options.columns, self.cells
  self.count = self.count or count
  local word, tag = place(columns.text, 1, count), place(columns.label, self.count, count)
  sentence.line = sentence.line or line
  if word and word == tag and self.options.optional.label ~= true then
    return spoil(sentence, "ragged", line, "the word and its tag are both column %d; CoNLL files have a word and a tag "
      .. "in each line", word)
  end
  if count ~= self.count then
    return spoil(sentence, "ragged", line, "%s instead of %d", counted(count, "column"), self.count)
  end
  local lacks = not word and "text" or not tag and not self.options.optional.label and "label"
  if lacks then
    return spoil(sentence, "ragged", line, "%s, but columns.%s is %s", counted(count, "column"), lacks,
      tostring(columns[lacks]))
  end
  sentence.text[#sentence.text + 1] = cells[word]
  sentence.label[#sentence.label + 1] = cells[tag]
end

---Reads rows up to the next blank line.
local function read_sentence(self)
  local sentence = { text = {}, label = {}, file = self.files[#self.files], file_index = #self.files }
  while true do
    local count, line, file, wrong, column = self.rows:next(self.cells)
    if not count then
      if line then return nil, line, file end
      self.rows:close()
      self.rows = nil
      return sentence
    end
    if count > 0 and not wrong and is_blank(self.cells, count) then count = 0 end
    if count == 0 and sentence.line then return sentence end
    if wrong then
      spoil(sentence, "unreadable", line, "column %d: %s", column, wrong)
    elseif count > 0 and self.cells[1] ~= "-DOCSTART-" and not is_no_word(self.cells, count) and
      not (not sentence.line and is_comment(self.cells, count, self.count)) then
      add_row(self, sentence, count, line)
    end
  end
end

---The next sentence; nil at the end.
---@return table? record
---@return string? message
---@return string? code
function Sentences:next()
  while true do
    if not self.rows then
      local opened, message, code = open_next(self)
      if not opened then return nil, message, code end
    end
    local sentence, message, code = read_sentence(self)
    if not sentence then return nil, message, code end
    if sentence.line then
      self.any = true
      return sentence
    end
    if not self.any then return nil, ("%s: the file has no words"):format(sentence.file), "data" end
  end
end

Sentences.close, Sentences.__close = records.close, records.close

---Opens CoNLL files, or tables of JSON.
local function open(options)
  local files = type(options.files) == "table" and options.files or { options.files }
  local format, message = formats.of(files[1] or "", options.reader, options.format)
  if not format then return nil, message, "config" end
  if format ~= "conll" then
    local columns = { text = "tokens", label = "tags" }
    for key, value in pairs(options.columns) do columns[key] = value end
    local given = setmetatable({ columns = columns }, { __index = options })
    return records.open(given)
  end
  message = formats.problem(files)
  if message then return nil, message, "data" end
  return setmetatable({ options = options, waiting = files, files = {}, cells = {} }, Sentences)
end

return { open = open }

-- labels.lua - class names and their numbers.
--
-- A map made from files has its names sorted: as numbers if all are integers, else by bytes.

local core_text = require("seqrun.core.text")
local fields = require("seqrun.data.readers.fields")
local shown = require("seqrun.base.one_line")

local labels = {}

local SHOWN = 3 -- names that look alike
local FEW = 10 -- with fewer classes, one that occurs once is not a surprise in a small file

---@class seqrun.readers.Labels
---@field names string[] in the order of their ids, which count from 0
---@field ids table<string, integer>

---The map of given names.  LABEL_0, LABEL_1 ..., which Hugging Face gives to classes without names, may be written
---as 0, 1 ... in files.
---@param names string[]
---@return seqrun.readers.Labels
function labels.map(names)
  local ids = {}
  for i, name in ipairs(names) do
    ids[name] = i - 1
    if name == ("LABEL_%d"):format(i - 1) then ids[tostring(i - 1)] = i - 1 end
  end
  return { names = names, ids = ids }
end

---The names of classes; of those without, their numbers.
---@param given string[]?
---@param count integer
---@return string[]
function labels.names(given, count)
  local names = {}
  for i = 1, count do names[i] = given and given[i] or tostring(i - 1) end
  return names
end

---A label without white space around it; nil if nothing is left.
---@param label string?
---@return string?
function labels.clean(label)
  local name = label and label:match("^%s*(.-)%s*$")
  return name ~= "" and name or nil
end

---A decimal number that f32 can hold; nil for others, such as "nan", "0x10" and "1,5", and a hint on the header.
---@param given string?
---@param record table
---@return number?
---@return string? hint
function labels.number(given, record)
  local text = labels.clean(given)
  local x = text and not text:find("[^%d%.eE+-]") and tonumber(text)
  if x and math.abs(x) < 3.4e38 then return x + 0.0 end
  return nil, record.headless and record.line == 1 and "; if this line is a header, set columns.header=true" or ""
end

---@class seqrun.readers.Survey
---@field rows integer
---@field counts table<string, integer>
---@field first table<string, string> FILE:LINE
local Survey = {}
Survey.__index = Survey

---Counts the labels of a file before they have numbers.
---@return seqrun.readers.Survey
function labels.survey() return setmetatable({ rows = 0, counts = {}, first = {}, names = {} }, Survey) end

---@param name string
---@param record table
function Survey:add(name, record)
  if not self.counts[name] then
    self.counts[name], self.first[name] = 0, ("%s:%d"):format(record.file, record.line)
    if record.headless and record.line == 1 then self.header = name end
    self.names[#self.names + 1] = name
  end
  self.counts[name] = self.counts[name] + 1
end

---Takes `-` out of the names: in MNLI and other files it marks rows whose annotators did not agree.  Beside `+` or a
---single other name it is a class.
function Survey:without_dash()
  if not self.counts["-"] or self.counts["+"] or #self.names < 3 then return end
  for i = #self.names, 1, -1 do
    if self.names[i] == "-" then table.remove(self.names, i) end
  end
  self.rows, self.counts["-"] = self.rows - self.counts["-"], nil
end

---Names in their order.
local function sorted(names)
  local whole = true
  for _, name in ipairs(names) do whole = whole and math.tointeger(tonumber(name)) ~= nil end
  table.sort(names, whole and function(a, b)
    local x, y = math.tointeger(tonumber(a)), math.tointeger(tonumber(b))
    return x < y or x == y and a < b
  end or nil)
  return names
end

local function fraction(names)
  for _, name in ipairs(names) do
    local x = tonumber(name)
    if not x then return nil end
    if x ~= math.floor(x) then return name end
  end
end

---A label in the first line only, where all others occur again, is the name of its column.
local function check_header(self)
  local name = self.header
  if not name or #self.names < 3 then return nil end
  for _, other in ipairs(self.names) do
    if (self.counts[other] == 1) ~= (other == name) then return nil end
  end
  return ("%s: '%s' occurs as a label only in this first line, which looks like a header; set columns.header to true, "
    .. "or to false if it is a row"):format(self.first[name], shown(name))
end

---Whether every row has this label, and it alone.
local function is_constant(self, name) return #self.names == 1 and self.counts[name] == self.rows end

---The map of the names that were counted, or why it would be nonsense.
---@param header? boolean columns.header, as it was set
---@return seqrun.readers.Labels? map
---@return string? message
function Survey:map(header)
  local names = sorted(self.names)
  local wrong = header == nil and check_header(self) or nil
  if wrong then return nil, wrong end
  if is_constant(self, names[1]) then
    return nil, ("%s: all rows have the label '%s'; a classifier needs at least two classes"):format(
      self.first[names[1]], shown(names[1]))
  end
  local list = fields.listed(names[1])
  if list and #list > 0 and not tonumber(list[1]) then
    return nil, ("%s: the label '%s' is a list; train with task=multilabel"):format(self.first[names[1]],
      shown(names[1]))
  end
  local value = fraction(names)
  if value then
    return nil, ("%s: the labels are numbers such as %s; train a regression on them, or use names for classes"):format(
      self.first[value], value)
  end
  if #names > 100 and #names > self.rows / 2 then
    return nil, ("%s: %d different labels in %d rows; columns.label probably names another column"):format(
      self.first[names[1]], #names, self.rows)
  end
  return labels.map(names)
end

---"no, yes", with at most ten names; "no 12, yes 30" with their counts.
---@param names string[]
---@param counts? table<string, integer>
---@return string
function labels.list(names, counts)
  local list = {}
  for i = 1, math.min(#names, 10) do
    list[i] = shown(names[i], 30) .. (counts and (" %d"):format(counts[names[i]]) or "")
  end
  local text = table.concat(list, ", ")
  return #names > 10 and ("%s and %d more"):format(text, #names - 10) or text
end

---A name without what one does not see or mean: case, spaces, normal forms, decimals of 0.  "A" and "A-" stay two, as
---do "C" and "C++".
local function plain_of(name)
  local number = tonumber(name)
  if number then return tostring(math.tointeger(number) or number) end
  return (core_text.fold(name):gsub("[%s_.,:;'\"]", ""):gsub("(%w)%-%f[%w]", "%1"))
end

---Names that look like an earlier one: { earlier, name }.
local function look_alikes(names)
  local seen, list = {}, {}
  for _, name in ipairs(names) do
    local plain = plain_of(name)
    if plain ~= "" and seen[plain] then list[#list + 1] = { seen[plain], name } end
    seen[plain] = seen[plain] or name
  end
  return list
end

---The number of a label, or the kind of problem and why.
---@param map seqrun.readers.Labels
---@param given string?
---@return integer? id
---@return string? kind
---@return string? why
function labels.id_of(map, given)
  local name = labels.clean(given)
  if not name then return nil, "unlabelled", "the label is empty" end
  local id = map.ids[name]
  if id then return id end
  if name == "-" then
    return nil, "unlabelled", "the label is '-', which means no label; list it in data.labels if it is a class"
  end
  return nil, "unknown", ("unknown label '%s'; the labels are %s"):format(shown(name), labels.list(map.names))
end

---"no 12, yes 30".
---@return string
function Survey:text() return labels.list(self.names, self.counts) end

---Warnings of names that look alike.
---@return string[]
function Survey:look_alikes()
  local notes, pairs_found = {}, look_alikes(self.names)
  for i, pair in ipairs(pairs_found) do
    if i > SHOWN then
      notes[i] = ("warning: %d more of the %d classes look like others; columns.label may name another column"):format(
        #pairs_found - SHOWN, #self.names)
      break
    end
    notes[#notes + 1] = ("warning: '%s' (%s) and '%s' are two classes; write them alike if they are one"):format(
      shown(pair[2]), self.first[pair[2]], shown(pair[1]))
  end
  return notes
end

---What is odd about the names that were counted.
---@return string[]
function Survey:notes()
  local notes = self:look_alikes()
  if #self.names > FEW and #self.names > self.rows / 2 then
    notes[#notes + 1] = ("warning: %d classes in %d rows, so most occur once; columns.label may name another column")
      :format(#self.names, self.rows)
  end
  return notes
end

return labels

-- labelled.lua - examples of a text or a pair of texts with a class, numbers, or any number of classes.

local labels = require("seqrun.data.readers.labels")
local shown = require("seqrun.base.one_line")

local labelled = {}

-- ---- one class -------------------------------------------------------------------------------

local Classify = {}
Classify.__index = Classify

---@param job seqrun.readers.Job
function labelled.classify(job)
  local columns = { label = { type = "i32" } }
  return setmetatable({ job = job, map = job.labels, columns = columns, labelled = "label" }, Classify)
end

---Counts the labels, where there is no map yet.
function Classify:survey(record)
  self.counted = self.counted or labels.survey()
  local name = labels.clean(record.label)
  if not name then return end
  self.counted:add(name, record)
  self.counted.rows = self.counted.rows + 1
end

---@return boolean? done
---@return string? message
function Classify:surveyed()
  if not self.counted then return nil, "the file has no rows" end
  if self.counted.rows == 0 then return nil, "no row has a label; set columns.label" end
  self.counted:without_dash()
  local message
  self.map, message = self.counted:map(self.job.options.columns.header)
  return self.map and true, message
end

---The number of a label, or the kind of problem and why.
local function id_of(self, given)
  local name = labels.clean(given)
  if not name then return nil, "unlabelled", "the label is empty" end
  local id = self.map.ids[name]
  if id then return id end
  if name == "-" then
    return nil, "unlabelled", "the label is '-', which stands for none; name it in data.labels if it is a class"
  end
  return nil, "unknown", ("unknown label '%s'; the labels are %s"):format(shown(name), labels.list(self.map.names))
end

function Classify:make(record)
  local example, kind, why = self.job:example(record)
  if not example then return nil, kind, why end
  if record.label == nil and self.job.unlabelled then
    example.label = -100
    return example
  end
  example.label, kind, why = id_of(self, record.label)
  if not example.label then return nil, kind, why end
  return example
end

function Classify:notes() return self.counted and self.counted:notes() or {} end

-- ---- any number of classes ---------------------------------------------------------------------

local Multilabel = {}
Multilabel.__index = Multilabel

---@param job seqrun.readers.Job
function labelled.multilabel(job)
  local given = job.options.columns.label
  local map = job.labels
  if type(given) == "table" and not map then map = labels.map(given) end -- a column of 0 and 1 for each class
  return setmetatable({
    job = job, map = map, wide = type(given) == "table", columns = {}, labelled = "labels",
  }, Multilabel)
end

---The names in a cell, or a list of JSON.
local function names_in(self, value)
  if type(value) == "table" then return value end
  local names, at, separator = {}, 1, self.job.options.separator
  while value do
    local from, to = value:find(separator, at, true)
    names[#names + 1] = labels.clean(value:sub(at, from and from - 1))
    if not from then break end
    at = to + 1
  end
  return names
end

function Multilabel:survey(record)
  self.counted = self.counted or labels.survey()
  for _, name in ipairs(names_in(self, record.label)) do self.counted:add(name, record) end
  self.counted.rows = self.counted.rows + 1
end

function Multilabel:surveyed()
  if not self.counted then return nil, "the file has no rows" end
  if #self.counted.names == 0 then return nil, "no row has a label; set columns.label" end
  local message
  self.map, message = self.counted:map(self.job.options.columns.header)
  return self.map and true, message
end

---A class whose name is made of names of classes, such as 'sea|war': the name, a class in it, what separates them.
local function joined(survey)
  for _, name in ipairs(survey.names) do
    for part, mark in name:gmatch("([^|;,/]+)%s*([|;,/])") do
      if survey.counts[labels.clean(part)] then return name, labels.clean(part), mark end
    end
  end
end

function Multilabel:notes()
  local notes = Classify.notes(self)
  local name, part, mark = joined(self.counted or { names = {} })
  if name then
    local format = "warning: '%s' is a class beside '%s'; if '%s' separates labels, set data.separator='%s'"
    notes[#notes + 1] = format:format(shown(name), shown(part), mark, mark)
  end
  return notes
end

function Multilabel:shape() self.columns.labels = { type = "f32", size = #self.map.names } end

local function from_names(self, record)
  local row = {}
  for i = 1, #self.map.names do row[i] = 0 end
  for _, name in ipairs(names_in(self, record.label)) do
    local id, kind, why = id_of(self, name)
    if not id then return nil, kind, why end
    row[id + 1] = 1
  end
  return row
end

local function from_cells(self, record)
  local row = {}
  for i, name in ipairs(self.map.names) do
    local x = tonumber(record.label[i])
    if x ~= 0 and x ~= 1 then
      return nil, "number", ("column '%s' is '%s', not 0 or 1"):format(shown(name), shown(record.label[i] or ""))
    end
    row[i] = x
  end
  return row
end

function Multilabel:make(record)
  local example, kind, why = self.job:example(record)
  if not example then return nil, kind, why end
  if self.wide then
    example.labels, kind, why = from_cells(self, record)
  else
    example.labels, kind, why = from_names(self, record)
  end
  if not example.labels then return nil, kind, why end
  if #example.labels == 1 then example.labels = example.labels[1] end -- a column of size 1 has plain values
  return example
end

-- ---- numbers -----------------------------------------------------------------------------------

local Regress = {}
Regress.__index = Regress

---@param job seqrun.readers.Job
function labelled.regress(job)
  local given = job.options.columns.label
  local size = type(given) == "table" and #given or 1
  return setmetatable({ job = job, size = size, columns = { label = { type = "f32", size = size } } }, Regress)
end

---A decimal number that f32 can hold; "nan", "0x10" and "1,5" are none.
local function number_of(given)
  local text = labels.clean(given)
  if not text or text:find("[^%d%.eE+-]") then return nil end
  local x = tonumber(text)
  return x and math.abs(x) < 3.4e38 and x + 0.0 or nil
end

local function numbers_of(self, record)
  local list = {}
  local given = type(record.label) == "table" and record.label or { record.label }
  for i = 1, self.size do
    list[i] = number_of(given[i])
    if not list[i] then
      local hint = record.line == 1 and "; if this line is a header, set columns.header=true" or ""
      return nil, "number", ("'%s' is not a number%s"):format(shown(given[i] or ""), hint)
    end
  end
  return self.size == 1 and list[1] or list
end

function Regress:make(record)
  local example, kind, why = self.job:example(record)
  if not example then return nil, kind, why end
  if record.label == nil and self.job.unlabelled and self.size == 1 then
    example.label = 0 / 0
    return example
  end
  example.label, kind, why = numbers_of(self, record)
  if not example.label then return nil, kind, why end
  local key = self.size == 1 and example.label or table.concat(example.label, " ")
  self.rows, self.varied, self.first = (self.rows or 0) + 1, self.varied or self.rows and key ~= self.first, key
  return example
end

function Regress:notes()
  if self.varied or (self.rows or 0) < 2 then return {} end
  return { ("warning: all %d rows have the value %s, so there is nothing to learn; see columns.label"):format(
    self.rows, self.first) }
end

-- ---- no labels -----------------------------------------------------------------------------------

local None = {}
None.__index = None

---@param job seqrun.readers.Job
function labelled.none(job) return setmetatable({ job = job, columns = {} }, None) end

function None:make(record) return self.job:example(record) end

return labelled

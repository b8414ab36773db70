-- job.lua - what all readers share: the tokenizer, the options, and the columns of every example.

local markers = require("seqrun.text.markers")

---@class seqrun.readers.Job
---@field options table
---@field tokenizer seqrun.core.text.tokenizer
---@field labels seqrun.readers.Labels? a given map
---@field unlabelled boolean rows need no label
---@field predicting? boolean examples are for a predictor: ids are lists, a record decides whether it has a second text
---@field keep_text boolean
local Job = {}
Job.__index = Job

---@param options table those of sr.data.read
---@param tokenizer seqrun.core.text.tokenizer special tokens are plain text to it
---@return seqrun.readers.Job
local function new(options, tokenizer)
  return setmetatable({
    options = options, keep_text = options.keep_text ~= false, unlabelled = options.unlabelled == true,
    labels = options.labels and require("seqrun.data.readers.labels").map(options.labels) or nil,
    tokenizer = tokenizer, predicting = options.predicting,
    wants_pair = options.reader.pairs or options.columns.pair ~= nil,
  }, Job)
end

---The ids of a text, or the kind of problem and why.
local function encode(self, given, name)
  if type(given) ~= "string" then
    return nil, "missing", ("%s is %s, not text"):format(name, given == nil and "missing" or "a " .. type(given))
  end
  markers(self.tokenizer, given)
  local ids = self.predicting and self.tokenizer:ids(given) or self.tokenizer:packed(given)
  if #ids > 0 then return ids end
  return nil, "empty", ("%s has no tokens"):format(name)
end

---Adds where an example comes from.
---@param example table
---@param record table
---@return table example
function Job:stamp(example, record)
  example.line, example.file = record.line, record.file_index - 1
  if self.options.columns.id then example.id = record.id or "" end
  return example
end

---An example of the text of a record, and of its pair; or nil, the kind of problem and why.
---@param record table
---@return table? example
---@return string? kind
---@return string? why
function Job:example(record)
  local a, kind, why = encode(self, record.text, "the text")
  if not a then return nil, kind, why end
  local example = { a = a }
  if self.wants_pair or self.predicting and record.pair then
    example.b, kind, why = encode(self, record.pair, "the second text")
    if not example.b then return nil, kind, why end
  end
  if self.keep_text then
    example.text = record.text
    if self.wants_pair then example.pair = record.pair end
  end
  return self:stamp(example, record)
end

---The columns that every example has.
---@return table<string, seqrun.ColumnOptions>
function Job:columns()
  local columns = { line = { type = "i32" }, file = { type = "i32" } }
  if self.options.columns.id then columns.id = { type = "bytes" } end
  if self.keep_text then
    columns.text = { type = "bytes" }
    if self.wants_pair then columns.pair = { type = "bytes" } end
  end
  return columns
end

return { new = new }

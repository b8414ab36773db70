-- job.lua - what all readers share: the tokenizer, the options, and the columns of every example.

local counted = require("seqrun.base.format").counted
local frames = require("seqrun.text.frames")
local markers = require("seqrun.text.markers")
local windows = require("seqrun.data.readers.windows")

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
    wants_pair = options.reader.pairs or options.columns.pair ~= nil, texts = 0, cut = 0, windows = 0,
  }, Job)
end

---The ids of a text, or the kind of problem and why.
local function encode(self, given, name)
  if type(given) ~= "string" then
    return nil, "missing", ("%s is %s, not text"):format(name, given == nil and "missing" or "a " .. type(given))
  end
  markers(self.tokenizer, given)
  local ids = (self.predicting or self.options.windows) and self.tokenizer:ids(given) or self.tokenizer:packed(given)
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

---An example; where data.windows asks for it, as a list of the windows that a longer text is read in, each of which
---counts as its share of the text.
---@param example table
---@return table|nil example or list
---@return string? kind
---@return string? why
function Job:whole(example)
  local options = self.options
  if not options.windows then return example end
  if example.b then return nil, "type", "data.windows cuts single texts, but this is a pair" end
  local room = frames.of(self.tokenizer):room(options.max_len)
  local cuts, list = windows.cut(#example.a, room, math.min(options.stride, math.max(1, room // 2))), {}
  for w, cut in ipairs(cuts) do
    local one = {}
    for key, value in pairs(example) do one[key] = value end
    one.a = table.move(example.a, cut[1] + 1, cut[2], 1, {})
    one.source, one.window_share = self.texts, 1 / #cuts
    list[w] = one
  end
  self:count(#cuts > 1 and #cuts or 0)
  return list
end

---Counts a text, or a sentence, that was cut in so many windows, or not cut: 0.
---@param count integer
function Job:count(count)
  self.texts = self.texts + 1
  if count > 0 then self.cut, self.windows = self.cut + 1, self.windows + count end
end

---Adds how many texts were cut in windows to some notes.
---@param notes string[]
---@param what? string "text"
---@return string[]
function Job:add_windows(notes, what)
  if self.cut > 0 then
    notes[#notes + 1] = ("longer than %d tokens: %s, read in %s that overlap instead of truncated"):format(
      self.options.max_len, counted(self.cut, what or "text"), counted(self.windows, "window"))
  end
  return notes
end

---The columns that every example has.
---@return table<string, seqrun.ColumnOptions>
function Job:columns()
  local columns = { line = { type = "i32" }, file = { type = "i32" } }
  if self.options.columns.id then columns.id = { type = "bytes" } end
  if self.options.windows then columns.source, columns.window_share = { type = "i32" }, { type = "f32" } end
  if self.keep_text then
    columns.text = { type = "bytes" }
    if self.wants_pair then columns.pair = { type = "bytes" } end
  end
  return columns
end

return { new = new }

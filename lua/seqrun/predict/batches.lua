-- batches.lua - sequences laid end to end in their order: inference needs neither packs nor padding nor sorting.

local frames = require("seqrun.text.frames")
local tensor = require("seqrun.tensor")

local batches = {}

---@class seqrun.InferenceSequence
---@field a integer[] ids of segment A
---@field b? integer[] and of B
---@field rows? integer[] positions in A, from 1, that a head reads; by default it reads [CLS]
---@field masked? integer a position in A, from 1, replaced by the mask token
---@field open? boolean the text continues: no special tokens follow it

---A row count that kernels like.
local MULTIPLE = 128

local INT = { dtype = "i32" }

---Rows that the head reads: [CLS] of each sequence, or the listed tokens.
local function rows_of(batch)
  local rows, starts = {}, batch.starts
  for i, sequence in ipairs(batch.list) do
    local before = starts[i] + batch.frames:lead(sequence.b) - 1
    if not sequence.rows then rows[#rows + 1] = starts[i] end
    for _, place in ipairs(sequence.rows or {}) do rows[#rows + 1] = before + place end
  end
  return rows
end

---The target of a head whose items are rows; the last layer computes only these.
local function row_target(batch, reads, rows)
  local layout, order = batch.layout:shorten(rows)
  local places = {}
  for i = 1, #rows do places[i] = i - 1 end
  batch.last = { layout = layout, rows = tensor.tensor(order, INT) }
  return {
    reads = reads, rows = tensor.tensor(rows, INT), places = tensor.tensor(places, INT), count = #rows,
    weights = tensor.zeros(#rows),
  }
end

---The target of a head that reads all tokens of its sequences: (0, 0) is [CLS].
local function span_target(starts)
  local rows = {}
  for i, start in ipairs(starts) do rows[i] = { start, start } end
  local pairs_of = tensor.tensor(rows, INT)
  return {
    reads = "spans", rows = pairs_of, places = pairs_of, count = #starts, labels = tensor.zeros(#starts, 2, INT),
    weights = tensor.zeros(#starts),
  }
end

---Tokens of a sequence with its special ones.
---@param sequence seqrun.InferenceSequence
---@param frame seqrun.text.Frames
---@return integer
function batches.tokens(sequence, frame)
  return #sequence.a + (sequence.b and #sequence.b or 0) + frame:size(sequence.b)
end

---A batch of sequences, with the tensors that models and heads read.
---@param sequences seqrun.InferenceSequence[]
---@param tokenizer seqrun.core.text.tokenizer
---@return table batch like seqrun.Batch, without targets
function batches.make(sequences, tokenizer)
  local ids, types, lens, starts, frame = {}, {}, {}, {}, frames.of(tokenizer)
  for i, sequence in ipairs(sequences) do
    starts[i] = #ids
    lens[i] = frame:append(ids, types, sequence.a, sequence.b, sequence.open)
    if sequence.masked then ids[starts[i] + frame:lead(sequence.b) + sequence.masked] = tokenizer:special("mask") end
  end
  local tokens = #ids
  local rows = math.ceil(tokens / MULTIPLE) * MULTIPLE
  for i = tokens + 1, rows do ids[i], types[i] = frame.pad, 0 end
  return {
    layout = tensor.layout { lens = lens, rows = rows },
    ids = tensor.tensor(ids, INT), types = tensor.tensor(types, INT), frames = frame,
    sequences = #sequences, tokens = tokens, slots = rows, starts = starts, list = sequences, targets = {},
  }
end

---Adds what a head reads.
---@param batch table of make()
---@param reads "sequences"|"rows"|"spans"
---@return table target
function batches.target(batch, reads)
  if reads == "spans" then return span_target(batch.starts) end
  return row_target(batch, reads, rows_of(batch))
end

---Lets the last layer compute the last token of each sequence only.
---@param batch table of make()
---@return table target
function batches.last_rows(batch)
  local rows, lengths = {}, batch.layout:lengths()
  for i, start in ipairs(batch.starts) do rows[i] = start + lengths[i] - 1 end
  return row_target(batch, "sequences", rows)
end

return batches

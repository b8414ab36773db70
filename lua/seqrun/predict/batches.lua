-- batches.lua - sequences laid end to end in their order: inference needs neither packs nor padding nor sorting.

local tensor = require("seqrun.tensor")

local batches = {}

---@class seqrun.InferenceSequence
---@field a integer[] ids of segment A
---@field b? integer[] and of B
---@field rows? integer[] positions in A, from 1, that a head reads; by default it reads [CLS]

---A row count that kernels like.
local MULTIPLE = 128

local INT = { dtype = "i32" }

---Appends [CLS] A [SEP], or [CLS] A [SEP] B [SEP]; returns the number of tokens.
local function append(ids, types, sequence, cls, sep)
  local first = #ids
  ids[first + 1] = cls
  table.move(sequence.a, 1, #sequence.a, first + 2, ids)
  ids[#ids + 1] = sep
  for i = first + 1, #ids do types[i] = 0 end
  if sequence.b then
    local at = #ids
    table.move(sequence.b, 1, #sequence.b, at + 1, ids)
    ids[#ids + 1] = sep
    for i = at + 1, #ids do types[i] = 1 end
  end
  return #ids - first
end

---Rows that the head reads: [CLS] of each sequence, or the listed tokens.
local function rows_of(sequences, starts)
  local rows = {}
  for i, sequence in ipairs(sequences) do
    if not sequence.rows then rows[#rows + 1] = starts[i] end
    for _, place in ipairs(sequence.rows or {}) do rows[#rows + 1] = starts[i] + place end
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

---Tokens of a sequence with [CLS] and [SEP].
---@param sequence seqrun.InferenceSequence
---@return integer
function batches.tokens(sequence) return #sequence.a + 2 + (sequence.b and #sequence.b + 1 or 0) end

---A batch of sequences, with the tensors that models and heads read.
---@param sequences seqrun.InferenceSequence[]
---@param vocab seqrun.core.text.vocab
---@return table batch like seqrun.Batch, without targets
function batches.make(sequences, vocab)
  local ids, types, lens, starts = {}, {}, {}, {}
  local cls, sep = vocab:special("cls"), vocab:special("sep")
  for i, sequence in ipairs(sequences) do
    starts[i] = #ids
    lens[i] = append(ids, types, sequence, cls, sep)
  end
  local tokens = #ids
  local rows = math.ceil(tokens / MULTIPLE) * MULTIPLE
  for i = tokens + 1, rows do ids[i], types[i] = vocab:special("pad"), 0 end
  return {
    layout = tensor.layout { lens = lens, rows = rows },
    ids = tensor.tensor(ids, INT), types = tensor.tensor(types, INT),
    sequences = #sequences, tokens = tokens, slots = rows, starts = starts, list = sequences, targets = {},
  }
end

---Adds what a head reads.
---@param batch table of make()
---@param reads "sequences"|"rows"|"spans"
---@return table target
function batches.target(batch, reads)
  if reads == "spans" then return span_target(batch.starts) end
  return row_target(batch, reads, rows_of(batch.list, batch.starts))
end

return batches

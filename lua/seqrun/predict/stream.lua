-- stream.lua - runs items through a model batch by batch, in their order, in memory that does not grow.
--
-- An item becomes one or more sequences; sequences of several items share a batch.

local batches = require("seqrun.predict.batches")
local frames = require("seqrun.text.frames")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

---The next item with its sequences, and their tokens.
local function prepare(item, sequences_of, frame)
  if item == nil then return nil end
  local tokens = 0
  item.sequences = sequences_of(item)
  for _, sequence in ipairs(item.sequences) do tokens = tokens + batches.tokens(sequence, frame) end
  return { item = item, tokens = tokens }
end

---The next items that fill a batch of `rows` tokens, at least one, and their sequences.  `queue.first` is the item that
---did not fit, which is first the next time.
local function collect(queue, next_item, t, frame)
  local items, list, tokens = {}, {}, 0
  local next_one = queue.first or prepare(next_item(), t.sequences, frame)
  while next_one and (#items == 0 or tokens + next_one.tokens <= t.rows) do
    items[#items + 1], tokens = next_one.item, tokens + next_one.tokens
    table.move(next_one.item.sequences, 1, #next_one.item.sequences, #list + 1, list)
    next_one = prepare(next_item(), t.sequences, frame)
  end
  queue.first = next_one
  return items, list
end

---Computes sequences first..last, and keeps in each what `compute` returns for it.
local function run(list, first, last, t)
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  local part = table.move(list, first, last, 1, {})
  local outputs = t.compute(batches.make(part, t.tokenizer))
  for i, sequence in ipairs(part) do sequence.output = outputs[i] end
end

---Computes all of a list in batches of at most `rows` tokens, or of one longer sequence; false on a signal.
local function run_all(list, t, frame)
  local first, tokens = 1, 0
  for i, sequence in ipairs(list) do
    local more = batches.tokens(sequence, frame)
    if i > first and tokens + more > t.rows then
      run(list, first, i - 1, t)
      if sys.caught() then return false end
      first, tokens = i, 0
    end
    tokens = tokens + more
  end
  if #list > 0 then run(list, first, #list, t) end
  return not sys.caught()
end

---@class seqrun.StreamOptions
---@field items fun(): table? the next item, nil at the end
---@field sequences fun(item: table): seqrun.InferenceSequence[]
---@field compute fun(batch: table): table plain output of each sequence
---@field tokenizer seqrun.core.text.tokenizer
---@field rows integer tokens of a batch

---The items in their order; each has `sequences`, each of these its `output`.  Ends early on a signal.
---@param t seqrun.StreamOptions
---@return fun(): table?
return function(t)
  local ready, at, ended, queue, frame = {}, 0, false, {}, frames.of(t.tokenizer)
  local function next_item()
    local item = not ended and t.items() or nil
    ended = item == nil
    return item
  end
  return function()
    at = at + 1
    if at > #ready and (queue.first or not ended) then
      local list
      ready, list = collect(queue, next_item, t, frame)
      at = 1
      if not run_all(list, t, frame) then ready, ended, queue.first = {}, true, nil end
    end
    return ready[at]
  end
end

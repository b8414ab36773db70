-- step_arms.lua - the batches of one update in every arrangement that recipes/bench/step.lua compares.

local own_step = require("seqrun.advise.own_step")
local sr = require("seqrun")

local arms = {}

---In the order in which they are printed.
arms.ORDER = {
  "padded", "rows", "sorted", "dense", "joined", "single", "longest", "bucketed", "exact", "dealt", "packed",
}

---The rows that the targets read, as batches of a loader have them: the last layer computes only these after its
---queries, keys and values.  Adds the places of each target's rows among them.
---@return { layout: seqrun.Layout, rows: seqrun.Tensor }
local function last_of(sequences, starts, targets, seed)
  local wanted, place, rows, kept, uids, int = {}, {}, {}, {}, {}, { dtype = "i32" }
  for _, read in pairs(targets) do
    for _, row in ipairs(read) do wanted[row] = true end
  end
  for s, start in ipairs(starts) do
    local before = #rows
    for row = start, start + sequences[s].length - 1 do
      if wanted[row] then place[row], rows[#rows + 1] = #rows, row end
    end
    kept[s], uids[s] = #rows - before, sequences[s].uid
  end
  local places = {}
  for name, read in pairs(targets) do
    places[name] = {}
    for i, row in ipairs(read) do places[name][i] = place[row] end
    places[name] = sr.tensor(places[name], int):keep()
  end
  local layout = sr.layout { lens = kept, uids = uids, seed = seed }
  return { layout = layout, rows = sr.tensor(rows, int):keep() }, places
end

---@class seqrun.bench.Totals
---@field masked integer masked tokens of the update
---@field sequences integer

---@param sequences { length: integer, uid: integer }[]
---@param starts integer[]
---@param rows integer
---@param totals seqrun.bench.Totals
---@param o { vocabulary: integer, seed: integer }
local function batch_of(sequences, starts, rows, totals, o)
  local batch, read = own_step.batch(sequences, starts, rows, totals, o)
  local places
  batch.last, places = last_of(sequences, starts, read, o.seed)
  for name, target in pairs(batch.targets) do target.places = places[name] end
  return batch
end

local function masked_of(sequence)
  local count = 0
  for i = 0, sequence.length - 1 do
    if own_step.is_masked(sequence, i) then count = count + 1 end
  end
  return count
end

-- ---- attention of other kinds --------------------------------------------------------------------

local function dense_attention(slots)
  return function(qkv, layout, o)
    return sr.nn.dense_attention(qkv, layout, { heads = o.heads, scale = o.scale, slots = slots })
  end
end

---Attention over every slot of every row, padding and neighbours included.  The mask that a padded batch needs is
---omitted: it changes the results, not the time.
local function rectangle_attention(slots, rows, seed)
  local lens = {}
  for i = 1, rows // slots do lens[i] = slots end
  local whole = sr.layout { lens = lens, rows = rows, seed = seed }
  return function(qkv, _, o) return sr.ops.attention(qkv, whole, o) end
end

---The rows of each sequence followed by others, to a multiple of `step`, and where its own rows are then.
local function bucket_rows(sequences, starts, step)
  local lens, into, back = {}, {}, {}
  for s, sequence in ipairs(sequences) do
    lens[s] = (sequence.length + step - 1) // step * step
    for i = 0, lens[s] - 1 do
      if i < sequence.length then back[starts[s] + i + 1] = #into end
      into[#into + 1] = starts[s] + math.min(i, sequence.length - 1)
    end
  end
  return lens, into, back
end

---Attention of sequences without padding between them, computed at their lengths rounded up to multiples of `step`, as
---by kernels that know a few lengths: rows are copied there and back.  The mask is omitted here too.
local function bucketed_attention(sequences, starts, rows, step, seed)
  local lens, into, back = bucket_rows(sequences, starts, step)
  for r = #back + 1, rows do back[r] = 0 end -- slack
  local unit, int = 128, { dtype = "i32" }
  local padded = (#into + unit - 1) // unit * unit
  for r = #into + 1, padded do into[r] = 0 end
  local layout = sr.layout { lens = lens, rows = padded, seed = seed }
  local there, again = sr.tensor(into, int):keep(), sr.tensor(back, int):keep()
  return function(qkv, _, o)
    return sr.ops.gather_rows(sr.ops.attention(sr.ops.gather_rows(qkv, there), layout, o), again)
  end
end

-- ---- arrangements --------------------------------------------------------------------------------

---One sequence per row of `slots`.
local function rectangle(sequences, slots, totals, o)
  local starts = {}
  for i = 1, #sequences do starts[i] = (i - 1) * slots end
  return batch_of(sequences, starts, #sequences * slots, totals, o)
end

---Packs, each in a row of its own.
local function packed(packs, totals, o)
  local sequences, starts = {}, {}
  for p, pack in ipairs(packs) do
    local at = (p - 1) * o.capacity
    for _, sequence in ipairs(pack) do
      sequences[#sequences + 1], starts[#starts + 1], at = sequence, at, at + sequence.length
    end
  end
  return batch_of(sequences, starts, #packs * o.capacity, totals, o)
end

---Sequences by length, longest first, cut into batches of at most `slots` slots when each is padded to its longest.
---@param sequences { length: integer }[]
---@param slots integer
---@return table[][]
function arms.by_length(sequences, slots)
  local sorted, batches = table.move(sequences, 1, #sequences, 1, {}), {}
  table.sort(sorted, function(a, b)
    if a.length ~= b.length then return a.length > b.length end
    return a.uid < b.uid
  end)
  local at = 1
  while at <= #sorted do
    local last = math.min(#sorted, at + math.max(1, slots // sorted[at].length) - 1)
    batches[#batches + 1] = table.move(sorted, at, last, 1, {})
    at = last + 1
  end
  return batches
end

local make = {}

function make.single(all, _, totals, o)
  local batches = {}
  for i, sequence in ipairs(all) do batches[i] = batch_of({ sequence }, { 0 }, sequence.length, totals, o) end
  return batches
end

function make.rows(all, _, totals, o) return { rectangle(all, o.capacity, totals, o) } end

function make.padded(all, _, totals, o)
  local batch = rectangle(all, o.capacity, totals, o)
  batch.attention = rectangle_attention(o.capacity, batch.layout:rows(), o.seed)
  return { batch }
end

function make.sorted(all, update, totals, o)
  local batches = {}
  for i, some in ipairs(arms.by_length(all, #update * o.capacity)) do
    local longest = some[1].length
    batches[i] = rectangle(some, longest, totals, o)
    batches[i].attention = rectangle_attention(longest, batches[i].layout:rows(), o.seed)
  end
  return batches
end

function make.packed(_, update, totals, o)
  local batches, each = {}, o.micro > 0 and o.micro or #update
  for first = 1, #update, each do
    local some = table.move(update, first, math.min(#update, first + each - 1), 1, {})
    batches[#batches + 1] = packed(some, totals, o)
  end
  return batches
end

---Sequences one after the other, without padding; `step`: attention at lengths rounded up to its multiples.
local function unpadded(sequences, totals, o, step)
  local starts, at = {}, 0
  for s, sequence in ipairs(sequences) do starts[s], at = at, at + sequence.length end
  local batch = batch_of(sequences, starts, (at + 127) // 128 * 128, totals, o)
  if step then batch.attention = bucketed_attention(sequences, starts, batch.layout:rows(), step, o.seed) end
  return batch
end

function make.longest(all, _, totals, o) return { unpadded(all, totals, o, o.capacity) } end
function make.bucketed(all, _, totals, o) return { unpadded(all, totals, o, 128) } end
function make.exact(all, _, totals, o) return { unpadded(all, totals, o) } end

---A batch for each rank, without padding; sequences are assigned to them as the key `balance` does.
function make.dealt(all, _, totals, o)
  local items, lists, batches = {}, {}, {}
  for i, sequence in ipairs(all) do items[i] = { sequence.length } end
  for g = 1, o.ranks do lists[g] = {} end
  local groups = sr.pack.assign(items, o.ranks, { per_token = 1, per_square = 1 / (6 * o.hidden) }, o.deal)
  for i, g in ipairs(groups) do table.insert(lists[g], all[i]) end
  for g, list in ipairs(lists) do batches[g] = unpadded(list, totals, o) end
  return batches
end

local function with_attention(kind)
  return function(all, update, totals, o)
    local batches = make.packed(all, update, totals, o)
    for _, batch in ipairs(batches) do batch.attention = kind(o.capacity, batch.layout:rows(), o.seed) end
    return batches
  end
end
make.dense = with_attention(dense_attention)
make.joined = with_attention(rectangle_attention)

---The batches of one update.  A batch may have an `attention` of its own, which the encoder is to use.
---@param update { length: integer, uid: integer }[][] packs
---@param how string one of arms.ORDER
---@param o { capacity: integer, vocabulary: integer, seed: integer, micro: integer, ranks: integer, hidden: integer,
---  deal: "cost"|"random" }
---@return table[]
function arms.arrange(update, how, o)
  local totals, all = { masked = 0, sequences = 0 }, {}
  for _, pack in ipairs(update) do
    for _, sequence in ipairs(pack) do
      all[#all + 1] = sequence
      totals.masked = totals.masked + masked_of(sequence)
    end
  end
  totals.sequences = #all
  return make[how](all, update, totals, o)
end

return arms

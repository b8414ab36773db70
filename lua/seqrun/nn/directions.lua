-- directions.lua - the hidden states of a causal encoder's batch, some of whose sequences are masked instead: those
-- attend to both sides.  Each kind is encoded by itself; a sequence has the same bits whatever it shares a batch with.

local merged = require("seqrun.base.merged")
local ops = require("seqrun.tensor.ops")
local tensor = require("seqrun.tensor")

local INT = { dtype = "i32" }

---A multiple of this number of rows is what kernels like.
local MULTIPLE = 128

---Rows of a target, on the host.
local function rows_of(batch, name)
  return batch.host_rows and batch:host_rows(name) or batch.targets[name].rows:totable()
end

---Which sequences have items of a target, as a set of their numbers.
local function sequences_of(batch, name)
  local owners, set = batch.layout:owners(), {}
  for _, row in ipairs(rows_of(batch, name)) do set[owners[row + 1] + 1] = true end
  return set
end

---The sequences of a batch in or outside a set, as a batch of their own; nil if there are none.
local function part_of(batch, set, inside)
  local layout = batch.layout
  local starts, lengths, uids, epochs = layout:starts(), layout:lengths(), layout:uids(), layout:epochs()
  local own, rows, places = { lens = {}, uids = {}, epochs = {}, seed = layout:seed() }, {}, {}
  for row = 1, layout:rows() do places[row] = 0 end
  for i, length in ipairs(lengths) do
    if (set[i] or false) == inside then
      local n = #own.lens + 1
      own.lens[n], own.uids[n], own.epochs[n] = length, uids[i], epochs[i]
      for row = starts[i], starts[i] + length - 1 do
        rows[#rows + 1] = row
        places[row + 1] = #rows - 1
      end
    end
  end
  if #rows == 0 then return nil end
  own.rows = (#rows + MULTIPLE - 1) // MULTIPLE * MULTIPLE
  for row = #rows + 1, own.rows do rows[row] = rows[1] end -- slack
  local from = tensor.tensor(rows, INT)
  return {
    layout = tensor.layout(own), ids = ops.gather_rows(batch.ids, from), types = ops.gather_rows(batch.types, from),
    places = tensor.tensor(places, INT), targets = {},
  }
end

---A target of the whole batch as one of a part.
local function moved(target, part)
  local rows = ops.gather_rows(part.places, target.rows)
  return merged(target, { rows = rows, places = rows })
end

---The hidden states that a target reads, and the target with its rows of them.
---@param encoder seqrun.Encoder
---@param batch seqrun.Batch
---@return fun(target: seqrun.Target): seqrun.States, seqrun.Target
return function(encoder, batch)
  local masked = encoder.design.causal and batch.targets.mlm
  if not masked then
    local states = encoder:states(batch)
    return function(target) return states, target end
  end
  local set = sequences_of(batch, "mlm")
  local both, causal = part_of(batch, set, true), part_of(batch, set, false)
  local parts, states = {}, {}
  local function encode(part, how)
    if not part then return end
    part.encoder, states[part] = how, how:states(part)
    parts[#parts + 1] = part
  end
  encode(causal, encoder)
  encode(both, encoder:both_sides())
  batch.parts = parts
  return function(target)
    local part = target == masked and both or causal or both
    return states[part], moved(target, part)
  end
end

-- bert.lua - batches built by hand from a list of sequences, for tests of the model.
--
-- A sequence is { ids, types, masked_positions, masked_labels, nsp }, positions from 0.

local sr = require("seqrun")

local support = {}

---The sequences of the tiny model.
---@return table[]
function support.input()
  local text = assert(require("seqrun.core.sys").read_file("tests/data/model/tiny/input.json"))
  return require("seqrun.core.json").decode(text).sequences
end

---The starts of the sequences: packed consecutively, or each at the start of a row of `slots`.
local function starts(sequences, slots)
  local list, row = {}, 0
  for i, s in ipairs(sequences) do
    list[i] = row
    row = row + (slots or #s.ids)
  end
  return list, row
end

---A tensor of a list, which may be empty.
local function tensor(values, dtype)
  if #values == 0 then return sr.zeros(0, { dtype = dtype }) end
  return sr.tensor(values, { dtype = dtype })
end
support.tensor = tensor

---@class tests.BertOptions
---@field slots? integer
---@field rows? integer
---@field uids? integer[]
---@field masked? integer
---@field count? integer
---@field seed? integer
---@field epoch? integer
---@field last? boolean

---@param sequences table[]
---@param options? tests.BertOptions
---  slots: padded rows of that many; rows: T; masked and count: the denominators M and N of the update
---@return table # a batch, like those of a loader
function support.batch(sequences, options)
  options = options or {}
  local start, last = starts(sequences, options.slots)
  local rows = options.rows or last
  local ids, types, lens, epochs = {}, {}, {}, {}
  for t = 1, rows do ids[t], types[t] = 0, 0 end
  local mlm = { rows = {}, labels = {}, weights = {} }
  local nsp = { rows = {}, labels = {}, weights = {} }
  local masked = options.masked
  if not masked then
    masked = 0
    for _, s in ipairs(sequences) do masked = masked + #s.masked_positions end
  end
  for i, s in ipairs(sequences) do
    lens[i], epochs[i] = #s.ids, options.epoch or 0
    for t, id in ipairs(s.ids) do ids[start[i] + t], types[start[i] + t] = id, s.types[t] end
    for j, position in ipairs(s.masked_positions) do
      local m = #mlm.rows + 1
      mlm.rows[m], mlm.labels[m], mlm.weights[m] = start[i] + position, s.masked_labels[j], 1 / masked
    end
    nsp.rows[i], nsp.labels[i], nsp.weights[i] = start[i], s.nsp, 1 / (options.count or #sequences)
  end
  local batch = {
    ids = tensor(ids, "i32"), types = tensor(types, "i32"),
    layout = sr.layout {
      lens = lens, starts = start, uids = options.uids, epochs = epochs, rows = rows, seed = options.seed or 7,
    },
    targets = {},
  }
  for name, target in pairs { mlm = mlm, nsp = nsp } do
    batch.targets[name] = {
      rows = tensor(target.rows, "i32"), labels = tensor(target.labels, "i32"), weights = tensor(target.weights),
    }
  end
  if options.last then support.add_last(batch) end
  return batch
end

---The rows that targets read, like those of a loader.
function support.add_last(batch)
  local all, place = {}, {}
  for _, target in pairs(batch.targets) do
    table.move(target.rows:totable(), 1, target.rows:numel(), #all + 1, all)
  end
  local layout, rows = batch.layout:shorten(all)
  for i, row in ipairs(rows) do place[row] = i - 1 end
  batch.last = { layout = layout, rows = tensor(rows, "i32") }
  for _, target in pairs(batch.targets) do
    local places = {}
    for i, row in ipairs(target.rows:totable()) do places[i] = place[row] end
    target.places = tensor(places, "i32")
  end
end

---All sequences as one update, cut into batches of these sizes.
---@param sequences table[]
---@param sizes integer[]? by default 1 each
---@param options? tests.BertOptions
function support.cut(sequences, sizes, options)
  local batches, at, masked, ones = {}, 0, 0, {}
  for i, s in ipairs(sequences) do masked, ones[i] = masked + #s.masked_positions, 1 end
  for _, size in ipairs(sizes or ones) do
    local some, more = {}, { uids = {}, masked = masked, count = #sequences }
    for i = 1, size do some[i], more.uids[i] = sequences[at + i], at + i - 1 end
    at = at + size
    for key, value in pairs(options or {}) do more[key] = value end
    batches[#batches + 1] = support.batch(some, more)
  end
  assert(at == #sequences, "sizes of other sequences")
  return batches
end

---The gradients of all parameters that have one, by name.
---@param params seqrun.Params
---@return table<string, seqrun.Tensor>
function support.gradients(params)
  local found = {}
  for _, name in ipairs(params:names()) do
    local grad = params:get(name):grad()
    found[name] = grad and grad:clone()
  end
  return found
end

---The total loss of the batches of one update, its gradients, and the losses of these names.
---@param model seqrun.Bert
---@param batches table[]
---@return { total: number, gradients: table<string, seqrun.Tensor> }
function support.measure(model, batches, ...)
  model.params:zero_grad()
  local found = { total = 0 }
  for _, batch in ipairs(batches) do
    local losses = model:losses(batch)
    losses.total:backward()
    found.total = found.total + losses.total:item()
    for _, name in ipairs { ... } do found[name] = (found[name] or 0) + losses[name].total:item() end
  end
  found.gradients = support.gradients(model.params)
  return found
end

---Sum of squares, as a number.
local function square(t)
  return (t * t):sum():item()
end

---Compares gradients: ||g - g'|| <= tolerance max(||g'||, 1e-3 ||all gradients||).
---@param got table<string, seqrun.Tensor>
---@param wanted table<string, seqrun.Tensor>
---@return string? # the largest difference, nil if all are within tolerance
function support.differ(got, wanted, tolerance)
  local all = 0
  for _, w in pairs(wanted) do all = all + square(w) end
  local worst, where = 0, nil
  for name, w in pairs(wanted) do
    local limit = math.max(math.sqrt(square(w)), 1e-3 * math.sqrt(all))
    local error_ratio = math.sqrt(square(got[name] - w)) / limit
    if not (error_ratio <= worst) then worst, where = error_ratio, name end
  end
  if worst > tolerance or worst ~= worst then return ("%s: %.3e"):format(where, worst) end
end

---Checks the gradients of these parameters by finite differences.
---@param params seqrun.Params
---@param names string[]
---@param loss fun(): seqrun.Tensor
function support.check_gradients(params, names, loss, samples)
  local list = {}
  for i, name in ipairs(names) do list[i] = params:get(name) end
  assert(sr.gradcheck(loss, list, { samples = samples or 3 }))
end

---Checks that five sequences have the same losses and gradients packed, padded and each by itself.
---@param model seqrun.Bert
---@param loader seqrun.Loader
function support.check_arrangements(model, loader)
  local want
  for _, way in ipairs { "packed", "padded", "single" } do
    model.params:zero_grad()
    local update, sum = loader:update_of({ 3, 1, 7, 12, 5 }, { arrange = way }), 0
    for i = 1, update.count do
      local losses = model:losses(update:batch(i))
      losses.total:backward()
      sum = sum + losses.total:item()
    end
    local got = support.gradients(model.params)
    want = want or { sum = sum, gradients = got }
    assert(math.abs(sum - want.sum) <= 1e-5 * want.sum, way)
    local difference = support.differ(got, want.gradients, 3e-5)
    assert(not difference, way .. ": " .. tostring(difference))
  end
end

return support

-- contrast.lua - losses over all texts of an update, however many: gradients by caching representations.
--
--     local contrast = task:contrast(model)       -- run:start { objective = contrast, ... } does what follows
--     contrast:begin(update)                      -- vectors of all micro-batches, without a tape; the loss over them
--     for batch in update:batches() do
--       local losses = contrast:losses(batch)     -- once more, with a tape, and the gradient of the vectors
--       losses.total:backward()
--     end
--
-- Masks are keyed by sequence, so both passes draw the same ones, and the gradients are those of keeping every
-- tape, to the bit.  Ranks exchange vectors; each computes the same loss over all.  Without ranks an update of one
-- micro-batch is encoded once.

local failure = require("seqrun.base.failure")
local Head = require("seqrun.tasks.embed.head")
local losses = require("seqrun.nn.losses")
local ops = require("seqrun.tensor.ops")
local ranks = require("seqrun.tensor.ranks")
local shares = require("seqrun.data.loader.shares")
local tensor = require("seqrun.tensor")
local texts = require("seqrun.tasks.embed.texts")

---@class seqrun.Contrast
---@field model seqrun.Bert
---@field head seqrun.EmbedHead
local Contrast = {}
Contrast.__index = Contrast

local INT = { dtype = "i32" }

---@param model seqrun.Bert with an embedding head
---@return seqrun.Contrast
local function new(model) return setmetatable({ model = model, head = model.heads[1] }, Contrast) end

---The vectors of a micro-batch.
local function vectors_of(self, batch)
  local target = batch.targets[self.head.name]
  return self.head:vectors(self.model.encoder:states(batch), target), target
end

---The vectors of this rank's micro-batches, one after the other, and what is known of their texts.
local function represent(self, update)
  local parts, list, counts = {}, {}, {}
  local quiet <close> = tensor.no_grad()
  for _, i in ipairs(shares.numbers(update)) do
    local scope <close> = tensor.scope()
    local vectors, target = vectors_of(self, update:batch(i))
    parts[#parts + 1] = vectors:contiguous():keep()
    local rows = target.labels:totable()
    table.move(rows, 1, #rows, #list + 1, list)
    counts[#counts + 1] = #rows
  end
  return parts, list, counts
end

---The vectors of all ranks, rank 0 first, of as many texts each as they have.
local function gather_vectors(world, own, each)
  local most, width = 0, own:size(2)
  for _, count in ipairs(each) do most = math.max(most, count) end
  local padding = tensor.zeros(most - own:size(1), width, { dtype = own:dtype() })
  local part = most > own:size(1) and tensor.cat { own, padding } or own:contiguous()
  local all = tensor.zeros(world.size * most, width, { dtype = own:dtype() })
  world:all_gather(all, part)
  world:wait()
  local parts = {}
  for rank, count in ipairs(each) do
    if count > 0 then parts[#parts + 1] = all:narrow(1, (rank - 1) * most + 1, count) end
  end
  return tensor.cat(parts)
end

local NUMBERS = "<" .. ("i4"):rep(texts.SIZE)

local function to_bytes(rows)
  local parts = {}
  for i, row in ipairs(rows) do parts[i] = string.pack(NUMBERS, table.unpack(row)) end
  return table.concat(parts)
end

local function from_bytes(bytes, rows)
  local width = NUMBERS:packsize()
  for at = 1, #bytes, width do
    local row = { string.unpack(NUMBERS, bytes, at) }
    row[#row] = nil
    rows[#rows + 1] = row
  end
end

---The vectors and texts of all ranks, and how many come before this one's.
local function exchange(vectors, rows)
  local world = ranks.current()
  if not world or world.size == 1 then return vectors, rows, 0 end
  local all, each, before = {}, {}, 0
  for rank, bytes in ipairs(world:gather_text(to_bytes(rows))) do
    each[rank] = #bytes // NUMBERS:packsize()
    if rank <= world.rank then before = before + each[rank] end
    from_bytes(bytes, all)
  end
  return gather_vectors(world, vectors, each), all, before
end

---The loss over all vectors; the gradient in the order of the vectors.
local function solve(self, vectors, rows)
  local list, sorted, back = {}, {}, {}
  for i, row in ipairs(rows) do list[i] = texts.unpack(row) end
  local order = texts.order(list)
  for k, i in ipairs(order) do
    sorted[k], back[i], order[k] = list[i], k - 1, i - 1
  end
  local arranged = ops.gather_rows(vectors, tensor.tensor(order, INT))
  local found = self.head.objective:of(arranged, sorted, self.head:optional(Head.SCALE))
  if found.value ~= found.value then return nil end
  found.gradient = ops.gather_rows(found.gradient, tensor.tensor(back, INT))
  return found
end

---The loss over an update that is encoded already; its gradients wait for the micro-batches.
local function prepare(self, parts, rows, counts)
  local scope <close> = tensor.scope()
  local own = parts[1] and tensor.cat(parts) or tensor.zeros(0, self.head.size) -- a rank may have no micro-batch
  local all, texts_of_all, before = exchange(own, rows)
  local found = solve(self, all, texts_of_all)
  if not found then
    failure.raise("numeric", "the loss of this update is not a number; lower rate.peak, or raise embed.temperature")
  end
  self.gradients, self.found = {}, found
  for i, count in ipairs(counts) do
    self.gradients[i] = found.gradient:narrow(1, before + 1, count):contiguous():keep()
    before = before + count
  end
  found.gradient, found.scale = nil, found.scale and found.scale:keep()
end

---Encodes an update without a tape and computes its loss; without ranks, a single micro-batch waits for losses().
---@param update seqrun.Update
function Contrast:begin(update)
  self.at, self.found, self.gradients = 0, nil, nil
  local world = ranks.current()
  if update.count == 1 and (not world or world.size == 1) then return end
  local parts, rows, counts = represent(self, update)
  prepare(self, parts, rows, counts)
  for _, part in ipairs(parts) do part:release() end
end

---The loss of the update, which its first micro-batch carries.
local function carried(self)
  local found, mnrl = self.found, self.head.objective.options.loss == "mnrl"
  local sums = mnrl and { nearest = { found.correct, found.count } } or nil
  return { count = found.count, sums = sums }, found.value
end

---The losses of a micro-batch, in the order of update:batches().
---@param batch seqrun.Batch
---@return seqrun.Losses
function Contrast:losses(batch)
  local vectors, target = vectors_of(self, batch)
  if not self.gradients then prepare(self, { vectors:detach() }, target.labels:totable(), { vectors:size(1) }) end
  self.at = self.at + 1
  local loss, value = { count = 0 }, 0
  local first = self.at == 1 and (batch.share or 1) == 1
  if first then loss, value = carried(self) end
  loss.total = Head.surrogate(vectors, self.gradients[self.at], value)
  local scale = first and self.head:optional(Head.SCALE)
  if scale then loss.total = loss.total + Head.surrogate(scale, self.found.scale, 0) end
  local all = losses.new():add(self.head.name, loss)
  self.model.encoder:add_losses(batch, all)
  return all
end

return new

-- window.lua - sums over the steps of one line of metrics, and the totals of the whole run.
--
-- Loss scalars stay on the device until `read_losses` reads them, so a step never waits.  The state can be saved and
-- restored, so that a resumed run writes the same lines: micro-batches are added up in their order for each update,
-- which is then added as a whole, so the sums do not depend on when they are read, nor on the ranks that made them.

local run_ranks = require("seqrun.run.ranks")
local tally = require("seqrun.history.tally")

local ratio = tally.ratio

local Window = {}
Window.__index = Window

---Also summed over the whole run.
local TOTALS = { "sequences", "tokens", "slots" }

---sums: of the line; batches: of each micro-batch of the current update; done: updates with scalars still to be read.
---@param ranks? seqrun.RunRanks
local function new(ranks)
  return setmetatable({
    ranks = ranks or run_ranks.new(), sums = {}, batches = {}, done = {}, tally = tally.new(), sequences = 0,
    tokens = 0, slots = 0,
  }, Window)
end

---Adds a micro-batch and the losses of the model; tensors are read later.
---@param batch seqrun.Batch
---@param losses seqrun.Losses
---@param flops number of this micro-batch
function Window:add(batch, losses, flops)
  local sums = { flops = flops }
  for _, name in ipairs(TOTALS) do sums[name] = batch[name] end
  self.tally:take(sums, losses, false, batch)
  self.batches[#self.batches + 1] = sums
end

---Update `i` of all ranks: its micro-batches in their order, and the time of rank 0.
local function whole(i, ranks)
  local update, batches, cpu = ranks[1].done[i], {}, nil
  for _, rank in ipairs(ranks) do
    local own = rank.done[i]
    table.move(own.batches, 1, #own.batches, #batches + 1, batches)
    cpu = own.cpu and own.cpu + (cpu or 0)
  end
  local sums = tally.add_up({}, batches)
  sums.steps, sums.seconds, sums.wait, sums.imbalance = 1, update.seconds, update.wait, update.imbalance
  sums.cpu = cpu
  return sums
end

---Reads all pending scalars and adds up the updates that were done, over all ranks.
function Window:read_losses()
  self.tally:read()
  if #self.done == 0 then return end
  local ranks = self.ranks:gather { done = self.done, order = self.tally.order }
  for i = 1, #self.done do
    local update = whole(i, ranks)
    for key, value in pairs(update) do tally.add(self.sums, key, value) end
    for _, name in ipairs(TOTALS) do self[name] = self[name] + (update[name] or 0) end
  end
  for _, rank in ipairs(ranks) do self.tally:also(rank.order) end
  self.done = {}
end

---Ends the current update: it took `seconds`, of which `wait` were spent waiting for data; its most expensive
---micro-batch costs `imbalance` times the mean; `cpu` are seconds of processor time of all threads.
function Window:step(seconds, wait, imbalance, cpu)
  self.done[#self.done + 1] = {
    batches = self.batches, seconds = seconds, wait = wait, imbalance = imbalance, cpu = cpu,
  }
  self.batches = {}
end

---Discards the current update.
function Window:drop()
  self:read_losses()
  self.batches = {}
end

---The line of metrics of this window, which is then reset.
---@param peak number|nil peak FLOP/s of the device
---@return table
function Window:line(peak)
  self:read_losses()
  local s = self.sums
  self.sums = {}
  local line = {
    loss = ratio(s.loss, s.steps), sequences = self.sequences, real_tokens = self.tokens, slot_tokens = self.slots,
    efficiency = ratio(s.tokens, s.slots), imbalance = ratio(s.imbalance, s.steps),
    real_tokens_per_s = ratio(s.tokens, s.seconds), slot_tokens_per_s = ratio(s.slots, s.seconds),
    mfu = peak and ratio(s.flops, s.seconds and s.seconds * peak), data_wait_ms = ratio(1000 * (s.wait or 0), s.steps),
    cpu_ms = s.cpu and ratio(1000 * s.cpu, s.steps),
  }
  self.tally:metrics(s, line)
  return line
end

---Totals of the whole run.
---@return { sequences: integer, tokens: integer, slots: integer }
function Window:totals() return { sequences = self.sequences, tokens = self.tokens, slots = self.slots } end

---The losses of a line, in the order in which they are shown.
---@return seqrun.Shown[]
function Window:order() return self.tally.order end

---A plain table for `restore`.
function Window:state()
  self:read_losses()
  return {
    sums = self.sums, order = self.tally.order, sequences = self.sequences, tokens = self.tokens, slots = self.slots,
  }
end

function Window:restore(state)
  for name, value in pairs(state.sums) do self.sums[name] = value end
  self.tally.order = state.order or {}
  self.sequences, self.tokens, self.slots = state.sequences, state.tokens, state.slots
end

return { new = new }

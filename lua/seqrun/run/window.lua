-- window.lua - what the steps of one line of metrics add up to, and the totals of the whole run.
--
-- Scalars of losses stay on the device until somebody asks (`settle`), so a step waits for nothing.
-- Everything here can be saved and taken up again, so that a resumed run writes the same lines: an update
-- adds up for itself and then counts as a whole, so the sums are the same whenever they are settled.

local Window = {}
Window.__index = Window

---Scalars that may wait on the device before they are read.
local MOST_PENDING = 256

local SUMS = {
  "steps", "loss", "mlm", "nsp", "correct", "masked", "nsp_correct", "pairs", "sequences", "tokens", "slots",
  "flops", "seconds", "wait", "imbalance",
}

local function zeros()
  local sums = {}
  for _, name in ipairs(SUMS) do sums[name] = 0 end
  return sums
end

---Those that are kept over the whole run as well.
local TOTALS = { "sequences", "tokens", "slots" }

---sums: of the line; update: of the update under way; done: updates whose scalars are not all read.
local function new()
  return setmetatable({
    sums = zeros(), update = zeros(), done = {}, pending = {}, sequences = 0, tokens = 0, slots = 0,
  }, Window)
end

---Takes a scalar tensor along, out of its scope.
local function queue(self, name, tensor)
  if tensor then self.pending[#self.pending + 1] = { self.update, name, tensor:detach():keep() } end
end

---Adds a micro-batch and the losses of the model; tensors are read later.
---@param batch seqrun.Batch
---@param losses table total, mlm, nsp, mlm_correct, nsp_correct
---@param flops number of this micro-batch
function Window:add(batch, losses, flops)
  local sums = self.update
  queue(self, "loss", losses.total)
  queue(self, "mlm", losses.mlm)
  queue(self, "nsp", losses.nsp)
  queue(self, "correct", losses.mlm_correct and losses.mlm_correct:sum())
  queue(self, "nsp_correct", losses.nsp_correct and losses.nsp_correct:sum())
  sums.masked = sums.masked + (batch.masked or 0)
  sums.pairs = sums.pairs + (losses.nsp and batch.sequences or 0)
  sums.flops = sums.flops + flops
  for _, name in ipairs(TOTALS) do sums[name] = sums[name] + batch[name] end
  if #self.pending > MOST_PENDING then self:settle() end
end

---Reads what is still on the device.
function Window:settle()
  for _, item in ipairs(self.pending) do
    local sums, name, tensor = table.unpack(item)
    sums[name] = sums[name] + tensor:item()
    tensor:release()
  end
  for _, update in ipairs(self.done) do
    for _, name in ipairs(SUMS) do self.sums[name] = self.sums[name] + update[name] end
  end
  self.pending, self.done = {}, {}
end

---The update under way is complete: it took `seconds`, of which `wait` went by without data; its heaviest
---micro-batch costs `imbalance` times the mean.
function Window:step(seconds, wait, imbalance)
  local update = self.update
  update.steps, update.seconds, update.wait, update.imbalance = 1, seconds, wait, imbalance
  for _, name in ipairs(TOTALS) do self[name] = self[name] + update[name] end
  self.done[#self.done + 1], self.update = update, zeros()
end

---Forgets the update under way.
function Window:drop()
  self:settle()
  self.update = zeros()
end

local function ratio(a, b) return b > 0 and a / b or nil end

---The line of metrics of this window, which begins anew.
---@param peak number|nil floating-point operations that the device can do a second
---@return table
function Window:line(peak)
  self:settle()
  local s = self.sums
  self.sums = zeros()
  return {
    loss = ratio(s.loss, s.steps), mlm_loss = ratio(s.mlm, s.steps), nsp_loss = s.pairs > 0 and s.nsp / s.steps or nil,
    mlm_accuracy = ratio(s.correct, s.masked), nsp_accuracy = ratio(s.nsp_correct, s.pairs),
    sequences = self.sequences, real_tokens = self.tokens, slot_tokens = self.slots,
    efficiency = ratio(s.tokens, s.slots), imbalance = ratio(s.imbalance, s.steps),
    real_tokens_per_s = ratio(s.tokens, s.seconds), slot_tokens_per_s = ratio(s.slots, s.seconds),
    mfu = peak and ratio(s.flops, s.seconds * peak), data_wait_ms = ratio(1000 * s.wait, s.steps),
  }
end

---A plain table that `restore` takes.
function Window:state()
  self:settle()
  return { sums = self.sums, sequences = self.sequences, tokens = self.tokens, slots = self.slots }
end

function Window:restore(state)
  for name, value in pairs(state.sums) do self.sums[name] = value end
  self.sequences, self.tokens, self.slots = state.sequences, state.tokens, state.slots
end

return { new = new }

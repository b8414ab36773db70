-- meter.lua - what the steps of a run do and how long they take: the counters, and the lines of metrics.

local energy = require("seqrun.run.measure.energy")
local peak = require("seqrun.run.measure.peak")
local sys = require("seqrun.core.sys")
local window = require("seqrun.run.measure.window")

---@class seqrun.Meter
---@field given? number the config's `peak_flops`
---@field config table
---@field model table
---@field loaders seqrun.RunLoaders
---@field schedules table<string, seqrun.ValueSchedule>
---@field ranks seqrun.RunRanks
---@field window seqrun.Window
---@field flops number of this process, for all ranks
---@field own table[] work of this rank in the current update
---@field seconds number of the steps of this process
---@field before { tokens: integer, slots: integer } of the run before this process
---@field peak? number FLOP/s of a rank
---@field joules? seqrun.Energy
---@field update? table the current one: its times, counters and what its order decided
---@field latest? table the last line of metrics
local Meter = {}
Meter.__index = Meter

---@param t { config: table, model: table, loaders: seqrun.RunLoaders, schedules?: table<string, seqrun.ValueSchedule>,
---  ranks: seqrun.RunRanks }
---@return seqrun.Meter
local function new(t)
  return setmetatable({
    config = t.config, given = t.config.peak_flops, model = t.model, loaders = t.loaders, schedules = t.schedules or {},
    ranks = t.ranks, window = window.new(t.ranks), flops = 0, own = {}, seconds = 0,
    before = { tokens = 0, slots = 0 },
  }, Meter)
end

---Measures the peak of the device, and counts the tokens of this process from now on.
---@return number|nil peak FLOP/s
function Meter:start()
  self.peak, self.joules = peak.of(self.config), energy.open()
  self.before = self.window:totals()
  return self.peak
end

---Adds the work of one micro-batch to the counters.
local function add_work(self, done)
  if not done.again then self.flops = self.flops + done.flops end
  self.loaders:worked(done.layer_tokens, done.layers, done.flops)
end

---Adds the work of all ranks in this update, in the order of its micro-batches.
function Meter:gather_work()
  local all = self.ranks:gather(self.own)
  self.own = {}
  for _, rank in ipairs(all) do
    for _, done in ipairs(rank) do add_work(self, done) end
  end
end

---An update begins.
---@param update seqrun.Update
---@param waited number seconds for its data
function Meter:begin(update, waited)
  self.update = {
    began = sys.now(), waited = waited, cpu = os.clock(), imbalance = update.imbalance, counters = update.counters,
    decided = update.window,
  }
end

---Layers that a model has; one without layers() or a design counts as one that sees every token.
local function layers_of(model)
  if model.layers then return model:layers() end
  return model.design and model.design.layers or 1
end

---Takes the losses of a micro-batch; they are read later.
---@param batch seqrun.Batch
---@param losses seqrun.Losses
---@param again? boolean the step is computed once more: only the counters of the update are added to
function Meter:tally(batch, losses, again)
  self.tallied = true
  local model, layers = self.model, layers_of(self.model)
  local flops = model.flops and model:flops(batch) or 0
  local done = {
    layer_tokens = model.layer_tokens and model:layer_tokens(batch) or batch.tokens * layers, layers = layers,
    flops = flops, again = again or nil,
  }
  if self.ranks:several() then self.own[#self.own + 1] = done else add_work(self, done) end
  if not again then self.window:add(batch, losses, flops) end
end

---Whether there were losses of any micro-batch.
---@return boolean
function Meter:has_tallied() return self.tallied == true end

---The update has been applied.
---@return number seconds that it took
function Meter:step()
  local update = self.update
  local seconds = sys.now() - update.began + update.waited
  self.window:step(seconds, update.waited, update.imbalance, os.clock() - update.cpu)
  self.seconds = self.seconds + seconds
  return seconds
end

---Seconds that the current update waited for its data.
---@return number
function Meter:waited() return self.update.waited end

---What a curriculum had decided for an update.
local function add_decided(line, decided)
  if not decided then return end
  line.curriculum_length = decided.max_len and decided.max_len > 0 and decided.max_len or nil
  line.curriculum_unlocked = decided.unlocked
  line.mask_rate = decided.mask or line.mask_rate
  for name, value in pairs(decided.difficulties or {}) do line["curriculum_" .. name] = value end
end

---The line of metrics of the steps since the last one.
---@param step integer
---@param results fun(): table, integer what the optimizer found, and the steps that it skipped
---@param seconds fun(): number of the run
---@return table line to be recorded
---@return number|nil mfu to be shown: also of a peak that was measured, if the run does not exceed it
function Meter:line(step, results, seconds)
  local most = self.model.flops and self.peak
  local line = self.window:line(most and most * self.ranks.size)
  line.energy_j = self.joules and self.joules:joules()
  local result, skipped = results()
  line.type, line.step, line.lr, line.seconds = "train", step, result.rate, seconds()
  line.grad_norm, line.skipped = result.norm, skipped
  for name in pairs(self.loaders:counts()) do line[name] = self.update.counters[name] end
  for name, schedule in pairs(self.schedules) do line[(name:gsub("[.]", "_"))] = schedule.value end
  add_decided(line, self.update.decided)
  local share = line.mfu
  if not self.given then line.mfu = nil end
  if peak.is_too_low(self.given, share) then share, self.peak = nil, nil end
  self.latest = line
  return line, share
end

---The last line of metrics; nil before the first.
---@return table|nil
function Meter:last_line() return self.latest end

---The losses of a line, in the order in which they are shown.
---@return seqrun.Shown[]
function Meter:order() return self.window:order() end

---Reads the losses that are pending.
function Meter:read_losses() self.window:read_losses() end

---Discards the current update.
function Meter:drop() self.window:drop() end

---What the run has done, for its last lines: sequences, tokens and slots of all of it; the others of this process.
---@return { sequences: integer, tokens: integer, slots: integer, seconds: number, new_tokens: integer,
---  new_slots: integer, flops: number, available?: number } available: FLOP at the peak
function Meter:totals()
  local done, most = self.window:totals(), self.model.flops and self.peak
  done.seconds, done.flops = self.seconds, self.flops
  done.new_tokens, done.new_slots = done.tokens - self.before.tokens, done.slots - self.before.slots
  done.available = most and most * self.ranks.size * math.max(1e-9, self.seconds)
  return done
end

---Plain values for `restore`.
function Meter:state() return self.window:state() end

function Meter:restore(state) self.window:restore(state) end

return { new = new }

-- here.lua - the advisor on this machine: a probe of some seconds, predictions for our own steps, and their check.
--
--     local here = require("seqrun.advise.here")
--     local machine = here.probe { model = "bert-base", seq = 512 }
--     local found = here.predict(machine, { batch = 8, ranks = 2, threads = 1, micro_batch = 2, recompute = false })
--     print(found.step_seconds, found.memory_bytes)
--
-- The model is that of time.lua and memory.lua; the probe replaces a device's figures and the constants of `packed`:
-- rates of products of two sizes, of attention and of copies; what else a layer costs, from steps of one and of two
-- layers on one and on two packs; what the ends cost; the optimizer's pass.  A step of the model is not part of it.

local advise = require("seqrun.advise")
local check = require("seqrun.base.check")
local models = require("seqrun.advise.models")
local ops = require("seqrun.tensor.ops")
local own_step = require("seqrun.advise.own_step")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local time = require("seqrun.advise.time")

local here = {}

local REPEATS = 4
local BYTES = 4 -- f32

---@class seqrun.advise.Machine
---@field model seqrun.advise.Model
---@field seq integer
---@field threads integer all that this process may use
---@field seconds number that the probe took
---@field memory integer bytes
---@field cpu string
---@field by_threads table<integer, { copy: number, constants: table }>

-- ---- the probe -----------------------------------------------------------------------------------

local function random(...) return tensor.randn({ ... }, { seed = 1, uid = 1 }) end
local function leaf(...) return random(...):requires_grad_(true) end

---Seconds of forward and backward of what `fn` returns.
local function both(fn)
  local function once()
    local scope <close> = tensor.scope()
    local y = fn()
    y:backward(tensor.ones(table.unpack(y:shape())))
  end
  once()
  return own_step.least(REPEATS, once)
end

---Bytes/s of a copy, reads and writes counted.
local function copy_rate()
  local scope <close> = tensor.scope()
  local from, to = tensor.zeros(1 << 24), tensor.zeros(1 << 24)
  to:copy_(from)
  return 2 * BYTES * (1 << 24) / own_step.least(REPEATS, function() to:copy_(from) end)
end

---Seconds per FLOP of the three products of (m, k) x (k, n), and 1/m + 1/n + 1/k.
local function product_cost(m, n, k)
  local scope <close> = tensor.scope()
  local x, w = leaf(m, k), leaf(n, k)
  local b = leaf(n)
  return both(function() return ops.linear(x, w, b) end) / (6 * m * n * k), 1 / m + 1 / n + 1 / k
end

---Seconds of the calls of a layer's forward, however few its rows.
local function launches()
  local scope <close> = tensor.scope()
  local x, w, b = leaf(8, 8), leaf(8, 8), leaf(8)
  local calls = 8
  return calls * both(function() return ops.linear(x, w, b) end) / 3
end

---Peak and `edge` that explain the costs of a large and of a small product.
local function products(hidden, inner)
  local large, x = product_cost(512, inner, hidden)
  local small, y = product_cost(32, hidden, hidden)
  local derivative = math.max(0, (small - large) / (y - x))
  local floor = math.max(large / 2, large - derivative * x)
  return 1 / floor, (large - floor) / floor / x
end

---Share of the peak that attention reaches in forward, if backward costs 2.5 times as much.
local function attention_share(m, seq, peak)
  local scope <close> = tensor.scope()
  local layout = tensor.layout { lens = { seq }, rows = (seq + 127) // 128 * 128, seed = 1 }
  local qkv = leaf(layout:rows(), 3 * m.hidden)
  local options = { heads = m.heads, dropout = 0.1, layer = 1 }
  local seconds = both(function() return ops.attention(qkv, layout, options) end)
  return 3.5 * 4 * seq * seq * m.hidden / seconds / peak
end

---Steps of one and of two layers on one and on two packs, timed in turns so that what disturbs one disturbs all.
local function own_steps(m, seq)
  local all = {}
  for i, size in ipairs { { 1, 1 }, { 2, 1 }, { 1, 2 }, { 2, 2 } } do
    local step = own_step.new(m, { seq = seq, batch = size[2], micro_batch = size[2], layers = size[1] })
    step.pass()
    step.update()
    all[i] = { step = step, pass = math.huge, update = math.huge, kept = step.kept }
  end
  for _ = 1, REPEATS do
    for _, each in ipairs(all) do
      each.pass = math.min(each.pass, own_step.least(1, each.step.pass))
      each.update = math.min(each.update, own_step.least(1, each.step.update) / each.step.bert.params:count())
    end
  end
  return table.unpack(all)
end

---The constants of `packed` that steps of one and two layers show, on one and on two packs.
local function calibrate_layer(c, job, layout)
  local m, seq, copy = job.model, job.seq, job.device.copy
  local one, two, one_wide, two_wide = own_steps(m, seq)
  local layer = (two.pass - one.pass + two_wide.pass - one_wide.pass) / 3 -- of a pack
  local first = (one.pass + one_wide.pass) / 3
  local _, bare = time.step(job, layout, c.time)
  local rest = layer - (bare.products + bare.attention + bare.launch) / m.layers
  c.time.norm_packed = math.max(0, rest) * copy / (BYTES * seq * m.hidden)
  if rest < 0 then -- products are faster in a layer than alone, up to a quarter
    c.time.product = 1 / math.max(0.8, 1 + rest * m.layers / bare.products)
  end
  c.time.logits = math.max(0, first - layer - bare.head) * copy / (BYTES * m.masked * seq * m.vocabulary)
  c.time.update = math.max(0, two.update * copy - 2 * BYTES)
  c.memory.logits = math.max(0, 2 * one.kept - two.kept) / (BYTES * m.masked * seq * m.vocabulary)
end

---The constants of time and memory for a number of threads.
local function calibrate(m, seq, threads)
  tensor.use("cpu", { threads = threads })
  local copy, c = copy_rate(), advise.coefficients("packed")
  local peak, edge = products(m.hidden, m.inner)
  for name, value in pairs { product = 1, edge = edge, launch = launches(), pointwise = 0, norm_packed = 0, logits = 0,
    link = 1, hop = 0 } do c.time[name] = value end
  c.time.packed = attention_share(m, seq, peak)
  local job = { model = m, seq = seq, batch = 1, devices = 1, kernel = "packed", bytes = BYTES,
    attended = own_step.ATTENDED * seq, device = { peak = peak, copy = copy, memory = 0, link = copy, network = copy,
      mma = 1, node = 1024 } }
  local layout = { micro_batch = 1, data = 1, tensor = 1, pipeline = 1, recompute = false, zero = 0 }
  c.memory.reserved = 0
  calibrate_layer(c, job, layout)
  return { copy = copy, peak = peak, constants = c }
end

---Measures this machine with one thread and with all.
---@param o { model: string|seqrun.advise.Model, seq: integer, threads?: integer }
---@return seqrun.advise.Machine|nil, string? message, string? code
function here.probe(o)
  local model, message, code = o.model, nil, nil
  if type(model) == "string" then model, message, code = models.model(model) end
  if not model then return nil, message, code end
  if model.causal then
    return nil, ("advise: %s is a decoder; --here takes an encoder, such as bert-base"):format(model.name), "config"
  end
  local begin, facts = sys.now(), sys.machine()
  local threads, before = o.threads or tensor.threads(), tensor.threads()
  local machine = { model = model, seq = o.seq, threads = threads, memory = facts.memory, cpu = facts.cpu,
    by_threads = {} }
  machine.by_threads[threads] = calibrate(model, o.seq, threads)
  if threads > 1 then machine.by_threads[1] = calibrate(model, o.seq, 1) end
  tensor.use("cpu", { threads = before })
  machine.seconds = sys.now() - begin
  return machine
end

-- ---- predictions ---------------------------------------------------------------------------------

---Between one thread and all, what takes a / threads + b seconds.
local function between(one, all, most, threads)
  if one == all or most == 1 then return all end
  local parallel = (1 / one - 1 / all) / (1 - 1 / most)
  return 1 / (1 / one + parallel * (1 / threads - 1))
end

---Rates of one of `ranks` processes with `threads` each: the machine's, shared.
local function rates(machine, ranks, threads)
  local one, all = machine.by_threads[1] or machine.by_threads[machine.threads], machine.by_threads[machine.threads]
  local found = {}
  for _, key in ipairs { "peak", "copy" } do
    local alone = between(one[key], all[key], machine.threads, math.min(threads, machine.threads))
    local busy = math.min(ranks * threads, machine.threads)
    found[key] = math.min(alone, between(one[key], all[key], machine.threads, busy) / ranks)
  end
  return found, threads == 1 and one.constants or all.constants
end

---What a step of ours takes on this machine.
---@param machine seqrun.advise.Machine
---@param o { batch: integer, micro_batch: integer, ranks?: integer, threads?: integer, recompute?: boolean,
---  zero?: 0|1 }
---@return seqrun.advise.Prediction
function here.predict(machine, o)
  local ranks, threads = o.ranks or 1, o.threads or machine.threads
  if o.batch % (ranks * o.micro_batch) ~= 0 then
    check.fail("advise: a batch of %d packs cannot be divided into micro-batches of %d on %d ranks", o.batch,
      o.micro_batch, ranks)
  end
  local rate, constants = rates(machine, ranks, threads)
  local job = {
    model = machine.model, seq = machine.seq, batch = o.batch, devices = ranks, kernel = "packed", bytes = BYTES,
    attended = own_step.ATTENDED * machine.seq,
    -- a byte between ranks is copied into shared memory and out of it: two reads, two writes
    device = { name = machine.cpu, peak = rate.peak, copy = rate.copy, link = rate.copy / 4, network = rate.copy / 4,
      mma = 1, memory = machine.memory // ranks, node = 1024 },
  }
  return advise.predict(job, {
    micro_batch = o.micro_batch, data = ranks, tensor = 1, pipeline = 1, sequence_parallel = false,
    recompute = o.recompute or false, zero = ranks > 1 and o.zero or 0,
  }, constants)
end

---Bytes of activations after the forward of a micro-batch: with recomputation one layer's come only in backward.
local function keeps(machine, arm)
  local parts = arm.predicted.bytes
  local bytes = parts.activations + parts.logits
  if not arm.recompute then return math.floor(bytes) end
  local input = BYTES * arm.micro_batch * machine.seq * machine.model.hidden
  return math.floor(parts.logits + machine.model.layers * input)
end

-- ---- the check -----------------------------------------------------------------------------------

---@class seqrun.advise.Arm
---@field threads integer
---@field ranks integer
---@field micro_batch integer
---@field recompute boolean
---@field zero? 0|1 of ranks: 1 divides the optimizer state among them
---@field predicted seqrun.advise.Prediction
---@field seconds? number measured
---@field keeps integer bytes of activations after a forward, predicted
---@field kept? integer measured
---@field problem? string why there is no measurement

---Adds what is predicted for an arm.
---@param machine seqrun.advise.Machine
---@param batch integer
---@param arm seqrun.advise.Arm
---@return seqrun.advise.Arm
function here.expect(machine, batch, arm)
  arm.predicted = here.predict(machine, { batch = batch, ranks = arm.ranks, threads = arm.threads,
    micro_batch = arm.micro_batch, recompute = arm.recompute, zero = arm.zero })
  arm.keeps = keeps(machine, arm)
  return arm
end

local function arms_of(machine, batch)
  local arms, micro = {}, {}
  for n = 1, batch do
    if batch % n == 0 and (n == 1 or n == batch or n & (n - 1) == 0) then micro[#micro + 1] = n end
  end
  local function add(ranks, threads, size, recompute)
    if batch % (ranks * size) ~= 0 then return end
    arms[#arms + 1] = here.expect(machine, batch, { ranks = ranks, threads = threads, micro_batch = size,
      recompute = recompute })
  end
  for _, size in ipairs(micro) do
    for _, recompute in ipairs { false, true } do
      add(1, machine.threads, size, recompute)
      if machine.threads > 1 then add(1, 1, size, recompute) end
      for ranks = 2, machine.threads do
        if machine.threads % ranks == 0 then add(ranks, machine.threads // ranks, size, recompute) end
      end
    end
  end
  return arms
end

---Adds what is measured of an arm, or why it is not; ranks need mpirun.
---@param machine seqrun.advise.Machine
---@param batch integer
---@param arm seqrun.advise.Arm
---@param repeats integer
function here.measure(machine, batch, arm, repeats)
  local options = { seq = machine.seq, batch = batch, micro_batch = arm.micro_batch, recompute = arm.recompute,
    shard = arm.zero == 1 }
  if arm.ranks > 1 then
    local seconds, kept = own_step.on_ranks(machine.model, options, { ranks = arm.ranks, threads = arm.threads,
      repeats = repeats })
    arm.seconds, arm.kept, arm.problem = seconds, seconds and kept, not seconds and kept or nil
    return
  end
  tensor.use("cpu", { threads = arm.threads })
  local step = own_step.new(machine.model, options)
  arm.seconds, arm.kept = step:seconds(repeats), step.kept
  step = nil -- luacheck: ignore 311
  collectgarbage()
end

---Sorts arms, the fastest prediction first.
---@param arms seqrun.advise.Arm[]
---@return seqrun.advise.Arm[]
function here.sort(arms)
  table.sort(arms, function(a, b) return a.predicted.step_seconds < b.predicted.step_seconds end)
  return arms
end

---Predicts steps of a batch for threads, ranks, micro-batches and recomputation, and measures them.
---@param machine seqrun.advise.Machine
---@param o { batch: integer, measure?: boolean, repeats?: integer }
---@return seqrun.advise.Arm[] # fastest prediction first
function here.check(machine, o)
  local arms, before = arms_of(machine, o.batch), tensor.threads()
  for _, arm in ipairs(o.measure ~= false and arms or {}) do here.measure(machine, o.batch, arm, o.repeats or 3) end
  tensor.use("cpu", { threads = before })
  return here.sort(arms)
end

---Mean error of the predictions, and what the measured arm that is advised first loses against the best one.
---@param arms seqrun.advise.Arm[] as check() sorted them
---@return { arms: integer, error: number, regret: number }|nil # nil if nothing was measured
function here.judge(arms)
  local off, count, best, first = 0, 0, math.huge, nil
  for _, arm in ipairs(arms) do
    if arm.seconds then
      off, count = off + math.abs(arm.predicted.step_seconds / arm.seconds - 1), count + 1
      best, first = math.min(best, arm.seconds), first or arm.seconds
    end
  end
  return first and { arms = count, error = off / count, regret = 1 - best / first }
end

return here

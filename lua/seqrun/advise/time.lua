-- time.lua - the seconds of an op, and of one step of a layout by its causes.
--
-- The only model of time: recipes/bench/roofline.lua gives it the ops of a step one by one, `seqrun advise` and
-- recipes/papers the layouts of jobs.
--
-- A stage of the pipeline computes a micro-batch: matrix products at a share of the peak that falls with the traffic of
-- small ones, attention by a fused kernel or through its score matrix, row-wise passes at the rate of the memory, the
-- all-reduces of tensor parallelism, launches.  Backward costs twice forward; recomputation adds one forward.  The
-- pipeline adds its bubble and sends, data parallelism what backward does not hide, the optimizer its passes.

local models = require("seqrun.advise.models")
local total_of = require("seqrun.advise.total")

local time = {}

---@class seqrun.advise.Layout
---@field micro_batch integer sequences of a micro-batch
---@field data integer
---@field tensor integer
---@field pipeline integer
---@field sequence_parallel boolean row-wise ops and what they keep are cut by the tensor degree too
---@field interleave? integer pieces of the model on each stage, 1: how many times a micro-batch passes the stages
---@field recompute boolean every layer is computed again in backward
---@field selective? boolean only what is large and quick is computed again: norms, activations, score matrices
---@field zero integer 1: the optimizer's state is cut by the data degree; 0: every rank has all of it

---@class seqrun.advise.Job
---@field model seqrun.advise.Model
---@field device seqrun.advise.Device
---@field seq integer tokens of a sequence (of a pack, where sequences are packed)
---@field batch integer sequences (packs) of a step
---@field devices integer
---@field kernel string
---@field bytes? 2|4 of an activation or a weight; default: 2
---@field attended? number tokens that a token attends to, ignoring causality; default: seq

---The attention and norm of a kernel's name.  `packed` is this program's own: attention over the sequences
---of a pack, fused norms, the reduce-scatter of the gradients behind backward (half of the exchange).
time.kernels = {
  packed = { rate = "packed", norm = "norm_packed", overlap = 0.5 }, torch = { scores = "torch", norm = "norm_plain" },
  fused = { scores = "fused", norm = "norm_plain" },
  flash1 = { rate = "flash1", norm = "norm_plain" }, flash2 = { rate = "flash2", norm = "norm_plain" },
  flash2_rms = { rate = "flash2", norm = "norm_fused" },
}

---Bytes of an activation or a weight: bf16 unless the job says otherwise.
local function bytes_of(job) return job.bytes or 2 end

---Seconds of a product (m, k) x (k, n), and of each of its two products in backward.
local function product(c, device, m, n, k)
  return 2 * m * n * k / (device.peak * c.product) * (1 + c.edge * (1 / m + 1 / n + 1 / k))
end

---FLOP/s of fused attention, forward and backward.
---@param name string of its share of the peak
local function attention_rate(c, device, name)
  return device.peak * c[name] * (name == "packed" and device.mma or 1)
end

---@class seqrun.advise.Op all calls of an op of this program's own kernels, of which the larger counts: what is moved
---or what is computed
---@field bytes number
---@field share number of the rate of a copy that such a pass reaches
---@field launches integer
---@field products? { calls: integer, m: integer, n: integer, k: integer }[]
---@field attention? number FLOP of attention, as many as its whole tiles cost

local LAUNCHES = 9 -- of a layer's forward

---Seconds of an op, and what binds it.
---@param c table<string, number> coefficients.time
---@param device seqrun.advise.Device
---@param op seqrun.advise.Op
---@return number seconds, "launch"|"compute"|"memory" bound
function time.op(c, device, op)
  local moved = op.bytes / (device.copy * op.share)
  local computed = (op.attention or 0) / attention_rate(c, device, "packed")
  for _, p in ipairs(op.products or {}) do computed = computed + p.calls * product(c, device, p.m, p.n, p.k) end
  local work, launches = math.max(moved, computed), op.launches * c.launch / LAUNCHES
  local bound = launches > work and "launch" or computed > moved and "compute" or "memory"
  return work + launches, bound
end

---Forward seconds of the four or five products of a layer; those of experts have the rows of all that tokens choose.
local function products(c, job, layout, rows)
  local m, device, tensor = job.model, job.device, layout.tensor
  local keys = m.hidden * (m.kv_heads or m.heads) // m.heads
  local inner = m.inner // tensor
  return product(c, device, rows, (m.hidden + 2 * keys) / tensor, m.hidden)
    + product(c, device, rows, m.hidden, m.hidden / tensor)
    + (m.used or 1) * (product(c, device, rows, (m.gated and 2 or 1) * inner, m.hidden)
      + product(c, device, rows, m.hidden, inner))
end

---Forward and backward seconds of a layer's attention.
local function attention(c, job, layout, rows)
  local m, kernel = job.model, time.kernels[job.kernel]
  local attended = models.attended(m, job.attended or job.seq)
  local flop = 4 * rows * attended * m.hidden / layout.tensor
  if kernel.rate then
    local forward = flop * (m.causal and 0.5 or 1) / attention_rate(c, job.device, kernel.rate)
    return forward, 2.5 * forward
  end
  local bytes = bytes_of(job) * rows * job.seq * m.heads / layout.tensor
  local forward = flop / (job.device.peak * c.product) + c[kernel.scores] * bytes / job.device.copy / 3
  return forward, 2 * forward
end

---Forward seconds of the row-wise passes of a layer.
local function pointwise(c, job, layout, rows)
  local m, tensor = job.model, layout.tensor
  local cut = layout.sequence_parallel and tensor or 1
  local whole = c[time.kernels[job.kernel].norm] * m.hidden / cut
  local split = c.pointwise * (m.hidden + (m.used or 1) * (m.gated and 1 or 0.5) * m.inner) / tensor
  return bytes_of(job) * rows * (whole + split) / job.device.copy / 3
end

---Seconds of the two all-reduces of a layer's forward (or of the reduce-scatters and all-gathers of sequence
---parallelism, which move as much).
local function reduces(c, job, layout, rows)
  local n = layout.tensor
  if n == 1 then return 0 end
  local bytes = bytes_of(job) * rows * job.model.hidden * 2 * (n - 1) / n
  local rate = n <= job.device.node and c.link * job.device.link or c.network * job.device.network
  return 2 * (bytes / rate + c.hop * (n - 1))
end

---Forward and backward seconds of the output head on the last stage.
local function head(c, job, layout, rows)
  local m = job.model
  local read, words = rows * m.masked, m.vocabulary / layout.tensor
  local forward = product(c, job.device, read, words, m.hidden)
  if not m.causal then forward = forward + product(c, job.device, read, m.hidden, m.hidden) end
  return 3 * forward + c.logits * bytes_of(job) * read * m.vocabulary / job.device.copy
end

---Seconds of a layer that are spent once more in backward.
local function again(layout, job, whole, forward, rowwise)
  if layout.recompute then return whole end
  if not layout.selective then return 0 end
  return rowwise + (time.kernels[job.kernel].scores and forward or 0)
end

---Seconds that a micro-batch costs a stage, by causes; `head` is the last stage's alone.
local function stage_parts(c, job, layout, rows)
  local layers = job.model.layers / layout.pipeline
  local forward, backward = attention(c, job, layout, rows)
  local matrix, rowwise = products(c, job, layout, rows), pointwise(c, job, layout, rows)
  local reduce = reduces(c, job, layout, rows)
  local once = matrix + forward + rowwise + reduce + c.launch
  return {
    products = layers * 3 * matrix, attention = layers * (forward + backward), pointwise = layers * 3 * rowwise,
    tensor = layers * 2 * reduce, launch = layers * 3 * c.launch,
    recompute = layers * again(layout, job, once, forward, rowwise),
    head = head(c, job, layout, rows),
  }
end

---Parameters of a device on the fullest stage.
---@param m seqrun.advise.Model
---@param layout seqrun.advise.Layout
---@return number
function time.parameters(m, layout)
  local layer, words, top = models.parameters(m)
  local ends = layout.pipeline == 1 and words + top or math.max(words, top)
  return (m.layers / layout.pipeline * layer + ends) / layout.tensor
end

---Nodes that one switch of a network connects.  Beyond them rings share the links between switches.
local NODES = 8

---Share of their network links that rings reach in a job of this size.
local function network_share(c, job)
  local nodes = job.devices / job.device.node
  return c.network * math.min(1, NODES / nodes) ^ (c.congestion or 0)
end

---Reduce-scatter of the gradients and all-gather of the weights, in rings.  A ring over nodes leaves a node once for
---all its members there, each with a network link of its own.
local function exchange(c, job, layout, parameters)
  local n, device = layout.data, job.device
  if n == 1 then return 0 end
  local rate = c.link * device.link
  if n * layout.tensor > device.node then
    local links = math.max(1, device.node / layout.tensor)
    rate = math.min(rate, network_share(c, job) * device.network * links)
  end
  return 2 * bytes_of(job) * parameters * (n - 1) / n / rate
end

---The optimizer's passes: master, moments and gradient of what the device updates, and the bf16 copy.
local function optimizer(c, job, layout, parameters)
  local own = layout.zero == 1 and parameters / layout.data or parameters
  return ((c.update or 30) * own + 2 * bytes_of(job) * parameters) / job.device.copy
end

---Seconds of a step, and its parts.
---@param job seqrun.advise.Job
---@param layout seqrun.advise.Layout
---@param c table<string, number> coefficients.time
---@return number seconds, table<string, number> parts
function time.step(job, layout, c)
  local rows = layout.micro_batch * job.seq
  local count = job.batch / (layout.micro_batch * layout.data)
  local parts = stage_parts(c, job, layout, rows)
  local body = total_of(parts) - parts.head
  for name, seconds in pairs(parts) do parts[name] = count * seconds end
  local parameters = time.parameters(job.model, layout)
  local pieces = layout.interleave or 1
  parts.bubble = (layout.pipeline - 1) * body / pieces
  parts.sends = 0
  if layout.pipeline > 1 then
    local bytes = bytes_of(job) * rows * job.model.hidden / (layout.sequence_parallel and layout.tensor or 1)
    parts.sends = 2 * pieces * (count + layout.pipeline - 1) * bytes / (c.send * job.device.network)
  end
  local whole = exchange(c, job, layout, parameters)
  parts.data = whole - math.min((time.kernels[job.kernel].overlap or 0) * whole, body / 2)
  parts.optimizer = optimizer(c, job, layout, parameters)
  return total_of(parts), parts
end

---Share of the peak that the model's own FLOP reach in a step.
---@param job seqrun.advise.Job
---@param seconds number
---@return number
function time.mfu(job, seconds)
  local flop = job.batch * job.seq * models.flop(job.model, job.attended or job.seq)
  return flop / (seconds * job.devices * job.device.peak)
end

return time

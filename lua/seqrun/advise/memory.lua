-- memory.lua - the bytes of a layout on the device of a pipeline that needs the most, by their causes.
--
-- A stage keeps the activations of as many micro-batches as are under way before their backward: the first stage as
-- many as there are stages.  Of a layer it keeps the inputs of its products, row-wise inputs whole (cut with sequence
-- parallelism), the rest cut by the tensor degree (Korthikanti et al. 2022); with recomputation only its input, with
-- selective recomputation no outputs of norms and activations and no score matrices.  Interleaved stages begin more
-- micro-batches before the first backward.  For this program's own kernels the encoder's own count is taken
-- (nn/cost.lua), which a run is checked and its micro-batches are chosen by.

local models = require("seqrun.advise.models")
local time = require("seqrun.advise.time")
local total_of = require("seqrun.advise.total")

local memory = {}

---Bytes of an activation or a weight, and of the optimizer's state per parameter: masters are apart from bf16 weights.
local function bytes_of(job) return job.bytes or 2, job.bytes == 4 and 8 or 12 end

---Elements per token and H of the outputs of a layer's two norms.
local NORMS = 2

---Of a layer with this program's kernels: outputs of two blocks, of two sums and of two norms.
local ROWWISE = 6

---Elements that this program's kernels keep of a row: row-wise ones whole, the rest cut by the tensor degree.
local function own_elements(m, layout, cut)
  local again = layout.selective and 1 or 0
  local rest = models.kept(m) - ROWWISE * m.hidden - again * (m.used or 1) * m.inner
  return (ROWWISE - NORMS * again) * m.hidden / cut + rest / layout.tensor
end

---Bytes that a layer keeps of one micro-batch.
---@param job seqrun.advise.Job
---@param layout seqrun.advise.Layout
---@param c table<string, number> coefficients.memory
---@return number
function memory.layer(job, layout, c)
  local m, kernel, tensor = job.model, time.kernels[job.kernel], layout.tensor
  local rows, cut = layout.micro_batch * job.seq, layout.sequence_parallel and layout.tensor or 1
  if job.kernel == "packed" then return bytes_of(job) * rows * own_elements(m, layout, cut) end
  local keys = m.hidden * (m.kv_heads or m.heads) // m.heads
  local again = layout.selective and 1 or 0
  local split = 2 * m.hidden + 2 * keys + (m.used or 1) * ((m.gated and 3 or 2) - again) * m.inner
  local norms = math.max(0, c[kernel.norm] - NORMS * again)
  local elements = norms * m.hidden / cut + c.split * split / tensor
  if kernel.scores and not layout.selective then
    elements = elements + c[kernel.scores] * m.heads * job.seq / tensor
  end
  return bytes_of(job) * rows * elements
end

---Micro-batches whose activations a stage keeps at most; a piece of an interleaved stage counts as its part of one.
local function in_flight(layout, index, count)
  local pieces = layout.interleave or 1
  if pieces == 1 then return math.min(layout.pipeline - index + 1, count) end
  local begun = 2 * (layout.pipeline - index) + (pieces - 1) * layout.pipeline + 1
  return math.min(begun / pieces, count)
end

---Bytes of the activations that a stage keeps, and of the layer that is computed again.
local function activations(job, layout, c, flights, layers)
  local kept = memory.layer(job, layout, c)
  if layout.recompute then
    local input = bytes_of(job) * layout.micro_batch * job.seq * job.model.hidden
    return flights * layers * input / (layout.sequence_parallel and layout.tensor or 1) + kept
  end
  if not layout.selective then return flights * layers * kept end
  local whole = setmetatable({ selective = false }, { __index = layout })
  return flights * layers * kept + memory.layer(job, whole, c) - kept
end

---Bytes of stage `index`, from 1, by their causes.
local function stage(job, layout, c, index)
  local m, last = job.model, index == layout.pipeline
  local layer, words, head = models.parameters(m)
  local layers = m.layers / layout.pipeline
  local parameters = (layers * layer + (index == 1 and words or 0) + (last and head or 0)) / layout.tensor
  local count = job.batch // (layout.micro_batch * layout.data)
  local bytes, state = bytes_of(job)
  local rows = layout.micro_batch * job.seq
  local parts = {
    weights = bytes * parameters, gradients = c.gradient * parameters,
    optimizer = state * parameters / (layout.zero == 1 and layout.data or 1),
    activations = activations(job, layout, c, in_flight(layout, index, count), layers),
    logits = last and c.logits * bytes * rows * m.masked * m.vocabulary or 0,
    reserved = c.reserved * (1 << 30),
  }
  return total_of(parts), parts
end

---Bytes that the fullest device needs, and their parts.
---@param job seqrun.advise.Job
---@param layout seqrun.advise.Layout
---@param c table<string, number>
---@return number bytes, table<string, number> parts
function memory.need(job, layout, c)
  local most, its_parts = stage(job, layout, c, 1)
  for _, index in ipairs { layout.pipeline // 2, layout.pipeline } do
    if index > 1 then
      local total, parts = stage(job, layout, c, index)
      if total > most then most, its_parts = total, parts end
    end
  end
  return most, its_parts
end

return memory

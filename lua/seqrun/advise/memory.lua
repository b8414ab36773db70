-- memory.lua - the bytes of a layout on the device of a pipeline that needs the most, by their causes.
--
-- A stage keeps the activations of as many micro-batches as are under way before their backward: the first stage as
-- many as there are stages.  Of a layer it keeps the inputs of its products, row-wise inputs whole (cut with sequence
-- parallelism), the rest cut by the tensor degree (Korthikanti et al. 2022); with recomputation only its input.

local models = require("seqrun.advise.models")
local time = require("seqrun.advise.time")
local total_of = require("seqrun.advise.total")

local memory = {}

---Bytes of an activation or a weight, and of the optimizer's state per parameter: masters are apart from bf16 weights.
local function bytes_of(job) return job.bytes or 2, job.bytes == 4 and 8 or 12 end

---Bytes that a layer keeps of one micro-batch.
---@param job seqrun.advise.Job
---@param layout seqrun.advise.Layout
---@param c table<string, number> coefficients.memory
---@return number
function memory.layer(job, layout, c)
  local m, kernel, tensor = job.model, time.kernels[job.kernel], layout.tensor
  local rows, cut = layout.micro_batch * job.seq, layout.sequence_parallel and layout.tensor or 1
  local keys = m.hidden * (m.kv_heads or m.heads) // m.heads
  local split = 2 * m.hidden + 2 * keys + (m.gated and 3 or 2) * m.inner
  local elements = c[kernel.norm] * m.hidden / cut + c.split * split / tensor
  if kernel.scores then elements = elements + c[kernel.scores] * m.heads * job.seq / tensor end
  return bytes_of(job) * rows * elements
end

---Bytes of stage `index`, from 1, by their causes.
local function stage(job, layout, c, index)
  local m, last = job.model, index == layout.pipeline
  local layer, words, head = models.parameters(m)
  local layers = m.layers / layout.pipeline
  local parameters = (layers * layer + (index == 1 and words or 0) + (last and head or 0)) / layout.tensor
  local count = job.batch // (layout.micro_batch * layout.data)
  local flights = math.min(layout.pipeline - index + 1, count)
  local kept, rows = memory.layer(job, layout, c), layout.micro_batch * job.seq
  local bytes, state = bytes_of(job)
  local input = bytes * rows * m.hidden / (layout.sequence_parallel and layout.tensor or 1)
  local parts = {
    weights = bytes * parameters, gradients = c.gradient * parameters,
    optimizer = state * parameters / (layout.zero == 1 and layout.data or 1),
    activations = layout.recompute and flights * layers * input + kept or flights * layers * kept,
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

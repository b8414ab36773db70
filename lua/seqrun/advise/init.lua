-- init.lua - which layout trains a model fastest on given devices, by a model of time and memory.
--
--     local advice = sr.advise { model = "llama-13b", seq = 2048, batch = 2048, devices = 64, device = "a100" }
--     print(advice)                                      -- the best ten
--     print(advice.layouts[1].step_seconds, advice.layouts[1].mfu)
--
-- A prediction is a pure function of the job, the layout and the constants in coefficients.lua; docs/theory/advisor.md
-- has the formulas and their errors on layouts that were not fitted.

local check = require("seqrun.base.check")
local coefficients = require("seqrun.advise.coefficients")
local memory = require("seqrun.advise.memory")
local merged = require("seqrun.base.merged")
local models = require("seqrun.advise.models")
local show = require("seqrun.advise.show")
local time = require("seqrun.advise.time")
local guess = require("seqrun.base.guess")

local advise = {}

advise.models, advise.devices = models.models, models.devices

---Share of the memory above which a layout may not fit: predictions of memory err by some percent.
local TIGHT = 0.95

---@class seqrun.advise.Prediction: seqrun.advise.Layout
---@field step_seconds number
---@field mfu number model FLOP per second over the peak
---@field tokens_per_s number
---@field memory_bytes number on the device that needs the most
---@field fits boolean
---@field tight boolean it needs more than 95 % of the memory, and may not fit
---@field seconds table<string, number> step_seconds by cause
---@field bytes table<string, number> memory_bytes by cause
---@field why string

---@class seqrun.Advice
---@field job seqrun.advise.Job
---@field layouts seqrun.advise.Prediction[] those that fit, fastest first
---@field unfit seqrun.advise.Prediction[] those that do not, least memory first
---@field notes string[] what to know about the question and the answer
local Advice = {}
Advice.__index = Advice

function Advice:__tostring() return show.text(self) end

---The constants for a kernel.
---@param kernel string
---@return { time: table<string, number>, memory: table<string, number> }
function advise.coefficients(kernel)
  local own = kernel == "packed" and coefficients.packed or {}
  return { time = merged(coefficients.time, own.time), memory = merged(coefficients.memory, own.memory) }
end

---What a layout takes.
---@param job seqrun.advise.Job
---@param layout seqrun.advise.Layout
---@param constants? table of advise.coefficients()
---@return seqrun.advise.Prediction
function advise.predict(job, layout, constants)
  constants = constants or advise.coefficients(job.kernel)
  local found = merged(layout)
  found.step_seconds, found.seconds = time.step(job, layout, constants.time)
  found.memory_bytes, found.bytes = memory.need(job, layout, constants.memory)
  found.fits = found.memory_bytes <= job.device.memory
  found.tight = found.fits and found.memory_bytes > TIGHT * job.device.memory
  found.mfu = time.mfu(job, found.step_seconds)
  found.tokens_per_s = job.batch * job.seq / found.step_seconds
  found.why = show.why(job, found)
  return found
end

-- ---- the search ----------------------------------------------------------------------------------

local function powers(most, fits)
  local list, n = {}, 1
  while n <= most do
    if fits(n) then list[#list + 1] = n end
    n = 2 * n
  end
  return list
end

---Numbers of stages: divisors of the layers, and powers of two (some stages then have a layer more, the ends less).
local function stages(layers, most)
  local list = {}
  for n = 1, math.min(layers, most) do
    if layers % n == 0 or n & (n - 1) == 0 then list[#list + 1] = n end
  end
  return list
end

---Pieces of a stage: more than one if layers and micro-batches are multiples of what that takes (Megatron-LM's rule).
local function pieces(m, pipeline, count)
  local list = { 1 }
  for _, n in ipairs { 2, 4, 8 } do
    if pipeline > 1 and m.layers % (pipeline * n) == 0 and count % pipeline == 0 then list[#list + 1] = n end
  end
  return list
end

---Ways to compute activations again: nothing, some, every layer.
local WAYS = { { false, false }, { false, true }, { true, false } }

---Those of WAYS that an option `recompute` asks for.
local function ways(wanted)
  if wanted == nil then return WAYS end
  return { wanted == "selective" and WAYS[2] or wanted and WAYS[3] or WAYS[1] }
end

---Calls visit(layout) for all layouts that differ in how they compute this one.
local function each_variant(layout, m, count, recompute, visit)
  for _, sequence in ipairs(layout.tensor > 1 and { true, false } or { false }) do
    for _, way in ipairs(ways(recompute)) do
      for _, interleave in ipairs(pieces(m, layout.pipeline, count)) do
        local own = { sequence_parallel = sequence, recompute = way[1], selective = way[2], interleave = interleave }
        visit(merged(own, layout))
      end
    end
  end
end

---Calls visit(layout) for every layout of a job.
local function each_layout(job, options, visit)
  local m = job.model
  local tensors = powers(math.min(job.device.node, job.devices), function(n)
    return m.heads % n == 0 and (m.kv_heads or m.heads) % n == 0 and m.inner % n == 0 and job.devices % n == 0
  end)
  for _, tensor in ipairs(tensors) do
    for _, pipeline in ipairs(stages(m.layers, job.devices // tensor)) do
      local data = job.devices // tensor // pipeline
      local possible = job.devices % (tensor * pipeline) == 0 and job.batch % data == 0
      local share = possible and job.batch // data or 0
      for _, micro in ipairs(powers(share, function(n) return share % n == 0 end)) do
        each_variant({
          micro_batch = micro, data = data, tensor = tensor, pipeline = pipeline, zero = data > 1 and options.zero or 0,
        }, m, share // micro, options.recompute, visit)
      end
    end
  end
end

---All layouts of a job with their predictions.
local function search(job, options)
  local advice = setmetatable({ job = job, layouts = {}, unfit = {}, notes = {} }, Advice)
  local constants = advise.coefficients(job.kernel)
  each_layout(job, options, function(layout)
    local found = advise.predict(job, layout, constants)
    local list = found.fits and advice.layouts or advice.unfit
    list[#list + 1] = found
  end)
  -- of equal ones the simpler: a larger data degree needs less of the rest
  table.sort(advice.layouts, function(a, b)
    if a.step_seconds ~= b.step_seconds then return a.step_seconds < b.step_seconds end
    return a.memory_bytes < b.memory_bytes
  end)
  table.sort(advice.unfit, function(a, b) return a.memory_bytes < b.memory_bytes end)
  return advice
end

---The least number of devices, doubling, on which some layout fits; nil if none does up to 65,536.
local function enough_devices(job, options)
  local larger = merged(job)
  while larger.devices < 65536 do
    larger.devices = 2 * larger.devices
    local layout = search(larger, options).layouts[1]
    if layout then return larger.devices, layout end
  end
end

---The largest number of devices below that of a job among which it can be divided: 1 at least.
local function fewer_devices(job, options)
  local smaller, found = setmetatable({}, { __index = job }), false
  local function visit() found = true end
  smaller.devices = job.devices
  repeat
    smaller.devices = smaller.devices - 1
    each_layout(smaller, options, visit)
  until found
  return smaller.devices
end

---One sentence on why there is no layout, and what would have one; a status.
local function impossible(job, options, advice)
  local subject = ("advise: %s with %d x %d tokens"):format(job.model.name, job.batch, job.seq)
  local least = advice.unfit[1]
  if not least then
    local batch = (job.batch + job.devices - 1) // job.devices * job.devices
    local way = ("use %d devices, or a --batch that a data degree divides, such as %d"):format(
      fewer_devices(job, options), batch)
    return ("%s cannot be divided among %d devices; %s"):format(subject, job.devices, way), "config"
  end
  local text = ("%s does not fit on %d x %s: the smallest layout (%s) needs %.1f of %.1f GiB per device"):format(
    subject, job.devices, job.device.name, show.layout(least), least.memory_bytes / (1 << 30),
    job.device.memory / (1 << 30))
  local devices, layout = enough_devices(job, options)
  if not devices then return text .. "; use shorter sequences or a device with more memory", "memory" end
  return ("%s; %d devices would do (%s)"):format(text, devices, show.layout(layout)), "memory"
end

---The rank of the first layout that seqrun itself runs; nil if there is none.
local function first_data_parallel(layouts)
  for rank, l in ipairs(layouts) do
    if l.tensor == 1 and l.pipeline == 1 and not l.selective then return rank end
  end
end

---What to know about a question and its answer.
local function notes_of(advice)
  local job, notes = advice.job, {}
  local positions, longest = job.model.positions, job.attended or job.seq
  if positions and longest > positions then
    local text = "%s has %d positions and cannot read %d tokens; for packs of shorter sequences, give --attended"
    notes[1] = text:format(job.model.name, positions, math.ceil(longest))
  end
  if job.model.causal then return notes end
  local own = first_data_parallel(advice.layouts)
  if own ~= 1 then
    notes[#notes + 1] = "seqrun runs data parallel layouts; "
      .. (own and ("the fastest of them is number %d"):format(own) or "none of these is one")
  end
  return notes
end

-- ---- the front door ------------------------------------------------------------------------------

local function kernel_of(options, model)
  local kernel = options.kernel or (model.causal and "flash2_rms" or "packed")
  if time.kernels[kernel] then return kernel end
  local names = models.names(time.kernels)
  return nil, ("advise: unknown kernel '%s'%s; known: %s"):format(kernel, guess.hint(kernel, names),
    table.concat(names, ", ")), "config"
end

local function check_counts(options)
  for _, key in ipairs { "seq", "batch", "devices" } do
    local value = math.tointeger(options[key])
    if not value or value < 1 then
      check.fail("advise: %s must be a positive integer, got %s", key, tostring(options[key]))
    end
  end
end

---@class seqrun.advise.Options
---@field model string|seqrun.advise.Model a name of advise.models, or a config.json or its directory
---@field device string|seqrun.advise.Device a name of advise.devices
---@field seq integer tokens of a sequence, or of a pack
---@field batch integer sequences (packs) of a step
---@field devices integer
---@field kernel? string default: packed for encoders, flash2_rms for decoders
---@field attended? number of packs: mean number of tokens that a token attends to; default: seq
---@field recompute? boolean|"selective" only layouts with recomputation of every layer, without any, or with that of
---  what is large and quick
---@field zero? 0|1 default 1: optimizer state is divided over the data degree

---The job that options describe.
---@param options seqrun.advise.Options
---@return seqrun.advise.Job|nil, string? message, string? code
function advise.job(options)
  check_counts(options)
  local model, device, message, code = options.model, options.device, nil, nil
  if type(model) == "string" then model, message, code = models.model(model) end
  if not model then return nil, message, code end
  if type(device) == "string" then device, message, code = models.device(device) end
  if not device then return nil, message, code end
  local kernel, problem, status = kernel_of(options, model)
  if not kernel then return nil, problem, status end
  if options.attended and (options.attended > options.seq or options.attended <= 0) then
    return nil, ("advise: a token attends to at most the %d tokens of its sequence, but --attended is %g"):format(
      options.seq, options.attended), "config"
  end
  return {
    model = model, device = device, seq = options.seq, batch = options.batch, devices = options.devices,
    kernel = kernel, attended = options.attended,
  }
end

---Ranks the layouts of a job; nil and one sentence if none fits.
---@param options seqrun.advise.Options
---@return seqrun.Advice|nil, string? message, string? code
function advise.advise(options)
  local job, message, code = advise.job(options)
  if not job then return nil, message, code end
  local settings = { recompute = options.recompute, zero = options.zero or 1 }
  local advice = search(job, settings)
  if #advice.layouts == 0 then return nil, impossible(job, settings, advice) end
  for i = 2, #advice.layouts do
    local layout = advice.layouts[i]
    layout.why = show.why_later(job, layout, advice.layouts[1])
  end
  advice.notes = notes_of(advice)
  return advice
end

return setmetatable(advise, { __call = function(_, options) return advise.advise(options) end })

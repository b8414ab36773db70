-- show.lua - advice in words and as a JSON object.

local grid = require("seqrun.draw.grid")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local models = require("seqrun.advise.models")

local show = {}

local GIB = 1 << 30

---What the parts of a step are called.
local CAUSES = {
  attention = "attention", pointwise = "row-wise ops", head = "output head", tensor = "tensor all-reduces",
  launch = "launches", recompute = "recomputation", bubble = "pipeline bubble", sends = "sends between stages",
  data = "gradient exchange", optimizer = "optimizer",
}

---"micro-batch 1, data 32, tensor 2, pipeline 1, sequence parallel, recompute".
---@param l seqrun.advise.Layout
---@return string
function show.layout(l)
  local text = ("micro-batch %d, data %d, tensor %d, pipeline %d"):format(l.micro_batch, l.data, l.tensor, l.pipeline)
  if (l.interleave or 1) > 1 then text = ("%s interleaved %d times"):format(text, l.interleave) end
  if l.sequence_parallel then text = text .. ", sequence parallel" end
  if l.recompute then text = text .. ", recompute" end
  if l.selective then text = text .. ", selective recompute" end
  return text
end

---The causes with a value of at least `least`, the largest first, at most three.
---@param values table<string, number> by cause
---@return string[]
local function largest(values, least)
  local causes = {}
  for cause, value in pairs(values) do
    if value >= least then causes[#causes + 1] = cause end
  end
  table.sort(causes, function(a, b)
    if values[a] ~= values[b] then return values[a] > values[b] end
    return a < b
  end)
  return table.move(causes, 1, 3, 1, {})
end

---What to say first or last of the memory, or nil.
local function filled(job, found)
  local fill = found.memory_bytes / job.device.memory
  if found.tight then return ("may not fit: %.0f %% of memory"):format(100 * fill) end
  return fill > 0.9 and fill <= 1 and "memory nearly full" or nil
end

local function joined(job, found, parts)
  local memory = filled(job, found)
  if memory then table.insert(parts, found.tight and 1 or #parts + 1, memory) end
  return table.concat(parts, ", ")
end

---The products and the three largest other costs, in shares of the step, and the fill of the memory.
---@param job seqrun.advise.Job
---@param found seqrun.advise.Prediction
---@return string
function show.why(job, found)
  local others = {}
  for cause in pairs(CAUSES) do others[cause] = found.seconds[cause] end
  local parts = { ("products %.0f %%"):format(100 * found.seconds.products / found.step_seconds) }
  for _, cause in ipairs(largest(others, 0.005 * found.step_seconds)) do
    parts[#parts + 1] = ("%s %.0f %%"):format(CAUSES[cause], 100 * found.seconds[cause] / found.step_seconds)
  end
  return joined(job, found, parts)
end

---What takes longer than in the fastest layout, in shares of that one's step.
---@param job seqrun.advise.Job
---@param found seqrun.advise.Prediction
---@param first seqrun.advise.Prediction
---@return string
function show.why_later(job, found, first)
  local whole, more = first.step_seconds, {}
  for cause, seconds in pairs(found.seconds) do more[cause] = seconds - first.seconds[cause] end
  local longer = 100 * (found.step_seconds / whole - 1)
  if longer < 0.05 then return joined(job, found, { "as fast as 1" }) end
  local parts = {}
  for i, cause in ipairs(largest(more, 0.0005 * whole)) do
    local name, share = CAUSES[cause] or cause, 100 * more[cause] / whole
    parts[i] = ("%s +%.1f %%"):format(name, share)
  end
  parts[1] = ("%.1f %% slower than 1: %s"):format(longer, parts[1] or "a little of each")
  return joined(job, found, parts)
end

local function cells_of(rank, job, l)
  return {
    tostring(rank), tostring(l.micro_batch), tostring(l.data), tostring(l.tensor),
    (l.interleave or 1) > 1 and ("%d x %d"):format(l.pipeline, l.interleave) or tostring(l.pipeline),
    l.sequence_parallel and "yes" or "-", l.recompute and "yes" or l.selective and "some" or "-", tostring(l.zero),
    ("%.4g"):format(l.step_seconds), ("%.1f %%"):format(100 * l.mfu),
    ("%.1f (%.0f %%)"):format(l.memory_bytes / GIB, 100 * l.memory_bytes / job.device.memory), l.why,
  }
end

local function table_text(rows) return table.concat(grid.remarks(rows, {}), "\n") end

---A headline and the best layouts, one a line.
---@param advice seqrun.Advice
---@param most? integer default 10
---@return string
function show.text(advice, most)
  local job = advice.job
  local rows = {
    { "", "micro", "data", "tensor", "pipe", "seq.par.", "recompute", "ZeRO", "step s", "MFU", "GiB a device", "why" },
  }
  for i = 1, math.min(most or 10, #advice.layouts) do rows[i + 1] = cells_of(i, job, advice.layouts[i]) end
  local head = ("%s (%.4g parameters), %d sequences of %d tokens a step, %d x %s, kernel %s: %d of %d layouts fit")
  head = head:format(job.model.name, models.count(job.model), job.batch, job.seq, job.devices, job.device.name,
    job.kernel, #advice.layouts, #advice.layouts + #advice.unfit)
  local notes = ""
  for _, note in ipairs(advice.notes) do notes = notes .. "\nnote: " .. note end
  return live.fit_output(head) .. "\n" .. table_text(rows) .. live.fit_output(notes)
end

---Predictions for this machine beside measured ones.
---@param machine seqrun.advise.Machine
---@param batch integer
---@param arms seqrun.advise.Arm[]
---@param verdict? { arms: integer, error: number, regret: number }
---@return string
function show.here(machine, batch, arms, verdict)
  local rows = { {
    "threads", "ranks", "micro", "recompute", "predicted s", "measured s", "predicted MB", "kept MB", "why",
  } }
  for i, arm in ipairs(arms) do
    rows[i + 1] = {
      tostring(arm.threads), tostring(arm.ranks), tostring(arm.micro_batch), arm.recompute and "yes" or "-",
      ("%.3f"):format(arm.predicted.step_seconds), arm.seconds and ("%.3f"):format(arm.seconds) or "-",
      ("%.1f"):format(arm.keeps / 1e6), arm.kept and ("%.1f"):format(arm.kept / 1e6) or "-", arm.predicted.why,
    }
  end
  local head = ("%s, %d packs of %d tokens a step, f32, %s with %d threads; probed for %.1f s"):format(
    machine.model.name, batch, machine.seq, machine.cpu, machine.threads, machine.seconds)
  for _, arm in ipairs(arms) do
    if arm.problem then head = head .. "\nno measurement of ranks: " .. arm.problem break end
  end
  local tail = verdict and ("\n%d measured steps: mean error %.1f %%, regret of the advice %.3f"):format(verdict.arms,
    100 * verdict.error, verdict.regret) or ""
  return live.fit_output(head) .. "\n" .. table_text(rows) .. tail
end

---The object of --here --json.
function show.here_json(machine, batch, arms, verdict)
  local list = json.array {}
  for i, arm in ipairs(arms) do
    list[i] = {
      threads = arm.threads, ranks = arm.ranks, micro_batch = arm.micro_batch, recompute = arm.recompute,
      predicted_seconds = arm.predicted.step_seconds, measured_seconds = arm.seconds or json.null,
      predicted_bytes = arm.keeps, measured_bytes = arm.kept or json.null, seconds = arm.predicted.seconds,
      why = arm.predicted.why, problem = arm.problem,
    }
  end
  return {
    model = machine.model.name, seq = machine.seq, batch = batch, cpu = machine.cpu, threads = machine.threads,
    probe_seconds = machine.seconds, error = verdict and verdict.error or json.null,
    regret = verdict and verdict.regret or json.null, steps = list,
  }
end

local FIELDS = {
  "micro_batch", "data", "tensor", "pipeline", "interleave", "sequence_parallel", "recompute", "selective", "zero",
  "step_seconds", "mfu",
  "tokens_per_s", "memory_bytes", "fits", "tight", "seconds", "bytes", "why",
}

---The object of --json.
---@param advice seqrun.Advice
---@param most integer
---@param all boolean also those that do not fit, after the others
---@return table
function show.json(advice, most, all)
  local job, list = advice.job, json.array {}
  local function add(found, rank)
    local entry = { rank = rank, memory_gib = found.memory_bytes / GIB }
    for _, key in ipairs(FIELDS) do entry[key] = found[key] end
    list[#list + 1] = entry
  end
  for i = 1, math.min(most, #advice.layouts) do add(advice.layouts[i], i) end
  for _, found in ipairs(all and advice.unfit or {}) do add(found) end
  return {
    model = job.model.name, parameters = models.count(job.model), seq = job.seq, batch = job.batch,
    devices = job.devices, device = job.device.name, device_memory_gib = job.device.memory / GIB, kernel = job.kernel,
    considered = #advice.layouts + #advice.unfit, fitting = #advice.layouts, layouts = list,
    notes = json.array(advice.notes),
  }
end

return show

-- roofline.lua - the time of a training step that a GPU's rates allow, op by op; needs no GPU.
--
--   build/seqrun recipes/bench/roofline.lua [device=h100|h200|a100|b200] [model=base|large] [tokens=16384]
--       [optimizer=lamb|adamw] [rates=expected|cautious] [all=true] [measured=FILE.tsv label=DEVICE] [dump=FILE]
--
-- Traffic and FLOP come from traffic.lua, which follows what the kernels do, the time of an op from the advisor
-- (lua/seqrun/advise/time.lua).  `bound` is its largest part.  rates=cautious: attention and norms as slow as their
-- machine code allows, and a loss at the ends of kernels.
-- Sequences have the lengths of Wikipedia at 512 tokens (hist=FILE for others), packed; precision is bf16.
--
-- measured=FILE adds measured times: lines of `label, model, tokens, op, us` with tabs between them, as
-- tests/gpu/run.sh writes them; label is the device unless it is given, op is a name of this table, or `step`
-- for the whole.  dump=FILE writes the steps
-- for tests/gpu/bench.c, which measures them.

local common = require("common")
local lengths = require("lengths")
local merged = require("seqrun.base.merged")
local sorted = require("seqrun.base.sorted")
local sr = require("seqrun")
local time = require("seqrun.advise.time")
local traffic = require("traffic")

local MODELS = {
  base = { hidden = 768, layers = 12, heads = 12, inner = 3072, vocabulary = 30528, positions = 512 },
  tiny = { hidden = 64, layers = 1, heads = 1, inner = 128, vocabulary = 256, positions = 512 }, -- for rehearsals
  large = { hidden = 1024, layers = 24, heads = 16, inner = 4096, vocabulary = 30528, positions = 512 },
}
-- By op, shares of the rate that is expected of attention (247 TFLOP/s on an H100), and of a copy's that norms reach.
-- `ends`: what computes takes longer, as its last blocks do not fill the device.
local CAUTIOUS = {
  attention = 215 / 247, ["attention backward"] = 160 / 247, residual_norm = 0.77,
  ["residual_norm backward"] = 0.70, ends = 1.06,
}
local BUDGETS = { 4096, 8192, 16384, 24576, 65536 }

local options = common.options({
  device = "h100", model = "large", tokens = 16384, optimizer = "lamb", rates = "expected", all = false,
  measured = "", label = "", dump = "", seed = 1, hist = common.lengths,
}, arg)

local function one_of(name, list)
  return list[options[name]]
    or common.refuse("%s is '%s'; choose one of: %s", name, options[name], table.concat(sorted(list), ", "))
end
local device, model = one_of("device", sr.advise.devices), one_of("model", MODELS)
one_of("optimizer", { lamb = true, adamw = true })
one_of("rates", { expected = true, cautious = true })
local constants = sr.advise.coefficients("packed").time
local label = options.label ~= "" and options.label or options.device

---Seconds of an op at the rates that were chosen, and what binds it.
local function time_of(op)
  local own = CAUTIOUS[op.name]
  if options.rates == "expected" then return time.op(constants, device, op) end
  if own and op.attention then
    op = merged(op, { attention = op.attention / own })
  elseif own then
    op = merged(op, { share = own })
  end
  local seconds, bound = time.op(constants, device, op)
  return bound == "compute" and seconds * CAUTIOUS.ends or seconds, bound
end

---A step over packs that fill `tokens` rows.
---@return seqrun.Work
local function work_of(tokens)
  local packs, _, capacity = lengths.packs(options.hist, tokens // 512, options.seed)
  local own = { rows = #packs * capacity, lengths = {}, masked = 0, optimizer = options.optimizer }
  local work = merged(own, model)
  for _, pack in ipairs(packs) do
    for _, length in ipairs(pack) do
      work.lengths[#work.lengths + 1] = length
      work.masked = work.masked + math.max(1, math.floor(0.15 * length + 0.5))
    end
  end
  return work
end

---Microseconds by op, of this device, model and tokens; empty without a file.
local function read_measured(tokens)
  local found = {}
  if options.measured == "" then return found end
  for line in assert(io.open(options.measured)):lines() do
    local chip, name, count, op, us = line:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)")
    if chip == label and name == options.model and tonumber(count) == tokens then
      found[op] = tonumber(us)
    end
  end
  return found
end

local function cell(format, value) return value and format:format(value) or "-" end

local function print_ops(work, tokens)
  local measured, total = read_measured(tokens), 0
  local ops = traffic.step(work)
  for _, op in ipairs(ops) do
    op.seconds, op.bound = time_of(op)
    total = total + op.seconds
  end
  table.sort(ops, function(a, b) return a.seconds > b.seconds end)
  local rows = { { "op", "calls", "MB", "GFLOP", "bound", "predicted us", "share %", "measured us", "ratio" } }
  for _, op in ipairs(ops) do
    local us = measured[op.name]
    rows[#rows + 1] = {
      op.name, op.calls, ("%.0f"):format(op.bytes / 1e6), op.flops > 0 and ("%.0f"):format(op.flops / 1e9) or "-",
      op.bound, ("%.0f"):format(op.seconds * 1e6), ("%.1f"):format(100 * op.seconds / total), cell("%.0f", us),
      cell("%.2f", us and us / (op.seconds * 1e6)),
    }
  end
  rows[#rows + 1] = {
    "step", "", "", "", "", ("%.0f"):format(total * 1e6), "100.0", cell("%.0f", measured.step),
    cell("%.2f", measured.step and measured.step / (total * 1e6)),
  }
  common.print_table(rows)
end

---The work as a job of the advisor, of one sequence.
local function job_of(work, real)
  local squares, shape = 0, merged(model, { masked = work.masked / real })
  for _, length in ipairs(work.lengths) do squares = squares + length * length end
  return { model = shape, device = device, devices = 1, batch = 1, seq = real, attended = squares / real }
end

---Prediction of the whole step, and where its time goes.
local function summary_row(tokens)
  local work, total, share = work_of(tokens), 0, { product = 0, attention = 0, memory = 0 }
  for _, op in ipairs(traffic.step(work)) do
    local seconds = time_of(op)
    total, share[op.kind] = total + seconds, share[op.kind] + seconds
  end
  local real, measured = common.sum(work.lengths), read_measured(tokens).step
  return {
    tokens, #work.lengths, ("%.1f"):format(total * 1e3), ("%.0f"):format(real / total / 1e3),
    ("%.0f"):format(100 * time.mfu(job_of(work, real), total)),
    ("%.1f"):format(share.product * 1e3), ("%.1f"):format(share.attention * 1e3),
    ("%.1f"):format(share.memory * 1e3), cell("%.1f", measured and measured / 1e3),
  }
end

---A line a step, as tests/gpu/bench.c reads it.
local function dump(path, budgets)
  local file = assert(io.open(path, "w"))
  for _, tokens in ipairs(budgets) do
    local w = work_of(tokens)
    local line = { options.model, w.hidden, w.layers, w.heads, w.inner, w.vocabulary, w.rows, w.masked }
    table.move(w.lengths, 1, #w.lengths, #line + 1, line)
    file:write(table.concat(line, " "), "\n")
  end
  assert(file:close())
end

local budgets = options.all and BUDGETS or { options.tokens }
if options.dump ~= "" then
  dump(options.dump, budgets)
  os.exit(0)
end

print(("BERT-%s, %s, bf16, %s; %.1f M parameters; predicted, not measured"):format(options.model,
  options.device:upper(), options.optimizer, traffic.parameters(work_of(512)) / 1e6))
print(("peak %.0f TFLOP/s, copy %.2f TB/s\n"):format(device.peak / 1e12, device.copy / 1e12))
local rows = {
  {
    "tokens", "sequences", "step ms", "real k tokens/s", "MFU %", "products ms", "attention ms", "rest ms",
    "measured ms",
  },
}
for _, tokens in ipairs(BUDGETS) do rows[#rows + 1] = summary_row(tokens) end
common.print_table(rows)
for _, tokens in ipairs(budgets) do
  print(("\na step of %d tokens"):format(tokens))
  print_ops(work_of(tokens), tokens)
end

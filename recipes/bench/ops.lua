-- ops.lua - time and throughput of each op, its share of a step, and how far it is from what the machine allows.
--
--   build/seqrun recipes/bench/ops.lua [op=NAME] [T=2048] [hidden=768] [len=512] [layers=12] [repeats=5]
--       [precision=f32|bf16] [threads=2] [clock=wall|cpu] [svg=FILE] [peer=true]
--       [window=64] [causal=true] [kv_heads=4]
--
-- GFLOP/s counts matrix products, GB/s the bytes that an op must read and write at least once.  `floor`
-- is those bytes over the copy bandwidth, which is measured first: no op can be faster, unless its data
-- is cached.  An op far above its floor whose GFLOP/s are far below those of `linear` can be improved.
-- Rows named `back` time the backward pass alone.
--
-- `peak %` is the share of the rate of multiply-adds in registers, on a CPU; `roof %` of what that peak and the copy
-- bandwidth allow an op of its FLOP per byte.  svg=FILE draws the ops that compute under this roofline.
-- `step %` is the share of a training step of `layers` layers on T rows: the op's time, as often as a step runs it,
-- over the sum of these.  The heads' small products are not in it.
-- Lengths of attention: len, and those from 8 to 128 that fine-tuning has.  window=W adds rows of the same lengths with
-- |i - j| <= W, whose time is linear in the rows: op="attention 8192" T=8192 len=8192 window=64.
-- clock=cpu counts processor time, with threads=1: on a machine that has other work to do.
--
-- peer=true multiplies the same shapes with oneDNN afterwards (peers/onednn_gemm.c; libdnnl-dev).

local sr = require("seqrun")
local cases = require("ops_cases")
local common = require("common")
local peak = require("seqrun.run.measure.peak")
local sys = require("seqrun.core.sys")

local options = cases.options({ repeats = 5, threads = 0, peer = false, svg = "", clock = "wall" }, arg)
if options.clock ~= "wall" and options.clock ~= "cpu" then
  common.refuse("clock is '%s'; choose wall or cpu", options.clock)
end
if options.clock == "cpu" and options.threads ~= 1 then
  common.refuse("clock=cpu counts the processor time of all threads together; use it with threads=1")
end
if options.threads > 0 then sr.use("cpu", { threads = options.threads }) end

local now = options.clock == "cpu" and os.clock or sys.now
local rows = { { "op", "ms", "step %", "GFLOP/s", "peak %", "GB/s", "floor ms", "roof %" } }
local drawn = {} -- ops for the picture
local step = { seconds = 0, flops = 0 }
local copy_rate
local most = peak.measure(options.precision)

---The share of the rate that the peak and the copy bandwidth allow.
local function roof_share(seconds, flops, bytes)
  local least = math.max(bytes and copy_rate and bytes / copy_rate or 0, flops and most and flops / most or 0)
  return least > 0 and ("%.0f"):format(100 * least / seconds) or "-"
end

---@param work { flops?: number, bytes?: number, calls?: number }
local function report(name, seconds, work)
  local flops, bytes, of_step = work.flops, work.bytes, (work.calls or 0) * seconds
  rows[#rows + 1] = {
    name, ("%.2f"):format(seconds * 1e3), of_step, flops and ("%.0f"):format(flops / seconds / 1e9) or "-",
    flops and most and ("%.0f"):format(100 * flops / seconds / most) or "-",
    bytes and ("%.1f"):format(bytes / seconds / 1e9) or "-",
    copy_rate and bytes and ("%.2f"):format(bytes / copy_rate * 1e3) or "-", roof_share(seconds, flops, bytes),
  }
  step.seconds, step.flops = step.seconds + of_step, step.flops + (work.calls or 0) * (flops or 0)
  if not flops or not bytes then return end
  drawn[#drawn + 1] = {
    name = name, of = name:gsub(" back$", ""), calls = work.calls, flops = flops, bytes = bytes, seconds = seconds,
  }
end

---The least seconds of the backward pass alone.
local function backward_time(forward)
  local least = math.huge
  for turn = 0, options.repeats do
    local scope <close> = sr.scope()
    local y = forward()
    local dy = y:dim() > 0 and sr.ones(table.unpack(y:shape())):to(y:dtype()) or nil
    local begin = now()
    y:backward(dy)
    if turn > 0 then least = math.min(least, now() - begin) end
  end
  return least
end

---Times `forward`, then backward from its result.
---@type seqrun.bench.Visit
local function measure(name, forward, work)
  report(name, common.best(function()
    local scope <close> = sr.scope()
    forward() -- recorded, as in training: some ops save more then
  end, options.repeats, now), work)
  if not work.back_flops and not work.back_bytes then return end
  report(name .. " back", backward_time(forward),
    { flops = work.back_flops, bytes = work.back_bytes, calls = work.calls })
end

do
  local scope <close> = sr.scope()
  local from, to = sr.zeros(1 << 25), sr.zeros(1 << 25)
  local seconds, bytes = common.best(function() to:copy_(from) end, options.repeats, now), 2 * (1 << 27)
  copy_rate = bytes / seconds
  report("copy of 128 MiB", seconds, { bytes = bytes })
end

cases.each(options, measure)

local whole = options.op == "" -- else not all ops of a step were measured
for i = 2, #rows do
  local share = rows[i][3]
  rows[i][3] = whole and share > 0 and ("%.1f"):format(100 * share / step.seconds) or "-"
end
print(cases.title(options))
if most then print(("peak: %.0f GFLOP/s of %s in registers"):format(most / 1e9, options.precision)) end
common.print_table(rows)
if whole then
  print(("a step of %d layers from these ops: %.0f ms%s"):format(options.layers, step.seconds * 1e3,
    most and (", %.0f %% of the peak"):format(100 * step.flops / step.seconds / most) or ""))
end
if options.svg ~= "" then
  if not most then common.refuse("svg=FILE needs the peak of the device, which only the cpu has") end
  sr.must(sys.write_file(options.svg, require("ops_svg")(
    { peak = most, copy = copy_rate, name = common.machine(), precision = options.precision }, drawn)))
end

if options.peer then
  local program = os.tmpname()
  local build = ("cc -O2 -fopenmp '%s/peers/onednn_gemm.c' -o %s -ldnnl"):format(common.folder, program)
  if os.execute(build) then
    os.execute(("%s %d %d %d %d"):format(program, options.T, options.hidden, options.inner, sr.threads()))
  end
  os.remove(program)
end

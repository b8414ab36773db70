-- ops.lua - time and throughput of each op, and how far it is from what the machine allows.
--
--   build/seqrun recipes/bench/ops.lua [op=NAME] [T=2048] [hidden=768] [len=512] [repeats=5] [precision=f32|bf16]
--       [svg=FILE]
--
-- GFLOP/s counts matrix products, GB/s the bytes that an op must read and write at least once.  `floor`
-- is those bytes over the copy bandwidth, which is measured first: no op can be faster, unless its data
-- is cached.  An op far above its floor whose GFLOP/s are far below those of `linear` can be improved.
-- Rows named `back` time the backward pass alone.
--
-- `peak %` is the share of the rate of multiply-adds in registers, on a CPU; `roof %` of what that peak and the copy
-- bandwidth allow an op of its FLOP per byte.  svg=FILE draws the ops that compute under this roofline.
-- Lengths of attention: len, and those from 8 to 128 that fine-tuning has.  uneven=true adds products of shapes that
-- fit no tile (H 312, F 1200, V 30522, 17 rows) beside even ones, and the ratio of their rates.
--
-- peer=true multiplies the same shapes with oneDNN afterwards (peers/onednn_gemm.c; libdnnl-dev).

local directory = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = directory .. "/?.lua;" .. package.path

local sr = require("seqrun")
local peak = require("seqrun.run.peak")
local sys = require("seqrun.core.sys")
local common = require("common")

local options = common.options({
  op = "", T = 2048, hidden = 768, inner = 3072, heads = 12, vocabulary = 30522, len = 512,
  masked = 300, dropout = 0.1, repeats = 5, threads = 0, seed = 1, peer = false, precision = "f32", svg = "",
  uneven = false,
}, arg)
if options.precision ~= "f32" and options.precision ~= "bf16" then
  error(("bench: precision is '%s'; choose f32 or bf16"):format(options.precision), 0)
end
if options.threads > 0 then sr.use("cpu", { threads = options.threads }) end

local T, H, F, V, M = options.T, options.hidden, options.inner, options.vocabulary, options.masked
local LOW = options.precision == "bf16"
local ELEMENT = LOW and 2 or 4 -- bytes of an activation or a weight
local rows = { { "op", "ms", "GFLOP/s", "peak %", "GB/s", "floor ms", "roof %" } }
local drawn, rate_of = {}, {} -- ops for the picture; FLOP/s by name
local copy_rate
local most = peak.measure(options.precision)

local function random(...)
  local x = sr.randn({ ... }, { seed = options.seed, uid = 1 })
  return LOW and x:to("bf16") or x
end
local function leaf(...)
  return random(...):requires_grad_(true)
end
local function real_leaf(...) -- f32 in every precision
  return sr.randn({ ... }, { seed = options.seed, uid = 1 }):requires_grad_(true)
end

---The share of the rate that the peak and the copy bandwidth allow.
local function roof_share(seconds, flops, bytes)
  local least = math.max(bytes and copy_rate and bytes / copy_rate or 0, flops and most and flops / most or 0)
  return least > 0 and ("%.0f"):format(100 * least / seconds) or "-"
end

local function report(name, seconds, flops, bytes)
  local floor = copy_rate and bytes and ("%.2f"):format(bytes / copy_rate * 1e3) or "-"
  rows[#rows + 1] = {
    name, ("%.2f"):format(seconds * 1e3), flops and ("%.0f"):format(flops / seconds / 1e9) or "-",
    flops and most and ("%.0f"):format(100 * flops / seconds / most) or "-",
    bytes and ("%.1f"):format(bytes / seconds / 1e9) or "-", floor, roof_share(seconds, flops, bytes),
  }
  if not flops then return end
  rate_of[name] = flops / seconds
  if bytes then drawn[#drawn + 1] = { name = name, flops = flops, bytes = bytes, seconds = seconds } end
end

---Times `forward`, then backward from its result.
---@param work { flops?: number, bytes?: number, back_flops?: number, back_bytes?: number }
local function measure(name, forward, work)
  if options.op ~= "" and not name:find(options.op, 1, true) then return end
  report(name, common.best(function()
    local scope <close> = sr.scope()
    local quiet <close> = sr.no_grad()
    forward()
  end, options.repeats), work.flops, work.bytes)
  if not work.back_flops and not work.back_bytes then return end
  local least = math.huge
  for turn = 0, options.repeats do
    local scope <close> = sr.scope()
    local y = forward()
    local dy = y:dim() > 0 and sr.ones(table.unpack(y:shape())):to(y:dtype()) or nil
    local begin = sys.now()
    y:backward(dy)
    if turn > 0 then least = math.min(least, sys.now() - begin) end
  end
  report(name .. " back", least, work.back_flops, work.back_bytes)
end

local function layout_of(len)
  local lens = {}
  for i = 1, T // len do lens[i] = len end
  return sr.layout { lens = lens, rows = T, seed = options.seed }
end

-- ---- copy bandwidth ------------------------------------------------------------------------------

do
  local scope <close> = sr.scope()
  local from, to = sr.zeros(1 << 25), sr.zeros(1 << 25)
  local seconds = common.best(function() to:copy_(from) end, options.repeats)
  copy_rate = 2 * (1 << 27) / seconds
  report("copy of 128 MiB", seconds, nil, 2 * (1 << 27))
end

-- ---- products ------------------------------------------------------------------------------------

local function linear(name, inputs, outputs, act)
  local x, w, b = leaf(T, inputs), leaf(outputs, inputs), leaf(outputs)
  local flops, bytes = 2 * T * inputs * outputs, ELEMENT * (T * inputs + outputs * inputs + T * outputs)
  measure("linear " .. name, function() return sr.ops.linear(x, w, b, act and { act = act }) end,
    { flops = flops, bytes = bytes, back_flops = 2 * flops, back_bytes = 2 * bytes })
end
linear("qkv", H, 3 * H)
linear("projection", H, H)
linear("feed in", H, F)
linear("feed in, gelu", H, F, "gelu")
linear("feed out", F, H)

do
  local n = 512
  local a, b = random(options.heads, n, n), random(options.heads, n, n)
  measure("matmul batch of 512", function() return a:matmul(b) end, { flops = 2 * options.heads * n ^ 3 })
end

-- ---- attention -----------------------------------------------------------------------------------

for _, len in ipairs { options.len, 128, 64, 48, 32, 16, 8 } do
  local layout, qkv = layout_of(len), leaf(T, 3 * H)
  local flops = 4 * H * layout:squares()
  for _, dropout in ipairs { 0, options.dropout } do
    local o = { heads = options.heads, dropout = dropout, layer = 1 }
    measure(("attention %d%s"):format(len, dropout > 0 and ", dropout" or ""),
      function() return sr.ops.attention(qkv, layout, o) end,
      { flops = flops, bytes = 4 * ELEMENT * T * H, back_flops = 2.5 * flops, back_bytes = 8 * ELEMENT * T * H })
  end
end

-- ---- uneven shapes -------------------------------------------------------------------------------

---A product of M rows, forward and backward.
local function product(name, m, inputs, outputs)
  local x, w = leaf(m, inputs), leaf(outputs, inputs)
  local flops, bytes = 2 * m * inputs * outputs, ELEMENT * (m * inputs + outputs * inputs + m * outputs)
  measure(name, function() return sr.ops.linear(x, w) end,
    { flops = flops, bytes = bytes, back_flops = 2 * flops, back_bytes = 2 * bytes })
end

if options.uneven then
  for _, pair in ipairs {
    { { T, 312, 1200 }, { T, 320, 1216 } }, { { T, 1200, 312 }, { T, 1216, 320 } },
    { { 17, 768, 3072 }, { 16, 768, 3072 } }, { { 304, 312, 30522 }, { 304, 320, 30528 } },
  } do
    local names = {}
    for i, shape in ipairs(pair) do
      names[i] = ("linear %dx%dx%d"):format(table.unpack(shape))
      product(names[i], table.unpack(shape))
    end
    for _, back in ipairs { "", " back" } do
      local uneven, even = rate_of[names[1] .. back], rate_of[names[2] .. back]
      if uneven then
        local share = ("%.0f %%"):format(100 * uneven / even)
        rows[#rows + 1] = { "  rate of the uneven shape" .. back, "", share, "", "", "", "" }
      end
    end
  end
end

-- ---- rows ----------------------------------------------------------------------------------------

do
  local layout, x, residual = layout_of(options.len), leaf(T, H), leaf(T, H)
  local gamma, beta = real_leaf(H), real_leaf(H)
  local o = { eps = 1e-12, dropout = options.dropout, site = "feed", layer = 1, layout = layout }
  measure("residual_norm", function() return sr.ops.residual_norm(x, residual, gamma, beta, o) end,
    { bytes = 4 * ELEMENT * T * H, back_bytes = 4 * ELEMENT * T * H })
  measure("dropout", function() return sr.ops.dropout(x, layout, { p = options.dropout, site = "user" }) end,
    { bytes = 2 * ELEMENT * T * H, back_bytes = 2 * ELEMENT * T * H })
  local once = ELEMENT * T * H
  measure("softmax", function() return x:softmax(-1) end, { bytes = 2 * once, back_bytes = 3 * once })
  measure("gelu", function() return x:gelu() end, { bytes = 2 * once, back_bytes = 3 * once })
  measure("add", function() return x + residual end, { bytes = 3 * once })
  local row = random(H)
  measure("add a row", function() return x + row end, { bytes = 2 * once })
  measure("sum", function() return x:sum() end, { bytes = once })
  measure("sum of columns", function() return x:sum(1) end, { bytes = once })
end

do
  local ids, types, picked = {}, {}, {}
  for i = 1, T do ids[i], types[i] = i * 7919 % V, i % 2 end
  for i = 1, M do picked[i] = i * 6 % T end
  local int = { dtype = "i32" }
  local x, at = leaf(T, H), sr.tensor(picked, int)
  local tables = { word = leaf(V, H), position = leaf(512, H), type = leaf(2, H) }
  tables.gamma, tables.beta = real_leaf(H), real_leaf(H)
  local id, kind, layout = sr.tensor(ids, int), sr.tensor(types, int), layout_of(options.len)
  measure("embed", function()
    return sr.ops.embed(id, kind, tables, layout, { eps = 1e-12, dropout = options.dropout })
  end, { bytes = 5 * ELEMENT * T * H, back_bytes = 7 * ELEMENT * T * H })
  measure("gather_rows", function() return sr.ops.gather_rows(x, at) end, { bytes = 2 * ELEMENT * M * H })
  local some, values = {}, leaf(math.min(M, T), H)
  for i = 1, math.min(M, T) do some[i] = i - 1 end
  local once = sr.tensor(some, int)
  measure("put_rows", function() return sr.ops.put_rows(x, once, values) end, { bytes = 2 * ELEMENT * (T + #some) * H })
  local function same(taken) return taken end
  measure("on_rows", function() return sr.ops.on_rows(x, once, same) end, { bytes = 2 * ELEMENT * (T + 2 * #some) * H })
end

-- ---- losses and optimizers -------------------------------------------------------------------------

do
  local x, word, bias = leaf(M, H), leaf(V, H), leaf(V)
  local labels, weights = {}, {}
  for i = 1, M do labels[i], weights[i] = i * 97 % V, 1 / M end
  local label, weight = sr.tensor(labels, { dtype = "i32" }), sr.tensor(weights)
  local flops = 2 * M * V * H
  measure("mlm_loss", function() return (sr.ops.mlm_loss(x, word, bias, label, weight)) end,
    { flops = flops, bytes = ELEMENT * V * H + 8 * M * V, back_flops = 2 * flops,
      back_bytes = (ELEMENT + 8) * V * H + 8 * M * V })
end

for _, kind in ipairs { "adamw", "lamb" } do
  if ("optimizer " .. kind):find(options.op, 1, true) then
    local params = sr.params.new { { name = "w", shape = { 16384, 1024 }, init = "normal", group = "decay" } }
    params:initialise(1)
    local optimizer, count = sr.optim[kind](params, {}), 16384 * 1024
    local seconds = common.best(function() optimizer:step { rate = 1e-3, clip = 1 } end, options.repeats)
    report("optimizer " .. kind, seconds, nil, (kind == "lamb" and 40 or 32) * count)
  end
end

print(("T = %d, H = %d, F = %d, A = %d, V = %d, M = %d; %s"):format(T, H, F, options.heads, V, M, common.machine()))
if most then print(("peak: %.0f GFLOP/s of %s in registers"):format(most / 1e9, options.precision)) end
common.print_table(rows)
if options.svg ~= "" then
  local file <close> = assert(io.open(options.svg, "w"))
  if not most then error("bench: svg=FILE needs the peak of the device, which only the cpu has", 0) end
  file:write(require("ops_svg")({ peak = most, copy = copy_rate, name = common.machine() }, drawn))
end

if options.peer then
  local program = os.tmpname()
  local build = ("cc -O2 -fopenmp '%s/peers/onednn_gemm.c' -o %s -ldnnl"):format(directory, program)
  if os.execute(build) then os.execute(("%s %d %d %d %d"):format(program, T, H, F, sr.threads())) end
  os.remove(program)
end

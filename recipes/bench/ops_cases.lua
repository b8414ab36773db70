-- ops_cases.lua - the ops that recipes/bench/ops.lua times and schedule.lua cuts into tasks, on data of given sizes.

local common = require("common")
local merged = require("seqrun.base.merged")
local sr = require("seqrun")

local cases = {}

local OPTIONS = { -- of both benchmarks
  op = "", T = 2048, hidden = 768, inner = 3072, heads = 12, layers = 12, vocabulary = 30522, len = 512, masked = 300,
  dropout = 0.1, seed = 1, precision = "f32", window = -1, causal = false, kv_heads = 0,
}

---What an op computes and must read and write at least, and how often a training step runs it.
---@class seqrun.bench.Work
---@field flops? number
---@field bytes? number
---@field back_flops? number of the backward pass; an op without back_flops and back_bytes has none
---@field back_bytes? number
---@field calls? number per training step; absent: a step has no such op

---@alias seqrun.bench.Visit fun(name: string, forward: fun(): any, work: seqrun.bench.Work)

---A tensor that needs a gradient and does not keep it, as activations do.  A leaf would add all turns up.
local activation = sr.ops.custom {
  forward = function(_, x) return x:detach() end, backward = function() return nil end,
}

---@param options table
local function makers(options)
  local low = options.precision == "bf16"
  local function real(...) return sr.randn({ ... }, { seed = options.seed, uid = 1 }) end
  local function random(...) return low and real(...):to("bf16") or real(...) end
  return {
    random = random,
    leaf = function(...) return random(...):requires_grad_(true) end,
    real_leaf = function(...) return real(...):requires_grad_(true) end, -- f32 in every precision
    element = low and 2 or 4, -- bytes of an activation or a weight
    layout = function(len)
      local lens = {}
      for i = 1, options.T // len do lens[i] = len end
      return sr.layout { lens = lens, rows = options.T, seed = options.seed }
    end,
  }
end

local function products(o, make, visit)
  local T, H, F = o.T, o.hidden, o.inner
  local function linear(name, inputs, outputs, act, calls)
    local x, w, b = make.leaf(T, inputs), make.leaf(outputs, inputs), make.leaf(outputs)
    local flops, bytes = 2 * T * inputs * outputs, make.element * (T * inputs + outputs * inputs + T * outputs)
    visit("linear " .. name, function() return sr.ops.linear(activation(x), w, b, act and { act = act }) end,
      { flops = flops, bytes = bytes, back_flops = 2 * flops, back_bytes = 2 * bytes, calls = calls })
  end
  linear("qkv", H, 3 * H, nil, o.layers)
  linear("projection", H, H, nil, o.layers)
  linear("feed in", H, F)
  linear("feed in, gelu", H, F, "gelu", o.layers)
  linear("feed out", F, H, nil, o.layers)
  for _, groups in ipairs { 1, 8 } do
    local x, w, b, starts = make.leaf(T, H), make.leaf(groups * F, H), make.leaf(groups * F), {}
    for g = 0, groups do starts[g + 1] = T * g // groups end
    local at, flops = sr.tensor(starts, { dtype = "i32" }), 2 * T * H * F
    local bytes = make.element * (T * H + groups * F * H + T * F)
    visit(("grouped_linear feed in, gelu, %d groups"):format(groups),
      function() return sr.ops.grouped_linear(activation(x), w, b, at, { act = "gelu" }) end,
      { flops = flops, bytes = bytes, back_flops = 2 * flops, back_bytes = 2 * bytes })
  end
  local n = 512
  local a, b = make.random(o.heads, n, n), make.random(o.heads, n, n)
  visit("matmul batch of 512", function() return a:matmul(b) end, { flops = 2 * o.heads * n ^ 3 })
end

---A visit of attention over a layout, with a window unless it is negative.
local function attend(o, qkv, layout, visit, label, window, dropout, once, calls)
  local seen, kinds = window >= 0 and window or nil, {}
  if seen then kinds[#kinds + 1] = ", window " .. seen end
  if o.causal then kinds[#kinds + 1] = ", causal" end
  if dropout > 0 then kinds[#kinds + 1] = ", dropout" end
  local flops = 4 * o.hidden * layout:scores(seen, o.causal)
  local with = {
    heads = o.heads, kv_heads = o.kv_heads > 0 and o.kv_heads or nil, window = seen, causal = o.causal,
    dropout = dropout, layer = 1,
  }
  visit(("attention %d%s"):format(label, table.concat(kinds)),
    function() return sr.ops.attention(activation(qkv), layout, with) end,
    { flops = flops, bytes = 4 * once, back_flops = 2.5 * flops, back_bytes = 8 * once, calls = calls })
end

local function attention(o, make, visit)
  local done = {}
  local columns = o.hidden + 2 * (o.kv_heads > 0 and o.kv_heads or o.heads) * (o.hidden // o.heads)
  for _, len in ipairs { o.len, 128, 64, 48, 32, 16, 8 } do
    local qkv, layout = make.leaf(o.T, columns), make.layout(len)
    local once = make.element * o.T * (o.hidden + columns) / 4
    for _, dropout in ipairs(done[len] and {} or { 0, o.dropout }) do
      local calls = len == o.len and dropout == o.dropout and o.layers or nil
      attend(o, qkv, layout, visit, len, -1, dropout, once, calls)
      if o.window >= 0 and o.window < len - 1 then
        attend(o, qkv, layout, visit, len, o.window, dropout, once)
      end
    end
    done[len] = true
  end
end

local function rows(o, make, visit)
  local T, H, layout = o.T, o.hidden, make.layout(o.len)
  local x, residual, once = make.leaf(T, H), make.leaf(T, H), make.element * T * H
  local gamma, beta = make.real_leaf(H), make.real_leaf(H)
  local with = { eps = 1e-12, dropout = o.dropout, site = "feed", layer = 1, layout = layout }
  visit("residual_norm", function()
    return sr.ops.residual_norm(activation(x), activation(residual), gamma, beta, with)
  end, { bytes = 4 * once, back_bytes = 4 * once, calls = 2 * o.layers })
  local both = { eps = 1e-5, kind = "rms", sum = true, dropout = o.dropout, site = "feed", layer = 1, layout = layout }
  visit("residual_norm rms with the sum", function()
    local y, sum = sr.ops.residual_norm(activation(x), activation(residual), gamma, nil, both)
    return y + sum
  end, { bytes = 7 * once, back_bytes = 5 * once })
  visit("sequence_mean", function() return sr.ops.sequence_mean(activation(x), layout) end,
    { bytes = once, back_bytes = once })
  visit("dropout", function() return sr.ops.dropout(activation(x), layout, { p = o.dropout, site = "user" }) end,
    { bytes = 2 * once, back_bytes = 2 * once })
  visit("softmax", function() return activation(x):softmax(-1) end, { bytes = 2 * once, back_bytes = 3 * once })
  visit("gelu", function() return activation(x):gelu() end, { bytes = 2 * once, back_bytes = 3 * once })
  visit("add", function() return x + residual end, { bytes = 3 * once })
  local row = make.random(H)
  visit("add a row", function() return x + row end, { bytes = 2 * once })
  visit("sum", function() return x:sum() end, { bytes = once })
  visit("sum of columns", function() return x:sum(1) end, { bytes = once })
end

---What feed-forward blocks with a gate and rotary positions add to the products.
local function turns(o, make, visit)
  local T, H, F, layout = o.T, o.hidden, o.inner, make.layout(o.len)
  local qkv, wide = make.leaf(T, 3 * H), make.leaf(T, 2 * F)
  local options, once = { heads = o.heads }, make.element * T
  visit("rotary", function() return sr.ops.rotary(activation(qkv), layout, options) end,
    { bytes = 6 * once * H, back_bytes = 6 * once * H })
  for _, act in ipairs { "gelu", "silu" } do
    visit("gated " .. act, function() return sr.ops.gated(activation(wide), { act = act }) end,
      { bytes = 3 * once * F, back_bytes = 5 * once * F })
  end
end

local function tables(o, make, visit)
  local T, H, M = o.T, o.hidden, math.min(o.masked, o.T)
  local ids, types, picked, some = {}, {}, {}, {}
  for i = 1, T do ids[i], types[i] = i * 7919 % o.vocabulary, i % 2 end
  for i = 1, M do picked[i], some[i] = i * 6 % T, i - 1 end
  local int = { dtype = "i32" }
  local x, values, at = make.leaf(T, H), make.leaf(M, H), sr.tensor(picked, int)
  local weights = { word = make.leaf(o.vocabulary, H), position = make.leaf(512, H), type = make.leaf(2, H) }
  weights.gamma, weights.beta = make.real_leaf(H), make.real_leaf(H)
  local id, kind, layout = sr.tensor(ids, int), sr.tensor(types, int), make.layout(o.len)
  visit("embed", function()
    return sr.ops.embed(id, kind, weights, layout, { eps = 1e-12, dropout = o.dropout })
  end, { bytes = 5 * make.element * T * H, back_bytes = 7 * make.element * T * H, calls = 1 })
  visit("gather_rows", function() return sr.ops.gather_rows(activation(x), at) end,
    { bytes = 2 * make.element * M * H, back_bytes = make.element * (M + T) * H, calls = 1 })
  local once = sr.tensor(some, int)
  visit("put_rows", function() return sr.ops.put_rows(x, once, values) end, { bytes = 2 * make.element * (T + M) * H })
  visit("on_rows", function() return sr.ops.on_rows(x, once, function(taken) return taken end) end,
    { bytes = 2 * make.element * (T + 2 * M) * H })
end

local function losses(o, make, visit)
  local M, H, V = o.masked, o.hidden, o.vocabulary
  local x, bias = make.leaf(M, H), make.leaf(V)
  local word = (make.random(V, H):detach() * 0.02):requires_grad_(true) -- logits as wide as a model's
  local labels, weights = {}, {}
  for i = 1, M do labels[i], weights[i] = i * 97 % V, 1 / M end
  local label, weight = sr.tensor(labels, { dtype = "i32" }), sr.tensor(weights)
  local flops = 2 * M * V * H
  visit("mlm_loss", function() return (sr.ops.mlm_loss(activation(x), word, bias, label, weight)) end,
    { flops = flops, bytes = make.element * V * H + 8 * M * V, back_flops = 2 * flops,
      back_bytes = (make.element + 8) * V * H + 8 * M * V, calls = 1 })
end

---Parameters of the model whose step this is: matrices of the layers and of the vocabulary.
local function parameters(o)
  return o.layers * (4 * o.hidden ^ 2 + 2 * o.hidden * o.inner) + o.vocabulary * o.hidden
end

local function optimizers(o, visit)
  local columns = 1024
  local rows_of = math.min(16384, math.ceil(parameters(o) / columns))
  for _, kind in ipairs { "adamw", "lamb" } do
    local function open()
      local specs = { { name = "w", shape = { rows_of, columns }, init = "normal", group = "decay" } }
      return sr.optim[kind](sr.params.new(specs, { precision = o.precision }):initialise(1), {})
    end
    local optimizer
    visit("optimizer " .. kind, function()
      optimizer = optimizer or open()
      optimizer:step { rate = 1e-3, clip = 1 }
    end, {
      bytes = ((kind == "lamb" and 40 or 32) + (o.precision == "bf16" and 2 or 0)) * rows_of * columns,
      calls = kind == "adamw" and parameters(o) / (rows_of * columns) or nil,
    })
  end
end

---Parses arguments: the sizes, and what the benchmark adds.
---@param own table<string, string|number|boolean> defaults
---@param arguments string[]
---@return table
function cases.options(own, arguments)
  local options = common.options(merged(OPTIONS, own), arguments)
  if options.precision ~= "f32" and options.precision ~= "bf16" then
    common.refuse("precision is '%s'; choose f32 or bf16", options.precision)
  end
  return options
end

---The first line of the output: sizes and machine.
function cases.title(o)
  return ("T = %d, H = %d, F = %d, A = %d, V = %d, M = %d, %s; %s"):format(o.T, o.hidden, o.inner, o.heads,
    o.vocabulary, o.masked, o.precision, common.machine())
end

---Calls `visit` for every op whose name contains options.op.
---@param options table
---@param visit seqrun.bench.Visit
function cases.each(options, visit)
  local function wanted(name, forward, work)
    if name:find(options.op, 1, true) then visit(name, forward, work) end
  end
  local make = makers(options)
  for _, group in ipairs { products, attention, rows, turns, tables, losses } do
    local scope <close> = sr.scope()
    group(options, make, wanted)
  end
  optimizers(options, wanted)
end

return cases

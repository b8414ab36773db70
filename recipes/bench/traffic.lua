-- traffic.lua - what one training step of BERT moves and computes on a GPU, op by op.
--
-- The list follows the calls of a step as kernels/cuda carries them out: a product adds its bias, and the
-- product for dx adds to the gradient that the residual has; an activation is a pass of its own; bias gradients are
-- summed by the pass that writes what they sum: those of q, k and v by attention.  Bytes are those that must cross
-- device memory, each operand once per pass; what a pass leaves in the cache is counted again.
--
-- An op is one of lua/seqrun/advise/time.lua, which says how long it takes, with its name, calls, FLOP and kind:
-- "product", "attention" or "memory".

local models = require("seqrun.advise.models")

local traffic = {}

---@class seqrun.Work one training step
---@field rows integer T, slack included
---@field lengths integer[] of the sequences
---@field masked integer rows of the masked-LM head
---@field hidden integer
---@field layers integer
---@field heads integer
---@field inner integer
---@field vocabulary integer
---@field positions integer
---@field optimizer "adamw"|"lamb"

local WRITTEN = 1024 -- elements of a gradient that a product writes first, instead of adding it to zeros
local ELEMENT = 2 -- bytes of an activation or weight in bf16
local REAL = 4 -- of what is always f32
local TILE = 64 -- rows and columns of a tile of attention

-- Of the rate of a copy: what passes are expected to reach.
local SHARE = {
  plain = 0.95, -- fills, sums, copies
  activation = 0.90,
  norm = 0.88, -- two barriers a row
  norm_back = 0.80, -- and sums in shared memory
  columns = 0.90, -- sums over rows
  optimizer = 0.90,
  loss = 0.85,
  rows = 0.60, -- rows in any order; sums of rows by key
  product = 0.90,
}

---Parameters, as the store holds them: those of the advisor, positions, types, the pooler, biases and norms outside of
---layers, next sentence.
---@param w seqrun.Work
function traffic.parameters(w)
  local H = w.hidden
  return models.count(w) + H * H + (w.positions + 10) * H + 2
end

---Those of them whose gradients products write.
---@param w seqrun.Work
function traffic.written(w)
  local H, F = w.hidden, w.inner
  return w.layers * (4 * H * H + 2 * H * F) + 2 * H * H + 2 * H
end

-- What a block of attention costs, in visits of a tile of keys to one of queries: beyond those of its sequence `once`,
-- and `each` for a tile; backward, with the sums for a bias.
local FORWARD, BACKWARD = { once = 0, each = 1 }, { once = 1.5, each = 0.7 }

---Score elements that the tiles of all sequences compute, and those that would cost as much as whole blocks.
local function scores(lengths, block)
  local sum, cost = 0, 0
  for _, n in ipairs(lengths) do
    local tiles = (n + TILE - 1) // TILE
    local computed = (n + 15) // 16 * 16 * tiles * TILE -- a tile is left out by strips of 16 rows
    sum = sum + computed
    cost = cost + computed * (1 + block.once / tiles ^ 2 + block.each / tiles)
  end
  return sum, cost
end

---Collects ops by name, in the order of their first call.
local function collector()
  local list, by_name = {}, {}
  local function add(name, kind, share, calls, launches, bytes)
    local op = by_name[name]
    if not op then
      op = { name = name, kind = kind, share = SHARE[share], calls = 0, launches = 0, bytes = 0, flops = 0 }
      by_name[name], list[#list + 1] = op, op
    end
    op.calls, op.launches = op.calls + calls, op.launches + calls * launches
    op.bytes = op.bytes + calls * bytes
    return op
  end
  return list, add
end

---A product (m, n, k) that moves `bytes`.
local function product(add, name, calls, m, n, k, bytes)
  local op = add(name, "product", "product", calls, 1, bytes)
  op.flops = op.flops + calls * 2 * m * n * k
  op.products = op.products or {}
  table.insert(op.products, { calls = calls, m = m, n = n, k = k })
end

---y (rows, outputs) = x (rows, inputs) w^T + b, and an activation in a pass of its own.
---@param is? { gelu?: boolean, residual?: boolean, summed?: boolean } residual: dx is added to the gradient of x as the
---  residual; summed: the op above sums the bias gradient
local function linear(add, name, calls, rows, inputs, outputs, is)
  is = is or {}
  local x, w, y = ELEMENT * rows * inputs, ELEMENT * inputs * outputs, ELEMENT * rows * outputs
  product(add, name .. " product", calls, rows, outputs, inputs, x + w + y)
  if is.gelu then add(name .. " gelu", "memory", "activation", calls, 1, 2 * y) end
  product(add, name .. " backward: dx", calls, rows, inputs, outputs, (is.residual and 2 or 1) * x + w + y)
  local passes = inputs * outputs < WRITTEN and 2 or 1
  product(add, name .. " backward: dw", calls, outputs, inputs, rows, x + y + passes * REAL * inputs * outputs)
  if is.gelu then
    add(name .. " backward: gelu, db", "memory", "activation", calls, 2, 3 * y)
  elseif not is.summed then
    add(name .. " backward: db", "memory", "columns", calls, 2, y)
  end
end

---Attention of all layers, of `flops` a score element and column.
local function attention(add, name, w, block, flops, bytes)
  local op, each = add(name, "attention", "plain", w.layers, 2, bytes + REAL * w.rows * w.heads), flops * w.layers
  local computed, cost = scores(w.lengths, block)
  op.flops, op.attention = each * w.hidden * computed, each * w.hidden * cost
end

local function norm(add, name, calls, rows, hidden, residual)
  local row = ELEMENT * rows * hidden
  local passes = residual and 4 or 2
  add(name, "memory", "norm", calls, 1, passes * row + 2 * REAL * rows)
  add(name .. " backward", "memory", "norm_back", calls, 2, (residual and 4 or 3) * row + 2 * REAL * rows)
end

---`count` of `rows` rows that go on alone, and their gradient back among all rows: zeros, sums, rounding.
local function some_rows(add, rows, count, hidden)
  add("some rows: gather", "memory", "rows", 1, 1, 2 * ELEMENT * count * hidden)
  add("some rows: scatter", "memory", "rows", 1, 7, (ELEMENT + 2 * REAL) * count * hidden)
  add("some rows: fill, round", "memory", "plain", 1, 2, (2 * REAL + ELEMENT) * rows * hidden)
end

---Rows that the targets read, the first of each sequence and the masked ones, in whole tiles.
---@param w seqrun.Work
function traffic.last_rows(w) return math.min(w.rows, (w.masked + #w.lengths + 127) // 128 * 128) end

---What follows attention in a layer.
local function after_attention(add, w, layers, rows)
  linear(add, "projection", layers, rows, w.hidden, w.hidden, { summed = true })
  linear(add, "inner", layers, rows, w.hidden, w.inner, { gelu = true, residual = true })
  linear(add, "outer", layers, rows, w.inner, w.hidden, { summed = true })
  norm(add, "residual_norm", 2 * layers, rows, w.hidden, true)
end

local function encoder(add, w)
  local T, H, L = w.rows, w.hidden, w.layers
  local row = ELEMENT * T * H
  add("embed", "memory", "norm", 1, 1, 3 * row + 16 * T)
  linear(add, "qkv", L, T, H, 3 * H, { residual = true, summed = true })
  -- kernels of wide and of narrow tiles; backward, one that adds up the sums of tiles, a sequence or some short ones
  -- each, for the bias
  attention(add, "attention", w, FORWARD, 4, 4 * row)
  local sums = 2 * REAL * 3 * H * #w.lengths
  attention(add, "attention backward", w, BACKWARD, 10, 8 * row + sums)
  after_attention(add, w, L - 1, T)
  local last = traffic.last_rows(w)
  for _ = 1, 2 do some_rows(add, T, last, H) end -- of attention's result and of the layer's input
  after_attention(add, w, 1, last)
  local distinct = math.min(T, w.vocabulary)
  add("embed backward", "memory", "rows", 1, 12, 2 * row + 2 * REAL * T * H + 2 * REAL * (distinct + w.positions) * H)
end

local function masked_lm(add, w)
  local M, H, V = w.masked, w.hidden, w.vocabulary
  local logits = M * V
  some_rows(add, traffic.last_rows(w), M, H)
  linear(add, "transform", 1, M, H, H, { gelu = true })
  norm(add, "transform norm", 1, M, H, false)
  local x, word = ELEMENT * M * H, ELEMENT * V * H
  product(add, "decoder product", 1, M, V, H, x + word + REAL * logits) -- f32 logits, a chunk at a time
  add("decoder loss", "memory", "loss", 1, 2, (REAL + ELEMENT) * logits) -- read twice, then from the cache; gradient
  product(add, "decoder backward: dx", 1, M, H, V, x + word + ELEMENT * logits)
  product(add, "decoder backward: dw", 1, V, H, M, x + ELEMENT * logits + 2 * REAL * V * H)
  add("decoder backward: db", "memory", "columns", 1, 2, ELEMENT * logits)
end

local function next_sentence(add, w)
  local N, H = #w.lengths, w.hidden
  some_rows(add, traffic.last_rows(w), N, H)
  linear(add, "pooler", 1, N, H, H)
  linear(add, "next sentence", 1, N, H, 2)
end

local function optimizer(add, w)
  local P = traffic.parameters(w)
  add("gradient norm", "memory", "optimizer", 1, 2, REAL * P)
  if w.optimizer == "lamb" then
    add("lamb moments", "memory", "optimizer", 1, 2, 6 * REAL * P) -- reads w, m, v, g, writes m, v
    add("lamb step", "memory", "optimizer", 1, 2, (4 * REAL + ELEMENT) * P) -- reads w, m, v, writes w and its bf16 copy
  else
    add("adamw step", "memory", "optimizer", 1, 2, (7 * REAL + ELEMENT) * P)
  end
  -- what is small at once, tables when the first op adds to them
  add("zero gradients", "memory", "plain", 1, 4, REAL * (P - traffic.written(w)))
end

---The ops of a step, of one micro-batch.
---@param w seqrun.Work
---@return table[]
function traffic.step(w)
  local list, add = collector()
  encoder(add, w)
  masked_lm(add, w)
  next_sentence(add, w)
  add("sum of gradients", "memory", "plain", 1, 1, 3 * ELEMENT * traffic.last_rows(w) * w.hidden) -- of the two heads
  optimizer(add, w)
  return list
end

return traffic

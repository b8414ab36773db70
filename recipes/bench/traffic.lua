-- traffic.lua - what one training step of BERT moves and computes on a GPU, op by op.
--
-- The list follows the calls of a step as kernels/cuda carries them out: a product adds its bias; an
-- activation, a bias gradient and the sum of two gradients are passes of their own.  Bytes are those that
-- must cross device memory, each operand once per pass; what a pass leaves in the cache is counted again.
--
-- An op: name, calls, launches of a call, bytes and flops of all calls together, kind: "product",
-- "attention", "attention_backward" or "memory".

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

local ELEMENT = 2 -- bytes of an activation or weight in bf16
local REAL = 4 -- of what is always f32
local TILE = 64 -- rows and columns of a tile of attention

---Parameters, as the store holds them.
---@param w seqrun.Work
function traffic.parameters(w)
  local H, F, V = w.hidden, w.inner, w.vocabulary
  local layer = 4 * (H * H + H) + 2 * H * F + F + H + 4 * H
  local embeddings = (V + w.positions + 2) * H + 2 * H
  local heads = 2 * (H * H + H) + 2 * H + V + 2 * H + 2 -- pooler, transform and its norm, bias, next sentence
  return embeddings + w.layers * layer + heads
end

---Model FLOP of a step (CONTRACTS' formula): products of real tokens, attention, head rows as run.
---@param w seqrun.Work
function traffic.model_flops(w)
  local H, F, squares, tokens = w.hidden, w.inner, 0, 0
  for _, n in ipairs(w.lengths) do squares, tokens = squares + n * n, tokens + n end
  local layer = 6 * tokens * (4 * H * H + 2 * H * F) + 12 * H * squares
  return w.layers * layer + 6 * w.masked * (H * H + H * w.vocabulary) + 6 * #w.lengths * (H * H + 2 * H)
end

---Score elements of attention: useful ones, and those of the tiles that are computed.
local function scores(lengths)
  local useful, computed = 0, 0
  for _, n in ipairs(lengths) do
    local up = (n + 15) // 16 * 16 -- a tile is left out by strips of 16 rows
    useful, computed = useful + n * n, computed + up * ((n + TILE - 1) // TILE * TILE)
  end
  return useful, computed
end

---Collects ops by name, in the order of their first call.
local function collector()
  local list, by_name = {}, {}
  local function add(name, kind, calls, launches, bytes, flops)
    local op = by_name[name]
    if not op then
      op = { name = name, kind = kind, calls = 0, launches = 0, bytes = 0, flops = 0 }
      by_name[name], list[#list + 1] = op, op
    end
    op.calls, op.launches = op.calls + calls, op.launches + calls * launches
    op.bytes, op.flops = op.bytes + calls * bytes, op.flops + calls * (flops or 0)
  end
  return list, add
end

---y (rows, outputs) = x (rows, inputs) w^T + b, and an activation in a pass of its own.
local function linear(add, name, calls, rows, inputs, outputs, gelu)
  local flops = 2 * rows * inputs * outputs
  local x, w, y = ELEMENT * rows * inputs, ELEMENT * inputs * outputs, ELEMENT * rows * outputs
  add(name .. " product", "product", calls, 1, x + w + y, flops)
  if gelu then add(name .. " gelu", "memory", calls, 1, 2 * y) end
  add(name .. " backward: dx", "product", calls, 1, x + w + y, flops)
  add(name .. " backward: dw", "product", calls, 1, x + y + 2 * REAL * inputs * outputs, flops)
  if gelu then
    add(name .. " backward: gelu, db", "memory", calls, 2, 3 * y)
  else
    add(name .. " backward: db", "memory", calls, 2, y)
  end
end

local function norm(add, name, calls, rows, hidden, residual)
  local row = ELEMENT * rows * hidden
  local passes = residual and 4 or 2
  add(name, "memory", calls, 1, passes * row + 2 * REAL * rows)
  add(name .. " backward", "memory", calls, 2, (residual and 4 or 3) * row + 2 * REAL * rows)
end

---Rows that a head reads, and their gradient back among all rows: zeros, sums, rounding.
local function head_rows(add, rows, count, hidden)
  add("head rows: gather", "memory", 1, 1, 2 * ELEMENT * count * hidden)
  add("head rows: scatter", "memory", 1, 7, (ELEMENT + 2 * REAL) * count * hidden)
  add("head rows: fill, round", "memory", 1, 2, (2 * REAL + ELEMENT) * rows * hidden)
end

local function encoder(add, w)
  local T, H, L = w.rows, w.hidden, w.layers
  local row = ELEMENT * T * H
  local _, computed = scores(w.lengths)
  add("embed", "memory", 1, 1, 3 * row + 16 * T)
  linear(add, "qkv", L, T, H, 3 * H)
  add("attention", "attention", L, 1, 4 * row + REAL * T * w.heads, 4 * H * computed)
  add("attention backward", "attention_backward", L, 1, 8 * row + REAL * T * w.heads, 10 * H * computed)
  linear(add, "projection", L, T, H, H)
  linear(add, "inner", L, T, H, w.inner, true)
  linear(add, "outer", L, T, w.inner, H)
  norm(add, "residual_norm", 2 * L, T, H, true)
  add("sum of gradients", "memory", 2 * L, 1, 3 * row)
  local distinct = math.min(T, w.vocabulary)
  add("embed backward", "memory", 1, 12, 2 * row + 2 * REAL * T * H + 2 * REAL * (distinct + w.positions) * H)
end

local function masked_lm(add, w)
  local M, H, V = w.masked, w.hidden, w.vocabulary
  local logits = M * V
  head_rows(add, w.rows, M, H)
  linear(add, "transform", 1, M, H, H, true)
  norm(add, "transform norm", 1, M, H, false)
  local flops, x, word = 2 * logits * H, ELEMENT * M * H, ELEMENT * V * H
  add("decoder product", "product", 1, 1, x + word + REAL * logits, flops) -- f32 logits, a chunk at a time
  add("decoder loss", "memory", 1, 2, (REAL + ELEMENT) * logits) -- read twice, then from the cache; gradient
  add("decoder backward: dx", "product", 1, 1, x + word + ELEMENT * logits, flops)
  add("decoder backward: dw", "product", 1, 1, x + ELEMENT * logits + 2 * REAL * V * H, flops)
  add("decoder backward: db", "memory", 1, 2, ELEMENT * logits)
end

local function next_sentence(add, w)
  local N, H = #w.lengths, w.hidden
  head_rows(add, w.rows, N, H)
  linear(add, "pooler", 1, N, H, H)
  linear(add, "next sentence", 1, N, H, 2)
end

local function optimizer(add, w)
  local P = traffic.parameters(w)
  add("gradient norm", "memory", 1, 2, REAL * P)
  if w.optimizer == "lamb" then
    add("lamb moments", "memory", 1, 2, 6 * REAL * P) -- reads w, m, v, g, writes m, v
    add("lamb step", "memory", 1, 2, (4 * REAL + ELEMENT) * P) -- reads w, m, v, writes w and its bf16 copy
  else
    add("adamw step", "memory", 1, 2, (7 * REAL + ELEMENT) * P)
  end
  add("zero gradients", "memory", 1, 1, REAL * P)
end

---The ops of a step, of one micro-batch.
---@param w seqrun.Work
---@return { name: string, kind: string, calls: integer, launches: integer, bytes: number, flops: number }[]
function traffic.step(w)
  local list, add = collector()
  encoder(add, w)
  masked_lm(add, w)
  next_sentence(add, w)
  add("sum of gradients", "memory", 1, 1, 3 * ELEMENT * w.rows * w.hidden) -- of the two heads
  optimizer(add, w)
  return list
end

return traffic

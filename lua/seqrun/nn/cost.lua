-- cost.lua - what an encoder costs: FLOP of a batch, bytes of activations.

local expert_keys = require("seqrun.nn.keys.experts")

local cost = {}

---Rows of q, and of k or v.
local function rows_of(d) return d.heads * d.head_size, d.kv_heads * d.head_size end

---Parameters of the matrices of layer i with `blocks` feed-forward blocks, or experts.
local function matrices_of(d, i, blocks)
  local q, kv = rows_of(d)
  local count = expert_keys.of_layer(d, i)
  local router = count > 0 and (count + (d.experts.residual and 2 or 0)) * d.hidden or 0
  return (2 * q + 2 * kv) * d.hidden + blocks * (d.gate and 3 or 2) * d.hidden * d.inner + router
end

---Feed-forward blocks of layer i, and how many of them a token goes through.
---@param d seqrun.Design
---@param i integer layer, from 0
---@return integer all
---@return integer used
function cost.blocks(d, i)
  local count, chosen = expert_keys.of_layer(d, i)
  if count == 0 then return 1, 1 end
  local beside = d.experts.residual and 1 or 0
  return count + beside, chosen + beside
end

---Parameters of the matrices of all layers.
---@param d seqrun.Design
---@return integer
function cost.matrices(d)
  local sum = 0
  for i = 0, d.layers - 1 do sum = sum + matrices_of(d, i, (cost.blocks(d, i))) end
  return sum
end

---Those that a token is multiplied with in layer i: of experts the chosen ones, or with a gate that is dense all, as
---many as there can be.
---@param d seqrun.Design
---@param i integer layer, from 0
---@param dense? boolean
---@return integer
function cost.used(d, i, dense)
  local all, used = cost.blocks(d, i)
  return matrices_of(d, i, dense and all or used)
end

---Elements that training keeps of each row of layer i until its scope closes: what enters and leaves attention and the
---two blocks, two sums and two norms, and the feed-forward part before and after its activation and its dropout.
---@param d seqrun.Design
---@param i integer layer, from 0
---@param dense? boolean a row may have all experts
---@return integer
function cost.layer_elements(d, i, dense)
  local q, kv = rows_of(d)
  local count, chosen = expert_keys.of_layer(d, i)
  local all, used = cost.blocks(d, i)
  if dense then chosen, used = count, all end
  local rows = count > 0 and 2 * chosen * d.hidden or 0 -- of experts, what they read and what they make
  local inner = (d.gate and 3 or 2) + (d.dropout.inner > 0 and 1 or 0)
  return 2 * q + 2 * kv + 6 * d.hidden + used * inner * d.inner + rows
end

---Pairs of tokens that attend to each other, in all layers together.
---@param d seqrun.Design
---@param layout seqrun.Layout
---@return integer
function cost.pairs(d, layout)
  if not d.window then return d.layers * (d.causal and layout:scores(nil, true) or layout:squares()) end
  local sum = 0
  for i = 0, d.layers - 1 do sum = sum + layout:scores(d.window(i), d.causal) end
  return sum
end

---Tokens that the layers process, in all layers together.
---@param encoder seqrun.Encoder
---@param batch seqrun.Batch as encoded last
---@return integer
function cost.layer_tokens(encoder, batch)
  local layers, kept = encoder.design.layers, batch.kept
  return kept and kept:layer_tokens(batch, layers) or layers * batch.layout:tokens()
end

---Matrices times the tokens that they are multiplied with, in all layers.
local function products(encoder, batch)
  local d, kept, sum, dense = encoder.design, batch.kept, 0, (encoder.gate or {}).threshold ~= nil
  for i = 0, d.layers - 1 do
    local layout = kept and kept.rows[i] and kept.layout or batch.layout
    sum = sum + cost.used(d, i, dense) * layout:tokens()
  end
  return sum
end

---FLOP of forward and backward; of experts, all that tokens choose.
---@param encoder seqrun.Encoder
---@param batch seqrun.Batch as encoded last
---@return number
function cost.flops(encoder, batch)
  local parts = 0
  for _, part in ipairs(batch.parts or {}) do parts = parts + cost.flops(part.encoder, part) end
  if parts > 0 then return parts end
  local d, kept = encoder.design, batch.kept
  local attended = kept and kept:layer_squares(batch, d.layers) or cost.pairs(d, batch.layout)
  local projection = d.embedding ~= d.hidden and d.embedding * d.hidden * batch.layout:tokens() or 0
  return 6 * (products(encoder, batch) + projection)
    + 12 * d.heads * d.head_size * attended
end

---Bytes of a parameter that is trained: weight, gradient, two moments; in bf16 also the copy that products read.
---@param precision "f32"|"bf16"
---@return integer
function cost.state_bytes(precision) return precision == "bf16" and 18 or 16 end

---A lower bound of the bytes of activations that training keeps for this number of rows: of the last layer, whose
---blocks compute only rows that targets read, what enters and leaves attention.
---@param encoder seqrun.Encoder
---@param rows integer
---@param recompute? boolean
---@return integer
function cost.activation_bytes(encoder, rows, recompute)
  local d, drop = encoder.design, encoder.token_drop
  local first, last = d.layers, -1
  if drop then first, last = drop:range(d.layers) end
  local dense = (encoder.gate or {}).threshold ~= nil
  local sum, most, whole, q, kv = 0, 0, 0, rows_of(d) -- whole: layers of all rows
  for i = 0, d.layers - 1 do
    local share, layer = i >= first and i <= last and drop.keep or 1, cost.layer_elements(d, i, dense)
    if i == d.layers - 1 then layer = 2 * q + 2 * kv end
    sum, most, whole = sum + share * layer, math.max(most, layer), whole + share
  end
  local kept = recompute and whole * d.hidden + most or sum
  return math.floor(rows * kept) * (encoder.precision == "bf16" and 2 or 4)
end

return cost

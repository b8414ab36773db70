-- cost.lua - what an encoder costs: FLOP of a batch, bytes of activations.

local cost = {}

---Rows of q, and of k or v.
local function rows_of(d) return d.heads * d.head_size, d.kv_heads * d.head_size end

---Parameters of the matrices of a layer.
---@param d seqrun.Design
---@return integer
function cost.matrices(d)
  local q, kv = rows_of(d)
  return (2 * q + 2 * kv) * d.hidden + (d.gate and 3 or 2) * d.hidden * d.inner
end

---Elements that training keeps of each row of a layer, at least.
---@param d seqrun.Design
---@return integer
function cost.layer_elements(d)
  local q, kv = rows_of(d)
  return 2 * q + 2 * kv + 2 * d.hidden + (d.gate and 3 or 1) * d.inner
end

---Pairs of tokens that attend to each other, in all layers together.
---@param d seqrun.Design
---@param layout seqrun.Layout
---@return integer
function cost.pairs(d, layout)
  if not d.window then return d.layers * layout:squares() end
  local sum = 0
  for i = 0, d.layers - 1 do sum = sum + layout:scores(d.window(i)) end
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

---FLOP of forward and backward.
---@param encoder seqrun.Encoder
---@param batch seqrun.Batch as encoded last
---@return number
function cost.flops(encoder, batch)
  local d, kept = encoder.design, batch.kept
  local attended = kept and kept:layer_squares(batch, d.layers) or cost.pairs(d, batch.layout)
  local projection = d.embedding ~= d.hidden and d.embedding * d.hidden * batch.layout:tokens() or 0
  return 6 * (cost.matrices(d) * cost.layer_tokens(encoder, batch) + projection)
    + 12 * d.heads * d.head_size * attended
end

---A lower bound of the bytes of activations that training keeps for this number of rows.
---@param encoder seqrun.Encoder
---@param rows integer
---@param recompute? boolean
---@return integer
function cost.activation_bytes(encoder, rows, recompute)
  local d, drop = encoder.design, encoder.token_drop
  local layer = cost.layer_elements(d)
  local whole = d.layers -- layers of all rows
  if drop then
    local first, last = drop:range(d.layers)
    whole = d.layers - (last - first + 1) * (1 - drop.keep)
  end
  local kept = recompute and whole * d.hidden + layer or whole * layer
  return math.floor(rows * kept) * (encoder.precision == "bf16" and 2 or 4)
end

return cost

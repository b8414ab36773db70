-- experts.lua - the feed-forward blocks of a layer with experts: each token goes to a few of them.
--
-- A router, in f32, gives every token a probability for each expert; the token goes to the most probable ones, and the
-- sum of their outputs is weighted by these probabilities, divided by their sum if they are several.  Experts compute
-- the rows of a batch that chose them in one product each.  Slack has no expert.  What a token gets depends on that
-- token alone, so that packing changes nothing; only a capacity, where there is one, lets the tokens of a micro-batch
-- compete in training.
--
-- Two losses of each sequence keep the experts in use: balance = E sum of (share of the choices x mean probability)
-- is 1 where both are even, z = mean of (log sum exp of the router's logits)^2.
--
-- Source: Shazeer et al. 2017, arXiv:1701.06538; Fedus et al. 2021, arXiv:2101.03961 (balance); Zoph et al. 2022,
-- arXiv:2202.08906 (z); Rajbhandari et al. 2022, arXiv:2201.05596 (residual experts, pyramid); Nie et al. 2021,
-- arXiv:2112.14397 (dense-to-sparse gate).

local counts = require("seqrun.nn.keys.experts")
local ops = require("seqrun.tensor.ops")
local parameters = require("seqrun.nn.parameters")
local tensor = require("seqrun.tensor")

local experts = {}

---What a layer's router did with a batch.
---@class seqrun.Routed
---@field losses seqrun.Tensor (N, 2) of each sequence: balance and z
---@field load seqrun.Tensor (E) choices that each expert computed
---@field choices? integer of all tokens, dropped ones included; nil where a dense gate decides
---@field experts integer

---A gate that begins dense: while it has a threshold, a token goes to every expert of at least this probability, and at
---least to as many as the design says.
---@class seqrun.Gate
---@field temperature number by which logits are divided
---@field threshold? number times 1 / E

---The most probable experts of each row, one after the other, with what remains of each gate.
---@param p seqrun.Tensor (T, E)
---@param count integer
---@param least integer the first of them count whatever their probability
---@param threshold number
---@return seqrun.Tensor items (count, T) i32
---@return seqrun.Tensor[] gates (T, 1) each
---@return seqrun.Tensor chosen (T, E) 1 where a row has chosen
local function choose(p, count, least, threshold)
  local rows, width = p:size(1), p:size(2)
  local columns = tensor.arange(0, width - 1, 1, { dtype = "i32", device = p:device() }):reshape(1, width)
  local rest, items, gates, chosen = p:detach(), {}, {}, nil
  for k = 1, count do
    local item = rest:argmax(2):reshape(rows, 1)
    local here = columns:eq(item)
    rest = tensor.where(here, -1, rest)
    local mask = here:to(p:dtype())
    local gate = (p * mask):sum(2, true)
    if k > least then
      local enough = gate:detach():ge(threshold)
      item, gate = tensor.where(enough, item, -1), tensor.where(enough, gate, 0)
      mask = mask * enough:to(p:dtype())
    end
    items[k], gates[k] = item:reshape(1, rows), gate
    chosen = chosen and chosen + mask or mask
  end
  return count == 1 and items[1] or tensor.cat(items, 1), gates, chosen
end

---Gates as shares of their sum; as they are where the design chooses one, also while a dense gate chooses more.
local function shares_of(gates, chosen)
  if chosen == 1 then return gates end
  local sum = gates[1]
  for k = 2, #gates do sum = sum + gates[k] end
  local shares = {}
  for k, gate in ipairs(gates) do shares[k] = gate / sum end
  return shares
end

---Dropout of rows in the order of experts: keyed by token and choice, so that it does not depend on that order.  Each
---further choice has the keys of as many layers again; nn/keys/experts.lua refuses more than there are.
local function drop(inner, place, layout, p, i, layers)
  local parts, count = {}, place:size(1)
  for k = 1, count do
    parts[k] = ops.dropout(ops.gather_rows(inner, place:select(1, k)), layout, {
      p = p, site = "inner", layer = i + layers * (k - 1),
    })
  end
  local flat, int = place:reshape(-1), { dtype = "i32", device = place:device() }
  local items = tensor.arange(0, flat:size(1) - 1, 1, int)
  return ops.gather_rows(tensor.cat(parts, 1), ops.put_rows(tensor.zeros(flat:size(1), int), flat, items))
end

---The experts' outputs, rows in the order of experts.
local function compute(encoder, taken, starts, name, drop_inner)
  local d, p = encoder.design, encoder.params
  local function product(x, group, act)
    local fused = name .. group
    local has_bias = group == parameters.EXPERTS_UP and d.bias.up or group == parameters.EXPERTS_DOWN and d.bias.down
    local bias = has_bias and p:fused(fused .. ".bias") or nil
    return ops.grouped_linear(x, p:fused(fused .. ".weight"), bias, starts, act and { act = act } or nil)
  end
  local inner
  if d.gate then
    inner = ops.gated(product(taken, parameters.EXPERTS_UP), { act = d.act, gate = d.gate })
  else
    inner = product(taken, parameters.EXPERTS_UP, d.act)
  end
  return product(drop_inner(inner), parameters.EXPERTS_DOWN)
end

---Each row's sum of what its experts made of it.
local function combine(outputs, place, gates, dtype)
  local sum
  for k, gate in ipairs(gates) do
    local part = ops.gather_rows(outputs, place:select(1, k)) * gate
    sum = sum and sum + part or part
  end
  return sum:to(dtype)
end

---The losses of each sequence, balance and z side by side, and the load.
local function losses_of(logits, log_p, p, chosen, count, starts, layout)
  local sum = logits:narrow(2, 1, 1) - log_p:narrow(2, 1, 1) -- log sum exp
  local share = ops.sequence_mean(chosen, layout)
  share = share / share:sum(2, true)
  local balance = (share:detach() * ops.sequence_mean(p, layout)):sum(2, true) * count
  local z = ops.sequence_mean(sum * sum, layout)
  local load = (starts:narrow(1, 2, count) - starts:narrow(1, 1, count)):to(p:dtype())
  return tensor.cat({ balance, z }, 2), load
end

---The most choices that an expert takes of a micro-batch in training; nil: all, as while a gate is dense.
local function capacity_of(encoder, layout, chosen, count, dense)
  local capacity = encoder.design.experts.capacity
  if capacity == 0 or dense or not encoder.training then return nil end
  return math.max(1, math.ceil(capacity * chosen * layout:tokens() / count))
end

---The feed-forward block of a layer with experts, without its norm.
---@param encoder seqrun.Encoder
---@param x seqrun.Tensor (T, H)
---@param layout seqrun.Layout
---@param i integer layer, from 0
---@param name string prefix of its parameters
---@param dense? seqrun.Tensor (T, H) of the block beside the experts, in residual ones
---@return seqrun.Tensor # (T, H)
---@return seqrun.Tensor? losses (N, 2) of seqrun.Routed, while it trains
---@return seqrun.Tensor? load (E)
function experts.feed(encoder, x, layout, i, name, dense)
  local d, router = encoder.design, encoder.params:get(name .. parameters.ROUTER .. ".weight")
  local gate = encoder.training and encoder.gate or nil -- what is evaluated is what a checkpoint keeps
  local count, chosen = counts.of_layer(d, i)
  local real = x:to(router:dtype())
  local logits = ops.linear(real, router)
  if gate and gate.temperature ~= 1 then logits = logits / gate.temperature end
  local log_p = logits:log_softmax(2)
  local p, least = log_p:exp(), chosen
  local threshold = gate and gate.threshold
  local items, gates, marks = choose(p, threshold and count or chosen, least, threshold and threshold / count or 0)
  local rows, place, starts = ops.group_rows(items, layout, {
    groups = count, capacity = capacity_of(encoder, layout, chosen, count, threshold ~= nil),
  })
  local rate = encoder.training and d.dropout.inner or 0
  local outputs = compute(encoder, ops.gather_rows(x, rows), starts, name, function(inner)
    return rate > 0 and drop(inner, place, layout, rate, i, d.layers) or inner
  end)
  local y = combine(outputs, place, shares_of(gates, chosen), x:dtype())
  if dense then
    local mix = ops.linear(real, encoder.params:get(name .. parameters.MIX .. ".weight"),
      encoder.params:get(name .. parameters.MIX .. ".bias")):softmax(2)
    y = (dense * mix:narrow(2, 1, 1) + y * mix:narrow(2, 2, 1)):to(x:dtype())
  end
  if not encoder.training then return y end
  return y, losses_of(logits, log_p, p, marks, count, starts, layout)
end

---Adds a layer's losses to those of a batch.
---@param batch seqrun.Batch
---@param encoder seqrun.Encoder
---@param i integer layer
---@param layout seqrun.Layout of the rows that were routed
function experts.note(batch, encoder, i, layout, losses, load)
  local count, chosen = counts.of_layer(encoder.design, i)
  local list, dense = batch.routed or {}, (encoder.gate or {}).threshold ~= nil
  list[#list + 1] = {
    losses = losses, load = load:detach(), choices = not dense and chosen * layout:tokens() or nil,
    experts = count,
  }
  batch.routed = list
end

---The records of a batch, of all its parts.
local function routed_of(batch)
  local all = table.move(batch.routed or {}, 1, #(batch.routed or {}), 1, {})
  for _, part in ipairs(batch.parts or {}) do table.move(part.routed or {}, 1, #(part.routed or {}), #all + 1, all) end
  return all
end

---Adds the losses of the routers of a batch to those of its heads: means over the sequences of the update, whose factor
---is the number of layers, so that each layer has the factor of the config.  They also have the load of the busiest
---expert over an even one, and the share of the choices that a capacity dropped.
---@param batch seqrun.Batch as encoded last
---@param d seqrun.Design
---@param all seqrun.Losses
function experts.add_losses(batch, d, all)
  local routed = routed_of(batch)
  if #routed == 0 then return end
  local function add(sum, x) return sum and sum + x or x end
  local sums, busiest, kept, choices
  for _, r in ipairs(routed) do
    local done = r.load:sum()
    sums, kept = add(sums, r.losses:sum(1)), add(kept, done)
    busiest = add(busiest, r.load:max() * r.experts / done:maximum(1))
    choices = r.choices and add(choices, r.choices)
  end
  local sequences = batch.layout:sequences()
  local n, layers = (batch.update_sequences or sequences) * #routed, #routed
  all:add("balance", {
    total = sums:select(1, 1) / n, count = sequences, reduced = true, factor = d.experts.balance * layers,
    sums = {
      experts_busiest = { busiest, layers },
      experts_dropped = d.experts.capacity > 0 and choices and { kept * -1 + choices, choices } or nil,
    },
  })
  all:add("router_z", {
    total = sums:select(1, 2) / n, count = sequences, reduced = true, factor = d.experts.z * layers,
  })
end

return experts

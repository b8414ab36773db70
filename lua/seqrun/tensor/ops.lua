-- ops - the fused ops, with named options; docs/theory/math.md has shapes and formulas.
--
-- T rows, M gathered rows, H hidden, F inner size, V vocabulary.  Dropout needs a layout,
-- since its random key is (seed, uid, epoch, row) with the site and layer given here.

local check = require("seqrun.base.check")
local core = require("seqrun.core.ops")
local coarse = core.coarse -- the functions below, with positional arguments
local tensor = require("seqrun.tensor")
local training = require("seqrun.tensor.training")

local ops = { keep_probability = core.keep_probability }

local LINEAR = { act = true }
local GROUPS = { groups = true, capacity = true }
local ATTENTION = {
  heads = true, kv_heads = true, scale = true, window = true, causal = true, dropout = true, layer = true,
  rows = true,
}
local ROTARY = { heads = true, kv_heads = true, theta = true, positions = true, limit = true, in_place = true }
local GATED = { act = true, gate = true }
local NORM = { eps = true, kind = true, dropout = true, site = true, layer = true, layout = true, sum = true }
local EMBED = { eps = true, kind = true, dropout = true, positions = true }
local ON_ROWS = { count = true, in_place = true }
local DROPOUT = { p = true, site = true, layer = true }

local binary_cross_entropy -- made on first use

---The published eps of BERT's layer norm, and the usual theta of rotary positions.
local EPS, THETA = 1e-12, 10000

---y (T, F) = act(x w^T + b).
---@param x seqrun.Tensor (T, H)
---@param w seqrun.Tensor (F, H)
---@param b? seqrun.Tensor (F)
---@param options? { act?: string } one of seqrun.core.ops.activations: "gelu", "relu" ...
---@return seqrun.Tensor
function ops.linear(x, w, b, options)
  return coarse.linear(x, w, b, check.options("linear", options, LINEAR).act)
end

---Rows in the order of their groups, for grouped_linear: each row of a batch goes to K of them.
---@param items seqrun.Tensor (K, T) i32 groups, from 0; negative or too large: none.  Rows of slack have none
---@param layout seqrun.Layout of the T rows
---@param options { groups: integer, capacity?: integer } capacity: the items of a group beyond it, in the order of
---  `items`, have none
---@return seqrun.Tensor rows (K T) i32: those of the first group, of the second ..., of none; in the order of `items`
---@return seqrun.Tensor place (K, T) i32: where each item is in that order, from 0
---@return seqrun.Tensor starts (groups + 1) i32: where each group begins, and what has none
function ops.group_rows(items, layout, options)
  options = check.options("group_rows", options, GROUPS)
  if not options.groups then check.fail("group_rows: the option 'groups' is missing, as in { groups = 4 }") end
  return coarse.group_rows(items, layout, options.groups, options.capacity)
end

---act(x w^T + b) of each group of rows, with weights of its own.
---@param x seqrun.Tensor (M, H) rows in the order of their groups
---@param w seqrun.Tensor (G F, H) the weights of all groups, one below the other
---@param b? seqrun.Tensor (G F)
---@param starts seqrun.Tensor (G + 1) i32 of group_rows
---@param options? { act?: string } one of seqrun.core.ops.activations
---@return seqrun.Tensor # (M, F), zero in the rows of no group
function ops.grouped_linear(x, w, b, starts, options)
  return coarse.grouped_linear(x, w, b, starts, check.options("grouped_linear", options, LINEAR).act)
end

---Packed self-attention: each row attends only to rows of its own sequence.  With a window row i sees row j only if
---|i - j| <= window, and the cost is linear in the rows; with causal only if j <= i.
---@param qkv seqrun.Tensor (T, 3 H): [q heads | k heads | v heads] in a row; with kv_heads fewer heads of k and v than
---  of q: query head a uses head a // (heads / kv_heads) of them
---@param layout seqrun.Layout
---@param options { heads: integer, kv_heads?: integer, scale?: number, window?: integer, causal?: boolean,
---  dropout?: number, layer?: integer, rows?: seqrun.Tensor } rows: i32 (M), ascending: only these rows attend, to all
---  of their sequence (on GPUs all do, and these are gathered)
---@return seqrun.Tensor # (T, H), zero on slack; with rows (M, H)
function ops.attention(qkv, layout, options)
  options = check.options("attention", options, ATTENTION)
  if not options.heads then check.fail("attention: the option 'heads' is missing, as in { heads = 4 }") end
  local window = options.window
  if window ~= nil and not (math.type(window) == "integer" and window >= 0) then
    check.fail("attention: window is %s; must be an integer of at least 0, the largest |i - j|, or nil",
      tostring(window))
  end
  if options.rows ~= nil and not tensor.is_tensor(options.rows) then
    check.fail("attention: rows is %s; must be an i32 tensor of rows in ascending order, or nil",
      check.show(options.rows))
  end
  return coarse.attention(qkv, layout, options.rows, options.heads, options.kv_heads, options.scale, window,
    options.causal, options.dropout, "attention", options.layer)
end

---Rotary positions: qkv with its query and key heads turned by the position in the sequence.  Columns j and j + D/2 of
---a head of D turn by position x theta^(-2 j / D).
---@param qkv seqrun.Tensor (T, (A + 2 K) D), as for attention
---@param layout seqrun.Layout
---@param options { heads: integer, kv_heads?: integer, theta?: number, positions?: seqrun.Tensor, limit?: integer,
---  in_place?: boolean } theta: 10000; positions (T) i32: instead of 0, 1 ... in each sequence, all below limit, by
---  default the length of the longest sequence; in_place: qkv is overwritten, and must not be used again
---@return seqrun.Tensor # of the same shape, zero on slack
function ops.rotary(qkv, layout, options)
  options = check.options("rotary", options, ROTARY)
  if not options.heads then check.fail("rotary: the option 'heads' is missing, as in { heads = 4 }") end
  return coarse.rotary(qkv, layout, options.heads, options.kv_heads, options.theta or THETA, options.positions,
    options.limit, options.in_place)
end

---act(a) g, the halves of x's columns: gated feed-forward blocks.
---@param x seqrun.Tensor (T, 2 F)
---@param options { act: string, gate?: "second"|"first" } act: one of seqrun.core.ops.activations; gate: the half g
---  that is not activated, default second
---@return seqrun.Tensor # (T, F)
function ops.gated(x, options)
  options = check.options("gated", options, GATED)
  if not options.act then check.fail("gated: the option 'act' is missing, as in { act = \"gelu\" }") end
  return coarse.gated(x, options.act, options.gate)
end

---norm(dropout(x) + residual).
---@param x seqrun.Tensor (T, H)
---@param residual? seqrun.Tensor (T, H)
---@param gamma seqrun.Tensor (H)
---@param beta? seqrun.Tensor (H)
---@param options? { eps?: number, kind?: "layer"|"rms", dropout?: number, site?: "projection"|"feed"|"user",
---  layer?: integer, layout?: seqrun.Layout, sum?: boolean } kind "rms": divides by the root of the mean square,
---  without a mean and without beta; sum: the sum is returned as well, as blocks that begin with a norm need it
---@return seqrun.Tensor
---@return seqrun.Tensor? sum dropout(x) + residual, through which gradients flow too; x itself if nothing was dropped
---  or added
function ops.residual_norm(x, residual, gamma, beta, options)
  options = check.options("residual_norm", options, NORM)
  return coarse.residual_norm(x, residual, gamma, beta, options.layout, options.eps or EPS, options.kind,
    options.dropout, options.site, options.layer, options.sum)
end

---Layer normalization of each row.
---@param x seqrun.Tensor (T, H)
---@param gamma seqrun.Tensor (H)
---@param beta? seqrun.Tensor (H)
---@param options? { eps?: number } 1e-12
---@return seqrun.Tensor # (T, H)
function ops.layer_norm(x, gamma, beta, options)
  return (ops.residual_norm(x, nil, gamma, beta, check.options("layer_norm", options, { eps = true })))
end

---dropout(norm(word[ids] + position[positions] + type[types])).
---@param ids seqrun.Tensor (T) i32
---@param types? seqrun.Tensor (T) i32; nil: 0 everywhere
---@param tables { word: seqrun.Tensor, position?: seqrun.Tensor, type?: seqrun.Tensor, gamma?: seqrun.Tensor,
---  beta?: seqrun.Tensor } without gamma there is no norm
---@param layout seqrun.Layout
---@param options? { eps?: number, kind?: "layer"|"rms", dropout?: number, positions?: seqrun.Tensor } kind: of the
---  norm, as of residual_norm; positions (T) i32: rows of the position table, instead of 0, 1 ... in each sequence
---@return seqrun.Tensor # (T, H)
function ops.embed(ids, types, tables, layout, options)
  options = check.options("embed", options, EMBED)
  if type(tables) ~= "table" or tables.word == nil then
    check.fail("embed: tables must be { word =, position =, type =, gamma =, beta = }, of which only word is needed")
  end
  return coarse.embed(ids, types, options.positions, tables.word, tables.position, tables.type, tables.gamma,
    tables.beta, layout, options.eps or EPS, options.kind, options.dropout, "embedding")
end

---The rows of x at these indices, which count from 0.
---@param x seqrun.Tensor (T, ...)
---@param rows seqrun.Tensor (M) i32
---@return seqrun.Tensor # (M, ...)
function ops.gather_rows(x, rows)
  return core.gather_rows(x, rows)
end

---x with some rows replaced: the inverse of gather_rows.
---@param x seqrun.Tensor (T, ...)
---@param rows seqrun.Tensor (M) i32, from 0, each at most once
---@param values seqrun.Tensor (M, ...) of x's dtype
---@return seqrun.Tensor # (T, ...)
function ops.put_rows(x, rows, values) return core.put_rows(x, rows, values) end

---x with some rows replaced by fn of them.  The other rows bypass fn, as do their gradients.  Faster than put_rows of
---gather_rows: backward copies only these rows, and so does forward if in_place is set.
---@param x seqrun.Tensor (T, ...)
---@param rows seqrun.Tensor (M) i32, from 0, each at most once
---@param fn fun(taken: seqrun.Tensor): seqrun.Tensor (count, ...) to the same shape
---@param options? { count?: integer, in_place?: boolean } count: default M; more rows are slack, which are zero for fn
---  and ignored in its result; in_place: x is overwritten, and must not be used again
---@return seqrun.Tensor # (T, ...)
function ops.on_rows(x, rows, fn, options)
  options = check.options("on_rows", options, ON_ROWS)
  local taken, rest = core.take_rows(x, rows, options.count)
  return core.return_rows(rest, rows, fn(taken), options.in_place)
end

---Dropout keyed by sequence and position, so that packing does not change it.
---@param x seqrun.Tensor (T, H) rows of the layout
---@param layout seqrun.Layout
---@param options { p: number, site?: "inner"|"head"|"user", layer?: integer }
---@return seqrun.Tensor
function ops.dropout(x, layout, options)
  options = check.options("dropout", options, DROPOUT)
  return coarse.dropout(x, layout, options.p, options.site, options.layer)
end

---The mean of the rows of each sequence, in the order of the layout; rows are added in their order, so that packing
---does not change it.
---@param x seqrun.Tensor (T, K) rows of the layout
---@param layout seqrun.Layout
---@return seqrun.Tensor # (N, K) f32, whatever the dtype of x; on the device ref f64
function ops.sequence_mean(x, layout) return coarse.sequence_mean(x, layout) end

---Cross entropy of the tied decoder, logits = x word^T + bias, without keeping the logits' softmax.
---@param x seqrun.Tensor (M, H)
---@param word seqrun.Tensor (V, H)
---@param bias? seqrun.Tensor (V)
---@param labels seqrun.Tensor (M) i32
---@param weights seqrun.Tensor (M)
---@return seqrun.Tensor total sum of weights x nll
---@return seqrun.Tensor nll (M)
---@return seqrun.Tensor correct (M) 1 where the highest logit is the label's
function ops.mlm_loss(x, word, bias, labels, weights)
  return coarse.mlm_loss(x, word, bias, labels, weights)
end

---Fails if rows of logits are probabilities, whose softmax is almost the same for all classes.
local function check_logits(x)
  if not tensor.is_tensor(x) or #x:shape() ~= 2 or x:size(1) == 0 or x:size(2) < 2 then return end
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  local rows = x:detach():to("f32")
  if rows:min():item() < 0 or (rows:sum(2) - 1):abs():max():item() > 0.01 then return end
  check.fail("cross_entropy: each row sums to 1, so these are probabilities; pass logits, without softmax")
end

---Cross entropy of materialised logits.
---@param logits seqrun.Tensor (M, C)
---@param labels seqrun.Tensor (M) i32
---@param weights seqrun.Tensor (M)
---@return seqrun.Tensor total
---@return seqrun.Tensor nll (M)
---@return seqrun.Tensor correct (M)
function ops.cross_entropy(logits, labels, weights)
  if training.first then check_logits(logits) end
  return coarse.cross_entropy(logits, labels, weights)
end

---The bits of a number of 32 bits as i32, whose upper half is negative.
local function signed(x) return x < 1 << 31 and x or x - (1 << 32) end

---A class for each row of logits, drawn from their softmax: keyed by the seed, the sequence and the place in it, so
---that packing does not change it.  Nothing is recorded.
---@param logits seqrun.Tensor (M, C)
---@param rows integer[] M rows of the layout, from 0
---@param layout seqrun.Layout
---@param seed? integer that of the layout by default
---@return seqrun.Tensor # (M) i32, from 0
function ops.sample(logits, rows, layout, seed)
  check.value("sample: rows", rows, "table")
  if type(layout) ~= "userdata" then check.fail("sample: expected a layout, got %s", check.show(layout)) end
  local quiet <close> = tensor.no_grad()
  local owners, positions, uids, epochs = layout:owners(), layout:positions(), layout:uids(), layout:epochs()
  local keys = {}
  for m, row in ipairs(rows) do
    local owner = owners[row + 1]
    if not owner or owner < 0 then check.fail("sample: rows[%d] is %s, which no sequence owns", m, tostring(row)) end
    local at = 3 * m - 2
    keys[at], keys[at + 1], keys[at + 2] = positions[row + 1], signed(uids[owner + 1]), signed(epochs[owner + 1])
  end
  local int = { dtype = "i32", device = logits:device() }
  local made = #rows > 0 and tensor.tensor(keys, int):reshape(-1, 3) or tensor.zeros(0, 3, int)
  if logits:dtype() == "bf16" then logits = logits:to("f32") end
  return coarse.sample(logits, made, seed or layout:seed())
end

---Raises unless all are tensors.
local function check_tensors(what, ...)
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    if not tensor.is_tensor(x) then check.fail("%s: argument %d must be a tensor, got %s", what, i, check.show(x)) end
  end
end

---Sum of weights x (x - target)^2.
---@param x seqrun.Tensor (M)
---@param target seqrun.Tensor (M)
---@param weights seqrun.Tensor (M)
---@return seqrun.Tensor
function ops.mse_loss(x, target, weights)
  check_tensors("mse_loss", x, target, weights)
  if x:numel() ~= target:numel() or x:numel() ~= weights:numel() then
    local given = ("%d predictions, %d targets, %d weights"):format(x:numel(), target:numel(), weights:numel())
    check.fail("%s", "mse_loss: " .. given .. "; expected one of each per row")
  end
  return ((x:reshape(-1) - target:reshape(-1)):square() * weights:reshape(-1)):sum()
end

---Fails if labels are no probabilities of a class.
local function check_binary(labels)
  if labels:numel() == 0 then return end
  local scope <close> = tensor.scope()
  local least, most = labels:detach():min():item(), labels:detach():max():item()
  if least >= 0 and most <= 1 then return end
  check.fail("binary_cross_entropy: labels are from %g to %g; expected 0 and 1, or probabilities between them: map the "
    .. "two values to 0 and 1, and use cross_entropy for class numbers", least, most)
end

---Cross entropy of each logit's sigmoid, without overflow: max(x, 0) - x label + log(1 + exp(-|x|)).
---@param logits seqrun.Tensor
---@param labels seqrun.Tensor of the same shape and dtype, in [0, 1]
---@return seqrun.Tensor # of the same shape
function ops.binary_cross_entropy(logits, labels)
  check_tensors("binary_cross_entropy", logits, labels)
  local shape, other = table.concat(logits:shape(), ", "), table.concat(labels:shape(), ", ")
  if shape ~= other then
    check.fail("binary_cross_entropy: logits (%s) and labels (%s) must have one shape", shape, other)
  end
  if training.first or not training.current() then check_binary(labels) end
  if core.is_sigmoid(logits) then
    check.fail("binary_cross_entropy: the logits are the result of sigmoid(), so they are probabilities; drop it")
  end
  binary_cross_entropy = binary_cross_entropy or ops.custom {
    forward = function(context, x, y)
      context:save(x, y)
      return x:relu() - x * y + ((-x:abs()):exp() + 1):log()
    end,
    backward = function(context, dy)
      local x, y = context:saved()
      return dy * (x:sigmoid() - y)
    end,
  }
  return binary_cross_entropy(logits, labels)
end

-- ---- ops written in Lua ------------------------------------------------------------------------

---Values that a forward function saves for its backward function.
---@class seqrun.Context
local Context = {}
Context.__index = Context

---Saves tensors for backward, which raises if they are modified in place in between.
---@param ... seqrun.Tensor
function Context:save(...)
  local kept = { n = select("#", ...) }
  for i = 1, kept.n do
    local t = select(i, ...)
    kept[i] = { t = t:detach(), version = t:version() }
  end
  self.kept = kept
end

---The saved tensors.
---@return seqrun.Tensor ...
function Context:saved()
  local kept, list = self.kept or { n = 0 }, {}
  for i = 1, kept.n do
    local t = kept[i].t
    if not t:is_live() then
      check.fail("custom: a saved tensor has expired because its scope was closed; keep() it, or call "
        .. "backward() earlier")
    end
    if t:version() ~= kept[i].version then
      check.fail("custom: a saved tensor was modified in place after the forward pass; save a clone() of it")
    end
    list[i] = t
  end
  return table.unpack(list, 1, kept.n)
end

local function tensors_of(...)
  local list = {}
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    if tensor.is_tensor(x) then list[#list + 1] = x end
  end
  return list
end

---Fails if forward has returned nothing, or has changed an argument that other ops may need.
local function check_forward(forward, outputs, inputs, before)
  if #outputs == 0 then
    check.fail("custom: forward(context, ...)%s returned nothing; return a tensor", check.place(forward))
  end
  for i, x in ipairs(inputs) do
    if x:version() ~= before[i] then
      check.fail("custom: forward(context, ...)%s changes its tensor argument %d in place; work on x:clone()",
        check.place(forward), i)
    end
  end
end

---The gradients that backward has returned, at least up to the last that is needed: nil has to be written.
local function check_backward(backward, needed, ...)
  if select("#", ...) < needed then
    error(("custom: backward(context, dy, ...)%s returned %s; return a gradient for each tensor argument of forward, "
      .. "nil for those that need none"):format(check.place(backward), select("#", ...) == 0 and "nothing"
      or ("%d of %d gradients"):format(select("#", ...), needed)), 0) -- backward() adds the line
  end
  return ...
end

---@class seqrun.CustomOp
---@field forward fun(context: seqrun.Context, ...): seqrun.Tensor
---@field backward fun(context: seqrun.Context, ...): seqrun.Tensor?

---An op from two functions: forward(context, ...) -> tensors, and backward(context, dy, ...) -> a gradient
---(or nil) for each tensor argument, in order.
---@param rules seqrun.CustomOp
---@return fun(...): seqrun.Tensor
function ops.custom(rules)
  local given = type(rules) == "table" and rules or {}
  local forward, backward = given.forward, given.backward
  if type(forward) ~= "function" or type(backward) ~= "function" then
    check.fail("custom: expected { forward = function, backward = function }")
  end
  return function(...)
    local context, inputs, before = setmetatable({}, Context), tensors_of(...), {}
    local outputs
    local needed = 0
    for i, x in ipairs(inputs) do
      before[i] = x:version()
      if x:requires_grad() then needed = i end
    end
    do
      local no_grad <close> = tensor.no_grad()
      outputs = { forward(context, ...) }
    end
    check_forward(forward, outputs, inputs, before)
    local made = core.record(outputs, inputs, function(...)
      return check_backward(backward, needed, backward(context, ...))
    end)
    return table.unpack(made)
  end
end

---Runs a function that a plug-in added (core/tensor/function.h); it writes the outputs.  Nothing is recorded: give it
---a gradient with ops.custom, as recipes/plugin/swish.lua does.
---@param name string
---@param outputs seqrun.Tensor[]
---@param inputs seqrun.Tensor[]
---@param numbers? number[]
function ops.call(name, outputs, inputs, numbers)
  check.value("call: name", name, "string")
  check.value("call: outputs", outputs, "table")
  check.value("call: inputs", inputs, "table")
  if numbers ~= nil then check.value("call: numbers", numbers, "table") end
  return core.call(name, outputs, inputs, numbers)
end

-- ---- recomputing activations -------------------------------------------------------------------

---The device of the first tensor among some values.
local function device_of(...)
  local first = tensors_of(...)[1]
  return first and first:device()
end

---Runs fn without recording, in a scope of its own that only its results leave.
local function run_unrecorded(fn, ...)
  local no_grad <close> = tensor.no_grad()
  local scope <close> = tensor.scope(device_of(...))
  local outputs = { fn(...) }
  for _, y in ipairs(outputs) do y:hand_up() end
  return outputs
end

---Detached copies of the arguments with their own gradients, and the tensors among them.
local function fresh_arguments(arguments)
  local fresh, inputs = { n = arguments.n }, {}
  for i = 1, arguments.n do
    local x = arguments[i]
    if tensor.is_tensor(x) then
      local input = x:detach()
      inputs[#inputs + 1] = input
      if x:requires_grad() then input:requires_grad_() end
      -- gradients accumulate in the dtype of an activation, not in the f32 of a leaf
      local is_bf16 = x:requires_grad() and x:dtype() == "bf16"
      fresh[i] = is_bf16 and input:view(table.unpack(input:shape())) or input
    else
      fresh[i] = x
    end
  end
  return fresh, inputs
end

---Runs fn again, recorded, and backpropagates through it at once.
local function replay(fn, arguments, ...)
  local given = table.pack(...)
  local scope <close> = tensor.scope(device_of(table.unpack(arguments, 1, arguments.n)))
  local guard <close> = tensor.enable_grad()
  local fresh, inputs = fresh_arguments(arguments)
  local outputs = table.pack(fn(table.unpack(fresh, 1, fresh.n)))
  local roots, gradients = {}, {}
  for i = 1, outputs.n do
    if given[i] and outputs[i]:requires_grad() then
      roots[#roots + 1], gradients[#gradients + 1] = outputs[i], given[i]
    end
  end
  if #roots > 0 then core.backward(roots, gradients) end
  local results = { n = #inputs }
  for i, x in ipairs(inputs) do
    local g = x:grad()
    results[i] = g and g:hand_up()
  end
  return table.unpack(results, 1, results.n)
end

---fn(x, ...) without keeping its inner tensors: backward runs fn again.  The result is bit-exact, since dropout is
---keyed and fn gets the same values; fn must have no side effects.
---@param fn fun(...): seqrun.Tensor
---@param ... any tensors, and whatever else fn takes
---@return seqrun.Tensor ...
function ops.recompute(fn, ...)
  check.value("recompute: argument 1", fn, "function")
  local arguments = table.pack(...)
  local outputs = run_unrecorded(fn, ...)
  local made = core.record(outputs, tensors_of(...), function(...) return replay(fn, arguments, ...) end, true)
  return table.unpack(made)
end

return ops

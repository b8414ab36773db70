-- ops - the coarse, fused ops, their options by name; shapes and formulas are in docs/math.md.
--
-- T rows, M gathered rows, H hidden, F inner size, V vocabulary.  Dropout needs a layout, since its
-- decisions are keyed by sequence: (seed, uid, epoch, row) and the site and layer told here.

local core = require("seqrun.core.ops")
local tensor = require("seqrun.tensor")

local ops = {}

---y (T, F) = act(x w^T + b).
---@param x seqrun.Tensor (T, H)
---@param w seqrun.Tensor (F, H)
---@param b? seqrun.Tensor (F)
---@param options? { act?: "gelu"|"gelu_tanh"|"relu"|"tanh" }
---@return seqrun.Tensor
function ops.linear(x, w, b, options)
  return core.linear(x, w, b, options and options.act)
end

---Packed self-attention: rows see the rows of their own sequence and no others.
---@param qkv seqrun.Tensor (T, 3 H): [q heads | k heads | v heads] in a row
---@param layout seqrun.Layout
---@param options { heads: integer, scale?: number, dropout?: number, layer?: integer }
---@return seqrun.Tensor # (T, H), zero on slack
function ops.attention(qkv, layout, options)
  return core.attention(qkv, layout, options.heads, options.scale, options.dropout, "attention", options.layer)
end

---norm(dropout(x) + residual).
---@param x seqrun.Tensor (T, H)
---@param residual? seqrun.Tensor (T, H)
---@param gamma seqrun.Tensor (H)
---@param beta seqrun.Tensor (H)
---@param options { eps: number, dropout?: number, site?: "projection"|"feed"|"user", layer?: integer, layout?: seqrun.Layout }
---@return seqrun.Tensor
function ops.residual_norm(x, residual, gamma, beta, options)
  return core.residual_norm(x, residual, gamma, beta, options.layout, options.eps, options.dropout,
    options.site, options.layer)
end

---dropout(norm(word[ids] + position + type[types])).
---@param ids seqrun.Tensor (T) i32
---@param types seqrun.Tensor (T) i32
---@param tables { word: seqrun.Tensor, position: seqrun.Tensor, type: seqrun.Tensor, gamma: seqrun.Tensor, beta: seqrun.Tensor }
---@param layout seqrun.Layout
---@param options { eps: number, dropout?: number }
---@return seqrun.Tensor # (T, H)
function ops.embed(ids, types, tables, layout, options)
  return core.embed(ids, types, tables.word, tables.position, tables.type, tables.gamma, tables.beta,
    layout, options.eps, options.dropout, "embedding")
end

---Rows of x, in the order of `rows`, which count from 0.
---@param x seqrun.Tensor (T, ...)
---@param rows seqrun.Tensor (M) i32
---@return seqrun.Tensor # (M, ...)
function ops.gather_rows(x, rows)
  return core.gather_rows(x, rows)
end

---@param x seqrun.Tensor (T, H) rows of the layout
---@param layout seqrun.Layout
---@param options { p: number, site?: "head"|"user", layer?: integer }
---@return seqrun.Tensor
function ops.dropout(x, layout, options)
  return core.dropout(x, layout, options.p, options.site, options.layer)
end

---Cross entropy of the tied decoder, logits = x word^T + bias, without keeping the logits' softmax.
---@param x seqrun.Tensor (M, H)
---@param word seqrun.Tensor (V, H)
---@param bias seqrun.Tensor (V)
---@param labels seqrun.Tensor (M) i32
---@param weights seqrun.Tensor (M)
---@return seqrun.Tensor total sum of weights x nll
---@return seqrun.Tensor nll (M)
---@return seqrun.Tensor correct (M) 1 where the best score is the label's
function ops.mlm_loss(x, word, bias, labels, weights)
  return core.mlm_loss(x, word, bias, labels, weights)
end

---The same loss on logits at hand.
---@param logits seqrun.Tensor (M, C)
---@param labels seqrun.Tensor (M) i32
---@param weights seqrun.Tensor (M)
---@return seqrun.Tensor total
---@return seqrun.Tensor nll (M)
---@return seqrun.Tensor correct (M)
function ops.cross_entropy(logits, labels, weights)
  return core.cross_entropy(logits, labels, weights)
end

---Sum of weights x (x - target)^2.
---@param x seqrun.Tensor (M)
---@param target seqrun.Tensor (M)
---@param weights seqrun.Tensor (M)
---@return seqrun.Tensor
function ops.mse_loss(x, target, weights)
  return ((x - target):square() * weights):sum()
end

---An op written in Lua.  `forward` runs unrecorded; `backward(dy...)` returns one gradient, or nil,
---for each input.
---@param op { forward: fun(...: seqrun.Tensor): seqrun.Tensor..., backward: fun(...: seqrun.Tensor): seqrun.Tensor?... }
---@return fun(...: seqrun.Tensor): seqrun.Tensor...
function ops.custom(op)
  return function(...)
    local inputs = { ... }
    local outputs
    do
      local quiet <close> = tensor.no_grad()
      outputs = { op.forward(...) }
    end
    core.record(outputs, inputs, op.backward)
    return table.unpack(outputs)
  end
end

---Activation checkpointing: keeps x alone, and runs `fn` again in the backward pass.  Exact, since all
---dropout is keyed.  Parameters that fn uses get their gradients as ever.
---@param fn fun(x: seqrun.Tensor): seqrun.Tensor
---@param x seqrun.Tensor
---@return seqrun.Tensor
function ops.checkpoint(fn, x)
  if not x:requires_grad() then return fn(x) end
  local function forward(input)
    local scope <close> = tensor.scope()
    return fn(input):hand_up()
  end
  local function backward(dy)
    local scope <close> = tensor.scope()
    local input = x:detach():requires_grad_(true)
    tensor.with_grad(function() fn(input):backward(dy) end)
    return input:grad():hand_up()
  end
  return ops.custom { forward = forward, backward = backward }(x)
end

return ops

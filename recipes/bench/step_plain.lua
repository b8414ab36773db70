-- step_plain.lua - a BERT whose layers are computed op by op: a product, its bias, its activation; dropout, the
-- residual, the norm.  The same results, and what fusing them is compared with.  Products of queries, keys and values,
-- attention and the loss of the masked-LM head stay as they are.

local sr = require("seqrun")

---x W' + b, then the activation, as three ops.
local function linear(self, x, name, options)
  local y = sr.ops.linear(x, self.params:get(name .. ".weight"))
  local bias, act = self:optional(name .. ".bias"), options and options.act
  if bias then y = y + bias end
  if not act then return y end
  return act == "tanh" and y:tanh() or act == "relu" and y:relu() or y:gelu()
end

---Dropout, the sum, the norm, as three ops.
local function norm(self, x, residual, name, options)
  if (options.dropout or 0) > 0 then
    x = sr.ops.dropout(x, options.layout, { p = options.dropout, site = options.site, layer = options.layer })
  end
  if residual then x = x + residual end
  local gamma, beta = self.params:get(name .. ".weight"), self:optional(name .. ".bias")
  local eps = options.eps or self.design and self.design.eps
  return (sr.ops.residual_norm(x, nil, gamma, beta, { eps = eps, kind = options.kind }))
end

---Makes a model compute op by op.
---@param bert seqrun.Bert of a family with norms after its blocks
return function(bert)
  bert.encoder.linear, bert.encoder.norm = linear, norm
  for _, head in ipairs(bert.heads) do head.linear, head.norm = linear, norm end
end

-- transform.lua - the dense layer, activation and norm that a family has before the last layer of a head.
--
-- Heads whose transform has the same names share its parameters, as ModernBERT's do.

local specs = require("seqrun.nn.model.specs")

---@class seqrun.Transform
---@field dense string name of the layer
---@field dense_bias? boolean default true
---@field act? string
---@field norm? string name of the norm after it

local transform = {}

---Adds the parameters to the list of a head.
---@param list seqrun.ParamSpec[]
---@param encoder seqrun.Encoder
---@param names seqrun.Transform
---@param prefix string
---@param outputs integer
function transform.add(list, encoder, names, prefix, outputs)
  local d, shared = encoder.design, encoder.shared
  local made, add = specs.new(d.std)
  add.linear(prefix .. names.dense, outputs, d.hidden, names.dense_bias)
  if names.norm then add.norm(prefix .. names.norm, outputs, d.bias.norm) end
  for _, spec in ipairs(made) do
    shared[spec.name] = shared[spec.name] or spec
    list[#list + 1] = shared[spec.name]
  end
end

---@param encoder seqrun.Encoder
---@param x seqrun.Tensor (M, H)
---@param names seqrun.Transform
---@param prefix string
---@return seqrun.Tensor # (M, outputs)
function transform.apply(encoder, x, names, prefix)
  local y = encoder:linear(x, prefix .. names.dense, { act = names.act })
  return names.norm and encoder:norm(y, nil, prefix .. names.norm, {}) or y
end

return transform

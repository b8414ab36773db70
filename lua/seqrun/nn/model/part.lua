-- part.lua - a part of a model: its parameters by name, and layers that use them.
--
-- Parts of a model share its store, `training` and `recompute`.  A part without a model creates one of its own
-- on first use, so that an encoder can be used alone.

local ops = require("seqrun.tensor.ops")
local strict = require("seqrun.base.strict")

---@class seqrun.Part
---@field name string
---@field specs seqrun.ParamSpec[]
---@field model seqrun.Model
---@field params seqrun.Params
---@field training boolean
---@field recompute boolean
---@field precision? "f32"|"bf16" of the model that it creates for itself
local Part = {}

local SHARED = { params = true, training = true, recompute = true }

---The parameter of this name, or nil.
function Part:optional(name)
  local p = self.params
  return p:has(name) and p:get(name) or nil
end

---x W' + b with the parameters NAME.weight and NAME.bias, if there is one.
function Part:linear(x, name, options)
  return ops.linear(x, self.params:get(name .. ".weight"), self:optional(name .. ".bias"), options)
end

---The norm of x + residual with the parameters NAME.weight and NAME.bias, if there is one.
function Part:norm(x, residual, name, options)
  local gamma, beta = self.params:get(name .. ".weight"), self:optional(name .. ".bias")
  return ops.residual_norm(x, residual, gamma, beta, options)
end

local part = { linear = Part.linear, norm = Part.norm, optional = Part.optional }

---What a person may set in a part: what all share, and what training sets in an encoder.
local SET = { "params", "training", "recompute", "frozen", "token_drop", "gate", "teacher" }

local function title_of(object)
  return object.name == "encoder" and "the encoder" or ("the head '%s'"):format(tostring(object.name))
end

---A class of parts.
---@return table class its `__index` is set
function part.class()
  local Class = setmetatable({}, { __index = Part })
  function Class.__index(self, key)
    local value = Class[key]
    if value ~= nil or not SHARED[key] then return value end
    local model = rawget(self, "model")
    model = model or require("seqrun.nn.model").new({ self }, {
      precision = rawget(self, "precision"), rename = (rawget(self, "family") or {}).rename_tensor,
    })
    return model[key]
  end
  strict.seal(Class, title_of, SET, true)
  return Class
end

return part

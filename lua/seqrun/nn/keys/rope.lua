-- rope.lua - rotary positions in a config.json of any age.

local rope = {}

---The base of the frequencies from rope_parameters (Transformers 5), rope_scaling, or the older key of its own.
---@param parameters table|nil { rope_type, rope_theta, ... }
---@param scaling table|nil of older files, which scales the frequencies
---@param older number|nil
---@return number|nil
---@return string? problem if frequencies are scaled
function rope.theta(parameters, scaling, older)
  for name, given in pairs { rope_parameters = parameters or {}, rope_scaling = scaling or {} } do
    local kind = given.rope_type or given.type or "default"
    if kind ~= "default" then
      return nil, ("%s of the type '%s' is not supported; only 'default' is"):format(name, tostring(kind))
    end
    for _, key in ipairs { "partial_rotary_factor", "factor" } do
      if type(given[key]) == "number" and given[key] ~= 1 then
        return nil, ("%s with %s = %g is not supported"):format(name, key, given[key])
      end
    end
  end
  return parameters and parameters.rope_theta or older
end

---Reads rope_theta of a config that has one kind of layers; nil and a sentence if frequencies are scaled.
---@param given table changed
---@return table|nil
---@return string? problem
function rope.read(given)
  local theta, problem = rope.theta(given.rope_parameters, given.rope_scaling, given.rope_theta)
  if problem then return nil, problem end
  given.rope_theta = theta
  return given
end

---@param theta number
---@return table # rope_parameters of Transformers 5
function rope.write(theta) return { rope_type = "default", rope_theta = theta } end

return rope

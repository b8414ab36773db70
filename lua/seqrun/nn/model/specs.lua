-- specs.lua - short notation for lists of parameters, for sr.params.new.
--
--     local list, add = specs.new(0.02)
--     add.linear("classifier", 3, hidden)      -- classifier.weight (3, H), classifier.bias (3)
--     add.norm("LayerNorm", hidden)

local specs = {}

---An empty list and the functions that add to it.
---@param std? number standard deviation of weights; default 0.02
---@return seqrun.ParamSpec[] list
---@return table add weight(name, shape, more), bias(name, shape, more), linear(name, outputs, inputs, bias,
---  std), norm(name, size, bias); bias: false for none
function specs.new(std)
  local list, add = {}, {}
  local function push(spec, more)
    for key, value in pairs(more or {}) do spec[key] = value end
    list[#list + 1] = spec
  end
  function add.weight(name, shape, more)
    push({ name = name, shape = shape, init = "normal", std = std, group = "decay" }, more)
  end
  function add.bias(name, shape, more)
    push({ name = name, shape = shape, init = "zeros", group = "no_decay" }, more)
  end
  function add.linear(name, outputs, inputs, bias, deviation)
    add.weight(name .. ".weight", { outputs, inputs }, { std = deviation })
    if bias ~= false then add.bias(name .. ".bias", { outputs }) end
  end
  function add.norm(name, size, bias)
    push { name = name .. ".weight", shape = { size }, init = "ones", group = "no_decay", keep = "f32" }
    if bias ~= false then add.bias(name .. ".bias", { size }, { keep = "f32" }) end
  end
  return list, add
end

return specs

-- products.lua - matrix products of many strides and dtypes on a device, compared with the cpu.

local sr = require("seqrun")

local products = {}

local function random(shape, dtype, seed)
  return (sr.rand(shape, { device = "cpu", seed = seed }) - 0.5):to(dtype or "f32")
end

---The largest difference, over the largest magnitude.
local function distance(got, wanted)
  got, wanted = got:to("cpu"):to("f32"), wanted:to("f32")
  return (got - wanted):abs():max():item() / wanted:abs():max():item()
end

---Views of a matrix product's operands, from contiguous tensors; `slow`: not for cuBLASLt.
products.VIEWS = {
  plain = { { 5, 7 }, { 7, 9 }, function(a, b) return a, b end },
  ["transposed a"] = { { 7, 5 }, { 7, 9 }, function(a, b) return a:transpose(1, 2), b end },
  ["transposed b"] = { { 5, 7 }, { 9, 7 }, function(a, b) return a, b:transpose(1, 2) end },
  ["both transposed"] = { { 7, 5 }, { 9, 7 }, function(a, b) return a:transpose(1, 2), b:transpose(1, 2) end },
  ["wide rows"] = { { 5, 12 }, { 7, 20 }, function(a, b) return a:narrow(2, 3, 7), b:narrow(2, 5, 9) end },
  ["one row"] = { { 1, 7 }, { 7, 9 }, function(a, b) return a, b end },
  ["one column"] = { { 5, 7 }, { 7, 1 }, function(a, b) return a, b end },
  ["depth 1"] = { { 5, 1 }, { 1, 9 }, function(a, b) return a, b end },
  ["an expanded row"] = { { 1, 7 }, { 7, 9 }, function(a, b) return a:expand(5, 7), b end, slow = true },
  ["a batch"] = { { 3, 5, 7 }, { 3, 7, 9 }, function(a, b) return a, b end },
  ["a batch with one b"] = { { 3, 5, 7 }, { 7, 9 }, function(a, b) return a, b end },
  ["heads of a row"] = { { 2, 5, 3, 7 }, { 2, 4, 3, 7 },
    function(a, b) return a:transpose(2, 3), b:transpose(2, 3):transpose(3, 4) end },
  ["two even batch dimensions"] = { { 2, 3, 5, 7 }, { 2, 3, 7, 4 }, function(a, b) return a, b end },
}

---The error of a product on a device.
---@param device string
---@param name string of a view
---@param ta "f32"|"bf16"
---@param tb "f32"|"bf16"
---@return number
function products.error(device, name, ta, tb)
  local view = products.VIEWS[name]
  local a, b = random(view[1], ta, 1), random(view[2], tb, 2)
  local va, vb = view[3](a, b)
  local ga, gb = view[3](a:to(device), b:to(device))
  return distance(ga:matmul(gb), va:matmul(vb))
end

---The error of a linear layer with a bias and without activation.
---@param device string
---@param dtype "f32"|"bf16"
---@return number
function products.linear_error(device, dtype)
  local function run(on)
    return sr.ops.linear(random({ 5, 8 }, dtype, 1):to(on), random({ 6, 8 }, dtype, 2):to(on),
      random({ 6 }, dtype, 3):to(on))
  end
  return distance(run(device), run("cpu"))
end

return products

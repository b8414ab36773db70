-- Matrix products on the GPU's kernels, here on the CPU (device simt): every stride and dtype, against `cpu`.

local assert = require("luassert")
local sr = require("seqrun")

local function random(shape, dtype, seed)
  return (sr.rand(shape, { device = "cpu", seed = seed }) - 0.5):to(dtype or "f32")
end

---The largest difference, over the largest magnitude.
local function distance(got, wanted)
  got, wanted = got:to("cpu"):to("f32"), wanted:to("f32")
  return (got - wanted):abs():max():item() / wanted:abs():max():item()
end

---Views of a matrix product's operands, from contiguous tensors.
local VIEWS = {
  plain = { { 5, 7 }, { 7, 9 }, function(a, b) return a, b end },
  ["transposed a"] = { { 7, 5 }, { 7, 9 }, function(a, b) return a:transpose(1, 2), b end },
  ["transposed b"] = { { 5, 7 }, { 9, 7 }, function(a, b) return a, b:transpose(1, 2) end },
  ["both transposed"] = { { 7, 5 }, { 9, 7 }, function(a, b) return a:transpose(1, 2), b:transpose(1, 2) end },
  ["wide rows"] = { { 5, 12 }, { 7, 20 }, function(a, b) return a:narrow(2, 3, 7), b:narrow(2, 5, 9) end },
  ["one row"] = { { 1, 7 }, { 7, 9 }, function(a, b) return a, b end },
  ["one column"] = { { 5, 7 }, { 7, 1 }, function(a, b) return a, b end },
  ["depth 1"] = { { 5, 1 }, { 1, 9 }, function(a, b) return a, b end },
  ["an expanded row"] = { { 1, 7 }, { 7, 9 }, function(a, b) return a:expand(5, 7), b end },
  ["a batch"] = { { 3, 5, 7 }, { 3, 7, 9 }, function(a, b) return a, b end },
  ["a batch with one b"] = { { 3, 5, 7 }, { 7, 9 }, function(a, b) return a, b end },
  ["heads of a row"] = { { 2, 5, 3, 7 }, { 2, 4, 3, 7 },
    function(a, b) return a:transpose(2, 3), b:transpose(2, 3):transpose(3, 4) end },
  ["two even batch dimensions"] = { { 2, 3, 5, 7 }, { 2, 3, 7, 4 }, function(a, b) return a, b end },
}

describe("a matrix product", function()
  local function check(name, ta, tb, tolerance)
    local shapes = VIEWS[name]
    local a, b = random(shapes[1], ta, 1), random(shapes[2], tb, 2)
    local va, vb = shapes[3](a, b)
    local ga, gb = shapes[3](a:to("simt"), b:to("simt"))
    local got = ga:matmul(gb)
    assert.is_true(distance(got, va:matmul(vb)) < tolerance, name)
    sr.synchronize("simt")
  end

  for name in pairs(VIEWS) do
    it("takes " .. name, function()
      check(name, "f32", "f32", 1e-6)
      check(name, "bf16", "bf16", 1e-2)
    end)
  end

  it("of two dtypes rounds nothing before it multiplies", function() check("plain", "f32", "bf16", 1e-2) end)

  it("of no depth is zero", function()
    local y = sr.zeros(3, 0, { device = "simt" }):matmul(sr.zeros(0, 4, { device = "simt" }))
    assert.equal(0, y:to("cpu"):abs():max():item())
  end)
end)

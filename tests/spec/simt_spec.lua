-- The simt device: the CUDA kernels on the CPU.

local sr = require("seqrun")

local function on_simt(body)
  return function()
    local before = sr.device()
    sr.use("simt")
    local scope <close> = sr.scope()
    local good, message = pcall(body)
    sr.use(before)
    if not good then error(message, 0) end
  end
end

describe("simt", function()
  it("runs elementwise kernels on tensors of any strides", on_simt(function()
    local x = sr.tensor { { 1, -2, 3 }, { 4, 5, -6 } }
    assert.same({ { 1, 4 }, { -2, 5 }, { 3, -6 } }, x:t():contiguous():totable())
    assert.same({ { -1, -4 }, { 2, -5 }, { -3, 6 } }, (-x:t()):totable())
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, x:to("bf16"):abs():totable())
    assert.equal(0, sr.zeros(0, 3):numel())
  end))
end)

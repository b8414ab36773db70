-- Matrix products of the GPU's device: every stride and dtype against `cpu`, on the SIMT host, and as CUDA and cuBLASLt
-- would get them, by stand-ins for both (tests/cuda).

local assert = require("luassert")
local products = require("tests.support.products")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local it_on_simt = require("tests.support.devices").on_simt(it, function(reason) pending(reason) end)

local exits, works = program.exits, program.works

describe("a matrix product", function()
  local function check(name, ta, tb, tolerance)
    assert.is_true(products.error("simt", name, ta, tb) < tolerance, name)
    sr.synchronize("simt")
  end

  for name in pairs(products.VIEWS) do
    it_on_simt("takes " .. name, function()
      check(name, "f32", "f32", 1e-6)
      check(name, "bf16", "bf16", 1e-2)
    end)
  end

  it_on_simt("of two dtypes rounds nothing before it multiplies", function() check("plain", "f32", "bf16", 1e-2) end)

  it_on_simt("of no depth is zero", function()
    local y = sr.zeros(3, 0, { device = "simt" }):matmul(sr.zeros(0, 4, { device = "simt" }))
    assert.equal(0, y:to("cpu"):abs():max():item())
  end)
end)

local folder = program.path:gsub("[^/]*$", "tests/fake")

describe("the host code of cuda", function()
  if not sys.exists(folder .. "/seqrun_cuda.so") then return end

  ---Runs the program where CUDA is the stand-in, which lacks something.
  local function run(words, lacks, more)
    local variables = "LD_LIBRARY_PATH='%s' SEQRUN_PLUGINS='%s/seqrun_cuda.so'"
    local before = variables:format(folder, folder) .. (" SEQRUN_FAKE='%s'"):format(lacks or "")
    return program.run(words, { before = before .. (more or "") })
  end

  local function evaluate(expression, lacks) return run({ "-e", expression }, lacks) end

  local function evaluates(expression)
    local out = works(evaluate(expression))
    return out
  end

  it("asks cuBLASLt for the right products", function()
    local code, out, err = run { "tests/cuda/products.lua" }
    assert.equal(0, code, err)
    assert.matches("^products are right: %d+\n$", out)
  end)

  it("adds a bias in a pass of its own where cuBLASLt does not add it", function()
    local linear = 'sr.use("cuda"), sr.ops.linear(sr.tensor({ { 1, 2 } }), sr.tensor({ { 3, 4 } }), sr.tensor({ 5 }))'
      .. ":item()"
    assert.matches("16%.0", (select(2, evaluate(linear))))
    assert.matches("11%.0", (select(2, evaluate(linear, "bias")))) -- kernels do not run here
  end)

  it("leaves what cuBLASLt does not have to a kernel, and says so once", function()
    local twice = 'sr.use("cuda"), sr.ones(3, 4):matmul(sr.ones(4, 1)), sr.ones(2, 4):matmul(sr.ones(4, 1))'
    local _, err = works(evaluate(twice, "single columns"))
    assert.matches("cuBLASLt has no product of shape %(3, 1, 4%) %(not supported%); a slow kernel computes it", err)
    assert.is_nil(err:find("(2, 1, 4)", 1, true), err)
  end)

  it("refuses a large product that cuBLASLt does not have, unless slow ones are allowed", function()
    local large = 'sr.use("cuda"), sr.ones(1, 5000, 5000):expand(30, 5000, 5000)'
      .. ":matmul(sr.ones(30, 5000, 1)), sr.synchronize()"
    local code, _, err = evaluate(large, "single columns")
    assert.equal(4, code)
    assert.matches("matmul: cuBLASLt has no product of shape %(5000, 1, 5000%) %(not supported%); set "
      .. "SEQRUN_SLOW_PRODUCTS=1 to compute it by a slow kernel\n", err)
    works(evaluate(large, "single columns' SEQRUN_SLOW_PRODUCTS='1"))
  end)

  it("takes the first suggestion that runs, for each product on its own", function()
    -- the result is 2 with the first suggestion, 4 with the second
    local function computed(columns, lacks)
      local code, out, err = evaluate(([[(function()
        sr.use("cuda")
        local list = {}
        for i, n in ipairs { %s } do -- kernels do not run here
          local a, b = sr.ones(3, 2, { device = "cpu" }):to("cuda"), sr.ones(2, n, { device = "cpu" }):to("cuda")
          list[i] = ("%%g"):format(a:matmul(b):to("cpu"):max():item())
        end
        return table.concat(list, " ")
      end)()]]):format(columns), lacks)
      assert.equal(0, code, err)
      return out, err
    end
    assert.equal('"2 2 2"\n', computed("5, 7, 5"))
    assert.equal('"4 4 4"\n', computed("5, 7, 5", "the first algorithm"))
    assert.equal('"4 2 4"\n', computed("5, 7, 5", "five columns"))
    assert.equal('"4 4 4"\n', computed("5, 7, 5", "a first state"))
    local out, err = computed("5, 7, 5", "a sound first algorithm")
    assert.equal('"4 4 4"\n', out)
    local _, lines = err:gsub("matmul: suggestion 1 of cuBLASLt fails %(execution failed%) and is skipped", "")
    assert.equal(1, lines, err)
  end)

  it("raises what fails in all suggestions: a mistake, not a product that is missing; or what failed before", function()
    for lacks, words in pairs { sense = "an error", ["a sound algorithm"] = "execution failed" } do
      local code, _, err = evaluate('sr.use("cuda"), sr.ones(3, 2):matmul(sr.ones(2, 5))', lacks)
      assert.equal(4, code)
      assert.is_truthy(err:find("matmul: cuBLASLt: " .. words .. ", in the product of shape (3, 5, 2)", 1, true), err)
    end
    local _, err = exits(4, "", evaluate('sr.use("cuda"), sr.ones(3, 2):matmul(sr.ones(2, 5))', "memory rights"))
    assert.matches("an op that was queued before failed %(seen at matmul%): an illegal memory access", err)
  end)

  it("describes GPUs", function()
    assert.matches('"Fake GPU 0"%s+"sm_90"%s+"13.1"%s+"13.0"', evaluates('sr.describe("cuda").model, '
      .. 'sr.describe("cuda").arch, sr.describe("cuda").driver, sr.describe("cuda").runtime'))
    assert.matches('"cuda:1"', evaluates('sr.use("cuda:1"), sr.device()'))
  end)

  it("says what is missing", function()
    local function says(lacks, words, expression)
      local _, err = exits(4, "", evaluate(expression or 'sr.use("cuda")', lacks))
      assert.is_truthy(err:find(words, 1, true), err)
      assert.is_nil(err:find("\n."), err)
    end
    says("driver", "cuda: no NVIDIA driver was found; set device: cpu, or install the NVIDIA driver")
    says("new driver", "cuda: the NVIDIA driver supports CUDA 12.4, but this program needs 13.0; set device: cpu")
    says("gpu", "cuda: no NVIDIA GPU was found; set device: cpu")
    says("new gpu", "device 'cuda' cannot be used: Fake GPU 0 is sm_70, but sm_80 (A100) or later is needed")
    says("", "this machine has 2 cuda devices, numbered from 0", 'sr.use("cuda:2")')
    says("", "out of memory: cannot allocate 2048.0 MiB on cuda (1.0 of 1.0 GiB free); lower batch.micro_packs",
      'sr.empty(1 << 29, { device = "cuda" })')
    says("memory rights", "cuda: an illegal memory access was encountered; the last ops were fill, fill, binary; ",
      'sr.use("cuda"), sr.zeros(3):add_(sr.ones(3)):totable()')
    says("safe kernels", "cuda: an illegal memory access was encountered; the last ops were fill, fill, binary, fill; ",
      'sr.use("cuda"), sr.zeros(3):add_(sr.ones(3)), sr.zeros(3)')
    says("free gpu", "cuda: cannot select the device: ")
    local again = 'pcall(sr.use, "cuda"), sr.use("cuda")' -- the second attempt must not take what is selected
    says("free gpu", "cuda: cannot select the device: ", again)
    -- LeakSanitizer fails in the threads of a process that has unloaded a library.
    local code, out = run({ "-e", 'sr.use("auto"), sr.device()' }, "free gpu",
      ' ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"')
    assert.same({ 0, 'nil "cpu"' }, { code, (out:gsub("%s+", " "):gsub(" $", "")) })
  end)

  it("leaves heads of 128 to the plain kernels where blocks have little shared memory", function()
    local attend = 'sr.use("cuda"), (function() local layout = sr.layout { lens = { 9 }, rows = 128, seed = 1 } '
      .. 'local qkv = sr.zeros(128, 3 * 128, { dtype = "bf16", requires_grad = true }) '
      .. 'sr.ops.attention(qkv, layout, { heads = 1 }):sum():backward() sr.synchronize() end)()'
    for _, lacks in ipairs { "", "shared memory" } do works(evaluate(attend, lacks)) end
  end)

  describe("where work is done late, by streams in a drawn order,", function()
    -- 50 MiB through a ring of 32, of all kinds of pieces
    local UPLOADS = [[(function()
      sr.use("cuda")
      local sizes, held, wrong = { 100, 30000, 400000, 700000, 9 }, {}, 0
      for i = 1, 60 do
        local x = sr.full({ sizes[i % #sizes + 1] }, i, { device = "cpu" })
        held[i] = x:to("cuda")
      end
      for i, t in ipairs(held) do
        local back = t:to("cpu")
        if back:min():item() ~= i or back:max():item() ~= i then wrong = wrong + 1 end
      end
      return wrong
    end)()]]

    local function wrong(seed, lacks)
      local out = works(evaluate(UPLOADS, ("%s' SEQRUN_FAKE_ORDER='%d"):format(lacks or "", seed)))
      return assert(tonumber(out), out)
    end

    it("uploads arrive where they should, when they should #slow", function()
      for seed = 1, require("tests.support.long") and 100 or 8 do assert.equal(0, wrong(seed), "seed " .. seed) end
    end)

    it("a missing wait shows, of a stream or of the host #slow", function()
      for _, lacks in ipairs { "waits of streams", "waits of the host" } do
        assert.is_true(wrong(1, lacks) + wrong(2, lacks) + wrong(3, lacks) > 0, lacks)
      end
    end)

    it("products are right #slow", function()
      for seed = 1, 3 do
        local out = works(run({ "tests/cuda/products.lua" }, "' SEQRUN_FAKE_ORDER='" .. seed))
        assert.matches("^products are right: %d+\n$", out)
      end
    end)
  end)

  it("uploads more than its ring holds", function()
    evaluates('(function() local x = sr.rand(12 << 20, { seed = 1 }) local y = x:to("cuda"):to("cpu") '
      .. 'assert((x - y):abs():max():item() == 0) end)()')
  end)
end)

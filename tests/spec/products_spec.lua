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
  local function run(words, lacks)
    local variables = "LD_LIBRARY_PATH='%s' SEQRUN_PLUGINS='%s/seqrun_cuda.so' XDG_CACHE_HOME='%s/cache'"
    local before = variables:format(folder, folder, folder) .. (" SEQRUN_FAKE='%s'"):format(lacks or "")
    return program.run(words, { before = before })
  end

  local function evaluate(expression, lacks) return run({ "-e", expression }, lacks) end

  local function evaluates(expression)
    local out = works(evaluate(expression))
    return out
  end

  it("asks cuBLASLt for the right products", function()
    sys.remove(folder .. "/cache")
    local out = works(run { "tests/cuda/products.lua" })
    assert.matches("^products are right: %d+\n$", out)
  end)

  it("adds a bias in a pass of its own where cuBLASLt does not add it rightly", function()
    local linear = 'sr.use("cuda"), sr.ops.linear(sr.tensor({ { 1, 2 } }), sr.tensor({ { 3, 4 } }), sr.tensor({ 5 }))'
      .. ":item()"
    assert.matches("16%.0", (select(2, evaluate(linear))))
    assert.matches("11%.0", (select(2, evaluate(linear, "right bias")))) -- kernels do not run here
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

  it("keeps what it chose in the user's cache #slow", function()
    local names = sys.list(folder .. "/cache/seqrun")
    assert.equal(1, #names)
    assert.matches("^cublaslt%-%d+%-fake_gpu_0%-4$", names[1])
    local text = assert(sys.read_file(folder .. "/cache/seqrun/" .. names[1], 1 << 20))
    assert.is_truthy(text:find("bf16 bf16 NN 16 16 16 x1 a", 1, true))
  end)

  local function cached()
    local name = sys.list(folder .. "/cache/seqrun")[1]
    return name and assert(sys.read_file(folder .. "/cache/seqrun/" .. name, 1 << 20)) or ""
  end

  ---Runs the body of a function whose `core` has the choices of cuda; returns what it returns as text.
  local function chosen(body, lacks)
    local whole = [[(function()
      local core = require("seqrun.core.tensor")
      sr.use("cuda")
      -- kernels do not run here
      local function ones(sizes) return sr.ones(sizes[1], sizes[2], { device = "cpu" }):to("cuda") end
      %s
    end)()]]
    local out = works(evaluate(whole:format(body), lacks))
    return out
  end

  -- the result is 2 with the first suggestion, 4 with the second; "one algorithm": there are two
  local PRODUCT = "local function product() return ones({ 3, 2 }):matmul(ones { 2, 5 }):to('cpu'):max():item() end "

  it("computes with pinned choices, whatever the cache says", function()
    sys.remove(folder .. "/cache")
    assert.matches("2%.0 4%.0 2%.0\n", (chosen(PRODUCT .. [[
      local before, mine = product(), core.choices()
      local theirs = mine:gsub("\t01", "\t02")
      assert(core.pin_choices(theirs))
      local pinned = product()
      assert(core.pin_choices(mine))
      return ("%.1f %.1f %.1f"):format(before, pinned, product())]], "one algorithm"):gsub('"', "")))
    local before = cached()
    assert.matches("4%.0", (chosen(PRODUCT .. [[
      assert(core.pin_choices((core.choices() or ""):gsub("\t01", "\t02")))
      return product()]], "one algorithm")))
    assert.equal(before, cached())
  end)

  it("returns choices since a number, and refuses those of another GPU and damaged ones", function()
    assert.equal("", (evaluates('require("seqrun.core.tensor").choices()'))) -- of cpu
    local out = chosen(PRODUCT .. [[
      product()
      local all, count = core.choices()
      ones({ 300, 2 }):matmul(ones { 2, 5 })
      local news, more = core.choices(count)
      assert(more == count + 1 and select(2, news:gsub("\n", "")) == 3 and core.choices(more) == nil)
      local _, other, code = core.pin_choices((all:gsub("fake_gpu_0", "h100")))
      local _, torn, kind = core.pin_choices(all:sub(1, -3))
      return other, code, torn, kind]])
    assert.matches('are for cublaslt%-%d+%-h100%-4, not for cublaslt%-%d+%-fake_gpu_0%-4"%s+"device"', out)
    assert.matches('cut short or damaged after choice %d+"%s+"data"', out)
  end)

  it("leaves a class to the first suggestion that runs, which lasts unless memory was missing", function()
    for lacks, lasts in pairs { ["the first algorithm"] = true, ["memory of the first algorithm"] = false } do
      sys.remove(folder .. "/cache")
      assert.matches("4%.0", (chosen(PRODUCT .. "return product()", lacks)), lacks)
      assert.equal(lasts, cached():find("f32 f32 NN 16 16 16 x1", 1, true) ~= nil, lacks)
    end
    sys.remove(folder .. "/cache")
    assert.matches("2%.0.*f32 f32 NN 16 16 16 x1", (chosen(PRODUCT .. "return product(), core.choices()",
      "room for trials")))
    assert.is_nil(cached():find("f32 f32 NN", 1, true))
  end)

  it("also tries algorithms that cut the depth of a product with few elements", function()
    sys.remove(folder .. "/cache")
    local deep = "return ones({ 3, %d }):matmul(ones { %d, 5 }):to('cpu'):max():item(), core.choices()"
    local out = chosen(deep:format(2000, 2000), "whole products")
    assert.matches("^2000%.0", out)
    assert.matches("f32 f32 NN 16 16 2048 x1 a[%d.]+\t01" .. ("00"):rep(7) .. "03", out)
    -- parts of less than 512 are not tried, nor where there are many elements
    for _, depth in ipairs { 1500, 100 } do
      local _, err = works(evaluate(('sr.use("cuda"), sr.ones(3, %d):matmul(sr.ones(%d, 5))'):format(depth, depth),
        "whole products"))
      assert.matches("cuBLASLt has no product of shape %(3, 5, " .. depth .. "%)", err)
    end
    sys.remove(folder .. "/cache")
  end)

  it("takes an invalid call for a mistake, not for a product that is missing", function()
    sys.remove(folder .. "/cache")
    exits(4, "matmul: cuBLASLt: an error, in the product of shape %(3, 5, 2%)",
      evaluate('sr.use("cuda"), sr.ones(3, 2):matmul(sr.ones(2, 5))', "sense"))
  end)

  it("gives a size that its class's algorithm does not take one of its own, and keeps it", function()
    sys.remove(folder .. "/cache")
    local body = PRODUCT .. [[
      local seven = ones({ 3, 2 }):matmul(ones { 2, 7 }):to("cpu"):max():item()
      return ("%.1f %.1f"):format(seven, product())]]
    assert.matches("2%.0 4%.0", (chosen(body, "five columns")))
    assert.is_truthy(cached():find("f32 f32 NN 16 16 16 x1 a4.8.4\t01", 1, true), cached())
    assert.matches("f32 f32 NN 5 3 2 x1 a[%d.]+ exact\t02", cached())
    sys.remove(folder .. "/cache")
  end)

  it("reports a trial that fails for what it is, with op and shape", function()
    for lacks, words in pairs {
      ["a sound algorithm"] = "matmul: cuBLASLt: execution failed, in the product of shape (3, 5, 2)",
      ["safe trials"] = "matmul: cuda: an illegal memory access was encountered, in a trial of the product of shape "
        .. "(3, 5, 2)",
    } do
      sys.remove(folder .. "/cache")
      local _, err = exits(4, "", evaluate('sr.use("cuda"), sr.ones(3, 2):matmul(sr.ones(2, 5))', lacks))
      assert.is_truthy(err:find(words, 1, true), err)
      assert.equal("", cached())
    end
    local layer = 'sr.use("cuda"), sr.ops.linear(sr.ones(5, 8), sr.ones(16, 8), sr.ones(16), { act = "gelu_tanh" })'
    local _, _, err = evaluate(layer, "safe passes")
    local words = "linear: cuda: an illegal memory access was encountered, in a trial of the product of shape "
      .. "(16, 16, 8)"
    assert.is_truthy(err:find(words, 1, true), err)
    assert.is_nil(cached():find("gelu f32", 1, true))
  end)

  describe("lets cuBLASLt apply a GELU", function()
    ---The layer gelu_tanh(x + 1/2) of x = -4, -3 ... 3 in `dtype`, its input kept or not.  Kernels do not run here,
    ---so a pass of its own would leave the output alone.
    local function layer(dtype, act, lacks, grad)
      local code, out, err = evaluate(([[(function()
        sr.use("cpu")
        local w, b = {}, {}
        for i = 1, 8 do w[i], b[i] = { i - 5, 0 }, 0.5 end
        local dtype = { dtype = "%s" }
        w, b = sr.tensor(w, dtype), sr.tensor(b, dtype)
        local x = sr.tensor({ { 1, 0 }, { 0, 1 } }, dtype)
        x, w, b = x:to("cuda"), w:to("cuda"), b:to("cuda")
        if %s then x:requires_grad_() end
        local y = sr.ops.linear(x, w, b, { act = "%s" })
        return table.concat(y:detach():to("cpu"):reshape(16):totable(), " ")
      end)()]]):format(dtype, tostring(grad), act), lacks)
      assert.equal(0, code, err)
      local list = {}
      for number in out:gmatch("[-%d.e]+") do list[#list + 1] = tonumber(number) end
      assert.equal(16, #list, out)
      return list
    end

    local function is_gelu(list)
      for i, x in ipairs(list) do
        local at = i <= 8 and i - 4.5 or 0.5
        local u = math.sqrt(2 / math.pi) * (at + 0.044715 * at ^ 3)
        local wanted = 0.5 * at * (1 + (1 - 2 / (1 + math.exp(2 * u))))
        if not (math.abs(x - wanted) <= 4e-3 * math.abs(wanted) + 1e-5) then return false end
      end
      return true
    end

    it("of the form that it has, where that is faster", function()
      sys.remove(folder .. "/cache")
      for _, dtype in ipairs { "f32", "bf16" } do
        for _, grad in ipairs { true, false } do
          assert.is_true(is_gelu(layer(dtype, "gelu_tanh", "", grad)), dtype)
          assert.is_false(is_gelu(layer(dtype, "gelu", "", grad)), dtype)
        end
      end
    end)

    it("and keeps that choice", function()
      assert.is_true(is_gelu(layer("bf16", "gelu_tanh", "slow kernels"))) -- chosen before
      sys.remove(folder .. "/cache")
      assert.is_false(is_gelu(layer("bf16", "gelu_tanh", "slow kernels")))
      assert.is_false(is_gelu(layer("bf16", "gelu_tanh")))
      sys.remove(folder .. "/cache")
    end)

    it("by the class of its shape, whose rows are a power of two", function()
      local out = chosen([[
        local function fused(rows, columns)
          local x, w = ones { rows, 8 }, (-sr.ones(columns, 8, { device = "cpu" })):to("cuda")
          local y = sr.ops.linear(x, w, sr.zeros(columns), { act = "gelu_tanh" })
          return y:to("cpu"):max():item() > -1 and "+" or "-" -- a pass, which is not run, leaves the sum
        end
        local before = fused(1, 8) .. fused(40, 8) .. fused(40, 16)
        local flip = function(key, text) return (text:gsub("\n" .. key .. "\t0[12]", "\n" .. key .. "\t02")) end
        assert(core.pin_choices(flip("gelu f32 64 8 8", core.choices())))
        return before, fused(1, 8) .. fused(16, 8) .. fused(17, 8) .. fused(33, 8) .. fused(64, 8) .. fused(65, 8)
          .. fused(64, 16), core.choices()]])
      assert.matches('^"%+%+%+"', out)
      assert.matches('"%+%+%+%-%-%+%+"', out)
      for _, key in ipairs { "16 8 8", "32 8 8", "64 8 8", "64 16 8", "128 8 8" } do
        assert.is_truthy(out:find("gelu f32 " .. key, 1, true), key)
      end
      sys.remove(folder .. "/cache")
    end)

    it("not where there is no memory to time it, which is not kept", function()
      sys.remove(folder .. "/cache")
      assert.is_false(is_gelu(layer("bf16", "gelu_tanh", "room for trials")))
      assert.is_nil(cached():find("gelu", 1, true))
      assert.is_true(is_gelu(layer("bf16", "gelu_tanh")))
      assert.is_truthy(cached():find("gelu bf16 16 8 2\t01", 1, true))
      sys.remove(folder .. "/cache")
    end)

    it("also in an update that is recorded, with the same answer", function()
      local out = chosen([[
        local x, w, b = ones { 4, 8 }, (-sr.ones(8, 8, { device = "cpu" })):to("cuda"), sr.zeros(8)
        x:matmul(w):to("cpu")
        assert(core.capture("begin"))
        local y = sr.ops.linear(x, w, b, { act = "gelu_tanh" })
        assert(core.capture("run"))
        return y:to("cpu"):max():item() > -1, core.choices()]])
      assert.matches("^true.*gelu f32 16 8 8\t01", out)
      sys.remove(folder .. "/cache")
    end)

    it("not where it is wrong or missing", function()
      for _, lacks in ipairs { "right gelu", "gelu" } do
        assert.is_false(is_gelu(layer("bf16", "gelu_tanh", lacks)))
        sys.remove(folder .. "/cache")
      end
    end)
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
    local code, out = evaluate('sr.use("auto"), sr.device()', "free gpu")
    assert.same({ 0, 'nil "cpu"' }, { code, (out:gsub("%s+", " "):gsub(" $", "")) })
  end)

  it("leaves heads of 128 to the plain kernels where blocks have little shared memory", function()
    local attend = 'sr.use("cuda"), (function() local layout = sr.layout { lens = { 9 }, rows = 128, seed = 1 } '
      .. 'local qkv = sr.zeros(128, 3 * 128, { dtype = "bf16", requires_grad = true }) '
      .. 'sr.ops.attention(qkv, layout, { heads = 1 }):sum():backward() sr.synchronize() end)()'
    for _, lacks in ipairs { "", "shared memory" } do works(evaluate(attend, lacks)) end
  end)

  it("reads nothing while an update is recorded", function()
    local _, out = evaluate('(function() local core = require("seqrun.core.tensor") sr.use("cuda") '
      .. 'local x = sr.ones(1) assert(core.capture("begin")) local _, e = pcall(x.item, x) '
      .. 'assert(core.capture("run")) x:item() '
      .. 'assert(core.capture("begin") and core.capture("drop") and core.capture("run")) return tostring(e) end)()')
    assert.matches("a value was read while the update is recorded as a graph", out)
  end)

  describe("where work is done late, by streams in a drawn order,", function()
    -- 50 MiB through a ring of 32, of all kinds of pieces; every third one while a graph is recorded
    local UPLOADS = [[(function()
      local core = require("seqrun.core.tensor")
      sr.use("cuda")
      local sizes, held, wrong = { 100, 30000, 400000, 700000, 9 }, {}, 0
      for i = 1, 60 do
        local x = sr.full({ sizes[i % #sizes + 1] }, i, { device = "cpu" })
        if i % 3 == 0 then assert(core.capture("begin")) end
        held[i] = x:to("cuda")
        if i % 3 == 0 then assert(core.capture("run")) end
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

  it("records no graph before an update has run", function()
    local updates = 'sr.use("cuda"), (function() local core = require("seqrun.core.tensor") '
      .. 'for i = 1, %d do assert(core.capture("begin")) sr.ones(i) assert(core.capture("run")) end end)()'
    assert.equal(0, (evaluate(updates:format(1), "graphs")))
    local code, _, err = evaluate(updates:format(2), "graphs")
    assert.not_equal(0, code)
    assert.is_truthy(err:find("cuda: cannot record a graph: an error", 1, true), err)
    evaluates(updates:format(3))
  end)

  it("uploads more than its ring holds", function()
    evaluates('(function() local x = sr.rand(12 << 20, { seed = 1 }) local y = x:to("cuda"):to("cpu") '
      .. 'assert((x - y):abs():max():item() == 0) end)()')
  end)
end)

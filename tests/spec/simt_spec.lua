-- The simt device: the CUDA kernels on the CPU.

local long = require("tests.support.long")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")

local it_on_simt = require("tests.support.devices").on_simt(it, function(reason) pending(reason) end)

local works = program.works

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

---Seeds of drawn orders: `few` of them, 100 in `make test-long`.
local function seeds(few)
  local list = {}
  for seed = 1, long and 100 or few do list[seed] = seed end
  return list
end

describe("in any order of blocks, threads and copies, on simt", function()
  local function passes(pattern, ...)
    local words = { "tests/run.lua", "only=" .. pattern }
    for _, name in ipairs { ... } do words[#words + 1] = ("tests/spec/%s_spec.lua"):format(name) end
    for _, seed in ipairs(seeds(1)) do
      local code, out, err = program.run(words, { before = "SEQRUN_SIMT_SEED=" .. seed })
      assert.equal(0, code, ("seed %d: %s%s"):format(seed, out:sub(-2000), err))
      assert.matches("[1-9]%d* passed, 0 failed", out)
    end
  end

  if long then -- `ops` has all cases in one order
    it_on_simt("every op case passes #slow", function() passes("simt in .* against ref", "ops") end)
  end
  it_on_simt("a sequence has the same bits alone and packed #slow", function()
    passes("simt.* the same bits alone, packed", "cuda_attention")
  end)
end)

it_on_simt("simt runs elementwise kernels on tensors of any strides", on_simt(function()
  local x = sr.tensor { { 1, -2, 3 }, { 4, 5, -6 } }
  assert.same({ { 1, 4 }, { -2, 5 }, { 3, -6 } }, x:t():contiguous():totable())
  assert.same({ { -1, -4 }, { 2, -5 }, { -3, 6 } }, (-x:t()):totable())
  assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, x:to("bf16"):abs():totable())
  assert.equal(0, sr.zeros(0, 3):numel())
end))

describe("ten steps of the pretraining recipe #slow", function()
  local folder, corpus = small.folder(40)

  local runs = 0
  ---Losses and gradient norms of ten steps.
  local function train(device, precision, seed)
    runs = runs + 1
    local out = ("%s/%d"):format(folder, runs)
    local before = seed and "SEQRUN_SIMT_SEED=" .. seed or ""
    works(program.run(small.words(corpus, "--out", out, "--max-steps", "10", "device=" .. device,
      "precision=" .. precision, "data.held=0", "batch.sequences=8", "model.hidden_size=64"), -- heads of 32 columns
      { before = before }))
    local losses, norms = {}, {}
    for i, line in ipairs(small.metrics(out)) do losses[i], norms[i] = line.loss, line.grad_norm end
    assert.equal(10, #losses)
    return losses, norms
  end

  -- f32: the order of sums differs.  bf16: a value near a tie may round the other way, and ten steps
  -- of training carry that on.
  local kept = {}
  for precision, tolerance in pairs { f32 = 1e-6, bf16 = 1e-3 } do
    it_on_simt("gives the losses of the cpu in " .. precision, function()
      kept[precision] = { train("simt", precision) }
      local losses, norms = table.unpack(kept[precision])
      local wanted, wanted_norms = train("cpu", precision)
      for i = 1, 10 do
        assert.near(wanted[i], losses[i], tolerance * wanted[i])
        assert.near(wanted_norms[i], norms[i], 10 * tolerance * wanted_norms[i])
      end
      assert.is_true(losses[10] < losses[1])
    end)
  end

  it_on_simt("gives the same bits in any order of blocks, threads and copies", function()
    for _, seed in ipairs(seeds(1)) do assert.same(kept.bf16, { train("simt", "bf16", seed) }, "seed " .. seed) end
  end)

  it_on_simt("gives the same bits twice", function() assert.same(kept.bf16, { train("simt", "bf16") }) end)
end)

-- bf16: what ops take and give, parameters with masters, and a BERT that trains in it.

local core = require("seqrun.core.tensor")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local support = require("tests.support.bert")
local sys = require("seqrun.core.sys")

local fails = require("tests.support.devices").fails

local TINY = "tests/data/model/tiny/"

local function on_cpu()
  local before
  setup(function() before = sr.device(); sr.use("cpu") end)
  teardown(function() sr.use(before) end)
end

local function bytes(t) return t:detach():contiguous():tostring_bytes() end

describe("bf16 in small ops", function()
  on_cpu()
  local x, wide, whole, number
  before_each(function()
    x, wide = sr.randn({ 3, 5 }, { seed = 1 }):to("bf16"), sr.randn({ 3, 5 }, { seed = 2 })
    whole, number = sr.ones(5, { dtype = "i32" }), sr.tensor({ 0.1 }):sum()
  end)

  it("stays bf16 with bf16, with whole and single numbers, and gives way to f32", function()
    for _, y in ipairs { x + x, x * 0.1, x * whole, x * number, -x, x:exp(), x:softmax(-1), x:matmul(x:t()) } do
      assert.equal("bf16", y:dtype())
    end
    for _, y in ipairs { x + wide, wide - x, x:matmul(wide:t()), x:sum(), x:mean(1), x:max() } do
      assert.equal("f32", y:dtype())
    end
  end)

  it("does not round a single number", function()
    local rounded = (x:to("f32") * 0.1):to("bf16")
    assert.equal(bytes(rounded), bytes(x * 0.1))
    assert.equal(bytes(rounded), bytes(x:clone():mul_(0.1)))
  end)

  it("adds up the gradient of a leaf in f32, and gives an activation one of its own dtype", function()
    local leaf, seen = sr.ones(4, { dtype = "bf16" }):requires_grad_(), nil
    local spy = sr.ops.custom {
      forward = function(_, y) return y:clone() end,
      backward = function(_, dy) seen = dy:dtype(); return dy end,
    }
    local total = spy(leaf * 3):to("f32"):sum()
    for _ = 1, 300 do total = total + leaf:sum() end
    total:backward()
    assert.equal("bf16", seen)
    assert.equal("f32", leaf:grad():dtype())
    assert.equal(303, leaf:grad():totable()[1]) -- bf16 cannot count beyond 256
  end)
end)

describe("bf16 in coarse ops", function()
  on_cpu()
  it("is refused beside weights of another dtype, with both named", function()
    local x, w = sr.zeros(2, 3, { dtype = "bf16" }), sr.zeros(4, 3)
    fails("linear: x is bf16, but w is f32; expected the same dtype; convert one with to()", sr.ops.linear, x, w)
    fails("gamma is (3) bf16", sr.ops.residual_norm, x, nil, sr.ones(3, { dtype = "bf16" }), sr.zeros(3))
  end)

  it("gives losses and statistics in f32", function()
    local logits = sr.randn({ 4, 9 }, { seed = 1 }):to("bf16")
    local labels, weights = sr.tensor({ 1, 2, 3, 8 }, { dtype = "i32" }), sr.ones(4)
    for _, y in ipairs { sr.ops.cross_entropy(logits, labels, weights) } do assert.equal("f32", y:dtype()) end
  end)
end)

describe("parameters in bf16", function()
  on_cpu()
  local SPECS = {
    { name = "w", shape = { 3, 4 }, std = 1 }, { name = "b", shape = { 3 }, std = 1 },
    { name = "norm", shape = { 4 }, init = "ones", keep = "f32" },
  }
  local function new() return sr.params.new(SPECS, { precision = "bf16" }):initialise(5) end

  it("begin as the f32 ones, rounded; norms are not", function()
    local p, plain = new(), sr.params.new(SPECS):initialise(5)
    for _, name in ipairs(p:names()) do
      assert.equal(bytes(plain:get(name)), bytes(p:master(name)))
      assert.equal(bytes(plain:get(name)), bytes(p:value_of(name)))
      assert.equal(name == "norm" and "f32" or "bf16", p:get(name):dtype())
      assert.equal(bytes(plain:get(name):to(p:get(name):dtype())), bytes(p:get(name)))
      assert.equal("f32", p:get(name):grad():dtype())
    end
  end)

  it("have a layout of the device's own where it multiplies tiles: of matrices that linear reads", function()
    local whole = core.layout_bytes(32, 32) -- sides are rounded up to 32
    assert.is_true(whole == 0 or whole == 4 * 32 * 32)
    assert.equal(2 * whole, core.layout_bytes(33, 5))
    assert.equal(whole, new():layout_bytes())
    assert.equal(0, sr.params.new(SPECS):layout_bytes())
    local model = sr.nn.bert { vocab_size = 50, hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2,
      intermediate_size = 32, max_position_embeddings = 128, precision = "bf16" }
    assert.equal((2 * 6 + 3) * whole, model.params:layout_bytes()) -- six in a layer; pooler, transform, NSP
  end)

  it("are written through set()", function()
    local p = new()
    p:set("w", 0.1)
    assert.equal(bytes(sr.full({ 3, 4 }, 0.1)), bytes(p:master("w")))
    assert.equal(bytes(sr.full({ 3, 4 }, 0.1):to("bf16")), bytes(p:get("w")))
    local optimizer = sr.optim.adamw(p)
    p:get("w"):detach():fill_(0)
    fails("write to the parameter with params:set(name, values)", optimizer.step, optimizer, { rate = 0.1 })
  end)

  it("take steps that bf16 could not hold", function()
    local p = new()
    p:set("b", 1)
    local optimizer = sr.optim.adamw(p, { decay = 0 })
    for _ = 1, 4 do
      p:get("b"):grad():fill_(1)
      optimizer:step { rate = 1e-4 }
    end
    assert.is_true(math.abs(p:master("b"):totable()[1] - (1 - 4e-4)) < 1e-6)
    assert.equal(1, p:get("b"):to("f32"):totable()[1])
  end)

  for _, kind in ipairs { "adamw", "lamb" } do
    it("stay the masters rounded, frozen or not, whoever wrote to a master, with " .. kind, function()
      local p = new()
      local optimizer = sr.optim[kind](p, { groups = { { match = "^b$", frozen = true } } })
      p:master("b"):detach():fill_(0.1)
      for step = 1, 3 do
        for _, name in ipairs(p:names()) do p:get(name):grad():fill_(step) end
        optimizer:step { rate = 1e-2, clip = 1 }
        for _, name in ipairs(p:names()) do
          assert.equal(bytes(p:master(name):to(p:get(name):dtype())), bytes(p:get(name)), name)
        end
      end
      assert.equal(bytes(sr.full({ 3 }, 0.1)), bytes(p:master("b")))
      assert.not_equal(bytes(new():master("w")), bytes(p:master("w")))
    end)
  end

  it("are saved as masters, and loaded in either precision", function()
    local p, folder = new(), program.folder()
    local path = assert(sr.checkpoint.save(folder, { step = 1, model = p }))
    local plain, low = sr.params.new(SPECS), sr.params.new(SPECS, { precision = "bf16" })
    for _, other in ipairs { plain, low } do
      assert(sr.checkpoint.load(path, { model = other }))
      for _, name in ipairs(p:names()) do assert.equal(bytes(p:master(name)), bytes(other:master(name))) end
    end
    assert.equal(bytes(p:get("w")), bytes(low:get("w")))
    sys.remove(folder)
  end)

  it("are refused under another name and on ref", function()
    fails("params: precision must be one of f32, bf16, got 'fp16'", sr.params.new, SPECS, { precision = "fp16" })
    fails("keep is 'bf16'", sr.params.new, { { name = "w", shape = { 3 }, keep = "bf16" } })
    sr.use("ref")
    local good, message = pcall(new)
    sr.use("cpu")
    assert.is_false(good)
    assert.truthy(message:find("ref does not compute in bf16", 1, true), message)
  end)
end)

describe("a BERT in bf16", function()
  on_cpu()
  local input = support.input()
  local function tiny(precision, dropout)
    local config = json.decode(assert(sys.read_file(TINY .. "config.json")))
    config.hidden_dropout_prob, config.attention_probs_dropout_prob = dropout or 0, dropout or 0
    config.precision = precision
    local bert = sr.nn.bert(config)
    assert(sr.checkpoint.load(TINY, { model = bert.params }))
    return bert
  end

  ---Batches of these numbers of sequences that make one update.
  local function cut(sizes, options) return support.cut(input, sizes, options) end

  local function measure(bert, batches)
    local found = support.measure(bert, batches)
    return found.total, found.gradients
  end

  local ROUNDING = 2 ^ -8
  local ALONE = { 1, 1, 1, 1, 1, 1, 1, 1 }

  it("is the f32 one but for rounding", function()
    local total, gradients = measure(tiny("f32"), cut { #input })
    local low, rounded = measure(tiny("bf16"), cut { #input })
    assert.is_true(math.abs(low - total) <= ROUNDING * total, ("%g and %g"):format(low, total))
    assert.is_nil(support.differ(rounded, gradients, 8 * ROUNDING)) -- a handful of roundings on the way
  end)

  ---The last hidden states of all sequences, one after another.
  local function hidden(bert, batches)
    local rows = {}
    for _, batch in ipairs(batches) do
      local x, owned = bert:encode(batch), {}
      assert.equal("bf16", x:dtype())
      for i, owner in ipairs(batch.layout:owners()) do
        if owner >= 0 then owned[#owned + 1] = i - 1 end
      end
      rows[#rows + 1] = bytes(sr.ops.gather_rows(x, sr.tensor(owned, { dtype = "i32" })))
    end
    return table.concat(rows)
  end

  for _, dropout in ipairs { 0, 0.1 } do
    it(("gives the same bits packed, padded and alone, dropout %g"):format(dropout), function()
      local bert = tiny("bf16", dropout)
      local alone = hidden(bert, cut(ALONE))
      assert.is_true(alone == hidden(bert, cut { #input }))
      assert.is_true(alone == hidden(bert, cut({ #input }, { slots = 64, rows = 512 })))
    end)

    it(("gives gradients that differ by their last roundings, dropout %g"):format(dropout), function()
      local bert = tiny("bf16", dropout)
      local total, gradients = measure(bert, cut(ALONE))
      for _, other in ipairs { cut { #input }, cut({ #input }, { slots = 64, rows = 512 }), cut { 3, 3, 2 } } do
        local again, others = measure(bert, other)
        assert.is_true(math.abs(again - total) <= 1e-5 * total)
        assert.is_nil(support.differ(others, gradients, 1e-5)) -- sums over rows are f32
      end
    end)
  end

  it("recomputes layers bit for bit", function()
    local bert = tiny("bf16", 0.1)
    local total, gradients = measure(bert, cut { #input })
    bert.recompute = true
    local again, recomputed = measure(bert, cut { #input })
    assert.equal(total, again)
    assert.is_nil(support.differ(recomputed, gradients, 0))
  end)

  it("recomputes a tensor that is used three times bit for bit", function()
    local w = sr.randn({ 6, 6 }, { seed = 3 }):to("bf16"):requires_grad_()
    local function block(x) return sr.ops.linear(x, w) + x * 0.3 + x:tanh() * 0.7 end
    local function gradient(run)
      w:zero_grad()
      local x = sr.randn({ 9, 6 }, { seed = 4 }):to("bf16"):requires_grad_()
      run(block, x:exp()):to("f32"):square():sum():backward()
      return bytes(x:grad()) .. bytes(w:grad())
    end
    assert.is_true(gradient(function(fn, x) return fn(x) end) == gradient(sr.ops.recompute))
  end)
end)

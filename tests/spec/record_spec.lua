-- Ops written in Lua, recomputation, and failing allocations.

local sr = require("seqrun")
local core = require("seqrun.core.tensor")
local devices = require("tests.support.devices")

local each_device, fails = devices.each(it), devices.fails

describe("ops.custom", function()
  local square = sr.ops.custom {
    forward = function(context, x)
      context:save(x)
      return x * x
    end,
    backward = function(context, dy) return dy * context:saved() * 2 end,
  }

  each_device("behaves like a built-in op", function()
    local x = sr.tensor({ 2, 3 }, { requires_grad = true })
    ;(square(x * 2) + 1):sum():backward()
    assert.same({ 16.0, 24.0 }, x:grad():totable())
  end)

  each_device("rejects a saved tensor that was modified, and says where", function()
    local x = sr.tensor({ 2, 3 })
    local y = square(x:detach():requires_grad_()):sum()
    x:add_(1)
    fails("save a clone() of it", y.backward, y)
  end)

  each_device("reports an error in backward, and a gradient of the wrong shape", function()
    local broken = sr.ops.custom {
      forward = function(_, x) return x * 1 end,
      backward = function() error("no way back") end,
    }
    local wrong = sr.ops.custom {
      forward = function(_, x) return x * 1 end,
      backward = function(_, dy) return dy:sum() end,
    }
    local x = sr.tensor({ 2, 3 }, { requires_grad = true })
    local y, z = broken(x):sum(), wrong(x):sum()
    fails("no way back", y.backward, y)
    fails("gradient 1 must be real and have the shape", z.backward, z)
  end)

  each_device("refuses functions that return nothing, and a forward that changes its input", function()
    local function op(forward, backward) return sr.ops.custom { forward = forward, backward = backward } end
    local function double(_, x) return x * 2 end
    local x = sr.tensor({ 2, 3 }, { requires_grad = true })
    local y = op(double, function() end)(x):sum()
    fails("record_spec.lua:50) returned nothing; return a gradient for each", y.backward, y)
    op(double, function() return nil end)(x):sum():backward() -- none is needed
    assert.is_nil(x:grad())
    y = op(function(_, a, b) return a * b end, double)(x, x * 3):sum()
    fails("returned 1 of 2 gradients; return", y.backward, y)
    fails("returned nothing; return a tensor", op(function() end, double), x)
    fails("logits (2) and labels (1) must have one shape", sr.ops.binary_cross_entropy, x, sr.zeros(1))
    fails("labels are from -3 to 5; expected 0 and 1", sr.ops.binary_cross_entropy, x, sr.tensor { 5, -3 })
    fails("changes its tensor argument 1 in place; work on x:clone()",
      op(function(_, a) return a:mul_(2) end, double), x:detach())
  end)

  each_device("has several inputs and outputs", function()
    local both = sr.ops.custom {
      forward = function(_, a, k, b) return a + b, a * k end,
      backward = function(_, dsum, dscaled) return dsum and dscaled and dsum + dscaled * 10 or dsum, dsum end,
    }
    local a = sr.tensor({ 1, 2 }, { requires_grad = true })
    local b = sr.tensor({ 3, 4 }, { requires_grad = true })
    local sum, scaled = both(a, 10, b)
    assert.same({ 10.0, 20.0 }, scaled:totable())
    ;(sum + scaled):sum():backward()
    assert.same({ 11.0, 11.0 }, a:grad():totable())
    assert.same({ 1.0, 1.0 }, b:grad():totable())
    b:zero_grad()
    both(a, 10, b):sum():backward()
    assert.same({ 1.0, 1.0 }, b:grad():totable())
  end)

  it("leaks nothing if backward never runs", function()
    collectgarbage()
    local before = sr.memory().used
    for _ = 1, 10 do
      local x = sr.tensor({ 2, 3 }, { requires_grad = true })
      square(square(x))
    end
    collectgarbage()
    collectgarbage()
    assert.equal(before, sr.memory().used)
  end)
end)

it("gradcheck accepts a correct gradient, and names the element of a wrong one that differs", function()
  local before = sr.device()
  sr.use("ref")
  local x = sr.tensor({ 2, 3 }, { requires_grad = true })
  local wrong = sr.ops.custom {
    forward = function(_, a) return a * a end,
    backward = function(_, dy) return dy * sr.tensor { 4, 5 } end,
  }
  local good, message = sr.gradcheck(function(a) return wrong(a):sum() end, { x })
  local right = sr.gradcheck(function(a) return a:square():sum() end, { x })
  sr.use(before)
  assert.is_nil(good)
  assert.equal("gradcheck: input 1, element 2: backward gives 5, differences give 6", message)
  assert.is_true(right)
end)

it("gradcheck rejects f32 unless a tolerance is given", function()
  local x = sr.tensor({ 2, 3 }, { requires_grad = true, device = "cpu" })
  local function square(a) return a:square():sum() end
  fails('make it on ref (sr.use("ref"))', sr.gradcheck, square, { x })
  assert.is_true(sr.gradcheck(square, { x }, { eps = 1e-2, tolerance = 1e-3 }))
end)

describe("ops.recompute", function()
  local layout = core.layout { lens = { 5, 3 }, uids = { 11, 12 }, rows = 10, seed = 9 }

  ---Two linear maps with dropout in between.
  local function block(w1, w2)
    return function(x)
      local h = sr.ops.linear(x, w1, nil, { act = "gelu" })
      return sr.ops.linear(sr.ops.dropout(h, layout, { p = 0.5, layer = 1 }), w2)
    end
  end

  each_device("gives the same bits as keeping everything", function()
    local results = {}
    for _, wrapped in ipairs { false, true } do
      local w1 = sr.randn({ 16, 8 }, { uid = 1, requires_grad = true })
      local w2 = sr.randn({ 8, 16 }, { uid = 2, requires_grad = true })
      local x = sr.randn({ 10, 8 }, { uid = 3, requires_grad = true })
      local fn = block(w1, w2)
      local y = wrapped and sr.ops.recompute(fn, x * 1) or fn(x * 1)
      y:square():sum():backward()
      local list = { y:tostring_bytes() }
      for _, t in ipairs { x, w1, w2 } do list[#list + 1] = t:grad():tostring_bytes() end
      results[#results + 1] = table.concat(list, "|")
    end
    assert.is_true(results[1] == results[2])
  end)

  each_device("saves no inner tensors", function(device)
    local w1 = sr.randn({ 1024, 8 }, { uid = 1, requires_grad = true })
    local w2 = sr.randn({ 8, 1024 }, { uid = 2, requires_grad = true })
    local x = sr.randn({ 10, 8 }, { uid = 3, requires_grad = true })
    local before = sr.memory(device).used
    local y = sr.ops.recompute(block(w1, w2), x)
    assert.is_true(sr.memory(device).used - before < 10 * 1024)
    y:sum():backward()
  end)

  each_device("gives gradients to parameters even if its argument needs none", function()
    local w1 = sr.randn({ 16, 8 }, { uid = 1, requires_grad = true })
    local w2 = sr.randn({ 8, 16 }, { uid = 2, requires_grad = true })
    sr.ops.recompute(block(w1, w2), sr.randn({ 10, 8 }, { uid = 3 })):sum():backward()
    assert.is_truthy(w1:grad())
  end)

  each_device("nests", function()
    local w1 = sr.randn({ 16, 8 }, { uid = 1, requires_grad = true })
    local w2 = sr.randn({ 8, 16 }, { uid = 2, requires_grad = true })
    local fn = block(w1, w2)
    local x = sr.randn({ 10, 8 }, { uid = 3, requires_grad = true })
    sr.ops.recompute(function(a) return fn(sr.ops.recompute(fn, a)) end, x):sum():backward()
    local got = x:grad():tostring_bytes()
    x:set_grad(nil)
    fn(fn(x)):sum():backward()
    assert.is_true(got == x:grad():tostring_bytes())
  end)
end)

each_device("a failed allocation anywhere raises an error and does no other harm", function(device)
  local fault = require("tests.support.fault")

  ---A pass with everything that allocates a userdata: layouts, scopes, ops in Lua, recomputation.
  local function pass()
    local scope <close> = sr.scope()
    local layout = core.layout { lens = { 3, 2 }, rows = 6, seed = 1 }
    local x = sr.randn({ 6, 12 }, { seed = 1, uid = 1, requires_grad = true })
    local half = sr.ops.custom {
      forward = function(context, a)
        context:save(a)
        return a * 0.5
      end,
      backward = function(_, dy) return dy * 0.5 end,
    }
    local y = sr.ops.recompute(function(a) return half(sr.ops.attention(a, layout, { heads = 2 })) end, x)
    local loss = sr.cat { y[1], sr.where(y:gt(0), y, 0):sum(1) }:sum() + x:max()
    loss:backward()
    return x:grad():totable(), sr.tensor { { 1, 2 }, { 3, 4 } }:totable()
  end

  pass()
  collectgarbage()
  local before, n, good = sr.memory(device).used, 0, false
  while not good and n < 20000 do
    n = n + 1 + n // 40
    fault.memory(n)
    good = pcall(pass)
    fault.memory(0)
    collectgarbage()
    assert.equal(before, sr.memory(device).used)
    assert.is_true(core.recording())
  end
  assert.is_true(good)
end)

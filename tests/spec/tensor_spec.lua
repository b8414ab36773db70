-- Tensors as handles: scopes, views, broadcasting, dtypes, the tape, and error messages.

local sr = require("seqrun")
local core = require("seqrun.core.tensor")

local devices = require("tests.support.devices")

devices.late()

local each_device, fails = devices.each(it), devices.fails

describe("a scope", function()
  each_device("releases the tensors created in it", function(device)
    local before = sr.memory(device).used
    local x
    do
      local scope <close> = sr.scope()
      x = sr.ones(100, 100)
      assert.is_true(sr.memory(device).used > before)
    end
    assert.equal(before, sr.memory(device).used)
    assert.is_false(x:is_live())
    fails("has expired because its scope was closed", x.sum, x)
  end)

  each_device("spares tensors that were kept", function()
    local x
    do
      local scope <close> = sr.scope()
      x = (sr.ones(3) * 2):keep()
    end
    assert.same({ 2.0, 2.0, 2.0 }, x:totable())
  end)

  each_device("can pass a tensor to the enclosing scope", function()
    local x
    do
      local scope <close> = sr.scope()
      do
        local scope <close> = sr.scope() -- luacheck: ignore
        x = sr.ones(3):hand_up()
      end
      assert.is_true(x:is_live())
    end
    assert.is_false(x:is_live())
  end)

  each_device("closes the scopes opened inside it", function()
    local outer = sr.scope()
    local inner = sr.scope()
    local x = sr.ones(3)
    outer:close()
    assert.is_false(x:is_live())
    inner:close()
    outer:close()
  end)

  each_device("that is never closed expires nothing", function()
    local x
    do
      local forgotten = sr.scope() -- luacheck: ignore
      x = sr.ones(3)
    end
    collectgarbage()
    assert.same({ 1.0, 1.0, 1.0 }, x:totable())
  end)

  each_device("lets a loop of fixed shapes allocate nothing after its first iteration", function(device)
    local w = sr.randn({ 64, 64 }, { seed = 1, uid = 1, requires_grad = true })
    local function turn()
      local scope <close> = sr.scope()
      local x = sr.randn({ 32, 64 }, { seed = 2, uid = 2 })
      sr.ops.linear(x, w, nil, { act = "gelu" }):sum():backward()
    end
    turn()
    turn()
    local before = sr.memory(device)
    for _ = 1, 20 do turn() end
    local after = sr.memory(device)
    assert.equal(before.allocations, after.allocations)
    assert.equal(before.used, after.used)
    assert.equal(before.held, after.held)
  end)

  each_device("closes when an error exits its block", function(device)
    local before = sr.memory(device).used
    pcall(function()
      local scope <close> = sr.scope()
      local x = sr.ones(1000)
      x:reshape(7)
    end)
    assert.equal(before, sr.memory(device).used)
  end)
end)

describe("without a scope", function()
  local function outside(body)
    return function()
      local device = sr.device()
      for _, name in ipairs(sr.devices()) do
        sr.use(name)
        body(name)
      end
      sr.use(device)
    end
  end

  it("release frees memory at once", outside(function(device)
    collectgarbage()
    local before = sr.memory(device).used
    local x = sr.ones(1000)
    local y = x:reshape(10, 100)
    x:release()
    assert.is_true(sr.memory(device).used > before)
    y:release()
    assert.equal(before, sr.memory(device).used)
    fails("was released", x.sum, x)
    x:release()
  end))

  it("the collector is driven by the memory of tensors", outside(function(device)
    collectgarbage()
    local before = sr.memory(device).used
    for _ = 1, 200 do sr.empty(1 << 17) end -- 200 tensors of 512 KiB or more
    assert.is_true(sr.memory(device).used - before < 64 << 20)
  end))

  it("the collector is driven by all devices, not by the current one alone", outside(function(device)
    for _, other in ipairs(sr.devices()) do
      collectgarbage()
      local before = sr.memory(other).used
      for _ = 1, 200 do sr.empty(1 << 17, { device = other }) end
      assert.is_true(sr.memory(other).used - before < 64 << 20, other .. " beside " .. device)
    end
  end))

  ---The test that nothing of what a function makes stays after it.
  local function freed(body)
    return outside(function(device)
      collectgarbage()
      local before = sr.memory(device).used
      body()
      collectgarbage()
      collectgarbage()
      assert.equal(before, sr.memory(device).used)
    end)
  end

  it("handles may be collected in any order", freed(function()
    local x = sr.randn({ 4, 4 }, { uid = 3, requires_grad = true })
    local y = x:t():reshape(16):narrow(1, 3, 5)
    local loss = (y * y):sum()
    x, y = nil, nil -- luacheck: ignore 311
    collectgarbage()
    loss:backward()
  end))

  it("a gradient computed from its own tensor is freed with it", freed(function()
    local x = sr.ones(1000, { requires_grad = true })
    x:set_grad(x * 2)
  end))

  it("a graph of a hundred thousand ops is freed without a deep stack", outside(function(device)
    collectgarbage()
    local before = sr.memory(device).used
    local x = sr.ones(1, { requires_grad = true })
    local y = x
    for _ = 1, 100000 do
      local next_y = y + 1
      if not rawequal(y, x) then y:release() end
      y = next_y
    end
    y:release()
    x:release()
    assert.equal(before, sr.memory(device).used)
  end))
end)

describe("views", function()
  each_device("share the memory of their tensor", function()
    local x = sr.zeros(3, 4)
    x:t()[2]:fill_(7)
    assert.same({ { 0.0, 7.0, 0.0, 0.0 }, { 0.0, 7.0, 0.0, 0.0 }, { 0.0, 7.0, 0.0, 0.0 } }, x:totable())
    assert.is_true(x:same_storage(x:narrow(1, 2, 2)))
    assert.is_false(x:same_storage(x:clone()))
  end)

  each_device("count from 1, and from the end with -1", function()
    local x = sr.arange(1, 12):reshape(3, 4)
    assert.same({ 9.0, 10.0, 11.0, 12.0 }, x[-1]:totable())
    assert.same({ 2.0, 6.0, 10.0 }, x:select(-1, 2):totable())
    assert.same({ { 3.0, 4.0 }, { 7.0, 8.0 } }, x:narrow(1, 1, 2):narrow(2, 3, 2):totable())
    assert.same({ 3, 4 }, x:shape())
    assert.equal(4, x:size(-1))
    assert.same({ 4, 3 }, x:permute(2, 1):shape())
  end)

  each_device("reshape if strides allow, else copy", function()
    local x = sr.arange(1, 24):reshape(2, 3, 4)
    assert.is_true(x:reshape(6, 4):same_storage(x))
    assert.is_true(x:transpose(1, 2):reshape(3, 2, 2, 2):same_storage(x))
    assert.is_false(x:transpose(1, 2):reshape(6, 4):same_storage(x))
    fails("use reshape(), which copies", function() x:transpose(1, 2):view(24) end)
    assert.same(x:transpose(1, 2):contiguous():reshape(24):totable(), x:transpose(1, 2):reshape(24):totable())
    assert.same({ 4, 6 }, x:reshape(4, -1):shape())
    assert.same({ 1, 2, 1, 3, 4, 1 }, x:reshape(1, 2, 1, 3, 4, 1):shape())
    assert.same({ 2, 3, 4 }, x:reshape(1, 2, 1, 3, 4, 1):squeeze():shape())
    assert.same({ 2, 1, 3, 4 }, x:unsqueeze(2):shape())
    assert.same({ 2, 3, 4, 1 }, x:unsqueeze(-1):shape())
  end)

  each_device("expand without copying", function()
    local x = sr.tensor { { 1 }, { 2 } }
    local y = x:expand(2, 3)
    assert.is_true(y:same_storage(x))
    assert.same({ { 1.0, 1.0, 1.0 }, { 2.0, 2.0, 2.0 } }, y:totable())
    fails("only sizes of 1 can be expanded", y.expand, y, 2, 5)
  end)

  each_device("can be empty", function()
    local x = sr.zeros(0, 5)
    assert.equal(0, x:numel())
    assert.same({ 0, 5 }, (x + 1):shape())
    assert.equal(0, x:sum():item())
    assert.same({ 5, 0 }, x:t():shape())
    assert.same({ 0, 3 }, x:matmul(sr.ones(5, 3)):shape())
    assert.same({ 5, 0 }, sr.zeros(5, 0):add_(1):fill_(2):shape())
  end)
end)

describe("arithmetic", function()
  each_device("broadcasts from the last dimension", function()
    local x = sr.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    assert.same({ { 11.0, 22.0, 33.0 }, { 14.0, 25.0, 36.0 } }, (x + sr.tensor { 10, 20, 30 }):totable())
    assert.same({ { 1.0, 2.0, 3.0 }, { 8.0, 10.0, 12.0 } }, (x * sr.tensor { { 1 }, { 2 } }):totable())
    assert.same({ { 0.0, -1.0, -2.0 }, { -3.0, -4.0, -5.0 } }, (1 - x):totable())
  end)

  each_device("keeps integers, and divides them to reals", function()
    local i = sr.tensor({ 5, -7 }, { dtype = "i32" })
    assert.equal("i32", (i + 2):dtype())
    assert.same({ 7, -5 }, (i + 2):totable())
    assert.same({ 2.5, -3.5 }, (i / 2):totable())
    assert.same({ 5.5, -6.5 }, (i + 0.5):totable())
    assert.equal("i32", i:sum():dtype())
    assert.equal(-1.0, i:mean():item())
    assert.same({ true, false }, i:gt(0):totable())
    assert.equal(1, i:gt(0):sum():item())
  end)

  each_device("refuses a sum of integers that does not fit i32", function(device)
    if device ~= "cpu" and device ~= "ref" then return end -- elsewhere nothing waits for the value
    local x = sr.full({ 2, 3 }, 1 << 30, { dtype = "i32" })
    fails("sum: the sum 6442450944 of i32 does not fit i32", x.sum, x)
    fails("sum: the sum 2147483648 of i32 does not fit i32", x.sum, x, 1)
    fails("cumsum: a sum of i32 does not fit i32", x.cumsum, x, 1)
    assert.equal(2147483646, sr.tensor({ 2147483647, 5, -5, -1 }, { dtype = "i32" }):sum():item())
    assert.equal(-2147483648, sr.full({ 70000, 2 }, -(1 << 29), { dtype = "i32" }):narrow(1, 1, 2):sum():item())
  end)

  each_device("compares whole tensors by equal(), and refuses ==", function(device)
    local x, y = sr.tensor { 1, 2 }, sr.tensor { 1, 2 }
    assert.is_true(x:equal(y))
    assert.is_false(x:equal(y + 1))
    assert.is_false(x:equal(sr.tensor { { 1, 2 } }))
    assert.is_true(rawequal(x, x) and x == x)
    fails("tensors cannot be compared with == or ~=; use a:equal(b)", function() return x == y end)
    fails("use a:equal(b)", function() return x ~= y end)
    assert.is_false(x == sr.device(device) or x == io.stdout)
  end)

  each_device("converts between dtypes", function(device)
    local x = sr.tensor { 1.75, -2.5, 3.14159 }
    assert.same({ 1, -2, 3 }, x:to("i32"):totable())
    assert.same({ 1.75, -2.5, 3.140625 }, x:to("bf16"):totable())
    assert.same({ true, true, false }, sr.tensor({ 1, -1, 0 }):to("bool"):totable())
    assert.equal("bf16", x:to("bf16"):dtype())
    for _, other in ipairs(sr.devices()) do
      local there = x:to(other)
      assert.equal(other, there:device())
      assert.equal(device, there:to(device):device())
      assert.is_true(math.abs(there[3]:item() - 3.14159) < 1e-6)
    end
  end)

  each_device("in place keeps the storage and increments its version", function()
    local x = sr.ones(2, 3)
    local before = x:version()
    x:add_(2):mul_(sr.tensor { 1, 2, 3 })
    assert.same({ { 3.0, 6.0, 9.0 }, { 3.0, 6.0, 9.0 } }, x:totable())
    assert.equal(before + 2, x:version())
    x:copy_(sr.tensor { 7, 8, 9 })
    assert.same({ 7.0, 8.0, 9.0 }, x[2]:totable())
    local square = sr.tensor { { 1, 2 }, { 3, 4 } }
    square:add_(square:t())
    assert.same({ { 2.0, 5.0 }, { 5.0, 8.0 } }, square:totable())
    fails("whose shape cannot change in place", sr.ones(3).add_, sr.ones(3), x)
  end)

  each_device("reads and writes bytes", function()
    local bytes = string.pack("<i4i4i4", 1, -2, 300)
    local x = sr.from_string(bytes, { 3 }, "i32")
    assert.same({ 1, -2, 300 }, x:totable())
    assert.equal(bytes, x:tostring_bytes())
    fails("got 8 bytes; the tensor needs 12", sr.from_string, ("x"):rep(8), { 3 }, "i32")
  end)

  each_device("draws the same numbers for the same key, in any shape", function()
    local x = sr.randn({ 1000 }, { seed = 5, uid = 1 })
    assert.equal(x:tostring_bytes(), sr.randn({ 10, 100 }, { seed = 5, uid = 1 }):tostring_bytes())
    assert.are_not.equal(x:tostring_bytes(), sr.randn({ 1000 }, { seed = 5, uid = 2 }):tostring_bytes())
    assert.is_true(math.abs(x:mean():item()) < 0.15) -- standard deviation of the mean: 0.03
    assert.equal(x:tostring_bytes(), sr.randn(10, 100, { seed = 5, uid = 1 }):tostring_bytes())
    local u = sr.rand({ 1000 }, { seed = 5, uid = 1 })
    assert.is_true(u:min():item() >= 0 and u:max():item() < 1)
  end)

  each_device("draws other numbers at each call without a key, the same again from manual_seed on", function()
    local function draws(seed)
      sr.manual_seed(seed)
      local list = { sr.randn(3), sr.randn(3), sr.rand(3), sr.zeros(3):normal_(), sr.zeros(3):uniform_(0, 1, {}) }
      for i, t in ipairs(list) do list[i] = t:tostring_bytes() end
      return list
    end
    local first, seen = draws(7), {}
    for _, bytes in ipairs(first) do
      assert.is_nil(seen[bytes])
      seen[bytes] = true
    end
    local keyed = sr.randn({ 3 }, { seed = 7 }):tostring_bytes()
    assert.same(first, draws(7))
    assert.are_not.same(first, draws(8))
    assert.is_nil(seen[keyed])
    assert.equal(keyed, sr.randn({ 3 }, { seed = 7, uid = 0 }):tostring_bytes())
  end)
end)

describe("the tape", function()
  each_device("separates the gradients of sums with a common term", function()
    local leaf = {}
    local function term(i)
      leaf[i] = sr.tensor({ i, i }, { requires_grad = true })
      return leaf[i] * 1
    end
    local a, b, c = term(1), term(2), term(3)
    local loss = ((a + b) * sr.tensor { 1, 2 } + (a + c) * sr.tensor { 10, 20 }):sum()
    loss:backward()
    for i, wanted in ipairs { { 11, 22 }, { 1, 2 }, { 10, 20 } } do assert.same(wanted, leaf[i]:grad():totable()) end
  end)

  each_device("adds up a tensor that was used many times", function()
    local x = sr.tensor({ 2, 3 }, { requires_grad = true })
    local y = x * x + x
    ;(y + y * x):sum():backward() -- x^3 + 2 x^2 + x
    assert.same({ 3 * 4 + 4 * 2 + 1.0, 3 * 9 + 4 * 3 + 1.0 }, x:grad():totable())
  end)

  each_device("accumulates gradients until zero_grad", function()
    local x = sr.tensor({ 2, 3 }, { requires_grad = true })
    x:square():sum():backward()
    x:square():sum():backward()
    assert.same({ 8.0, 12.0 }, x:grad():totable())
    x:zero_grad()
    assert.same({ 0.0, 0.0 }, x:grad():totable())
  end)

  each_device("fills a gradient that was set beforehand", function()
    local store = sr.zeros(10)
    local w = sr.ones(2, 3, { requires_grad = true })
    w:set_grad(store:narrow(1, 3, 6):view(2, 3))
    sr.ops.linear(sr.tensor { { 1, 2, 3 } }, w):sum():backward()
    assert.same({ 0.0, 0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 0.0, 0.0 }, store:totable())
  end)

  each_device("can be used once, or again with retain", function()
    local x = sr.tensor({ 2 }, { requires_grad = true })
    local y = x:square():sum()
    y:backward({ retain = true })
    y:backward()
    assert.same({ 8.0 }, x:grad():totable())
    fails("{ retain = true }", y.backward, y)
  end)

  each_device("takes a gradient for a result of many elements", function()
    local x = sr.tensor({ 2, 3 }, { requires_grad = true })
    local y = x * 3
    fails("is not a scalar loss", y.backward, y)
    fails("must have the shape", y.backward, y, sr.ones(3))
    y:backward(sr.tensor { 1, 10 })
    assert.same({ 3.0, 30.0 }, x:grad():totable())
  end)

  each_device("rejects a saved tensor that was modified", function()
    local x = sr.tensor({ 2, 3 }, { requires_grad = true })
    local y = x:detach():clone()
    local z = (x * y):sum()
    y:add_(1)
    fails("written to in place", z.backward, z)
    fails("requires a gradient", x.add_, x, 1)
    local h = x * 2
    fails("has a recorded history", h.add_, h, 1)
    local no_grad <close> = sr.no_grad()
    x:add_(1)
    assert.same({ 3.0, 4.0 }, x:totable())
  end)

  each_device("rejects a saved tensor whose scope was closed", function()
    local x = sr.tensor({ 2, 3 }, { requires_grad = true })
    local z
    do
      local scope <close> = sr.scope()
      z = ((x * 2):square()):sum():keep()
    end
    fails("has expired", z.backward, z)
  end)

  each_device("records nothing under no_grad", function()
    local x = sr.tensor({ 2, 3 }, { requires_grad = true })
    do
      local no_grad <close> = sr.no_grad()
      local y = x * 2
      assert.is_false(y:requires_grad())
      fails("check for no_grad()", y.backward, y)
      do
        local guard <close> = sr.enable_grad()
        assert.is_true((x * 2):requires_grad())
      end
      assert.is_false((x * 2):requires_grad())
    end
    assert.is_true((x * 2):requires_grad())
    assert.is_false(x:detach():requires_grad())
  end)

  each_device("crosses from device to device", function(device)
    for _, other in ipairs(sr.devices()) do
      local x = sr.tensor({ 2, 3 }, { requires_grad = true })
      local there = x:to(other)
      ;(there * there):sum():backward()
      assert.equal(device, x:grad():device())
      assert.same({ 4.0, 6.0 }, x:grad():totable())
    end
  end)

  each_device("keeps a gradient on the device of its tensor", function(device)
    for _, other in ipairs(sr.devices()) do
      if other ~= device then
        local x = sr.ones(3, { requires_grad = true })
        local y, there = x * 2, sr.ones(3):to(other)
        fails("set_grad: the gradient is (3)", x.set_grad, x, there)
        fails("it must have the shape and dtype of (3)", y.backward, y, there)
        local moved = sr.ops.custom {
          forward = function(_, a) return a:to(other) end,
          backward = function(_, dy) return dy end,
        }
        fails("move it with to() first", moved, x)
      end
    end
  end)

  each_device("frees memory during backward", function(device)
    local w = sr.randn({ 256, 256 }, { uid = 1, requires_grad = true })
    local x = sr.randn({ 256, 256 }, { uid = 2 })
    for _ = 1, 20 do
      local next_x = sr.ops.linear(x, w, nil, { act = "tanh" })
      x:release()
      x = next_x
    end
    local loss = x:sum()
    x:release()
    local held = sr.memory(device).used
    loss:backward()
    assert.is_true(sr.memory(device).used < held / 4)
  end)
end)

describe("an error", function()
  ---The line of this file that a message names.
  local function line_of(fn)
    local _, message = pcall(fn)
    return tonumber(tostring(message):match("tensor_spec%.lua:(%d+):")), message
  end

  each_device("is reported at the caller's line, with the arguments and a remedy", function()
    local x = sr.ones(2, 3)
    local mistakes = {
      { function() local _ = x + sr.ones(4) end, "(2, 3)" },
      { function() local _ = sr.ops.linear(x, sr.ones(4, 5)) end, "linear: x is (2, 3)" },
      { function() local _ = x:matmul(x) end, "(..., m, k) by (..., k, n)" },
      { function() local _ = sr.tensor { { 1, 2 }, { 3 } } end, "differ in length" },
      { function() local _ = sr.zeros(2, 3, { dtyp = "f32" }) end, "dtype" },
      { function() local _ = sr.ops.linear(x, x, nil, { activation = "gelu" }) end, "unknown option 'activation'" },
      { function() local _ = sr.ops.attention(x, core.layout { lens = { 5 } }, { heads = 1 }) end, "pass the layout" },
      { function() local _ = sr.ops.linear(nil, x) end, "linear: argument 1: expected a tensor, got nil" },
      { function() local _ = sr.ops.attention(x, 3, { heads = 1 }) end, "argument 2: expected a layout" },
      { function() local _ = sr.zeros(2.5, 3) end, "sizes must be integers" },
      { function() local _ = x:sum(4) end, "sum: argument 1: dimension 4 is out of range" },
      { function() local _ = x.sum(4) end, "expected a tensor, got number" },
      { function() local _ = sr.zeros(2, { dtype = "f16" }) end, "zeros: dtype must be one of f64, f32, bf16" },
      { function() local _ = x + {} end, "a live tensor or number" },
      { function() local _ = x:item() end, "use totable()" },
      { function() local _ = sr.from_string("abc", { 2 }, "i32") end, "got 3 bytes" },
      { function() local _ = sr.cat { x, sr.ones(3, 4) } end, "equal sizes" },
      { function() local _ = sr.cat { x, 3 } end, "element 2 of the list is a number" },
      { function() local _ = sr.randn(2, 3.5) end, "sizes must be integers" },
      { function() local _ = sr.randn({ 2, 3 }, 5) end, "randn: options must be a table, got 5" },
      { function() local _ = sr.tensor({ { 1, 2 ^ 31 }, { 1.9, 2 } }, { dtype = "i32" }) end,
        "tensor: element [1][2] is 2147483648.0, but i32 has whole numbers from -2147483648 to 2147483647" },
      { function() local _ = sr.tensor(0 / 0, { dtype = "i32" }) end, "tensor: the value is " },
      { function() local _ = sr.arange(0, 1, 0.5, { dtype = "i32" }) end, "tensor: element [2] is 0.5" },
      { function() local _ = sr.full({ 2 }, -2 ^ 31 - 1, { dtype = "i32" }) end, "full: the value is -2147483649.0" },
      { function() sr.zeros(2, { dtype = "i32" }):fill_(0.5) end, "fill_: the value is 0.5" },
      { function() sr.zeros(2, { dtype = "i32" })[1]:copy_(1.5) end, "copy_: the value is 1.5" },
      { function() sr.zeros(2, { dtype = "i32" }):add_(1.9) end, "has another dtype" },
      { function() local _ = sr.zeros(0):std() end, "std: 0 values are too few for correction = 1; use std(" },
      { function() local _ = sr.tensor({ 1 }, "i32") end, "tensor: options must be a table, got 'i32'" },
      { function() local _ = sr.arange(5) end, "expected the first and the last number" },
      { function() local _ = x[3] end, "select: position 3 of dimension 1 is out of range" },
      { function() local _ = x[-3] end, "select: position -3 of dimension 1 is out of range" },
      { function() local _ = x:select(1, -3) end, "select: position -3 of dimension 1 is out of range" },
      { function() local _ = x:select(2, 0) end, "select: position 0 of dimension 2 is out of range" },
      { function() local _ = x:select(1, math.mininteger) end, "of dimension 1 is out of range" },
      { function() local _ = x[1.5] end, "index must be an integer, got 1.5" },
      { function() local _ = x[{ 1 }] end, "index must be an integer, got a table; narrow() takes a range" },
      { function() local _ = x:sofmax() end, "has no 'sofmax'; did you mean 'softmax'?" },
      { function() x[1] = 7 end, "write in place with t[i]:fill_(number)" },
      { function() local _ = x:to("int") end, "to: 'int' is neither a dtype" },
      { function() local _ = x:uniform_(0, 1, { sead = 1 }) end, "uniform_: unknown option 'sead'; did" },
      { function() local _ = x:expand(1 << 40, 1 << 40, 2, 3) end, "2^63 elements" },
      { function() x[1]:expand(5, 3):add_(1) end, "write to a clone() of it" },
      { function() x[1]:expand(5, 3):zero_() end, "write to a clone() of it" },
      { function() x:set_grad(sr.ones(3, 2)) end, "set_grad: the gradient is (3, 2)" },
      { function() x:set_grad(x:to("bf16")) end, "set_grad: the gradient is (2, 3) bf16" },
      { function() x:set_grad(x[1]:expand(2, 3)) end, "an expanded view" },
      { function() local _ = sr.ops.attention(x, core.layout { lens = { 2 } }) end, "'heads' is missing" },
      { function() local _ = sr.ops.embed(x, x, x) end, "embed: tables must be" },
      { function() local _ = sr.ops.linear(x, x, nil, { act = "gelus" }) end, "act is gelus; use one of: none, gelu" },
      { function() local _ = sr.layout { lens = { 3 }, row = 4 } end, "layout: unknown option 'row'; did you" },
      { function() sr.use("cpu", { thread = 2 }) end, "unknown option 'thread'" },
      { function() local _ = sr.full(2, 1) end, "as in full({ 2, 3 }, 1)" },
      { function() local _ = sr.randn { 3, 4, seed = 1 } end, "as in randn({ 3, 4 }, { seed = ... })" },
      { function() local _ = sr.full({ 3, dtype = "i32" }, 1) end, "as in full({ 3, 4 }, 1, { dtype = ... })" },
      { function() local _ = sr.arange(1, 1e12) end, "arange: 1000000000000 numbers are too many" },
      { function() local _ = sr.ones(1):to("i32"):one_hot(1e12) end, "one_hot: 1000000000000 classes are too many" },
      { function() local _ = x:sort(1, "ascending") end, "descending must be true or false, got 'ascending'" },
      { function() local _ = x:topk(1, 1, 1) end, "smallest must be true or false, got 1" },
      { function() local _ = sr.tensor({ 0, 3 }, { dtype = "i32" }):one_hot(3) end, "label 3 is not a class" },
      { function() local _ = sr.tensor({ -1 }, { dtype = "i32" }):one_hot(3) end, "label -1 is not a class" },
    }
    for _, mistake in ipairs(mistakes) do
      local line, message = line_of(mistake[1])
      local defined = debug.getinfo(mistake[1], "S").linedefined
      assert.equal(defined, line, tostring(message))
      assert.is_truthy(tostring(message):find(mistake[2], 1, true), tostring(message))
    end
  end)

  each_device("in a tail call names no line of seqrun's Lua files", function()
    local _, message = pcall(function() return sr.tensor { 1, "a" } end)
    assert.matches("^tests/spec/tensor_spec.lua:%d+: tensor: elements must be numbers, got string$", message)
  end)

  each_device("about ids, rows or labels out of range names the position", function()
    local x = sr.ones(2, 3)
    fails("is 2", sr.ops.gather_rows, x, sr.tensor({ 2 }, { dtype = "i32" }))
    fails("rows[1] is 7", sr.ops.put_rows, x, sr.tensor({ 0, 7 }, { dtype = "i32" }), x)
    fails("rows[1] is 0 again", sr.ops.put_rows, x, sr.tensor({ 0, 0 }, { dtype = "i32" }), x)
    local labels, weights = sr.tensor({ 0, 3 }, { dtype = "i32" }), sr.ones(2)
    fails("is 3", sr.ops.cross_entropy, x, labels, weights)
  end)
end)

each_device("a printed tensor has at most 40 lines, with its dtype and shape", function(device)
  for _, shape in ipairs { {}, { 0 }, { 3 }, { 5000 }, { 300, 300 }, { 3, 4, 5, 6 } } do
    local text = tostring(sr.randn(shape, { uid = 1 }))
    local _, lines = text:gsub("\n", "")
    assert.is_true(lines < 40 and #text < 4000)
    assert.is_truthy(text:find("on " .. device, 1, true))
  end
  assert.is_truthy(tostring(sr.tensor { 1, 0 / 0, 3 }):find("NaN"))
  assert.is_truthy(tostring(sr.tensor { true, false }):find("bool"))
  local x
  do
    local scope <close> = sr.scope()
    x = sr.ones(3)
  end
  assert.is_truthy(tostring(x):find("^tensor: .*, expired: its scope was closed$"))
end)

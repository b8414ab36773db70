-- Small ops of kernels/cuda beyond opcases.lua: sizes around vectors and blocks, unaligned views, ties and
-- NaN across blocks, duplicates, and the same bits every time.

local sr = require("seqrun")
local devices = require("tests.support.devices")
local versus = require("tests.support.versus")

devices.gpus()

local on, bytes, numbers, close = versus.on, versus.bytes, versus.numbers, versus.close
local noise, integers = versus.noise, versus.integers

local INTEGER = { dtype = "i32" }

for _, device in ipairs(sr.devices()) do
  ---A test on the devices of kernels/cuda.
  local function test(name, body)
    if device == "simt" or device:find("^cuda") then it(name, body) end
  end

  ---fn() gives the same bytes on the cpu and on the device.
  local function alike(fn) assert.is_true(on("cpu", fn) == on(device, fn)) end
  ---fn() gives close numbers.
  local function near(tolerance, fn) close(on("cpu", fn), on(device, fn), tolerance) end

  describe("small ops on " .. device .. ":", function()
    test("elements are the cpu's, whatever the size and the alignment", function()
      for _, n in ipairs { 0, 1, 3, 4, 5, 7, 8, 9, 31, 255, 1025, 4099 } do
        for _, dtype in ipairs { "f32", "bf16" } do
          alike(function()
            local x, y = noise(1, n + 3):to(dtype), noise(2, n + 3):to(dtype)
            local list = {}
            for _, first in ipairs { 1, 2, 4 } do
              local a, b = x:narrow(1, first, n), y:narrow(1, 4 - (first + 1) // 2, n)
              local less = a:lt(b)
              local done = { a + b, a * 0.5, less, sr.where(less, a, b), a:maximum(b), -a, a:to("f32"), a:to("bf16") }
              done[#done + 1] = less:logical_not()
              done[#done + 1] = y:clone():narrow(1, first, n):add_(a)
              list[#list + 1] = bytes(table.unpack(done))
            end
            return table.concat(list)
          end)
        end
      end
    end)

    test("broadcasts rows, columns, scalars and expanded views", function()
      alike(function()
        local x, row, column, one = noise(1, 6, 40), noise(2, 40), noise(3, 6, 1), noise(4)
        local wide = x:narrow(1, 2, 1):expand(6, 40)
        return bytes(x + row, x + column, x - one, one - x:t(), row + column, wide * x, x:to("bf16") * one,
          x:t():to("bf16") + row:to("bf16"):reshape(40, 1), x:reshape(2, 3, 40):permute(3, 1, 2) + one)
      end)
    end)

    test("conversions round, clamp and keep NaN as the cpu does", function()
      alike(function()
        local x = sr.tensor { 0.5, -0.5, 2.5, -7.9, 3e9, -3e9, 1 / 0, -1 / 0, 0, -0.0, 16777217, 1.00390625 }
        local i = sr.tensor({ 2147483647, -2147483648, 16777217, 0, -1 }, INTEGER)
        local nan = sr.tensor { 0 / 0 }
        return bytes(x:to("i32"), x:to("bool"), x:to("bf16"), x:to("bf16"):to("i32"), i:to("f32"), i:to("bf16"),
          i:to("bool"), i:to("bool"):to("f32"), nan:to("i32"), nan:to("bool"), nan:to("bf16"):ne(nan:to("bf16")))
      end)
    end)

    test("fills any dtype, contiguous or not, and copies overlapping nothing", function()
      alike(function()
        local list = {}
        for i, dtype in ipairs { "f32", "bf16", "i32", "bool" } do
          for _, n in ipairs { 1, 7, 16, 33, 100 } do
            local x = sr.zeros(n, 3, { dtype = dtype })
            local high, low = table.unpack(dtype == "i32" and { 2, -3 } or { 1.7, -2.3 })
            list[#list + 1] = bytes(sr.full({ n }, high, { dtype = dtype }), x:fill_(low))
            x:narrow(2, 2, 1):fill_(i)
            list[#list + 1] = bytes(x, x:t(), x:t():contiguous():clone())
          end
        end
        return table.concat(list)
      end)
    end)

    test("takes more than 2^31 elements, and goes on after memory has run out", function()
      on(device, function()
        local n, held, good = (device == "cuda" and 1 << 31 or 1 << 12) + 5, {}, true
        local x = sr.zeros(n, { dtype = "bf16" })
        x:narrow(1, n - 3, 4):fill_(1.5)
        local y = x + x
        assert.same({ 0, 3, 3, 3, 3 }, y:narrow(1, n - 4, 5):totable())
        assert.equal(12, y:sum():item())
        while good do
          good, held[#held + 1] = pcall(sr.empty, device == "cuda" and 1 << 32 or 1 << 37, { dtype = "bf16" })
        end
        assert.matches("cannot allocate", held[#held])
        assert.equal(24, (y + y):narrow(1, n - 3, 4):sum():item())
      end)
    end)

    test("whole numbers wrap and divide as on the cpu", function()
      alike(function()
        local a = sr.tensor({ 7, -7, 2147483647, -2147483648, 0, 3 }, INTEGER)
        local b = sr.tensor({ 2, 2, 5, -1, 0, -2 }, INTEGER)
        local list = { a + b, a - b, a * b, a:minimum(b), a:maximum(b), a:eq(b), a:lt(b), a:abs(), a:square() }
        list[#list + 1] = a:sign()
        list[#list + 1] = a:clone():add_(b)
        list[#list + 1] = a:clone():mul_(3)
        list[#list + 1] = sr.where(a:lt(b), a, b)
        return bytes(table.unpack(list))
      end)
    end)

    test("sums are right however they are cut, and have the same bits every time", function()
      for _, shape in ipairs { { 1 }, { 1000 }, { 70001 }, { 5, 1 }, { 1, 5 }, { 300, 70 }, { 3000, 3 }, { 3, 3000 },
        { 7, 11, 13 }, { 2, 600, 9 }, { 0, 4 }, { 4, 0 } } do
        local function fold()
          local x, list = noise(1, table.unpack(shape)), {}
          list[1] = x:sum()
          for d = 1, #shape do
            list[#list + 1] = x:sum(d)
            list[#list + 1] = x:transpose(1, d):sum(d)
            list[#list + 1] = x:to("bf16"):sum(d)
          end
          return list
        end
        near(4e-7, function() return numbers(table.unpack(fold())) end)
        local first = on(device, function() return bytes(table.unpack(fold())) end)
        assert.equal(first, on(device, function() return bytes(table.unpack(fold())) end))
      end
    end)

    test("sums over several dimensions go to the shape of what was broadcast", function()
      near(1e-6, function()
        local a, b = noise(1, 5, 1, 7), noise(2, 1, 6, 1)
        a:requires_grad_() b:requires_grad_()
        local w = noise(3, 5, 6, 7);
        (a * b * w):sum():backward()
        return numbers(a:grad(), b:grad())
      end)
    end)

    test("whole numbers sum without rounding", function()
      alike(function()
        local x = integers(1, 100000, 300, 50)
        return bytes(x:sum(), x:sum(1), x:sum(2), x:max(1), x:min(2), x:argmax(1), x:argmin(2), x:gt(50000):sum())
      end)
    end)

    test("extremes take the first of equals, and NaN, across pieces", function()
      alike(function()
        local n = 40000
        local x = integers(1, 50, n):to("f32")
        local list = { x:max(), x:min(), x:argmax(), x:argmin() }
        local y = x:clone()
        y:narrow(1, 31234, 1):fill_(0 / 0)
        y:narrow(1, 9000, 1):fill_(0 / 0)
        for _, t in ipairs { y:argmax(), y:argmin(), y:reshape(200, 200):argmax(1), y:reshape(200, 200):argmin(2) } do
          list[#list + 1] = t
        end
        list[#list + 1] = y:max():ne(y:max())
        local low = sr.full({ 300 }, -1 / 0)
        list[#list + 1], list[#list + 2] = low:argmax(), low:max()
        return bytes(table.unpack(list))
      end)
    end)

    test("softmax is right for rows of any length and stride", function()
      for _, n in ipairs { 1, 2, 31, 33, 256, 257, 2049, 3000 } do
        near(2e-6, function()
          local x, dy = noise(1, 3, n):requires_grad_(), noise(2, 3, n)
          local list = {}
          for _, name in ipairs { "softmax", "log_softmax" } do
            local y = x[name](x, 2)
            y:backward(dy)
            list[#list + 1], list[#list + 2] = y, x:grad():clone()
            list[#list + 1] = noise(3, n, 4):t()[name](noise(3, n, 4):t(), 2)
          end
          return numbers(table.unpack(list))
        end)
      end
    end)

    test("softmax of infinities is what the cpu gives", function()
      near(1e-6, function()
        local x = sr.tensor { { -1 / 0, 0, 1 }, { 0 / 0, 0, 1 }, { -1 / 0, -1 / 0, 2 } }
        return numbers(x:softmax(2), x:log_softmax(2))
      end)
    end)

    test("uniform numbers are the cpu's to the bit, normal ones to rounding", function()
      for _, n in ipairs { 1, 2, 3, 4, 5, 7, 4097 } do
        alike(function() return bytes(sr.rand({ n }, { uid = n }), sr.empty(n):uniform_(-0.3, 0.7, { uid = 3 })) end)
        near(2e-7, function()
          local x = sr.empty(n):normal_(0.5, 3, { uid = 4 })
          return numbers(sr.randn({ n }, { uid = n }), x)
        end)
      end
      alike(function() return bytes(sr.empty(40, 9):t():uniform_(0, 1, { uid = 5 }), sr.rand({ 0 }, { uid = 1 })) end)
    end)
  end)

  describe("rows on " .. device .. ":", function()
    test("are gathered and put as they are, of any dtype, width and stride", function()
      for _, width in ipairs { 1, 2, 3, 4, 8, 12, 130 } do
        for _, dtype in ipairs { "f32", "bf16", "i32", "bool" } do
          alike(function()
            local x = (noise(1, 9, width + 1) * 9):to(dtype)
            local rows = sr.tensor({ 8, 0, 3, 5 }, INTEGER)
            local list = {}
            for _, source in ipairs { x, x:narrow(2, 2, width), x:narrow(2, 1, width), x:t():contiguous():t() } do
              local y = sr.ops.gather_rows(source, rows)
              list[#list + 1] = y
              list[#list + 1] = sr.ops.put_rows(source, rows, y)
            end
            return bytes(table.unpack(list))
          end)
        end
      end
    end)

    test("are added in order, duplicates too: the cpu's bits", function()
      local cases = { { 9, 4, 1 }, { 300, 7, 5 }, { 500, 1, 4 }, { 600, 70000, 3 }, { 40, 6, 128 }, { 33, 5, 259 } }
      for _, case in ipairs(cases) do
        local count, below, width = table.unpack(case)
        for _, dtype in ipairs { "f32", "bf16" } do
          alike(function()
            local x = noise(1, below, width):to(dtype):requires_grad_()
            local rows = integers(2, below, count)
            local dy = noise(3, count, width):to(dtype)
            sr.ops.gather_rows(x, rows):backward(dy)
            sr.ops.gather_rows(x, rows):backward(dy:t():contiguous():t())
            return bytes(x:grad())
          end)
        end
      end
    end)

    test("that are out of range or double are named", function()
      on(device, function()
        local x = sr.ones(5, 3):requires_grad_()
        local function rows(...) return sr.tensor({ ... }, INTEGER) end
        devices.fails("gather_rows: rows[2] is 5, but there are 5 rows", sr.ops.gather_rows, x, rows(0, 1, 5, -1))
        devices.fails("gather_rows: rows[0] is -1", sr.ops.gather_rows, x, rows(-1, 7))
        devices.fails("put_rows: rows[3] is 9", sr.ops.put_rows, x, rows(0, 2, 1, 9), sr.ones(4, 3))
        devices.fails("put_rows: rows[2] is 1 again", sr.ops.put_rows, x, rows(1, 2, 1, 2), sr.ones(4, 3))
        local y = sr.ops.gather_rows(x, rows(4, 4))
        assert.same({ { 1, 1, 1 }, { 1, 1, 1 } }, y:totable())
      end)
    end)
  end)

  describe("the optimizer on " .. device .. ":", function()
    ---Three steps over several chunks, odd sizes, a frozen parameter, clipping and a skipped step.
    local function train(kind, precision)
      local p = sr.params.new({
        { name = "a", shape = { 40001 }, std = 0.5 }, { name = "b", shape = { 3, 5 }, std = 0.5 },
        { name = "c", shape = { 7 }, std = 0.5, group = "no_decay" }, { name = "frozen", shape = { 9 }, std = 0.5 },
        { name = "d", shape = { 70000 }, std = 0.5 }, { name = "zero", shape = { 6 }, init = "zeros" },
      }, { precision = precision })
      p:initialise(3)
      local groups = { { match = "^frozen", frozen = true }, { match = "b", rate = 0.3 } }
      local opt = sr.optim[kind](p, { decay = 0.1, groups = groups })
      local list = {}
      for s = 1, 4 do
        for i, name in ipairs { "a", "b", "c", "frozen", "d", "zero" } do
          local g = p:get(name):grad()
          g:copy_(sr.rand(g:shape(), { seed = s, uid = i }) - 0.5)
          if s == 3 and name == "b" then g:fill_(0 / 0) end
        end
        local result = opt:step { rate = 0.01, clip = s == 2 and 1 or nil }
        list[#list + 1] = sr.tensor { result.norm == result.norm and result.norm or -1, result.applied and 1 or 0 }
      end
      for _, name in ipairs { "a", "b", "c", "frozen", "d", "zero" } do
        list[#list + 1] = p:value_of(name)
        if precision then list[#list + 1] = p:get(name):detach() end
      end
      return list
    end

    for _, kind in ipairs { "adamw", "lamb" } do
      for _, precision in ipairs { "f32", "bf16" } do
        local name = ("%s with %s parameters is the cpu's to rounding, the same every time"):format(kind, precision)
        test(name, function()
          near(3e-7, function() return numbers(table.unpack(train(kind))) end)
          local function again() return bytes(table.unpack(train(kind, precision))) end
          assert.equal(on(device, again), on(device, again))
        end)
      end
    end

    test("the norm of a gradient is exact over many chunks", function()
      local function norm()
        local p = sr.params.new { { name = "a", shape = { 200003 } } }
        local g = p:get("a"):grad()
        g:copy_(sr.rand(g:shape(), { uid = 1 }))
        return { sr.optim.adamw(p):step({ rate = 0 }).norm }
      end
      close(on("ref", norm), on(device, norm), 1e-7)
    end)
  end)
end

-- ---- traffic -----------------------------------------------------------------------------------------

---Bytes of device memory that the kernels of each op moved while `body` ran, in sectors of 32 bytes.
local function counted(body)
  local moved = {}
  for _, line in ipairs(versus.traffic(body)) do
    if line.access == "read" or line.access == "write" then moved[line.op] = (moved[line.op] or 0) + 32 * line.units end
  end
  return moved
end

describe("small ops on simt", function()
  devices.on_simt(it, function(reason) pending(reason) end)("move each byte once", function()
    local n = 98304
    local moved = counted([[
      local n = 98304
      local p = sr.params.new({ { name = "a", shape = { n } } }, { precision = "bf16" })
      local opt = sr.optim.lamb(p, {})
      opt:step { rate = 0.1, clip = 1, zero_grad = false }
      local x = sr.empty(n):fill_(1)
      local low = x:to("bf16")
      low:add_(low)
      local rows = sr.arange(0, 255):to("i32")
      sr.ops.gather_rows(low:reshape(256, 384), rows)
      sr.synchronize()
    ]])
    local function floor(op, wanted)
      assert.is_true(moved[op] >= wanted and moved[op] <= 1.05 * wanted,
        ("%s moved %d bytes; the floor is %d"):format(op, moved[op], wanted))
    end
    floor("grad_squares", 4 * n)
    floor("moments", 24 * n)
    floor("step", 18 * n)
    floor("gather_rows", 4 * n)
    floor("binary", 6 * n)
  end)
end)

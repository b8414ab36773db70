-- Row-wise ops of kernels/cuda beyond opcases.lua: long and unaligned rows, slack, hot ids, large
-- vocabularies, the cpu's dropout masks to the bit, and the same bits every time.

local sr = require("seqrun")
local devices = require("tests.support.devices")
local versus = require("tests.support.versus")

local on, bytes, numbers, close = versus.on, versus.bytes, versus.numbers, versus.close
local noise, integers = versus.noise, versus.integers

devices.gpus()

---`count` rows of `width` whose first element is not aligned to 16 bytes.
local function unaligned(uid, dtype, count, width)
  return noise(uid, count * width + 1):to(dtype):narrow(1, 2, count * width):view(count, width)
end

local function gamma_beta(width) return noise(11, width) + 1.5, noise(12, width) end

---Gaps, slack at the end, uids and epochs of their own.
local GAPS = {
  seed = 99, lens = { 5, 1, 9, 4 }, starts = { 2, 8, 10, 24 }, rows = 40, uids = { 9, 4, 70000, 11 },
  epochs = { 0, 1, 2, 0 },
}

---Outputs of the rows of sequences and every gradient, of residual_norm.
local function norm(width, options)
  local layout = sr.layout(options.layout or GAPS)
  local rows = layout:rows()
  local make = options.unaligned and unaligned or function(uid, dtype, n, w) return noise(uid, n, w):to(dtype) end
  local dtype = options.dtype or "f32"
  local x, residual = make(1, dtype, rows, width):requires_grad_(), make(2, dtype, rows, width):requires_grad_()
  local gamma, beta = gamma_beta(width)
  gamma:requires_grad_() beta:requires_grad_()
  local y = sr.ops.residual_norm(x, not options.alone and residual or nil, gamma, beta,
    { eps = 1e-12, dropout = options.dropout or 0, layer = 3, site = "feed", layout = layout })
  local dy = options.dy and options.dy(y) or noise(3, rows, width):to(dtype)
  y:backward(dy)
  local live = {}
  for i, owner in ipairs(layout:owners()) do live[#live + 1] = owner >= 0 and i - 1 or nil end
  local kept = sr.ops.gather_rows(y:detach(), sr.tensor(live, { dtype = "i32" }))
  local list = { kept, x:grad(), gamma:grad(), beta:grad() }
  if not options.alone then list[#list + 1] = residual:grad() end
  return list
end

---An embedding of `rows` ids, the gradients of its tables too.
local function embed(options)
  local width, rows = options.width, options.rows
  local layout = sr.layout { lens = options.lens, rows = rows, seed = 5 }
  local ids = integers(1, options.words, rows)
  if options.hot then ids = sr.where(noise(9, rows):lt(options.hot), ids * 0 + 3, ids) end
  local tables = {}
  for i, t in ipairs { { "word", options.words }, { "position", 300 }, { "type", 2 } } do
    tables[t[1]] = noise(20 + i, t[2], width):to(options.dtype or "f32"):requires_grad_()
  end
  tables.gamma, tables.beta = gamma_beta(width)
  tables.gamma:requires_grad_() tables.beta:requires_grad_()
  local y = sr.ops.embed(ids, integers(2, 2, rows), tables, layout, { eps = 1e-12, dropout = options.dropout or 0 })
  y:backward(noise(3, rows, width):to(options.dtype or "f32"))
  local list = { y }
  for _, name in ipairs { "word", "position", "type", "gamma", "beta" } do list[#list + 1] = tables[name]:grad() end
  return list
end

---Loss, nll, correct and the gradients of a masked-LM loss.
local function mlm(rows, words, width, dtype)
  local x, word = noise(1, rows, width):to(dtype):requires_grad_(), noise(2, words, width):to(dtype):requires_grad_()
  local bias = noise(3, words):to(dtype):requires_grad_()
  local total, nll, correct = sr.ops.mlm_loss(x, word, bias, integers(4, words, rows), noise(5, rows) + 1.5)
  local loss = total * 0.3
  loss:backward()
  return { total, nll, correct, x:grad(), word:grad(), bias:grad() }
end

for _, device in ipairs(sr.devices()) do
  local function test(name, body)
    if device == "simt" or device:find("^cuda") then it(name, body) end
  end

  local function near(tolerance, fn)
    close(on("cpu", function() return numbers(table.unpack(fn())) end),
      on(device, function() return numbers(table.unpack(fn())) end), tolerance)
  end
  ---fn() gives the same bytes twice.
  local function repeats(fn)
    local function once() return bytes(table.unpack(fn())) end
    assert.is_true(on(device, once) == on(device, once))
  end

  test("GELU in bf16 on " .. device .. " is right to its rounding, far from zero too", function()
    ---Values and derivatives at the multiples of 1/16 from -8 to 8, which bf16 has.
    local function gelu(dtype)
      return function()
        local list, rows = {}, {}
        for i = -128, 127 do list[i + 129] = i / 16 end
        for i = 1, 8 do
          rows[i] = {}
          for j = 1, 8 do rows[i][j] = i == j and 1 or 0 end
        end
        local x = sr.tensor(list):reshape(32, 8):to(dtype):requires_grad_()
        local y = sr.ops.linear(x, sr.tensor(rows):to(dtype), sr.zeros(8):to(dtype), { act = "gelu" })
        y:sum():backward()
        return numbers(y, x:grad())
      end
    end
    local right, got = on("cpu", gelu("f32")), on(device, gelu("bf16"))
    assert.equal(512, #right)
    for i, value in ipairs(right) do assert.near(value, got[i], 2 ^ -8 * math.abs(value) + 1e-6) end
  end)

  describe("norms on " .. device .. ":", function()
    for _, width in ipairs { 1, 7, 8, 64, 250, 768, 1024 } do
      test(("rows of %d"):format(width), function()
        for _, dropout in ipairs { 0, 0.1 } do
          near(1e-5, function() return norm(width, { dropout = dropout }) end)
          near(1e-5, function() return norm(width, { dropout = dropout, alone = true }) end)
          near(2 ^ -6, function() return norm(width, { dropout = dropout, dtype = "bf16" }) end)
        end
      end)
    end

    test("rows that are not aligned, and rows longer than a block's vectors", function()
      local two = { lens = { 1, 1 }, seed = 3 }
      near(1e-5, function() return norm(64, { dropout = 0.1, unaligned = true }) end)
      near(2 ^ -6, function() return norm(64, { dropout = 0.1, unaligned = true, dtype = "bf16" }) end)
      for _, width in ipairs { 4096, 4104, 5003, 8192 } do
        near(2e-5, function() return norm(width, { dropout = 0.1, layout = two }) end)
      end
      on(device, function()
        devices.fails("rows have 8193 columns; this device takes up to 8192", norm, 8193, { layout = two })
      end)
    end)

    test("more rows than the blocks take at once, and the same bits every time", function()
      local layout = { lens = { 300, 1, 2700, 1120 }, rows = 4352, seed = 3 }
      for _, dtype in ipairs { "f32", "bf16" } do
        near(dtype == "f32" and 1e-5 or 2 ^ -6,
          function() return norm(16, { dropout = 0.1, layout = layout, dtype = dtype }) end)
      end
      repeats(function() return norm(16, { dropout = 0.1, layout = layout, dtype = "bf16" }) end)
    end)

    test("more rows of several warps than the blocks take at once", function()
      near(1e-5, function() return norm(264, { layout = { lens = { 2200 }, seed = 3 } }) end)
    end)

    test("NaN in the gradient of slack reaches nothing", function()
      local function poisoned(y)
        local dy = noise(3, table.unpack(y:shape()))
        dy:narrow(1, 1, 2):fill_(0 / 0)
        dy:narrow(1, 30, 11):fill_(0 / 0)
        return dy
      end
      near(1e-5, function() return norm(64, { dropout = 0.1, dy = poisoned }) end)
    end)

    test("without any sequence, gradients are zero", function()
      local empty = { lens = {}, rows = 5 }
      on(device, function()
        for _, g in ipairs { table.unpack(norm(64, { dropout = 0.1, layout = empty }), 2) } do
          assert.equal(0, g:abs():sum():item())
        end
      end)
    end)
  end)

  describe("dropout on " .. device .. ":", function()
    test("keeps what the cpu keeps, to the bit", function()
      for _, width in ipairs { 1, 8, 63, 64, 65, 200, 1024, 4100 } do
        local function dropped()
          local list = {}
          for i, dtype in ipairs { "f32", "bf16" } do
            local x = noise(1, 40, width):to(dtype)
            local options = { p = 0.1 + 0.3 * i, site = "head", layer = 4000 + i }
            list[i] = sr.ops.dropout(x, sr.layout(GAPS), options)
          end
          return bytes(table.unpack(list))
        end
        assert.is_true(on("cpu", dropped) == on(device, dropped))
      end
    end)
  end)

  describe("embeddings on " .. device .. ":", function()
    test("rows of any width, with slack and without", function()
      for _, width in ipairs { 5, 8, 72, 768 } do
        local options = { width = width, rows = 20, words = 11, lens = { 7, 9 }, dropout = 0.1 }
        near(1e-5, function() return embed(options) end)
        options.dtype = "bf16"
        near(2 ^ -6, function() return embed(options) end)
      end
    end)

    test("ids that fill several tiles add up in one order", function()
      for _, hot in ipairs { -1, 0, 0.9, 1 } do
        local options = { width = 24, rows = 700, words = 40, lens = { 300, 1, 250, 40 }, hot = hot }
        near(1e-5, function() return embed(options) end)
        repeats(function() return embed(options) end)
      end
    end)

    test("only slack leaves the tables alone", function()
      on(device, function()
        local list = embed { width = 8, rows = 6, words = 4, lens = {}, dropout = 0.1 }
        for i = 1, #list do assert.equal(0, list[i]:abs():sum():item()) end
      end)
    end)
  end)

  describe("losses on " .. device .. ":", function()
    test("vocabularies around runs and blocks, padded rows of gradients", function()
      for _, words in ipairs { 1, 2, 7, 8, 9, 255, 257, 1001, 4097, 9001 } do
        near(5e-6, function() return mlm(3, words, 8, "f32") end)
        near(2 ^ -6, function() return mlm(3, words, 8, "bf16") end)
      end
      repeats(function() return mlm(130, 333, 16, "bf16") end)
    end)

    test("the first of equal logits counts; infinite and missing logits are what the cpu makes of them", function()
      local low = -1 / 0
      local rows = { { 1, 2, 2, 0 }, { 5, 5, 5, 5 }, { low, 1, low, 0 }, { 0, low, low, low }, { low, low, 0, 0 } }
      near(1e-6, function()
        local logits = sr.tensor(rows):requires_grad_()
        local labels = sr.tensor({ 1, 1, 1, 0, 2 }, { dtype = "i32" })
        local total, nll, correct = sr.ops.cross_entropy(logits, labels, sr.ones(5))
        total:backward()
        return { total, nll, correct, logits:grad() }
      end)
      on(device, function()
        local nan = sr.tensor { { 0 / 0, 1 }, { low, low } }
        local _, nll = sr.ops.cross_entropy(nan, sr.tensor({ 0, 1 }, { dtype = "i32" }), sr.ones(2))
        for _, x in ipairs(nll:totable()) do assert.is_true(x ~= x) end
      end)
    end)

    test("any number of classes, and of rows", function()
      for _, shape in ipairs { { 1, 1 }, { 33, 2 }, { 5, 3 }, { 70, 17 }, { 9, 300 }, { 2, 5000 } } do
        for _, dtype in ipairs { "f32", "bf16" } do
          near(dtype == "f32" and 5e-6 or 2 ^ -7, function()
            local logits = noise(1, table.unpack(shape)):to(dtype):mul_(8):requires_grad_()
            local labels = integers(2, shape[2], shape[1])
            local total, nll, correct = sr.ops.cross_entropy(logits, labels, noise(3, shape[1]) + 1)
            total:backward()
            return { total, nll, correct, logits:grad() }
          end)
        end
      end
    end)
  end)
end

-- ---- traffic -----------------------------------------------------------------------------------------

---Places of a file whose text contains `words`, such as "team.cuh:15".
local function place_of(file, words)
  local number = 0
  for line in io.lines("kernels/cuda/" .. file) do
    number = number + 1
    if line:find(words, 1, true) then return ("%s:%d"):format(file, number) end
  end
  error("no such line in " .. file)
end

describe("row-wise ops on simt", function()
  local it_on_simt = devices.on_simt(it, function(reason) pending(reason) end)
  it_on_simt("move each activation once, without conflicts of banks in their dropout", function()
    local rows, width = 256, 64
    local lines = versus.traffic([[
      local T, H = 256, 64
      local l = sr.layout { lens = { 128, 100, 28 }, seed = 1 }
      local function low(...) return sr.ones(...):to("bf16"):requires_grad_() end
      local g, b, dy = sr.ones(H):requires_grad_(), sr.zeros(H):requires_grad_(), low(T, H):detach()
      sr.ops.residual_norm(low(T, H), low(T, H), g, b, { eps = 1e-12, dropout = 0.1, layout = l }):backward(dy)
      sr.ops.dropout(low(T, H), l, { p = 0.1 }):backward(dy)
      sr.ops.linear(low(T, H), low(H, H), low(H), { act = "gelu" }):backward(dy)
      local ids = sr.zeros(T, { dtype = "i32" })
      local tables = { word = low(9, H), position = low(128, H), type = low(2, H), gamma = g, beta = b }
      sr.ops.embed(ids, ids, tables, l, { eps = 1e-12, dropout = 0.1 }):backward(dy)
      sr.synchronize()
    ]])
    local vector = {
      read = place_of("team.cuh", "unpack(v, load16(x, at))"),
      write = place_of("team.cuh", "store16(y, at, pack(v))"),
    }
    local moved = {}
    for _, line in ipairs(lines) do
      if line.place == vector[line.access] then moved[line.op .. " " .. line.access] = line.units end
      if line.place:find("^drop") then assert.equal(line.best, line.units, line.place) end
    end
    local wanted = { -- activations, in and out, of both passes
      ["residual_norm read"] = 4, ["residual_norm write"] = 4, ["dropout read"] = 2, ["dropout write"] = 2,
      ["linear read"] = 3, ["linear write"] = 2, ["embed read"] = 5, ["embed write"] = 2,
    }
    for name, count in pairs(wanted) do
      local least = count * rows * width * 2 / 32
      local most, got = 1.15 * least, moved[name] or 0
      assert.is_true(got >= least and got <= most, ("%s: %d sectors, not %d"):format(name, got, least))
    end
  end)
end)

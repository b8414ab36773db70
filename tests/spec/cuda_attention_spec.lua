-- Packed attention of the CUDA kernels, thread by thread on the device `simt`, and on `cuda` where there is a GPU:
-- numbers against `ref` and the cpu, and what must hold bit by bit.

local sr = require("seqrun")
local devices = require("tests.support.devices")
devices.gpus()
local long = require("tests.support.long")
local within = require("tests.support.within")

local gpu ---@type "simt"|"cuda" of the running test

-- ---- numbers: those of a sequence depend on its uid alone ------------------------------------------

local cos, log, sqrt, TURN = math.cos, math.log, math.sqrt, 2 * math.pi

---n normal numbers by seed.
local function normal(seed, n, deviation)
  local state = seed % 2147483646 + 1
  local function unit()
    state = state * 48271 % 2147483647
    return state / 2147483647
  end
  for _ = 1, 5 do unit() end
  local list = {}
  for i = 1, n do list[i] = deviation * sqrt(-2 * log(unit())) * cos(TURN * unit()) end
  return list
end

---@class Case
---@field lens integer[]
---@field uids? integer[] of the sequences
---@field starts? integer[]
---@field rows? integer
---@field heads integer
---@field size integer
---@field dropout? number
---@field deviation? number of the inputs
---@field apart? number added to queries and taken from keys
---@field slack? number what rows of no sequence hold
---@field broken? integer uid of a sequence that is full of NaN
---@field scale? number

---@param c Case
local function layout_of(c)
  local uids = {}
  for s = 1, #c.lens do uids[s] = c.uids and c.uids[s] or s end
  return sr.layout { lens = c.lens, starts = c.starts, uids = uids, rows = c.rows, seed = 77 }, uids
end

---The flat (rows, width) list of an input: numbers of each sequence by its uid.
local function numbers(c, layout, uids, width, salt, deviation)
  local list, starts = {}, layout:starts()
  for i = 1, layout:rows() * width do list[i] = c.slack or 0 end
  for s, n in ipairs(c.lens) do
    local x = uids[s] == c.broken and {} or normal(uids[s] * 7919 + salt, n * width, deviation)
    for i = 1, n * width do list[starts[s] * width + i] = x[i] or 0 / 0 end
  end
  return list
end

---Runs forward and backward.
---@return { out: number[], grad: number[], layout: any, uids: integer[] }
local function run(device, dtype, c)
  sr.use(device)
  local scope <close> = sr.scope()
  local layout, uids = layout_of(c)
  local rows, hidden = layout:rows(), c.heads * c.size
  local wide = device == "ref" and "f64" or "f32"
  local function input(width, salt, deviation)
    local t = sr.tensor(numbers(c, layout, uids, width, salt, deviation)):reshape(rows, width)
    if c.apart and salt == 1 then
      t:narrow(2, 1, hidden):add_(c.apart)
      t:narrow(2, 1 + hidden, hidden):sub_(c.apart)
    end
    return dtype == "bf16" and t:to("bf16"):to(wide) or t
  end
  local qkv = input(3 * hidden, 1, c.deviation or 1):requires_grad_()
  local x = dtype == "bf16" and device ~= "ref" and qkv:to("bf16") or qkv
  local y = sr.ops.attention(x, layout,
    { heads = c.heads, dropout = c.dropout or 0, layer = 3, scale = c.scale })
  local dy = input(hidden, 2, 1)
  y:backward(y:dtype() == "bf16" and dy:to("bf16") or dy)
  return {
    out = y:to("f32"):reshape(rows * hidden):totable(),
    grad = qkv:grad():to("f32"):reshape(rows * 3 * hidden):totable(),
    layout = layout, uids = uids,
  }
end

-- ---- comparing -------------------------------------------------------------------------------------

---Relative Frobenius error of columns [from, to) of rows of `width`; `least` bounds what is divided by.
local function distance(got, wanted, width, from, to, least)
  local miss, norm = 0, least
  for i = 1, #wanted do
    local col = (i - 1) % width
    if col >= from and col < to then
      local w = wanted[i]
      local d = got[i] - w
      miss, norm = miss + d * d, norm + w * w
    end
  end
  return math.sqrt(miss / norm)
end

---Errors of out, dq, dk and dv.
local function errors(c, got, wanted)
  local hidden = c.heads * c.size
  local norm = 0
  for i = 1, #wanted.grad do norm = norm + wanted.grad[i] ^ 2 end
  local e = { distance(got.out, wanted.out, hidden, 0, hidden, 1e-12) }
  for part = 0, 2 do -- of a sequence of one row dq and dk are rounding errors
    e[part + 2] = distance(got.grad, wanted.grad, 3 * hidden, part * hidden, (part + 1) * hidden, norm * 0.5)
  end
  return e
end

---The rows of sequence s as one string, which is equal for equal bits.
local function bits(list, result, c, s, width)
  local first = result.layout:starts()[s] * width
  local part = table.move(list, first + 1, first + c.lens[s] * width, 1, {})
  for i = 1, #part do part[i] = string.pack("<f", part[i]) end
  return table.concat(part)
end

---out and gradient of every sequence by uid.
local function by_uid(c, result)
  local hidden, found = c.heads * c.size, {}
  for s, uid in ipairs(result.uids) do
    found[uid] = bits(result.out, result, c, s, hidden) .. bits(result.grad, result, c, s, 3 * hidden)
  end
  return found
end

local function assert_same_bits(one, other)
  for uid, value in pairs(one) do
    if other[uid] then assert.is_true(value == other[uid], "sequence " .. uid .. " has other bits") end
  end
end

-- ---- numbers ---------------------------------------------------------------------------------------

local function upto(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

local function repeated(n, count)
  local list = {}
  for i = 1, count do list[i] = n end
  return list
end

local function mix(seed, count, most)
  local list = normal(seed, count, 1)
  for i = 1, count do list[i] = 1 + math.floor(math.abs(list[i]) * most) % most end
  return list
end

---@type table<string, integer[]>
local few = {
  ["a row"] = { 1 }, ["two rows"] = { 1, 1 }, ["around 16"] = { 15, 16, 17 }, ["around 48"] = { 48, 49, 47 },
  ["around 64"] = { 63, 64, 65 }, ["around 128"] = { 127, 128, 129 }, ["a mix"] = { 5, 100, 33, 1, 70, 20, 140 },
}
local many = {
  ["1 to 64"] = upto(64), ["256"] = { 256 }, ["512"] = { 512 }, ["513"] = { 513, 3 }, ["2048"] = { 2048 },
  ["8192"] = { 8192 },
  ["sentences"] = mix(5, 120, 56), ["equal"] = repeated(96, 6),
}
for seed = 1, 5 do many["random " .. seed] = mix(seed, 9, 200) end

local function check_accuracy(lens, heads, size, dropout, deviation, apart)
  local c = { lens = lens, heads = heads, size = size, dropout = dropout, deviation = deviation, apart = apart }
  local ref = run("ref", "bf16", c)
  local got, cpu = errors(c, run(gpu, "bf16", c), ref), errors(c, run("cpu", "bf16", c), ref)
  for i, name in ipairs { "out", "dq", "dk", "dv" } do
    local ceiling = i == 1 and 4e-3 or 6e-3
    local about = ("%s: %.2e, cpu %.2e, heads of %d, dropout %g"):format(name, got[i], cpu[i], size, dropout)
    within.check(got[i], math.max(2 * cpu[i], 1e-5), about)
    within.check(got[i], ceiling * (deviation and deviation > 1 and 4 or 1), about)
  end
end

---Adds the tests of a device by add(name, body).
local function suite(device, add)
  local function it_on_gpu(name, body)
    add(name, function()
      gpu = device
      devices.on(device, body)
    end)
  end

  for name, lens in pairs(few) do
    it_on_gpu("has errors of bf16 rounding at most, lengths: " .. name, function()
      check_accuracy(lens, 1, 64, 0.1)
      check_accuracy(lens, 1, 32, 0.5)
      check_accuracy(lens, 1, 128, 0)
    end)
  end

  it_on_gpu("has errors of bf16 rounding at most where softmax is peaky", function()
    check_accuracy({ 100, 20, 65 }, 1, 64, 0.1, 4)
    check_accuracy({ 100, 20, 65 }, 1, 128, 0, 4)
  end)

  -- exp(-lse) is infinite: a product with the zeros behind a sequence must not be made
  it_on_gpu("has errors of bf16 rounding at most where all scores are far below zero", function()
    check_accuracy({ 17, 5 }, 1, 64, 0, 0.5, 4)
    check_accuracy({ 17, 5 }, 1, 128, 0.1, 0.5, 4)
  end)

  if long or device == "cuda" then
    for name, lens in pairs(many) do
      for _, size in ipairs(lens[1] > 4096 and not long and {} or { 32, 64, 128 }) do
        for _, dropout in ipairs((lens[1] > 1000 or not long) and { 0.1 } or { 0, 0.1, 0.5 }) do
          it_on_gpu(("has errors of bf16 rounding at most, all lengths: %s, %d, %g"):format(name, size, dropout),
            function() check_accuracy(lens, 1, size, dropout) end)
        end
      end
    end
    it_on_gpu("takes a sequence of 2048 rows in f32", function()
      local c = { lens = { 2048 }, heads = 1, size = 8, dropout = 0.1 }
      for _, e in ipairs(errors(c, run(gpu, "f32", c), run("ref", "f32", c))) do within.check(e, 1e-5, "2048 rows") end
    end)
    for _, heads in ipairs { 12, 16 } do
      it_on_gpu("has errors of bf16 rounding at most, heads: " .. heads, function()
        check_accuracy({ 130, 20, 64, 3 }, heads, 64, 0.1)
      end)
    end
  end

  it_on_gpu("takes other head sizes, negative scales and f32 with its plain kernels", function()
    check_accuracy({ 20, 3 }, 2, 8, 0.1)
    check_accuracy({ 40, 3 }, 1, 80, 0)
    for _, c in ipairs {
      { lens = { 30, 2 }, heads = 2, size = 5, dropout = 0.1 }, { lens = { 70 }, heads = 1, size = 64, dropout = 0.1 },
      { lens = { 20, 9 }, heads = 1, size = 32, scale = -0.2 },
    } do
      for i, e in ipairs(errors(c, run(gpu, "f32", c), run("ref", "f32", c))) do within.check(e, 2e-6, "nr. " .. i) end
    end
    local c = { lens = { 20, 9 }, heads = 1, size = 64, scale = -0.2 }
    for i, e in ipairs(errors(c, run(gpu, "bf16", c), run("ref", "bf16", c))) do within.check(e, 6e-3, "nr. " .. i) end
  end)

  -- ---- bits ----------------------------------------------------------------------------------------

  for _, size in ipairs { 32, 64, 128 } do
    it_on_gpu("gives a sequence the same bits alone, packed and in any order, heads of " .. size, function()
      local heads = size == 64 and 2 or 1
      local c = { lens = { 20, 130, 40, 10, 64, 16, 70, 200, 5, 48 }, heads = heads, size = size, dropout = 0.1 }
      local packed = by_uid(c, run(gpu, "bf16", c))
      assert_same_bits(packed, by_uid(c, run(gpu, "bf16", c)))
      local other = {
        lens = { 5, 200, 70, 48, 16, 130, 20, 64, 10, 40 }, uids = { 9, 8, 7, 10, 6, 2, 1, 5, 4, 3 },
        starts = { 3, 8, 210, 300, 350, 400, 530, 555, 620, 640 }, rows = 768, slack = 0 / 0,
        heads = heads, size = size, dropout = 0.1,
      }
      assert_same_bits(packed, by_uid(other, run(gpu, "bf16", other)))
      for s, n in ipairs { 20, 130 } do -- alone a sequence of several blocks is split between workers
        local one = { lens = { n }, uids = { s }, heads = heads, size = size, dropout = 0.1 }
        assert_same_bits(packed, by_uid(one, run(gpu, "bf16", one)))
      end
    end)
  end

  it_on_gpu("writes zeros to rows of no sequence, both ways, whatever they hold", function()
    for _, dtype in ipairs { "bf16", "f32" } do
      for _, size in ipairs { 64, 16 } do
        local c = { lens = { 20, 70 }, starts = { 5, 40 }, rows = 128, heads = 2, size = size, slack = 0 / 0 }
        local r = run(gpu, dtype, c)
        local hidden = c.heads * c.size
        for row = 0, 127 do
          local owned = (row >= 5 and row < 25) or (row >= 40 and row < 110)
          for i = 1, hidden do
            local x = r.out[row * hidden + i]
            assert.is_true(owned and x == x or x == 0)
          end
          for i = 1, 3 * hidden do
            local x = r.grad[row * 3 * hidden + i]
            assert.is_true(owned and x == x or x == 0)
          end
        end
      end
    end
  end)

  it_on_gpu("sums the gradient of the bias of the layer below, as that layer does itself", function()
    for _, size in ipairs { 32, 64, 128 } do
      local c = { lens = { 20, 150, 5, 64 }, rows = 256, heads = 2, size = size }
      local found = {}
      for _, used in ipairs { "once", "twice" } do -- twice: the layer sums
        sr.use(gpu)
        local scope <close> = sr.scope()
        local layout, uids = layout_of(c)
        local function leaf(rows, salt)
          local list = numbers({ lens = { rows } }, sr.layout { lens = { rows } }, { 1 }, 8, salt, 0.5)
          return sr.tensor(list):reshape(rows, 8):to("bf16")
        end
        local b = sr.zeros(6 * size, { dtype = "bf16" }):requires_grad_()
        local qkv = sr.ops.linear(leaf(256, 3), leaf(6 * size, 4):requires_grad_(), b)
        local y = sr.ops.attention(qkv, layout, { heads = 2, dropout = 0.1, layer = 3 })
        local dy = sr.tensor(numbers(c, layout, uids, 2 * size, 2, 1)):reshape(256, 2 * size)
        local loss = (y:to("f32") * dy):sum()
        if used == "twice" then loss = loss + qkv:to("f32"):sum() * 0 end
        loss:backward()
        found[used] = b:grad():to("f32"):totable()
      end
      within.check(distance(found.once, found.twice, 1, 0, 1, 1e-12), 1e-5, "heads of " .. size)
    end
  end)

  it_on_gpu("keeps the NaN of a sequence from all others", function()
    for _, kind in ipairs { { "bf16", 64 }, { "bf16", 128 }, { "f32", 16 } } do
      local dtype, size = kind[1], kind[2]
      local c = { lens = { 20, 17, 5, 70, 64 }, heads = 1, size = size, dropout = 0.1 }
      local good = by_uid(c, run(gpu, dtype, c))
      for _, uid in ipairs { 2, 4 } do
        c.broken = uid
        local found = by_uid(c, run(gpu, dtype, c))
        found[uid] = nil
        assert_same_bits(good, found)
      end
    end
  end)

  -- ---- dropout -------------------------------------------------------------------------------------

  ---The mask of a sequence of n rows and 64-column heads as rows of "0" and "1".  Scores are all equal;
  ---64 columns at a time meet values (or, backward, rows meet gradients) that are one-hot.
  local function mask_of(where, dtype, n, shift, backward)
    sr.use(where)
    local scope <close> = sr.scope()
    local lens, starts, uids = { n }, { shift }, { 9 }
    if shift > 0 then lens, starts, uids = { shift, n }, { 0, shift }, { 3, 9 } end -- a neighbour, maybe in one tile
    local layout = sr.layout { lens = lens, starts = starts, rows = n + shift, uids = uids, seed = 5 }
    local rows, mask = n + shift, {}
    for i = 1, n do mask[i] = {} end
    for first = 0, n - 1, 64 do
      local qkv, dy = {}, {}
      for i = 1, rows * 192 do qkv[i] = 0 end
      for i = 1, rows * 64 do dy[i] = 0 end
      for i = 0, math.min(64, n - first) - 1 do
        qkv[(shift + first + i) * 192 + 128 + i + 1] = 1
        dy[(shift + first + i) * 64 + i + 1] = 1
      end
      local x = sr.tensor(qkv):reshape(rows, 192):to(dtype):requires_grad_()
      local y = sr.ops.attention(x, layout, { heads = 1, dropout = 0.3, layer = 2 })
      if backward then
        y:backward(sr.tensor(dy):reshape(rows, 64):to(dtype))
        local g = x:grad():reshape(rows * 192):totable()
        for col = 0, n - 1 do
          for i = 0, math.min(64, n - first) - 1 do
            mask[first + i + 1][col + 1] = g[(shift + col) * 192 + 128 + i + 1] > 0 and "1" or "0"
          end
        end
      else
        local out = y:reshape(rows * 64):totable()
        for row = 0, n - 1 do
          for i = 0, math.min(64, n - first) - 1 do
            mask[row + 1][first + i + 1] = out[(shift + row) * 64 + i + 1] > 0 and "1" or "0"
          end
        end
      end
    end
    for i = 1, n do mask[i] = table.concat(mask[i]) end
    return table.concat(mask, "\n")
  end

  it_on_gpu("draws the mask of the cpu, forward and backward", function()
    for _, n in ipairs { 20, 48, 150 } do
      local wanted = mask_of("cpu", "f32", n, 0)
      local _, kept = wanted:gsub("1", "")
      assert.is_true(math.abs(kept / n ^ 2 - 0.7) < 4 * math.sqrt(0.21) / n + 0.01)
      for _, dtype in ipairs { "bf16", "f32" } do
        for _, shift in ipairs(n < 150 and { 0, 7 } or { 7 }) do
          assert.equal(wanted, mask_of(gpu, dtype, n, shift))
          assert.equal(wanted, mask_of(gpu, dtype, n, shift, true))
        end
      end
    end
  end)
end

describe("#slow attention on simt", function()
  suite("simt", devices.on_simt(it, function(reason) pending(reason) end))
end)

for _, device in ipairs(sr.devices()) do
  if device == "cuda" then describe("#slow attention on cuda", function() suite(device, it) end) end
end

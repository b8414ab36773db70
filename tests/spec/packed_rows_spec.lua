-- Ops on packed rows: sequences are independent of their neighbours, and dropout decisions belong to a
-- sequence, wherever it is in the buffer.

local sr = require("seqrun")

local each_device = require("tests.support.devices").each(it)

---Bytes of the rows of sequence s (from 1).
local function rows_of(x, layout, s)
  return x:narrow(1, layout:starts()[s] + 1, layout:lengths()[s]):contiguous():tostring_bytes()
end

local function leaf(t) return t:requires_grad_() end

-- ---- neighbours --------------------------------------------------------------------------------

local HIDDEN, HEADS = 32, 2

---One pass of the ops that work on rows, with dropout, forward and backward.
---@return seqrun.Tensor y, seqrun.Tensor gradient
local function block(x, layout, dropout)
  local wqkv = sr.randn({ 3 * HIDDEN, HIDDEN }, { seed = 1, uid = 1 }) * 0.3
  local gamma, beta = sr.ones(HIDDEN), sr.zeros(HIDDEN)
  leaf(x)
  local qkv = sr.ops.linear(x, wqkv)
  local mixed = sr.ops.attention(qkv, layout, { heads = HEADS, dropout = dropout, layer = 1 })
  local normed = sr.ops.residual_norm(mixed, x, gamma, beta, {
    eps = 1e-12, dropout = dropout, layer = 1, site = "projection", layout = layout,
  })
  local y = sr.ops.dropout(normed:gelu(), layout, { p = dropout, site = "head" })
  y:backward(sr.randn(y:shape(), { seed = 3, uid = 1 }))
  return y, x:grad()
end

---A layout with slack between and around its sequences, and rows for it.
local function example(lens)
  local starts, at = {}, 3
  for i, n in ipairs(lens) do
    starts[i] = at
    at = at + n + i % 2 * 5
  end
  local layout = sr.layout { lens = lens, starts = starts, rows = at + 7, uids = { 31, 7, 900 }, seed = 77 }
  return layout, sr.randn({ layout:rows(), HIDDEN }, { seed = 2, uid = 1 })
end

local LENGTHS = { { 5, 1, 9 }, { 16, 17, 15 }, { 70, 64, 33 }, { 130, 2, 128 } }

describe("a sequence's neighbour", function()
  ---Compares all rows of sequences 1 and 3, in y and in the gradient, before and after a change of 2.
  local function compare(change)
    for _, lens in ipairs(LENGTHS) do
      for _, dropout in ipairs { 0, 0.1 } do
        local layout, x = example(lens)
        local changed = x:clone()
        changed:narrow(1, layout:starts()[2] + 1, lens[2]):copy_(change)
        local y, dx = block(x, layout, dropout)
        local z, dz = block(changed, layout, dropout)
        for _, s in ipairs { 1, 3 } do
          assert.is_true(rows_of(y, layout, s) == rows_of(z, layout, s), "forward of sequence " .. s)
          assert.is_true(rows_of(dx, layout, s) == rows_of(dz, layout, s), "backward of sequence " .. s)
        end
        assert.is_false(rows_of(y, layout, 2) == rows_of(z, layout, 2))
        assert.is_false(rows_of(dx, layout, 2) == rows_of(dz, layout, 2))
      end
    end
  end

  each_device("can change without changing a bit of it", function()
    compare(sr.randn({ HIDDEN }, { seed = 9, uid = 1 }))
  end)

  each_device("can be full of NaN", function() compare(0 / 0) end)

  each_device("can be full of infinities", function() compare(1 / 0) end)
end)

describe("slack", function()
  each_device("has a zero gradient where blocks begin with a norm, whatever its numbers", function()
    local layout, x = example { 5, 1, 9 }
    local outputs = {}
    for i, noise in ipairs { 0, 1000, 0 / 0 } do
      local dirty = x:clone()
      for row, owner in ipairs(layout:owners()) do
        if owner < 0 then dirty[row]:fill_(noise) end
      end
      local list = {}
      for _, kind in ipairs { "layer", "rms" } do
        local f, residual, gamma = leaf(dirty:clone()), leaf(dirty:clone()), leaf(sr.ones(HIDDEN))
        local options = { kind = kind, sum = true, dropout = 0.1, layout = layout }
        local y, sum = sr.ops.residual_norm(f, residual, gamma, nil, options)
        local z = sr.ops.residual_norm(y, sum, gamma, nil, options)
        z:backward(dirty)
        for row, owner in ipairs(layout:owners()) do
          if owner < 0 then
            assert.equal(0, f:grad()[row]:abs():sum():item())
            assert.equal(0, residual:grad()[row]:abs():sum():item())
          end
        end
        list[#list + 1] = gamma:grad():tostring_bytes()
        for s = 1, 3 do list[#list + 1] = rows_of(z, layout, s) .. rows_of(f:grad(), layout, s) end
      end
      outputs[i] = table.concat(list)
      assert.is_true(outputs[i] == outputs[1])
    end
  end)

  each_device("without variance gives weights no NaN where the epsilon of the norms is 0", function()
    local layout = example { 5, 1, 9 }
    for _, dtype in ipairs(sr.device() == "ref" and { "f64" } or { "f32", "bf16" }) do
      for _, kind in ipairs { "layer", "rms" } do
        local x = sr.randn({ layout:rows(), HIDDEN }, { uid = 3 }):to(dtype)
        local seed = sr.randn({ layout:rows(), HIDDEN }, { uid = 4 }):to(dtype)
        for row, owner in ipairs(layout:owners()) do
          if owner < 0 then x[row]:fill_(kind == "layer" and 1 or 0) end
        end
        leaf(x)
        local w = leaf((sr.randn({ HIDDEN, HIDDEN }, { uid = 5 }) * 0.3):to(dtype))
        local gamma, second = leaf(sr.ones(HIDDEN)), leaf(sr.ones(HIDDEN))
        local options = { kind = kind, eps = 0, layout = layout }
        local y = sr.ops.linear(sr.ops.residual_norm(x, nil, gamma, nil, options), w)
        sr.ops.residual_norm(y, nil, second, nil, options):backward(seed)
        for _, g in ipairs { w:grad(), gamma:grad(), second:grad(), x:grad() } do
          local size = g:to("f32"):abs():sum():item()
          assert.is_true(size > 0 and size < math.huge, dtype .. ", " .. kind)
        end
        for row, owner in ipairs(layout:owners()) do
          if owner < 0 then assert.equal(0, x:grad()[row]:to("f32"):abs():sum():item()) end
        end
      end
    end
  end)

  each_device("is zero after attention, forward and backward, for any input", function()
    local core = require("seqrun.core.tensor")
    core.poison(true)
    local layout, x = example { 16, 17, 15 }
    local owned = {}
    for i, owner in ipairs(layout:owners()) do owned[i] = owner >= 0 end
    local slack = sr.tensor(owned):logical_not():to(x:dtype()):unsqueeze(2)
    local qkv = leaf(sr.randn({ layout:rows(), 3 * HIDDEN }, { uid = 4 }))
    local y = sr.ops.attention(qkv, layout, { heads = HEADS, dropout = 0.1 })
    y:backward(x)
    core.poison(false)
    assert.equal(0, (y * slack):abs():sum():item())
    assert.equal(0, (qkv:grad() * slack):abs():sum():item())
  end)

  each_device("contributes nothing to parameter gradients", function()
    local layout = example { 5, 1, 9 }
    local rows = layout:rows()
    local function gradients(noise)
      local owners = layout:owners()
      local seed = sr.randn({ rows, HIDDEN }, { uid = 5 })
      for i, owner in ipairs(owners) do
        if owner < 0 then seed[i]:fill_(noise) end
      end
      local tables = {}
      for i, spec in ipairs { { "word", 11 }, { "position", 16 }, { "type", 2 } } do
        tables[spec[1]] = leaf(sr.randn({ spec[2], HIDDEN }, { uid = 5 + i }))
      end
      tables.gamma, tables.beta = leaf(sr.ones(HIDDEN)), leaf(sr.zeros(HIDDEN))
      local ids, types = sr.zeros(rows, { dtype = "i32" }), sr.zeros(rows, { dtype = "i32" })
      local x = sr.ops.embed(ids, types, tables, layout, { dropout = 0.1 })
      local gamma, beta = leaf(sr.ones(HIDDEN)), leaf(sr.zeros(HIDDEN))
      sr.ops.residual_norm(x, nil, gamma, beta, { layout = layout }):backward(seed)
      local list = {}
      for _, name in ipairs { "word", "position", "type", "gamma", "beta" } do
        list[#list + 1] = tables[name]:grad():tostring_bytes()
      end
      list[#list + 1] = gamma:grad():tostring_bytes() .. beta:grad():tostring_bytes()
      return table.concat(list)
    end
    assert.is_true(gradients(0) == gradients(1000))
  end)
end)

-- ---- place -------------------------------------------------------------------------------------

local SEQUENCES, UIDS = { 33, 5, 64 }, { 31, 7, 900 }

---A layout of sequences in some order with these starts; their inputs, of `width` columns, and seeds of backward.
local function placed(order, starts, rows, width, seed_width)
  local lens, uids = {}, {}
  for i, s in ipairs(order) do lens[i], uids[i] = SEQUENCES[s], UIDS[s] end
  local layout = sr.layout { lens = lens, starts = starts, uids = uids, rows = rows, seed = 5 }
  local x, seed = sr.zeros(layout:rows(), width), sr.zeros(layout:rows(), seed_width)
  for i, s in ipairs(order) do
    local first, n = layout:starts()[i] + 1, lens[i]
    x:narrow(1, first, n):copy_(sr.randn({ n, width }, { seed = 6, uid = s }))
    seed:narrow(1, first, n):copy_(sr.randn({ n, seed_width }, { seed = 7, uid = s }))
  end
  return layout, leaf(x), seed
end

each_device("a sequence has the same results alone, packed and padded, with dropout", function()
  ---Output and gradient of every sequence in a layout with these starts.
  local function results(order, starts, rows)
    local layout, x, seed = placed(order, starts, rows, HIDDEN, HIDDEN)
    local wqkv = sr.randn({ 3 * HIDDEN, HIDDEN }, { seed = 1, uid = 1 }) * 0.3
    local qkv = sr.ops.linear(x, wqkv)
    local y = sr.ops.attention(qkv, layout, { heads = HEADS, dropout = 0.1, layer = 2 })
    y = sr.ops.dropout(y, layout, { p = 0.1, layer = 2 })
    y:backward(seed)
    local out = {}
    for i, s in ipairs(order) do
      local first, n = layout:starts()[i] + 1, SEQUENCES[s]
      out[s] = { y:narrow(1, first, n):clone(), x:grad():narrow(1, first, n):clone() }
    end
    return out
  end

  local packed = results({ 1, 2, 3 }, nil, 128)
  local turned = results({ 3, 1, 2 }, nil, 128)
  local padded = results({ 2, 3, 1 }, { 0, 64, 128 }, 192)
  for s in ipairs(SEQUENCES) do
    local alone = results({ s }, nil, nil)[s]
    for _, other in ipairs { packed[s], turned[s], padded[s] } do
      for k = 1, 2 do
        local miss = (other[k] - alone[k]):abs():max():item()
        assert.is_true(miss <= 1e-5 * alone[k]:abs():max():item())
        -- exactly the same elements are dropped
        assert.equal(0, other[k]:eq(0):ne(alone[k]:eq(0)):sum():item())
      end
    end
  end
end)

describe("rotary positions", function()
  ---What torch has for them: f32 frequencies and angles.  The table of `ref` holds the same numbers.
  local function f32(x) return (string.unpack("f", string.pack("f", x))) end
  local function angle(position, j, size, theta)
    return f32(position * f32(1 / f32(theta ^ f32(2 * j / size))))
  end

  each_device("turn pairs half a head apart by the position in the sequence, beyond 8,192 too", function()
    local size, theta, n = 6, 160000, 9000
    local layout = sr.layout { lens = { 3, n }, starts = { 0, 8 }, rows = 8 + n }
    local qkv = sr.zeros(layout:rows(), 3 * size)
    qkv:narrow(2, 1, 3):fill_(1) -- first halves of q
    qkv:narrow(2, size + 4, 3):fill_(1) -- second halves of k
    local y = sr.ops.rotary(qkv, layout, { heads = 1, theta = theta })
    for row, position in pairs { [2] = 2, [8] = 0, [9] = 1, [8 + 8191] = 8191, [8 + n - 1] = n - 1 } do
      local got = y[row + 1]:totable()
      for j = 0, 2 do
        local a = angle(position, j, size, theta)
        assert.near(math.cos(a), got[1 + j], 1e-6)
        assert.near(math.sin(a), got[4 + j], 1e-6)
        assert.near(-math.sin(a), got[7 + j], 1e-6)
        assert.near(math.cos(a), got[10 + j], 1e-6)
      end
    end
    assert.equal(0, y:narrow(1, 4, 5):abs():sum():item()) -- slack
  end)

  each_device("and gates give a sequence the same bits alone and packed, forward and backward", function()
    local heads, size = 4, 8
    local width = (heads + 2 * 2) * size
    local function run(order, starts, rows)
      local layout, x, seed = placed(order, starts, rows, width, width // 2)
      local turned = sr.ops.rotary(x, layout, { heads = heads, kv_heads = 2, theta = 1000 })
      local y = sr.ops.gated(turned, { act = "silu" })
      y:backward(seed)
      local bits = {}
      for i, s in ipairs(order) do bits[s] = rows_of(y, layout, i) .. rows_of(x:grad(), layout, i) end
      return bits
    end
    local packed, padded = run({ 1, 2, 3 }), run({ 3, 1, 2 }, { 0, 64, 128 }, 192)
    for s in ipairs(SEQUENCES) do
      local alone = run({ s })[s]
      assert.is_true(packed[s] == alone and padded[s] == alone)
    end
  end)

  each_device("are checked, and so is what cannot be overwritten", function()
    local layout, qkv = sr.layout { lens = { 2 } }, sr.zeros(2, 24)
    local function refuses(pattern, options, x)
      assert.error_matches(function()
        sr.ops.rotary(x or qkv, layout, options)
        sr.synchronize()
      end, pattern)
    end
    refuses("rotary: the option 'heads' is missing", {})
    refuses("rotary: qkv has 24 columns, which is not a multiple of 5 query heads and 2 x 5", { heads = 5 })
    refuses("rotary: heads have 1 columns, which are turned in pairs", { heads = 8 })
    refuses("rotary: theta is %-1; expected a number above 0", { heads = 2, theta = -1 })
    local at = sr.tensor({ 0, 7 }, { dtype = "i32" })
    refuses("rotary: positions%[1%] is 7, but the limit is 7", { heads = 2, positions = at, limit = 7 })
    refuses("rotary: x is a leaf", { heads = 2, in_place = true }, leaf(sr.zeros(2, 24)))
    assert.error_matches(function() sr.ops.gated(sr.zeros(2, 5), { act = "gelu" }) end, "gated: x has 5 columns")
    assert.error_matches(function() sr.ops.gated(sr.zeros(2, 4), {}) end, "gated: the option 'act' is missing")
    assert.error_matches(function() sr.ops.gated(sr.zeros(2, 4), { act = "swiglu" }) end, "gated: act.*swiglu")
    local x = sr.ops.linear(leaf(sr.ones(2, 4)), sr.ones(24, 4))
    local y = x:gelu() -- keeps x
    sr.ops.rotary(x, layout, { heads = 2, in_place = true })
    assert.error_matches(function() y:sum():backward() end, "written to")
  end)
end)

-- ---- dropout -----------------------------------------------------------------------------------

---The elements that a site keeps, as a 0/1 tensor, forward and backward.  Each site has its own method.
local SITES = {}

local ROWS, COLUMNS = 64, 128

local function dropout_site(site)
  return function(layout, p, layer)
    local x = leaf(sr.ones(layout:rows(), COLUMNS))
    local y = sr.ops.dropout(x, layout, { p = p, site = site, layer = layer })
    y:backward(sr.ones(layout:rows(), COLUMNS))
    return y, x:grad()
  end
end
SITES.dropout, SITES.head = dropout_site(nil), dropout_site("head")

---Recovers the mask from the output of the norm.
local function norm_site(site)
  return function(layout, p, layer)
    local x, residual = leaf(sr.ones(layout:rows(), COLUMNS)), sr.zeros(layout:rows(), COLUMNS)
    local gamma, beta = sr.ones(COLUMNS), leaf(sr.zeros(COLUMNS))
    local options = { eps = 1e-12, dropout = p, site = site, layer = layer, layout = layout }
    local y = sr.ops.residual_norm(x, residual, gamma, beta, options)
    y:backward(sr.randn(y:shape(), { seed = 8, uid = 1 }))
    -- of ones, those kept are above the mean of their row
    return y:gt(0):to(x:dtype()) * (256 / (256 * sr.ops.keep_probability(p))), x:grad()
  end
end
SITES.projection, SITES.feed = norm_site("projection"), norm_site("feed")

---With equal scores and v = identity, row i of the output is the mask of query i over n.
function SITES.attention(layout, p, layer)
  local n = layout:lengths()[1]
  local identity = sr.arange(1, n):unsqueeze(2):eq(sr.arange(1, COLUMNS))
  local qkv = sr.zeros(layout:rows(), 3 * COLUMNS)
  qkv:narrow(1, layout:starts()[1] + 1, n):narrow(2, 2 * COLUMNS + 1, COLUMNS):copy_(identity)
  leaf(qkv)
  local y = sr.ops.attention(qkv, layout, { heads = 1, dropout = p, layer = layer })
  local seed = sr.zeros(layout:rows(), COLUMNS)
  seed:narrow(1, layout:starts()[1] + 1, n):copy_(identity)
  y:backward(seed)
  -- dv_j = sum_i Z_ij p do_i: row j holds column j of the mask
  local dv = qkv:grad():narrow(2, 2 * COLUMNS + 1, COLUMNS)
  local back = sr.zeros(layout:rows(), COLUMNS)
  back:narrow(1, layout:starts()[1] + 1, n):narrow(2, 1, n):copy_(
    dv:narrow(1, layout:starts()[1] + 1, n):narrow(2, 1, n):t())
  return y * n, back * n
end

---The mask of sequence 1: which of its (row, column) pairs were kept.
local function kept(t, layout, columns)
  return t:narrow(1, layout:starts()[1] + 1, layout:lengths()[1]):narrow(2, 1, columns):ne(0)
end

local function layout_of(fields)
  return sr.layout {
    lens = { ROWS }, uids = { fields.uid or 5 }, epochs = { fields.epoch or 0 }, starts = { fields.start or 0 },
    rows = fields.rows or ROWS, seed = fields.seed or 99,
  }
end

for name, site in pairs(SITES) do
  local columns = name == "attention" and ROWS or COLUMNS

  describe("dropout at " .. name, function()
    each_device("drops at its rate and scales by its factor", function()
      for _, p in ipairs { 0.1, 0.25, 0.5 } do
        local layout = layout_of {}
        local y = site(layout, p, 1)
        local mask = kept(y, layout, columns)
        local n, rate = mask:numel(), 1 - sr.ops.keep_probability(p)
        assert.equal(math.floor(256 * (1 - p) + 0.5) / 256, sr.ops.keep_probability(p))
        local dropped = n - mask:sum():item()
        assert.is_true(math.abs(dropped - n * rate) < 4 * math.sqrt(n * rate * (1 - rate))) -- 4 sigma
        local scale = y:max():item()
        assert.is_true(math.abs(scale - 1 / (1 - rate)) < 1e-5)
      end
    end)

    each_device("drops the same elements forward and backward", function()
      local layout = layout_of {}
      local y, dx = site(layout, 0.1, 1)
      assert.equal(0, kept(y, layout, columns):ne(kept(dx, layout, columns)):sum():item())
    end)

    each_device("differs by layer, epoch, uid and seed", function()
      local base = layout_of {}
      local first = kept(site(base, 0.5, 1), base, columns)
      local others = {
        { base, 2 }, { layout_of { epoch = 1 }, 1 }, { layout_of { uid = 6 }, 1 }, { layout_of { seed = 98 }, 1 },
      }
      for _, other in ipairs(others) do
        local mask = kept(site(other[1], 0.5, other[2]), other[1], columns)
        local share = mask:ne(first):sum():item() / first:numel()
        assert.is_true(math.abs(share - 0.5) < 0.04) -- 5 sigma of 4,096 coins
      end
    end)

    each_device("does not depend on the position in the buffer", function()
      local here, there = layout_of {}, layout_of { start = 37, rows = 128 }
      local a, b = kept(site(here, 0.5, 1), here, columns), kept(site(there, 0.5, 1), there, columns)
      assert.equal(0, a:ne(b):sum():item())
    end)

    it("is the same on every device", function()
      local masks = {}
      local before = sr.device()
      for _, device in ipairs(sr.devices()) do
        sr.use(device)
        local layout = layout_of {}
        masks[#masks + 1] = kept(site(layout, 0.1, 3), layout, columns):tostring_bytes()
      end
      sr.use(before)
      for i = 2, #masks do assert.is_true(masks[1] == masks[i]) end
    end)
  end)
end

describe("dropout", function()
  each_device("differs from site to site", function()
    local layout = layout_of {}
    local masks = {}
    for name, site in pairs(SITES) do
      if name ~= "attention" then masks[#masks + 1] = kept(site(layout, 0.5, 1), layout, COLUMNS) end
    end
    for i = 1, #masks do
      for j = i + 1, #masks do
        local share = masks[i]:ne(masks[j]):sum():item() / masks[i]:numel()
        assert.is_true(math.abs(share - 0.5) < 0.04)
      end
    end
  end)

  each_device("of attention differs from head to head", function()
    local layout = sr.layout { lens = { 32 }, seed = 4 }
    local qkv = sr.zeros(32, 3 * 64)
    local identity = sr.arange(1, 32):unsqueeze(2):eq(sr.arange(1, 32))
    for head = 0, 1 do qkv:narrow(2, 129 + 32 * head, 32):copy_(identity) end
    local y = sr.ops.attention(qkv, layout, { heads = 2, dropout = 0.5 })
    local differing = y:narrow(2, 1, 32):ne(0):ne(y:narrow(2, 33, 32):ne(0)):sum():item()
    assert.is_true(math.abs(differing / 1024 - 0.5) < 0.08)
  end)

  each_device("of the embedding passes gradients to the kept elements only", function()
    local layout = layout_of {}
    local tables = {
      word = sr.randn({ 7, COLUMNS }, { uid = 1 }), position = sr.randn({ ROWS, COLUMNS }, { uid = 2 }),
      type = sr.randn({ 2, COLUMNS }, { uid = 3 }), gamma = sr.ones(COLUMNS), beta = leaf(sr.zeros(COLUMNS)),
    }
    local ids, types = sr.zeros(ROWS, { dtype = "i32" }), sr.zeros(ROWS, { dtype = "i32" })
    local y = sr.ops.embed(ids, types, tables, layout, { dropout = 0.1 })
    y:sum():backward()
    -- dbeta[h] is the scale times the number of rows that kept column h
    local counts = y:ne(0):sum(1):to(y:dtype()) * (256 / 230)
    assert.is_true((counts - tables.beta:grad()):abs():max():item() < 1e-3)
    local rate = 1 - y:ne(0):sum():item() / y:numel()
    assert.is_true(math.abs(rate - 26 / 256) < 4 * math.sqrt(26 * 230 / 256 ^ 2 / y:numel()))
  end)

  each_device("with p = 0 is the identity, and with p = 1 is rejected", function()
    local layout = layout_of {}
    local x = sr.randn({ ROWS, COLUMNS }, { uid = 1 })
    assert.equal(x:tostring_bytes(), sr.ops.dropout(x, layout, { p = 0 }):tostring_bytes())
    assert.is_false(pcall(sr.ops.dropout, x, layout, { p = 1 }))
    assert.is_false(pcall(sr.ops.dropout, x, layout, { p = -0.1 }))
    local endless = sr.layout { lens = { 65537 } }
    assert.is_false(pcall(sr.ops.dropout, sr.ones(65537, 1), endless, { p = 0.1 }))
    assert.is_true(pcall(sr.ops.dropout, sr.ones(65537, 1), endless, { p = 0 }))
  end)
end)

-- Packed attention with a window, a causal mask and shared key heads: against scores that are written out, and what
-- packing, padding and threads must not change.

local devices = require("tests.support.devices")
local sr = require("seqrun")
local with = require("tests.support.with")
devices.gpus()

local each_device, it_on, on = devices.each(it), devices.it_on(it), devices.on

local VARIANTS = {
  { window = 0 }, { window = 1 }, { window = 7 }, { window = 64 }, { window = 1000 }, { causal = true },
  { causal = true, window = 3 }, { kv_heads = 2 }, { kv_heads = 1, window = 5 },
  { kv_heads = 2, causal = true, window = 20 },
}

local function name_of(v)
  local parts = {}
  for _, key in ipairs { "window", "causal", "kv_heads" } do
    if v[key] ~= nil then parts[#parts + 1] = key .. " " .. tostring(v[key]) end
  end
  return table.concat(parts, ", ")
end


describe("attention on ref", function()
  it_on("ref", "of a list of rows equals rows of scores that are written out", function()
    local layout, qkv = sr.layout { lens = { 5, 17 }, starts = { 2, 8 }, rows = 26 }, sr.randn(26, 36)
    local rows = sr.tensor({ 2, 6, 9, 24 }, { dtype = "i32" })
    local options = { heads = 2, window = 4, rows = rows }
    local y, written = sr.ops.attention(qkv, layout, options), sr.nn.dense_attention(qkv, layout, options)
    assert.same({ 4, 12 }, written:shape())
    assert.is_true((y - written):abs():max():item() < 1e-12)
  end)

  for _, v in ipairs(VARIANTS) do
    it_on("ref", "with " .. name_of(v) .. " equals scores that are written out, in both directions", function()
      local layout = sr.layout { lens = { 5, 17, 1, 70 }, starts = { 2, 8, 30, 40 }, rows = 112 }
      local options = with(v, { heads = 4 })
      local columns = (4 + 2 * (v.kv_heads or 4)) * 6
      local x, weights = sr.randn(112, columns), sr.randn(112, 24)
      local results = {}
      for i, attention in ipairs { sr.ops.attention, sr.nn.dense_attention } do
        local qkv = x:clone():requires_grad_()
        local y = attention(qkv, layout, options)
        ;(y * weights):sum():backward()
        results[i] = { y = y:detach(), grad = qkv:grad() }
      end
      assert.is_true((results[1].y - results[2].y):abs():max():item() < 1e-12)
      assert.is_true((results[1].grad - results[2].grad):abs():max():item() < 1e-12)
    end)
  end
end)

---Bytes of the result and of the gradient of some rows of a layout, whose numbers depend on the sequence alone.
---@param place { lens: integer[], starts: integer[], rows: integer, uids: integer[] }
---@param wanted integer index of the sequence whose rows are read
local function bits_of(place, wanted, options, dtype)
  local scope <close> = sr.scope()
  local kv_heads = options.kv_heads or options.heads
  local width = (options.heads + 2 * kv_heads) * 32
  local function filled(columns, seed)
    local parts, at = {}, 0
    local function slack(rows)
      if rows > 0 then parts[#parts + 1] = sr.full({ rows, columns }, 0 / 0) end
    end
    for i, n in ipairs(place.lens) do
      slack(place.starts[i] - at)
      parts[#parts + 1] = sr.randn(n, columns, { seed = seed + place.uids[i] })
      at = place.starts[i] + n
    end
    slack(place.rows - at)
    return sr.cat(parts, 1):to(dtype)
  end
  local layout = sr.layout { lens = place.lens, starts = place.starts, rows = place.rows, uids = place.uids, seed = 7 }
  local qkv = filled(width, 100):detach():requires_grad_()
  local y = sr.ops.attention(qkv, layout, options)
  local dy = filled(options.heads * 32, 200)
  y:backward(dy)
  local first, n = place.starts[wanted] + 1, place.lens[wanted]
  return y:narrow(1, first, n):totable(), qkv:grad():narrow(1, first, n):totable()
end

local ALONE = { lens = { 150 }, starts = { 0 }, rows = 150, uids = { 3 } }
local PLACES = {
  ["packed"] = { { lens = { 70, 150, 9 }, starts = { 0, 70, 220 }, rows = 229, uids = { 5, 3, 4 } }, 2 },
  ["padded"] = { { lens = { 20, 150 }, starts = { 0, 256 }, rows = 512, uids = { 5, 3 } }, 2 },
}
local SMALL = { { window = 0 }, { window = 40 }, { causal = true }, { kv_heads = 1, window = 64 } }

describe("attention", function()
  for _, v in ipairs(SMALL) do
    each_device("with " .. name_of(v) .. " gives a sequence the same bits alone, packed and padded", function(device)
      for _, dtype in ipairs(device == "ref" and { "f64" } or { "f32", "bf16" }) do
        local options = with(v, { heads = 2, dropout = 0.1, layer = 1 })
        local y, grad = bits_of(ALONE, 1, options, dtype)
        for name, place in pairs(PLACES) do
          local packed_y, packed_grad = bits_of(place[1], place[2], options, dtype)
          assert.same(y, packed_y, name)
          assert.same(grad, packed_grad, name)
        end
      end
    end)
  end

  each_device("with a window as long as the sequence is that without one to the bit", function(device)
    for _, dtype in ipairs(device == "ref" and { "f64" } or { "f32", "bf16" }) do
      for _, dropout in ipairs { 0, 0.1 } do
        local y, grad = bits_of(ALONE, 1, { heads = 2, dropout = dropout, layer = 1 }, dtype)
        for _, window in ipairs(device == "simt" and { 149 } or { 149, 150, 1 << 40 }) do
          local options = { heads = 2, dropout = dropout, layer = 1, window = window }
          local other_y, other_grad = bits_of(ALONE, 1, options, dtype)
          assert.same(y, other_y)
          assert.same(grad, other_grad)
        end
      end
    end
  end)

  -- more keys than a block of the backward pass has, and strips at the edges of blocks
  local longest = { {}, { window = 64 }, { kv_heads = 1, causal = true } }
  if require("tests.support.long") then
    table.move({ { window = 700 }, { causal = true }, { kv_heads = 1, window = 80 } }, 1, 3, #longest + 1, longest)
  end
  for _, v in ipairs(longest) do
    it("of 1,100 tokens " .. name_of(v) .. " on the CPU equals that on ref, in both directions", function()
      local place = { lens = { 30, 1100 }, starts = { 0, 30 }, rows = 1130, uids = { 5, 3 } }
      local options = with(v, { heads = 2, dropout = 0.1, layer = 1 })
      local function on_device(device, dtype)
        return on(device, function() return { bits_of(place, 2, options, dtype) } end)
      end
      local wanted = on_device("ref", "f64")
      for dtype, most in pairs { f32 = 3e-6, bf16 = 2e-2 } do
        local got = on_device("cpu", dtype)
        for i = 1, 2 do
          local a, b = sr.tensor(wanted[i]), sr.tensor(got[i])
          assert.is_true((a - b):abs():max():item() < most * a:abs():max():item(), dtype .. " " .. i)
        end
      end
    end)
  end

  it("with a window has the same bits on any number of threads", function()
    local before = sr.threads()
    local place = { lens = { 70, 700, 9 }, starts = { 0, 70, 770 }, rows = 779, uids = { 5, 3, 4 } }
    local function run(threads, v, dtype)
      sr.use("cpu", { threads = threads })
      return { bits_of(place, 2, with(v, { heads = 2, dropout = 0.1 }), dtype) }
    end
    for _, v in ipairs(SMALL) do
      for _, dtype in ipairs { "f32", "bf16" } do
        local wanted = run(1, v, dtype)
        for _, threads in ipairs { 2, 3 } do assert.same(wanted, run(threads, v, dtype)) end
      end
    end
    sr.use("cpu", { threads = before })
  end)

  -- a device that takes no list attends all rows
  each_device("of a list of rows is what they get among all, in both directions", function(device)
    local layout = sr.layout { lens = { 150, 9, 40 }, starts = { 3, 160, 170 }, rows = 220, seed = 7 }
    local owners, lists = layout:owners(), { {}, {} } -- one of seven rows, and a cluster with the last row
    for r = 3, 209 do
      local first = owners[r + 1] == 0
      if (first or owners[r + 1] == 2) and r % 7 == 3 then table.insert(lists[1], r) end
      if first and (r >= 33 and r < 97 or r == 152) then table.insert(lists[2], r) end
    end
    for _, list in ipairs(lists) do
      local rows = sr.tensor(list, { dtype = "i32" })
      for _, dtype in ipairs(device == "ref" and { "f64" } or { "f32", "bf16" }) do
        local all = { { window = 40 }, {}, { window = 2 }, { kv_heads = 1, causal = true } }
        if device == "simt" and dtype == "f32" then all = { all[1] } end -- the plain kernel has no strips of keys
        for _, v in ipairs(all) do
          local options = with(v, { heads = 2, dropout = 0.1, layer = 1 })
          local x = sr.randn(220, (2 + 2 * (v.kv_heads or 2)) * 32, { seed = 1 }):to(dtype)
          local dy, results = sr.randn(#list, 64, { seed = 2 }):to(dtype), {}
          for i, listed in ipairs { false, true } do
            local qkv = x:detach():requires_grad_()
            local y = listed and sr.ops.attention(qkv, layout, with(options, { rows = rows }))
              or sr.ops.gather_rows(sr.ops.attention(qkv, layout, options), rows)
            y:backward(dy)
            results[i] = { y:totable(), qkv:grad():to("f32") }
          end
          assert.same(results[1][1], results[2][1])
          local most = results[1][2]:abs():max():item() * (dtype == "bf16" and 2e-2 or 1e-5)
          assert.is_true((results[1][2] - results[2][2]):abs():max():item() < most)
        end
      end
    end
  end)

  it("refuses rows that are no list of queries", function()
    local layout, qkv = sr.layout { lens = { 2, 3 }, starts = { 1, 4 }, rows = 8 }, sr.randn(8, 12)
    local function fails(rows, message)
      local options = { heads = 2, rows = sr.tensor(rows, { dtype = "i32" }) }
      assert.has_error(function() sr.ops.attention(qkv, layout, options) end, message)
    end
    fails({ 1, 3 }, "attention: rows[1] is 3, which is in no sequence of the layout (rows are counted from 0)")
    fails({ 8 }, "attention: rows[0] is 8, which is in no sequence of the layout (rows are counted from 0)")
    fails({ -1 }, "attention: rows[0] is -1, which is in no sequence of the layout (rows are counted from 0)")
    fails({ 4, 2 }, "attention: rows[1] is 2 after 4; rows must ascend")
    fails({ 4, 4 }, "attention: rows[1] is 4 after 4; rows must ascend")
    for given, shown in pairs { [false] = "false", [{}] = "a table" } do
      assert.has_error(function() sr.ops.attention(qkv, layout, { heads = 2, rows = given }) end,
        "attention: rows is " .. shown .. "; must be an i32 tensor of rows in ascending order, or nil")
    end
    local _, message = pcall(sr.ops.attention, qkv, layout, { heads = 2, rows = sr.randn(2) })
    assert.matches("attention: rows is .*; expected .*i32", tostring(message))
    local none = sr.ops.attention(qkv, layout, { heads = 2, rows = sr.zeros(0, { dtype = "i32" }) })
    assert.equal(0, none:size(1))
  end)

  it("refuses options that fit no tensor in one sentence", function()
    local layout, qkv = sr.layout { lens = { 4 } }, sr.randn(4, 40)
    local function fails(options, message)
      assert.has_error(function() sr.ops.attention(qkv, layout, options) end, message)
    end
    fails({ heads = 4, kv_heads = 3 },
      "attention: 4 query heads cannot share 3 key and value heads; kv_heads must divide heads")
    fails({ heads = 4, kv_heads = 3, window = 2.5 },
      "attention: window is 2.5; must be an integer of at least 0, the largest |i - j|, or nil")
    fails({ heads = 4, window = -1 },
      "attention: window is -1; must be an integer of at least 0, the largest |i - j|, or nil")
    fails({ heads = 5, kv_heads = 1 }, "attention: qkv has 40 columns, which is not a multiple of 5 + 2 x 1 heads; "
      .. "each row must be [5 q heads | 1 k heads | 1 v heads]")
  end)
end)

it("the scores of a layout are the pairs of rows that attention keeps", function()
  local lens = { 1, 5, 2, 70, 33 }
  local layout = sr.layout { lens = lens }
  for _, window in ipairs { false, 0, 1, 4, 32, 69, 500 } do
    for _, causal in ipairs { false, true } do
      local count = 0
      for _, n in ipairs(lens) do
        for i = 1, n do
          for j = 1, n do
            if (not window or math.abs(i - j) <= window) and (not causal or j <= i) then count = count + 1 end
          end
        end
      end
      assert.equal(count, layout:scores(window or nil, causal))
    end
  end
  assert.equal(layout:squares(), layout:scores())
end)

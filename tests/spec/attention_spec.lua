-- Packed attention with a window, a causal mask and shared key heads: against scores that are written out, and what
-- packing, padding and threads must not change.

local sr = require("seqrun")
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

local function with(v, more)
  local options = {}
  for _, from in ipairs { v, more } do
    for key, value in pairs(from) do options[key] = value end
  end
  return options
end

local function on(device, fn)
  local before = sr.device()
  sr.use(device)
  local scope <close> = sr.scope()
  local good, result = pcall(fn)
  sr.use(before)
  if not good then error(result, 0) end
  return result
end

describe("attention on ref", function()
  for _, v in ipairs(VARIANTS) do
    it("with " .. name_of(v) .. " equals scores that are written out, in both directions", function()
      on("ref", function()
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
    end)
  end
end)

describe("attention", function()
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

describe("the scores of a layout", function()
  it("are the pairs of rows that attention keeps", function()
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
end)

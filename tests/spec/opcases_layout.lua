-- opcases_layout.lua - the cases of ops on a layout, for opcases.lua: attention, rotary positions, norms, embeddings.

local case = require("tests.spec.opcases_list")

---Ragged layouts: sizes around those of vectors, strips and tiles, with and without slack.
local LAYOUTS = {
  { "one token", { lens = { 1 } } },
  { "three and two", { lens = { 3, 2 } } },
  { "around 16", { lens = { 15, 16, 17, 1 } } },
  { "around 48 and 64", { lens = { 48, 49, 63, 64, 65 } } },
  { "around 128", { lens = { 127, 128, 129 } } },
  {
    "gaps and slack",
    { lens = { 5, 9, 4 }, starts = { 2, 16, 30 }, rows = 40, uids = { 9, 4, 11 }, epochs = { 0, 1, 2 } },
  },
  { "padded rows", { lens = { 5, 16, 9 }, starts = { 0, 16, 32 }, rows = 48 } },
}
local LONG = { { "512", { lens = { 512 } } }, { "513 and 7", { lens = { 513, 7 } } } }

local function rows_of(layout)
  if layout.rows then return layout.rows end
  local sum = 0
  for _, n in ipairs(layout.lens) do sum = sum + n end
  return sum
end

local function with_seed(layout)
  local copy = { seed = 12345 }
  for key, value in pairs(layout) do copy[key] = value end
  return copy
end

---Weight 1 for the rows of sequences, 0 for slack, whose content is unspecified.
local function owned(sr, layout, x)
  local rows = {}
  for i, owner in ipairs(layout:owners()) do
    if owner >= 0 then rows[#rows + 1] = i - 1 end
  end
  return sr.ops.gather_rows(x, sr.tensor(rows, { dtype = "i32" }))
end

---One of `step` rows of each sequence; of the second only with step 1.
local function some_rows(sr, layout, step)
  local rows, at = {}, 0
  for s, n in ipairs(layout.lens) do
    at = layout.starts and layout.starts[s] or at
    for i = 0, n - 1 do
      if i % step == 0 and (s ~= 2 or step == 1) then rows[#rows + 1] = at + i end
    end
    at = at + n
  end
  return sr.tensor(rows, { dtype = "i32" })
end

---@param more? { scale?: number, window?: integer, causal?: boolean, kv_heads?: integer, step?: integer } scale: of
---  qkv; step: one of as many rows is a query
local function attention_case(label, layout, heads, size, dropout, more)
  more = more or {}
  local rows, kinds = rows_of(layout), {}
  for _, key in ipairs { "scale", "window", "causal", "kv_heads", "step" } do
    if more[key] then kinds[#kinds + 1] = (", %s %s"):format(key, more[key]) end
  end
  case(("attention, %s, %d heads of %d, dropout %g%s"):format(label, heads, size, dropout, table.concat(kinds)),
    function(r)
      return { qkv = r.normal({ rows, (heads + 2 * (more.kv_heads or heads)) * size }, more.scale or 1) }
    end, function(sr, t)
      local options = { heads = heads, dropout = dropout, layer = 3 }
      for _, key in ipairs { "window", "causal", "kv_heads" } do options[key] = more[key] end
      if more.step then options.rows = some_rows(sr, layout, more.step) end
      return { sr.ops.attention(t.qkv, sr.layout(with_seed(layout)), options) }
    end, {
      tolerance = more.scale and 3e-5 or 5e-6, -- peaky: scores of hundreds keep an absolute error of 1e-5
      slow = rows > 300,
    })
end
for _, entry in ipairs(LAYOUTS) do
  for _, dropout in ipairs { 0, 0.1, 0.5 } do attention_case(entry[1], entry[2], 2, 16, dropout) end
end
attention_case("no sequence at all", { lens = {}, rows = 4 }, 2, 16, 0.1)
for _, entry in ipairs(LONG) do attention_case(entry[1], entry[2], 1, 64, 0.1) end
attention_case("around 16", LAYOUTS[3][2], 1, 64, 0.1)
attention_case("around 16", LAYOUTS[3][2], 3, 5, 0.1) -- a head size that is not a multiple of any vector
attention_case("around 16", LAYOUTS[3][2], 1, 128, 0)
attention_case("around 16", LAYOUTS[3][2], 2, 16, 0.1, { scale = 8 })
for _, variant in ipairs {
  { window = 0 }, { window = 5 }, { window = 64 }, { window = 1000 }, { causal = true }, { causal = true, window = 20 },
  { kv_heads = 2 }, { kv_heads = 1, window = 9 }, { kv_heads = 2, causal = true },
  { step = 1 }, { step = 6 }, { step = 3, window = 5 }, { step = 50, window = 3 },
  { step = 4, causal = true, kv_heads = 2 },
} do
  for i, dropout in ipairs { 0, 0.1 } do
    local entry = LAYOUTS[5 + i]
    attention_case(entry[1], entry[2], 4, 16, dropout, variant)
    attention_case("mixed", { lens = { 5, 17, 1, 150, 48 }, starts = { 2, 8, 30, 40, 200 }, rows = 250 }, 4, 5, dropout,
      variant)
  end
end
attention_case("513 and 7", LONG[2][2], 1, 64, 0.1, { step = 7 })
-- on tensor cores: groups of short sequences, several sequences that a block owns each, and one that is split
attention_case("around 16", LAYOUTS[3][2], 4, 32, 0.1, { kv_heads = 2, window = 5 })
attention_case("around 48 and 64", LAYOUTS[4][2], 2, 64, 0, { causal = true, window = 20 })
attention_case("four of 130", { lens = { 130, 130, 130, 130 } }, 4, 32, 0.1, { kv_heads = 2, window = 40 })
attention_case("four of 130", { lens = { 130, 130, 130, 130 } }, 4, 64, 0, { kv_heads = 1, causal = true })
local LONGER = { lens = { 7, 300 } }
attention_case("7 and 300", LONGER, 2, 64, 0.1, { kv_heads = 1, window = 64 })
attention_case("7 and 300", LONGER, 1, 32, 0.1, { window = 33 })
attention_case("7 and 300", LONGER, 1, 64, 0, { causal = true })
attention_case("7 and 300", LONGER, 1, 128, 0.1, { causal = true, window = 100 })
case("attention over constant rows", function() return { qkv = { { 1, 1, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1, 1 } } } end,
  function(sr, t) return { sr.ops.attention(t.qkv, sr.layout { lens = { 2 } }, { heads = 1 }) } end)

for _, entry in ipairs(LAYOUTS) do
  local rows = rows_of(entry[2])
  for _, columns in ipairs { 1, 40, 150 } do -- in one stripe of columns, and in two
    case(("sequence_mean, %s, %d columns"):format(entry[1], columns),
      function(r) return { x = r.normal { rows, columns } } end,
      function(sr, t) return { sr.ops.sequence_mean(t.x, sr.layout(with_seed(entry[2]))) } end,
      { slow = rows > 300 })
  end
end
case("sequence_mean of no sequence at all, and of a transposed tensor",
  function(r) return { x = r.normal { 3, 5 } } end, function(sr, t)
    return {
      sr.ops.sequence_mean(t.x, sr.layout { lens = {}, rows = 3 }),
      sr.ops.sequence_mean(t.x:t(), sr.layout { lens = { 4 }, starts = { 1 }, rows = 5 }),
    }
  end)

---Heads, shared heads, their size, theta; sizes around those of vectors.
local TURNS = { { 2, 2, 16, 10000 }, { 4, 2, 6, 1000 }, { 1, 1, 64, 160000 } }
for _, entry in ipairs(LAYOUTS) do
  local rows = rows_of(entry[2])
  for _, turn in ipairs(TURNS) do
    local heads, kv_heads, size, theta = table.unpack(turn)
    case(("rotary, %s, %d heads and %d of %d, theta %d"):format(entry[1], heads, kv_heads, size, theta),
      function(r) return { qkv = r.normal { rows, (heads + 2 * kv_heads) * size } } end, function(sr, t)
        local options = { heads = heads, kv_heads = kv_heads, theta = theta }
        return { sr.ops.rotary(t.qkv, sr.layout(with_seed(entry[2])), options) }
      end, { slow = rows > 300 })
  end
end
case("rotary by explicit positions, and in place",
  function(r) return { x = r.normal { 9, 48 }, ["*at"] = { i32 = { 8191, 0, 5, 77, 8190, 3, 3, 1, 900 } } } end,
  function(sr, t)
    local l = sr.layout { lens = { 2, 3 }, starts = { 1, 5 }, rows = 9 }
    local options = { heads = 2, positions = t.at, limit = 8192 }
    local in_place = { heads = 2, in_place = true }
    local twice = sr.ops.rotary(sr.ops.rotary(t.x * 2, l, in_place), l, in_place)
    return { sr.ops.rotary(t.x, l, options), twice }
  end, {
    bf16 = 2 ^ -7, -- it is rounded twice
  })

-- As in an encoder: h has a gradient as the residual when that of the first layer is added, and the norm sums the
-- gradient of the last bias, unless something else uses what has the bias.
for _, dropout in ipairs { 0, 0.1 } do
  for _, used in ipairs { "once", "twice" } do
    local shape, rows = LAYOUTS[6][2], rows_of(LAYOUTS[6][2])
    case(("two layers with a residual, dropout %g, their result used %s"):format(dropout, used), function(r)
      return {
        x = r.normal { rows, 40 }, w1 = r.normal({ 48, 40 }, 0.2), b1 = r.normal { 48 },
        w2 = r.normal({ 40, 48 }, 0.2), b2 = r.normal { 40 }, gamma = r.positive { 40 }, beta = r.normal { 40 },
      }
    end, function(sr, t)
      local l, h = sr.layout(with_seed(shape)), t.x * 2
      local y = sr.ops.linear(sr.ops.linear(h, t.w1, t.b1, { act = "gelu" }), t.w2, t.b2)
      local options = { eps = 0.25, dropout = dropout, layer = 1, site = "feed", layout = l }
      local outputs = { owned(sr, l, sr.ops.residual_norm(y, h, t.gamma, t.beta, options)) }
      if used == "twice" then outputs[2] = owned(sr, l, y) end
      return outputs
    end, {
      tolerance = 1e-5,
      difference = 2e-6,
      bf16 = 2 ^ -6, -- it is rounded at three places
    })
  end
end

-- Attention sums the gradient of the bias of the layer that made its input, unless something else uses that, too.
local MIXED = { lens = { 5, 17, 1, 150, 48 }, starts = { 2, 8, 30, 40, 200 }, rows = 250 }
for _, kind in ipairs {
  { heads = 1, size = 32 }, { heads = 2, size = 64, dropout = 0.1 }, { heads = 1, size = 128 },
  { heads = 2, size = 64, window = 70 }, { heads = 4, size = 32, kv_heads = 2 }, { heads = 2, size = 5 },
  { heads = 1, size = 32, twice = true },
} do
  local columns = (kind.heads + 2 * (kind.kv_heads or kind.heads)) * kind.size
  case(("attention sums for the layer below, %d heads of %d, dropout %g, window %d, %d shared%s"):format(kind.heads,
    kind.size, kind.dropout or 0, kind.window or -1, kind.kv_heads or 0, kind.twice and ", used twice" or ""),
    function(r)
      return { x = r.normal { 250, 6 }, w = r.normal({ columns, 6 }, 0.4), b = r.normal { columns } }
    end, function(sr, t)
      local l, qkv = sr.layout(with_seed(MIXED)), sr.ops.linear(t.x, t.w, t.b)
      local options = { heads = kind.heads, dropout = kind.dropout or 0, layer = 3 }
      options.window, options.kv_heads = kind.window, kind.kv_heads
      local outputs = { sr.ops.attention(qkv, l, options) }
      if kind.twice then outputs[2] = owned(sr, l, qkv) end
      return outputs
    end, {
      tolerance = 1e-5,
      difference = false, -- of its parts, above
      bf16 = 2 ^ -6, -- it is rounded at three places
    })
end

for _, entry in ipairs(LAYOUTS) do
  local rows = rows_of(entry[2])
  for _, dropout in ipairs { 0, 0.1 } do
    local eps = dropout > 0 and 0.25 or 1e-12 -- large enough to matter, and that of BERT
    case(("residual_norm, %s, dropout %g"):format(entry[1], dropout), function(r)
      return {
        x = r.normal { rows, 40 }, residual = r.normal { rows, 40 },
        gamma = r.positive { 40 }, beta = r.normal { 40 },
      }
    end, function(sr, t)
      local l = sr.layout(with_seed(entry[2]))
      local options = { eps = eps, dropout = dropout, layer = 1, site = "feed", layout = l }
      return { owned(sr, l, sr.ops.residual_norm(t.x, t.residual, t.gamma, t.beta, options)) }
    end, { tolerance = 1e-5, difference = 2e-6 })
    case(("embed, %s, dropout %g"):format(entry[1], dropout), function(r)
      return {
        ["*ids"] = { i32 = r.integers({ rows }, 11) }, ["*types"] = { i32 = r.integers({ rows }, 2) },
        word = r.normal { 11, 24 }, position = r.normal { 130, 24 }, type = r.normal { 2, 24 },
        gamma = r.positive { 24 }, beta = r.normal { 24 },
      }
    end, function(sr, t)
      local l = sr.layout(with_seed(entry[2]))
      return { owned(sr, l, sr.ops.embed(t.ids, t.types, t, l, { eps = eps, dropout = dropout })) }
    end, { tolerance = 1e-5, difference = 2e-6 })
  end
  for _, kind in ipairs { "layer", "rms" } do
    -- as in blocks that begin with a norm: the sum goes on, and gradients come through both
    case(("residual_norm, %s, kind %s without beta, with the sum"):format(entry[1], kind), function(r)
      return { x = r.normal { rows, 40 }, residual = r.normal { rows, 40 }, gamma = r.positive { 40 } }
    end, function(sr, t)
      local l, outputs = sr.layout(with_seed(entry[2])), {}
      for i, dropout in ipairs { 0, 0.1 } do
        local options = { eps = 0.25, kind = kind, sum = true, dropout = dropout, site = "feed", layout = l }
        local y, sum = sr.ops.residual_norm(t.x, t.residual, t.gamma, nil, options)
        outputs[2 * i - 1], outputs[2 * i] = owned(sr, l, y), owned(sr, l, sum)
      end
      return outputs
    end, { tolerance = 1e-5, difference = 2e-6 })
    case(("embed, %s, kind %s without beta, positions by index"):format(entry[1], kind), function(r)
      return {
        ["*ids"] = { i32 = r.integers({ rows }, 11) }, ["*at"] = { i32 = r.integers({ rows }, 5) },
        word = r.normal { 11, 24 }, position = r.normal { 5, 24 }, type = r.normal { 1, 24 },
        gamma = r.positive { 24 },
      }
    end, function(sr, t)
      local l = sr.layout(with_seed(entry[2]))
      local options = { eps = 0.25, kind = kind, dropout = 0.1, positions = t.at }
      return { owned(sr, l, sr.ops.embed(t.ids, nil, t, l, options)) }
    end, { tolerance = 1e-5, difference = 2e-6 })
  end
  case("embed without a norm, " .. entry[1],
    function(r) return { ["*ids"] = { i32 = r.integers({ rows }, 11) }, word = r.normal { 11, 24 } } end,
    function(sr, t)
      local l, list = sr.layout(with_seed(entry[2])), {}
      for i, dropout in ipairs { 0, 0.1 } do
        list[i] = owned(sr, l, sr.ops.embed(t.ids, nil, { word = t.word }, l, { dropout = dropout }))
      end
      return list
    end)
  case("dropout, " .. entry[1], function(r) return { x = r.normal { rows, 70 } } end, function(sr, t)
    local l = sr.layout(with_seed(entry[2]))
    return { owned(sr, l, sr.ops.dropout(t.x, l, { p = 0.3, site = "head", layer = 2 })) }
  end)
end
case("norm of plain rows",
  function(r) return { x = r.normal { 7, 33 }, gamma = r.positive { 33 }, beta = r.normal { 33 } } end,
  function(sr, t) return { sr.ops.residual_norm(t.x, nil, t.gamma, t.beta, { eps = 1e-12 }) } end,
  { tolerance = 1e-5, difference = 2e-6 })
case("norm of plain rows of which only the sum is used, and with the sum of nothing",
  function(r) return { x = r.normal { 7, 33 }, other = r.normal { 7, 33 }, gamma = r.positive { 33 } } end,
  function(sr, t)
    local both = { eps = 1e-12, sum = true }
    local _, sum = sr.ops.residual_norm(t.x, t.other, t.gamma, nil, both)
    local y, x = sr.ops.residual_norm(t.x, nil, t.gamma, nil, both)
    return { sum, y, x * 2 }
  end, { tolerance = 1e-5, difference = 2e-6 })
case("norm of rows far from zero", function(r)
  local x = r.normal { 4, 64 }
  for _, row in ipairs(x) do
    for h = 1, #row do row[h] = r.round(row[h] + 100) end
  end
  return { x = x, gamma = r.positive { 64 }, beta = r.normal { 64 } }
end, function(sr, t) return { sr.ops.residual_norm(t.x, nil, t.gamma, t.beta, { eps = 1e-12 }) } end, {
  tolerance = 5e-5, -- the inputs' own rounding is 4e-6 of a deviation of 1
  difference = 1e-5,
})

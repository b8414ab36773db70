-- Layers that work on some tokens of each sequence: the drawing, and the way there and back.

local sr = require "seqrun"

local LENS, UIDS = { 7, 30, 1, 64, 12 }, { 5, 900, 77, 3, 41 }

local function packed() return sr.layout { lens = LENS, uids = UIDS, rows = 128, seed = 9 } end

---Positions that each sequence keeps, as texts by uid.
local function kept(layout, options)
  local short, rows = layout:shorten(options)
  local owners, positions, uids = layout:owners(), layout:positions(), layout:uids()
  local lists = {}
  for _, row in ipairs(rows:totable()) do
    local uid = uids[owners[row + 1] + 1]
    lists[uid] = (lists[uid] or "") .. " " .. positions[row + 1]
  end
  assert.equal(rows:numel(), short:rows())
  return lists, short
end

describe("a drawn layout", function()
  it("keeps its fraction of every sequence, regardless of its position", function()
    local options = { fraction = 0.5, layer = 3, first = true }
    local together, short = kept(packed(), options)
    assert.same({ 4, 15, 1, 32, 6 }, short:lengths())
    assert.same(UIDS, short:uids())
    for i, uid in ipairs(UIDS) do
      local alone = kept(sr.layout { lens = { LENS[i] }, uids = { uid }, seed = 9 }, options)
      assert.equal(together[uid], alone[uid])
      assert.truthy(together[uid]:find("^ 0"))
    end
    assert.not_same(together, (kept(packed(), { fraction = 0.5, layer = 4, first = true })))
  end)

  it("keeps the forced rows, and all of them if they exceed the fraction", function()
    local _, rows = packed():shorten { fraction = 0.1, rows = { 7, 8, 9, 10, 11 }, last = true }
    local found = {}
    for _, row in ipairs(rows:totable()) do found[row] = true end
    for _, row in ipairs { 6, 7, 8, 9, 10, 11, 36, 37, 101, 113 } do assert.is_true(found[row], row) end
    assert.equal(1 + 6 + 1 + 6 + 1, rows:numel())
    local _, given = packed():shorten { 3, 1 }
    assert.same({ 1, 3 }, given)
  end)

  it("lets rows pass by a layer, and gradients too", function()
    local layout = packed()
    local x = sr.randn({ 128, 4 }, { seed = 1, uid = 1, requires_grad = true })
    local _, rows = layout:shorten { fraction = 0.5 }
    local y = sr.ops.put_rows(x, rows, sr.ops.gather_rows(x, rows) * 3)
    y:sum():backward()
    local is_kept = {}
    for _, row in ipairs(rows:totable()) do is_kept[row + 1] = true end
    for row, derivative in ipairs(x:grad():totable()) do
      local wanted = is_kept[row] and 3 or 1
      assert.same({ wanted, wanted, wanted, wanted }, derivative)
    end
  end)

  ---A layer on all rows of these sequences, one by one, by small ops only.
  local function dense(layout, x, w, heads)
    local lens, parts, at = layout:lengths(), {}, 0
    local width = x:size(2) // heads
    local qkv = x:matmul(w:t())
    for s, len in ipairs(lens) do
      local mine, mixed = qkv:narrow(1, at + 1, len), {}
      for h = 1, heads do
        local function part(k) return mine:narrow(2, (k * heads + h - 1) * width + 1, width) end
        local scores = part(0):matmul(part(1):t()) * width ^ -0.5
        mixed[h] = scores:softmax(-1):matmul(part(2))
      end
      parts[s], at = sr.cat(mixed, 2), at + len
    end
    return sr.cat(parts, 1)
  end

  it("gives random-LTD: a layer on the kept tokens, its gradients those of dense attention", function()
    local before, heads = sr.device(), 2
    sr.use("ref")
    local layout = sr.layout { lens = { 5, 9, 1 }, uids = { 4, 8, 15 }, seed = 3 }
    local short, rows = layout:shorten { fraction = 0.6, layer = 1, first = true }
    local function result(mix)
      local x = sr.randn({ layout:rows(), 8 }, { seed = 1, uid = 1, requires_grad = true })
      local w = sr.randn({ 24, 8 }, { seed = 1, uid = 2, requires_grad = true })
      local kept_rows = sr.ops.gather_rows(x, rows)
      local y = sr.ops.put_rows(x, rows, kept_rows + mix(kept_rows, w))
      y:square():sum():backward()
      return { y:detach(), x:grad(), w:grad() }
    end
    local got = result(function(x, w) return sr.ops.attention(sr.ops.linear(x, w), short, { heads = heads }) end)
    local expected = result(function(x, w) return dense(short, x, w, heads) end)
    sr.use(before)
    for k, t in ipairs(expected) do
      assert.is_true((got[k] - t):abs():max():item() <= 1e-12 * t:abs():max():item(), "result " .. k)
    end
  end)

  it("refuses options that it does not know, and shares that keep nothing or too much", function()
    local layout = packed()
    assert.error_matches(function() layout:shorten { fraction = 0 } end, "choose one in %(0, 1%]")
    assert.error_matches(function() layout:shorten { fraction = 0.5, lyer = 1 } end, "layer")
    assert.error_matches(function() layout:shorten { fraction = 0.5, rows = { 128 } } end, "rows")
  end)
end)

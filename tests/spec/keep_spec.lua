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
  it("keeps its share of every sequence, the same wherever the sequence stands", function()
    local options = { share = 0.5, layer = 3, first = true }
    local together, short = kept(packed(), options)
    assert.same({ 4, 15, 1, 32, 6 }, short:lengths())
    assert.same(UIDS, short:uids())
    for i, uid in ipairs(UIDS) do
      local alone = kept(sr.layout { lens = { LENS[i] }, uids = { uid }, seed = 9 }, options)
      assert.equal(together[uid], alone[uid])
      assert.truthy(together[uid]:find("^ 0"))
    end
    assert.not_same(together, (kept(packed(), { share = 0.5, layer = 4, first = true })))
  end)

  it("keeps the rows that it is told to, and all of them when they are more than the share", function()
    local _, rows = packed():shorten { share = 0.1, rows = { 7, 8, 9, 10, 11 }, last = true }
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
    local _, rows = layout:shorten { share = 0.5 }
    local y = sr.ops.put_rows(x, rows, sr.ops.gather_rows(x, rows) * 3)
    y:sum():backward()
    local is_kept = {}
    for _, row in ipairs(rows:totable()) do is_kept[row + 1] = true end
    for row, slope in ipairs(x:grad():totable()) do
      local wanted = is_kept[row] and 3 or 1
      assert.same({ wanted, wanted, wanted, wanted }, slope)
    end
  end)

  it("refuses options that it does not know, and shares that keep nothing or too much", function()
    local layout = packed()
    assert.error_matches(function() layout:shorten { share = 0 } end, "choose one in %(0, 1%]")
    assert.error_matches(function() layout:shorten { share = 0.5, lyer = 1 } end, "layer")
    assert.error_matches(function() layout:shorten { share = 0.5, rows = { 128 } } end, "rows")
  end)
end)

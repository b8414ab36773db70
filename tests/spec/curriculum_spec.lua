-- Which examples a curriculum unlocks, and what updates draw from them.

local sr = require "seqrun"

local TABLE = {
  { value = 3, ids = { 7, 2 } }, { value = 5, ids = { 11 } }, { value = 8, ids = { 0, 4, 19, 21 } },
  { value = 9, ids = { 5, 1 } }, { value = 14, ids = { 22, 3, 9, 10, 6 } }, { value = 20, ids = { 8, 12, 13 } },
  { value = 33, ids = { 14, 15, 16, 17, 18, 20 } },
}

local GROUPS = {
  { value = 1, ids = { 0, 1, 2, 3, 4, 5 } }, { value = 2, ids = { 6, 7, 8, 9, 10, 11 } },
  { value = 3, ids = { 12, 13, 14, 15 } }, { value = 4, ids = { 16, 17, 18, 19, 20, 21, 22 } },
}

describe("the reference sampler", function()
  local reference = sr.curriculum.reference

  it("selects values above one difficulty and up to the next, in stored order", function()
    assert.same({ 7, 2 }, reference.select(TABLE, "value", -math.huge, 3))
    assert.same({}, reference.select(TABLE, "value", 9, 9))
    assert.same({ 11, 0, 4, 19, 21, 5, 1 }, reference.select(TABLE, "value", 3, 9))
  end)

  it("selects percentiles of equal size; the last one takes the remainder", function()
    assert.same({ 7, 2, 11, 0, 4, 19 }, reference.select(TABLE, "percentile", 0, 3, 10))
    assert.same({ 15, 16, 17, 18, 20 }, reference.select(TABLE, "percentile", 9, 10, 10))
    assert.same({}, reference.select(TABLE, "percentile", 0, 50, 100)) -- fewer examples than percentiles
  end)

  it("intersects several metrics and leaves out what it has", function()
    local clusters = reference.clusters(23, {
      { name = "v", kind = "value", rows = TABLE }, { name = "p", kind = "percentile", rows = GROUPS, max = 10 },
      { name = "length", single = true },
    })
    assert.same({ 0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11 }, clusters:advance { v = 14, p = 6, length = 8 })
    assert.same({ 8, 12, 13 }, clusters:advance { v = 20, p = 7, length = 8 })
    assert.is_nil(clusters:advance { v = 26, p = 8, length = 16 })
    assert.same({ 14, 15, 16, 17, 18, 19, 20, 21, 22 }, clusters:advance { v = 33, p = 10, length = 16 })
    assert.equal(23, #clusters:unlocked())
  end)

  it("has everything at once if no metric selects", function()
    local clusters = reference.clusters(3, { { name = "length", single = true } })
    assert.same({ 0, 1, 2 }, clusters:advance { length = 8 })
    assert.is_nil(clusters:advance { length = 16 })
    assert.same({ 0, 1, 2 }, clusters:unlocked())
  end)
end)

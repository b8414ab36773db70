-- Schedules of values: formulas, limits, the latch, saved state, what is refused, how they are drawn.

local fails = require("tests.support.fails")
local program = require("tests.support.program")
local schedule = require("seqrun.schedule")

local function values(s, ...)
  local list = {}
  for i, x in ipairs { ... } do list[i] = s:at(x) end
  return list
end

local function refused(words, t)
  local message = fails.raising(words, function() local s = schedule.new(t) return s end)
  assert.truthy(message:find("value_schedule_spec.lua", 1, true), message)
end

describe("a schedule of values", function()
  it("rises along a line or a root in multiples of its quantum, and ends at max", function()
    local length = schedule.new { kind = "length", min = 64, max = 128, quantum = 8, total = 8 }
    assert.same({ 64, 72, 120, 128, 128 }, values(length, 0, 1, 7, 8, 1000))
    assert.equal("integer", math.type(length:at(3)))
    local root = schedule.new { type = "root", degree = 2, min = 0, max = 10, quantum = 1, total = 100 }
    assert.same({ 0, 1, 5, 9, 10 }, values(root, 0, 1, 25, 99, 100))
    local smooth = schedule.new { kind = "fraction", min = 0.25, max = 0.75, total = 4 }
    assert.same({ 0.25, 0.5, 0.75 }, values(smooth, 0, 2, 4))
    local down = schedule.new { min = 0.25, max = 0.75, total = 4, down = true }
    assert.same({ 0.75, 0.5, 0.25, 0.25 }, values(down, 0, 2, 4, 9))
    assert.same({ 1, 1, 2, 3 }, values(schedule.new { type = "discrete", values = { 1, 2, 3 }, upto = { 5, 10 } },
      0, 5, 6, 11))
    assert.equal(0.5, schedule.new { type = "constant", value = 0.5 }:at(7))
  end)

  it("holds each size for its share of the tokens, so that all sizes have as many updates", function()
    local size = schedule.new {
      type = "proportional", kind = "count", min = 2, max = 4, total = 90, by = "real_tokens",
    } -- 2 + 3 + 4 = 9: the sizes end at 20, 50 and 90
    assert.same({ 2, 2, 3, 3, 4, 4, 4 }, values(size, 0, 19, 20, 49, 50, 90, 1000))
    assert.equal("integer", math.type(size:at { real_tokens = 20 }))
    local uneven = schedule.new { type = "proportional", min = 8, max = 24, quantum = 8, total = 100 }
    assert.same({ 8, 16, 16, 24 }, values(uneven, 16, 17, 49, 50)) -- rounded up: 100 / 6, 100 / 2
  end)

  it("computes in the order that the reference tables were made with", function()
    local s = schedule.new { min = 0, max = 100, quantum = 1, total = 1000 }
    assert.same({ 28, 56, 57 }, values(s, 290, 570, 580)) -- 29 with exact arithmetic
    local cubes = schedule.new { type = "root", degree = 3, min = 0, max = 1000, quantum = 10, total = 1000 }
    assert.same({ 100, 300, 600 }, values(cubes, 1, 27, 216))
  end)

  it("never starts below its minimum nor misses its maximum, unless faithful to the reference", function()
    local t = { min = 10, max = 100, quantum = 8, total = 50 }
    local ours = schedule.new(t)
    assert.same({ 10, 10, 100 }, values(ours, 0, 1, 50))
    t.faithful = true
    assert.same({ 8, 96, 96, 100 }, values(schedule.new(t), 0, 50, 52, 53))
    t = { min = 52, max = 54, quantum = 1.5, total = 1000, faithful = true } -- to an integer, then to the quantum
    assert.same({ 51, 52.5, 54 }, values(schedule.new(t), 250, 999, 1000))
  end)

  it("moves with advance; in the reference the first value that is not below max is the last", function()
    local t = { type = "discrete", values = { 1, 3, 7 }, upto = { 5, 10 }, min = 1, max = 3 }
    t.faithful = true
    local s = schedule.new(t)
    assert.equal(1, s.value)
    assert.same({ 1, 3, 3 }, { s:advance(5), s:advance(6), s:advance(20) })
    assert.equal(7, s:at(20))
    t.faithful, t.max = nil, 7
    s = schedule.new(t)
    assert.same({ 3, 7, 1 }, { s:advance(6), s:advance(20), s:advance(2) })
  end)

  it("goes on as if it had never stopped when its state is restored, with its latch", function()
    local t = { type = "discrete", values = { 1, 3, 7 }, upto = { 5, 10 }, min = 1, max = 3, faithful = true }
    for stop = 0, 14 do
      local whole, resumed = schedule.new(t), schedule.new(t)
      for x = 1, stop do whole:advance(x) end
      resumed:restore(whole:state())
      assert.equal(whole.value, resumed.value)
      for x = stop + 1, 15 do assert.equal(whole:advance(x), resumed:advance(x)) end
    end
    t.max = 9
    local other, latched = schedule.new(t), { value = 3, latched = true }
    assert.error_matches(function() other:restore(latched) end, "ended at 3, but this one continues to 9")
  end)

  it("is a function of any counter, of its values in Lua, and can be called like a rate", function()
    local s = schedule.new { min = 0, max = 10, total = 100, by = "effective_tokens" }
    assert.equal(5, s { step = 3, schedule_step = 3, effective_tokens = 50 })
    assert.error_matches(function() s { step = 3 } end, "depends on effective_tokens")
    local function tenth(at) return at.step / 10 end
    local custom = schedule.new { name = "mask.rate", type = "custom", max = 0.4, fn = tenth }
    assert.equal(0.2, custom:at { step = 2, schedule_step = 2 })
    assert.equal(0.4, custom:at { step = 9, schedule_step = 9 })
    local broken = schedule.new { name = "token_drop", type = "custom", fn = function(x)
      if x >= 5000 then error("no table", 0) end
      return 1
    end }
    assert.equal(1, broken:at(4999))
    assert.error_matches(function() broken:at(5000) end,
      "^token_drop: the custom function failed at step 5000: no table")
    local text = schedule.new { name = "token_drop", type = "custom", fn = function() return "much" end }
    assert.error_matches(function() text:at(7) end, "returned 'much' at step 7; it must return a finite number")
  end)

  it("refuses impossible settings when it is made, and names the key", function()
    refused("'total' is missing", { min = 1, max = 2 })
    refused("'min' is missing", { max = 2, total = 3 })
    refused("'total' must be positive, got 0", { min = 1, max = 2, total = 0 })
    refused("'quantum' must be positive, got 0", { min = 1, max = 2, total = 3, quantum = 0 })
    refused("'degree' must be positive, got 0", { type = "root", degree = 0, min = 1, max = 2, total = 3 })
    refused("'degree' is missing", { type = "root", min = 1, max = 2, total = 3 })
    refused("min 3 exceeds max 2; swap them", { min = 3, max = 2, total = 3 })
    refused("one of linear, root", { type = "cubic", min = 1, max = 2, total = 3 })
    refused("3 values need 2 ends in 'upto', got 1", { type = "discrete", values = { 1, 2, 3 }, upto = { 1 } })
    refused("5 follows 10: values[2]", { type = "discrete", values = { 1, 2, 3 }, upto = { 10, 5 } })
    refused("values[1] is 4, outside min 5", { type = "discrete", values = { 4, 6 }, upto = { 1 }, min = 5, max = 6 })
    refused("'fn' must be a function", { type = "custom" })
    refused("'degree' does not apply to type linear", { min = 1, max = 2, total = 3, degree = 2 })
    refused("unknown option 'totl'", { min = 1, max = 2, totl = 3 })
    refused("curriculum.length: max is 0; a sequence length must be at least 1",
      { name = "curriculum.length", kind = "length", min = 0, max = 0, total = 3 })
    refused("min is 10, which is not a multiple of quantum 8; use 8 or 16",
      { kind = "length", min = 10, max = 128, total = 3, quantum = 8 })
    refused("max is 101; a percentile must be 1 to 100", { kind = "percentile", min = 5, max = 101, total = 3 })
    refused("max is 1.5; a fraction must be above 0", { kind = "fraction", min = 0.5, max = 1.5, total = 3 })
    refused("'quantum' is missing", { min = 1, max = 2, total = 3, faithful = true })
  end)

  it("refuses a proportional schedule that cannot be", function()
    refused("'min' must be positive", { type = "proportional", min = 0, max = 4, total = 9 })
    refused("differ by no multiple of quantum 2", { type = "proportional", min = 1, max = 4, quantum = 2, total = 9 })
    refused("'total' is missing", { type = "proportional", min = 1, max = 4 })
    refused("'degree' does not apply", { type = "proportional", min = 1, max = 4, total = 9, degree = 2 })
  end)

  it("shows where it changes, and a picture", function()
    local s = schedule.new { name = "curriculum.length", kind = "length", min = 64, max = 128, quantum = 8, total = 80 }
    assert.same({ { 0, 64 }, { 10, 72 }, { 20, 80 } }, table.move(schedule.changes(s), 1, 3, 1, {}))
    assert.equal(9, #schedule.changes(s))
    local text = schedule.explain(s)
    assert.truthy(text:find("curriculum.length: linear, 64 to 128 over 80 steps\n", 1, true))
    assert.truthy(text:find("from step             70  120", 1, true), text)
    assert.truthy(text:find("█", 1, true))
    local many = schedule.new { min = 1, max = 1000, quantum = 1, total = 1e6 }
    assert.truthy(schedule.explain(many):find("976 more changes", 1, true))
    local rate = schedule.explain(schedule.linear { peak = 1, warmup = 10, total = 80 }, 80)
    assert.truthy(rate:find("^learning rate\n"))
    assert.truthy(rate:find("from step             10  1\n", 1, true), rate)
    assert.error_matches(function() schedule.explain(schedule.constant { peak = 1 }) end, "give the last step of a")
  end)
end)

describe("config keys of a schedule", function()
  local c = require("seqrun.config")
  local schema = c.map {
    { "seed", c.integer { default = 1 } },
    { "curriculum", c.map({ { "length", schedule.keys { kind = "length", doc = "length of sequences" } } },
      { others = schedule.keys { kind = "percentile", doc = "percentile of a metric" } }) },
    { "mask", c.map { { "rate", schedule.keys { kind = "fraction", doc = "masking rate" } } } },
  }
  local rules = { schedule.rule("curriculum.length", "length"), schedule.rule("mask.rate", "fraction") }
  local function load(...) return c.load { schema = schema, rules = rules, arguments = { ... } } end

  it("are none, one value, or the fields of a schedule", function()
    local given = load().values
    assert.is_nil(given.curriculum.length)
    assert.is_nil(schedule.read(given.mask.rate, { name = "mask.rate" }))
    given = load("mask.rate=0.2", "curriculum.length.max=128", "curriculum.length.min=64",
      "curriculum.length.total=0.5").values
    assert.equal(0.2, schedule.read(given.mask.rate, { name = "mask.rate", kind = "fraction" }):at(3))
    local s = schedule.read(given.curriculum.length, { name = "curriculum.length", kind = "length", steps = 100 })
    assert.same({ 64, 72, 128 }, values(s, 0, 7, 50))
    assert.is_nil(load("mask.rate.value=0.2", "mask.rate=none").values.mask.rate)
  end)

  it("exist for metrics of any name, and are dumped, explained and compared", function()
    local loaded = load("curriculum.rarity.min=5", "curriculum.rarity.max=100", "curriculum.rarity.total=10")
    assert.equal(100, loaded.values.curriculum.rarity.max)
    assert.truthy(loaded:explain():find("curriculum.rarity.max", 1, true))
    assert.truthy(loaded:explain():find("curriculum.length%s+none"))
    local path = program.write(program.folder(), "dump.yaml", loaded:dump())
    local again = assert(c.load { schema = schema, file = path })
    assert.same(loaded.values, again.values)
    assert.same({}, loaded:differences(again))
    local paths = {}
    for i, change in ipairs(loaded:differences(load())) do paths[i] = change.path end
    assert.truthy(table.concat(paths, " "):find("curriculum.rarity.max", 1, true))
  end)

  it("are refused by the path of the key", function()
    fails.returning(nil, "curriculum.length: max is 100, which is not a multiple of quantum 8",
      load("curriculum.length.min=64", "curriculum.length.max=100", "curriculum.length.total=10"))
    fails.returning(nil, "mask.rate: max is 0; a fraction must be above 0", load("mask.rate=0"))
    fails.returning(nil, "a number", load("mask.rate=much"))
  end)
end)

-- Learning rates as functions of the step, at values computed by hand.

local raising = require("tests.support.fails").raising
local schedule = require("seqrun.schedule")

local function at(rate, ...)
  local values = {}
  for i, step in ipairs { ... } do values[i] = rate(step) end
  return values
end

local function same(wanted, got)
  assert.equal(#wanted, #got)
  for i, x in ipairs(wanted) do assert.is_true(math.abs(x - got[i]) < 1e-12, ("%g is not %g"):format(got[i], x)) end
end

describe("schedule", function()
  it("warms up linearly and then decays by its formula", function()
    same({ 0.5, 1, 0.5, 0, 0 }, at(schedule.linear { peak = 1, warmup = 2, total = 6 }, 1, 2, 4, 6, 9))
    same({ 0.5, 1, 0.25, 0 }, at(schedule.poly { peak = 1, warmup = 2, total = 6, power = 2 }, 1, 2, 4, 6))
    same({ 0.5, 1, math.sqrt(0.5), 0 }, at(schedule.poly { peak = 1, warmup = 2, total = 6, power = 0.5 }, 1, 2, 4, 6))
    same({ 1, 0.5, 0 }, at(schedule.cosine { peak = 1, warmup = 2, total = 6 }, 2, 4, 6))
    same({ 0.5, 1, 1 }, at(schedule.constant { peak = 1, warmup = 2 }, 1, 2, 1000))
    same({ 0.5, 1, 0.5 }, at(schedule.inverse_sqrt { peak = 1, warmup = 2 }, 1, 2, 8))
    same({ 0.5, 1, 1, 0.5, 0 }, at(schedule.wsd { peak = 1, warmup = 2, total = 10, decay = 4 }, 1, 2, 6, 8, 10))
    same({ 1, 1, 2, 3, 3 }, at(schedule.points { { 2, 1 }, { 4, 3 } }, 1, 2, 3, 4, 5))
  end)

  it("accepts the counters of an update, and may depend on any of them", function()
    local counters = { step = 3, schedule_step = 4, raw_tokens = 600, real_tokens = 400, seconds = 8.5 }
    same({ 0.5, 0.5 }, at(schedule.linear { peak = 1, warmup = 2, total = 6 }, counters, 4))
    same({ 1 }, at(schedule.linear { peak = 1, warmup = 400, total = 800, by = "real_tokens" }, counters))
    same({ 0.5 }, at(schedule.linear { peak = 1, warmup = 400, total = 800, by = "raw_tokens" }, counters))
    same({ 0.25 }, at(schedule.points { { 8, 0 }, { 10, 1 }, by = "seconds" }, counters))
    local masked = schedule.constant { peak = 1, by = "masked_tokens" }
    assert.error_matches(function() masked(counters) end, "have no 'masked_tokens'")
    assert.error_matches(function() schedule.constant { peak = 1, by = "weeks" } end, "by is 'weeks'; choose step")
  end)

  it("may be a function of one's own, of the step or of another counter", function()
    local counters = { schedule_step = 4, real_tokens = 400 }
    same({ 0.25, 0.5 }, at(schedule.custom(function(step) return 1 / step end), counters, 2))
    same({ 0.0025 }, at(schedule.custom(function(tokens) return 1 / tokens end, "real_tokens"), counters))
    assert.error_matches(function() schedule.custom { peak = 1 } end, "expected a function, such as function%(step%)")
    local none = schedule.custom(function() end)
    assert.error_matches(function() none(counters) end, "the rate at 4 must be a number, got nil")
  end)

  it("can start the decay at step 0, so that the rate drops at the end of the warm-up", function()
    same({ 0.5, 1, 0.5, 0 }, at(schedule.poly { peak = 1, warmup = 2, total = 6, from_start = true }, 1, 2, 3, 6))
  end)

  it("ends at the floor, and accepts a warm-up given as a fraction of the total", function()
    same({ 0.1, 0.1 }, at(schedule.linear { peak = 1, total = 4, floor = 0.1 }, 4, 9))
    same({ 0.55, 0.1, 0.1 }, at(schedule.poly { peak = 1, total = 4, floor = 0.1 }, 2, 4, 9))
    same({ 0.55, 0.1, 0.1 }, at(schedule.cosine { peak = 1, total = 4, floor = 0.1 }, 2, 4, 9))
    same({ 1, 0.55, 0.1, 0.1 }, at(schedule.wsd { peak = 1, total = 9, decay = 4, floor = 0.1 }, 5, 7, 9, 12))
    same({ 0.5, 1 }, at(schedule.linear { peak = 1, warmup = 0.2, total = 10 }, 1, 2))
  end)

  it("decays at the end by one minus a square root, or along a cosine", function()
    local function wsd(shape) return schedule.wsd { peak = 2, total = 20, decay = 16, floor = 0.5, shape = shape } end
    same({ 2, 2, 2 - 1.5 / 2, 0.5 + 1.5 * (1 - math.sqrt(0.5)), 0.5, 0.5 }, at(wsd "1-sqrt", 1, 4, 8, 12, 20, 25))
    same({ 2, 0.5 + 0.75 * (1 + math.sqrt(0.5)), 1.25, 0.5, 0.5 }, at(wsd "cosine", 4, 8, 12, 20, 25))
    local counters = schedule.tokens {
      peak = 2, total = 20, last = 16, floor = 0.5, by = "real_tokens", warmup = 2, warmup_by = "real_tokens",
      decay = "1-sqrt",
    }
    local got = {}
    for i, tokens in ipairs { 1, 2, 3, 4, 8, 12, 20, 25 } do got[i] = counters { real_tokens = tokens } end
    same({ 1, 2, 2, 2, 2 - 1.5 / 2, 0.5 + 1.5 * (1 - math.sqrt(0.5)), 0.5, 0.5 }, got)
  end)

  it("joins a cosine and an inverse square root with one slope, and may cool down at the end", function()
    local t = { peak = 3, warmup = 10, cosine = 100, bend = 0.2 }
    local rate = schedule.cosine_inverse_sqrt(t)
    local half = 0.5 * (1 + 0.2)
    same({ 0.3, 3, 3 * half }, at(rate, 1, 10, 110))
    local before, after = (rate(110) - rate(110 - 1e-4)) / 1e-4, (rate(110 + 1e-4) - rate(110)) / 1e-4
    assert.is_true(math.abs(before - after) < 1e-6 * math.abs(before) + 1e-7, ("%g and %g"):format(before, after))
    local delta = 100 * (1.2 - math.pi * 0.8) / (math.pi * 0.8)
    assert.is_true(math.abs(rate(510) - 3 * half * math.sqrt(100 + delta) / math.sqrt(500 + delta)) < 1e-12)
    t.total, t.decay, t.floor = 600, 100, 0.1
    local cooled = schedule.cosine_inverse_sqrt(t)
    assert.equal(rate(500), cooled(500))
    assert.is_true(math.abs((rate(500) + 0.1) / 2 - cooled(550)) < 1e-12)
    same({ 0.1, 0.1 }, at(cooled, 600, 700))
  end)

  it("reports invalid numbers at the caller's line", function()
    local function fails(words, f, t)
      local message = raising(words, function() local rate = f(t) return rate end)
      assert.truthy(message:find("schedule_spec.lua", 1, true), message)
    end
    fails("warmup is 10 of 10 steps; lower warmup or raise total", schedule.poly, { peak = 1, warmup = 10, total = 10 })
    fails("'peak' is missing", schedule.linear, { total = 10 })
    fails("'total' is missing", schedule.cosine, { peak = 1 })
    fails("unknown option 'warmpu'; did you mean 'warmup'", schedule.poly, { peak = 1, warmpu = 1, total = 10 })
    fails("total is missing; give steps", schedule.constant, { peak = 1, warmup = 0.1 })
    fails("warmup must be an integer number of steps, got 2.5", schedule.linear, { peak = 1, warmup = 2.5, total = 10 })
    fails("exceed the 10 steps", schedule.wsd, { peak = 1, warmup = 6, decay = 6, total = 10 })
    fails("'peak' must be a non-negative number, got", schedule.linear, { peak = 0 / 0, total = 10 })
    fails("bend is 1; it must be above 0 and below 1", schedule.cosine_inverse_sqrt, { peak = 1, cosine = 5, bend = 1 })
    fails("needs the total", schedule.cosine_inverse_sqrt, { peak = 1, cosine = 5, decay = 2 })
    fails("'cosine' is missing", schedule.cosine_inverse_sqrt, { peak = 1 })
    fails("shape", schedule.wsd, { peak = 1, total = 9, decay = 4, shape = "square" })
    fails("last is 9 of 10", schedule.tokens,
      { peak = 1, total = 10, warmup = 2, warmup_by = "flops", by = "flops", last = 9 })
    fails("steps must ascend", schedule.points, { { 2, 1 }, { 2, 3 } })
  end)
end)

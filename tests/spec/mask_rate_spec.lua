-- The fraction of masked tokens as a schedule: by counter, the same from any cursor and with any number of workers.

local numbers = require("tests.support.numbers")
local program = require("tests.support.program")
local sr = require("seqrun")

local folder = program.folder()
local corpus = numbers.corpus(folder, 600, 0.1)

local function open(mask, more)
  local options = { data = corpus, max_len = 64, packs = 3, micro_packs = 1, mask = mask, targets = { "mlm" } }
  for key, value in pairs(more or {}) do options[key] = value or nil end
  return sr.must(sr.data.loader(options))
end

---Masked positions of each sequence of an update that has this fraction.
local function expected(update, rate)
  local sum = 0
  for i = 1, update.count do
    for _, length in ipairs(update:batch(i).layout:lengths()) do
      sum = sum + math.max(1, math.floor(rate * length + 0.5))
    end
  end
  return sum
end

local LINE = sr.schedule.new { name = "mask.rate", kind = "fraction", min = 0.1, max = 0.3, total = 6 }

describe("the masking rate", function()
  it("follows its schedule, update by update", function()
    local loader <close> = open { prob = 0.3, max = 60, rates = sr.schedule.rates(LINE) }
    for step = 1, 8 do
      local update, unit = loader:next(), 0.2 / 256
      local rate = 0.1 + math.floor((LINE:at(step) - 0.1) / unit + 1e-9) * unit
      assert.equal(expected(update, rate), update.masked)
    end
  end)

  it("may fall, go by levels, or be a function", function()
    local function masked(t, last)
      local loader <close> = open { prob = 0.4, max = 60, rates = sr.schedule.rates(sr.schedule.new(t), last) }
      local list = {}
      for step = 1, 4 do
        local update = loader:next()
        for _, rate in ipairs { 0.1, 0.2, 0.4 } do
          if expected(update, rate) == update.masked then list[step] = rate end
        end
      end
      return list
    end
    assert.same({ 0.4, 0.4, 0.2, 0.1 },
      masked { type = "discrete", values = { 0.4, 0.2, 0.1 }, upto = { 2, 3 } })
    assert.same({ 0.1, 0.2, 0.2, 0.4 }, masked({ type = "custom", kind = "fraction", fn = function(step)
      return step < 2 and 0.1 or step < 4 and 0.2 or 0.4
    end }, 10))
  end)

  it("is the same from a cursor and with other workers, and depends on tokens as well", function()
    local s = sr.schedule.new { min = 0.1, max = 0.3, total = 3000, by = "real_tokens" }
    local mask = { prob = 0.3, max = 60, rates = sr.schedule.rates(s) }
    local first <close> = open(mask, { prefetch = 0 })
    local other <close> = open(mask, { threads = 3, prefetch = 4 })
    local cursor
    for step = 1, 6 do
      if step == 4 then cursor = first:cursor() end
      assert.equal(tostring(first:next()), tostring(other:next()))
    end
    other:seek(cursor)
    first:seek(cursor)
    for _ = 4, 9 do assert.equal(tostring(first:next()), tostring(other:next())) end
  end)

  it("is refused above the fraction that memory is measured for, or by what workers do not know", function()
    assert.error_matches(function()
      sr.data.loader { data = corpus, packs = 1, mask = { prob = 0.2, rates = sr.schedule.rates(LINE) } }
    end, "must be above 0 and at most 0.2")
    local s = sr.schedule.new { name = "mask.rate", min = 0.1, max = 0.3, total = 3000, by = "seconds" }
    assert.error_matches(function() sr.schedule.rates(s) end, "mask.rate: by must be one of step, sequences")
  end)

  it("may be decided with the updates, by any counter", function()
    local seen = 0
    local function order()
      local rate = sr.schedule.new { kind = "fraction", min = 0.1, max = 0.3, total = 600, by = "flops" }
      local function counters() return { flops = seen } end
      return sr.curriculum { sequences = 16, window = 2, mask = rate, counters = counters }
    end
    local options = { packs = false, prefetch = 0, order = order() }
    local loader <close> = open({ prob = 0.3, max = 60 }, options)
    local cursor, want = nil, {}
    for step = 1, 8 do
      seen = step * 75
      if step == 4 then cursor = loader:cursor() end
      local update = loader:next()
      assert.equal(expected(update, update.window.mask), update.masked)
      want[step] = update.masked
      if step == 1 then assert.is_true(update.window.mask < 0.13) end
      if step == 8 then assert.is_true(update.window.mask > 0.25) end
    end
    local other <close> = open({ prob = 0.3, max = 60 }, { packs = false, prefetch = 0, order = order() })
    seen = 4 * 75
    other:seek(cursor)
    for step = 4, 8 do
      seen = step * 75
      assert.equal(want[step], other:next().masked)
    end
    local low <close> = open({ prob = 0.1, max = 60 }, { packs = false, prefetch = 0, order = order() })
    assert.error_matches(function() low:next() end, "mask is 0.3; must be 0 .* to mask.prob 0.1")
  end)
end)

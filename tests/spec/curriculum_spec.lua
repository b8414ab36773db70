-- Which examples a curriculum unlocks, and what updates draw from them.

local fails = require("tests.support.fails")
local reference = require "tests.support.reference"
local sr = require "seqrun"
local sys = require "seqrun.core.sys"

local folder = require("tests.support.program").folder()
local with = require("tests.support.with")


---300 sequences of 3 to 42 tokens, each with tokens of its own, and with labels of its tokens.
local function write_examples(path, vocab)
  local examples = {}
  for i = 1, 300 do
    local ids, tags = {}, {}
    for k = 1, 1 + i * 7 % 40 do ids[k], tags[k] = 10 + i * (k + 3) % 140, i * 100 + k end
    examples[i] = { a = ids, tags = tags }
  end
  assert(sr.data.write { out = path, vocab = vocab, examples = examples,
    columns = { tags = { type = "i32", per = "token" } } })
end

local numbers = require("tests.support.numbers")
local corpus, contents = numbers.corpus(folder, 900, 0), numbers.contents
write_examples(folder .. "/fixed.sqr", corpus:tokenizer())
local fixed = assert(sr.data.open(folder .. "/fixed.sqr", { held = 0 }))

local function open(curriculum, options)
  local given = { data = fixed, max_len = 64, seed = 3, prefetch = 0, order = curriculum }
  return assert(sr.data.loader(with(given, options)))
end

---Uids of an update, ascending, and the lengths by uid.
local function uids(update)
  local all, lengths = {}, {}
  for batch in update:batches() do
    local scope <close> = sr.scope()
    for i, uid in ipairs(batch.layout:uids()) do all[#all + 1], lengths[uid] = uid, batch.layout:lengths()[i] end
  end
  table.sort(all)
  return all, lengths
end

it("computes the metric of a Lua file where there is none of its function, data and seed", function()
  local program = require("tests.support.program")
  local path = program.write(folder, "tail.lua", "return function(s) return #s.ids end")
  local function first(seed)
    local order = sr.curriculum { sequences = 4, metrics = { tail = { metric = path, schedule = 10 } } }
    return (uids(open(order, { data = corpus, seed = seed }):next()))
  end
  local function count()
    local found = 0
    for _, name in ipairs(assert(sys.list(folder))) do found = found + (name:find("tail.*%.metric$") and 1 or 0) end
    return found
  end
  local before = first(3)
  assert.equal(1, count())
  first(4)
  assert.equal(2, count())
  assert.same(before, first(3))
  program.write(folder, "tail.lua", "return function(s) return -#s.ids end")
  assert.not_same(before, first(3))
  assert.equal(2, count())
end)

---Tokens of an example.
local function by_length(_, tokens) return tokens end

local function steps(min, max, total)
  return sr.schedule.new { kind = "count", min = min, max = max, total = total, quantum = 1 }
end

describe("a curriculum by value", function()
  it("draws from what is unlocked, every example with the same chance", function()
    local length = { kind = "value", metric = by_length, schedule = steps(10, 44, 60) }
    local loader = open(sr.curriculum { sequences = 20, window = 1, metrics = { length = length } })
    local drawn = {}
    for step = 1, 240 do
      local update = loader:next()
      local all, lengths = uids(update)
      assert.equal(20, #all)
      local most = math.min(44, math.max(10, 10 + step * 34 // 60))
      assert.equal(most, update.window.difficulties.length)
      for _, uid in ipairs(all) do
        assert.is_true(lengths[uid] <= most)
        if step > 60 then drawn[uid] = (drawn[uid] or 0) + 1 end
      end
    end
    for uid = 0, 299 do assert.is_true(math.abs(drawn[uid] - 12) <= 1) end -- 12 passes of 15 updates
  end)

  it("never has an example twice in an update or a pass", function()
    local loader = open(sr.curriculum { sequences = 30, window = 3, metrics = {
      easy = { metric = by_length, schedule = 50 } } })
    for _ = 1, 4 do
      local seen = {}
      for _ = 1, 5 do
        for _, uid in ipairs((uids(loader:next()))) do
          assert.is_nil(seen[uid])
          seen[uid] = true
        end
      end
    end
  end)
end)

describe("several metrics", function()
  it("unlock what each of them has unlocked, as the reference does", function()
    local a, b = {}, {}
    for i = 1, 300 do a[i], b[i] = i * 37 % 101, i * 53 % 97 end
    local function rows(values)
      local list, by_value = {}, {}
      for i, value in ipairs(values) do
        if not by_value[value] then
          by_value[value] = { value = value, ids = {} }
          list[#list + 1] = by_value[value]
        end
        table.insert(by_value[value].ids, i - 1)
      end
      table.sort(list, function(x, y) return x.value < y.value end)
      return list
    end
    local curriculum = sr.curriculum { sequences = 4, window = 1, metrics = {
      a = { kind = "value", metric = a, schedule = steps(30, 100, 20) },
      b = { kind = "percentile", max = 10, metric = b, schedule = steps(4, 10, 30) },
    } }
    local loader = open(curriculum)
    local clusters = reference.clusters(300, {
      { name = "a", kind = "value", rows = rows(a) }, { name = "b", kind = "percentile", max = 10, rows = rows(b) },
    })
    for _ = 1, 35 do
      local update = loader:next()
      clusters:advance(update.window.difficulties)
      local unlocked, is = clusters:unlocked(), {}
      for _, uid in ipairs(unlocked) do is[uid] = true end
      assert.equal(#unlocked, update.window.unlocked)
      for _, uid in ipairs((uids(update))) do assert.is_true(is[uid]) end
      local sampler = curriculum:unlock(update.window.prefixes)
      local all = sampler:draw(0, #unlocked)
      table.sort(all)
      assert.same(unlocked, all)
    end
  end)

  it("are a function of the step: no replay is needed", function()
    local function make()
      return sr.curriculum { sequences = 8, metrics = {
        a = { metric = by_length, schedule = steps(30, 100, 50) },
        b = { metric = function(uid) return uid * 7 % 31 end, schedule = steps(40, 100, 40) },
      } }
    end
    local walked, jumped = make(), make()
    local _, _ = open(walked), open(jumped)
    for step = 1, 50 do walked:explain(step) end
    for _, step in ipairs { 44, 3, 50, 17 } do
      local x, y = walked:explain(step), jumped:explain(step)
      assert.same(tostring(x), tostring(y))
      assert.same(walked.sampler:draw(step, 8), jumped.sampler:draw(step, 8))
    end
  end)
end)

describe("a control", function()
  local function first(order, update)
    local loader = open(sr.curriculum { sequences = 20, order = order, metrics = {
      length = { metric = by_length, schedule = 20 } } })
    local found
    for _ = 1, update or 1 do found = loader:next() end
    local all, lengths = uids(found)
    local sum = 0
    for _, uid in ipairs(all) do sum = sum + lengths[uid] end
    return sum / #all, found.window.unlocked
  end

  it("has the same pace in reversed or random order", function()
    local easy, n = first("easy")
    local hard, reversed = first("reversed")
    local random, same = first("random")
    assert.same({ 60, 60 }, { reversed, same })
    assert.equal(60, n)
    assert.is_true(easy < 13 and hard > 33 and random > 17 and random < 30)
  end)

  it("may be competence: a fraction of the order", function()
    local function competence(c)
      return math.min(1, math.sqrt(c.step * (1 - 0.1 ^ 2) / 40 + 0.1 ^ 2))
    end
    local loader = open(sr.curriculum { sequences = 20, window = 1, metrics = {
      length = { kind = "fraction", metric = by_length, schedule = competence } } })
    local bounds = sr.schedule.new { min = 10, max = 100, total = 40 }
    local same = open(sr.curriculum { sequences = 20, window = 1, order = "competence", metrics = {
      length = { metric = by_length, schedule = bounds } } })
    for step = 1, 50 do
      assert.equal(math.floor(300 * competence { step = step }), loader:next().window.unlocked)
      assert.is_true(math.abs(same:next().window.unlocked - 300 * competence { step = step }) <= 1)
    end
  end)

  it("may be an order or a metric in a few lines of Lua", function()
    local by_first = sr.curriculum { sequences = 10, metrics = { uid = {
      kind = "fraction", metric = function(uid) return -uid end, schedule = function(c) return c.step / 30 end } } }
    assert.same({ 290, 299 }, { (uids(open(by_first):next()))[1], (uids(open(by_first):next()))[10] })
  end)
end)

describe("lengths", function()
  it("are cut before packing, with [SEP] at the end and masks on what is left", function()
    local length = sr.schedule.new { kind = "length", min = 8, max = 40, total = 40, quantum = 8 }
    for _, data in ipairs { fixed, corpus } do
      local loader = open(sr.curriculum { sequences = 24, length = length }, { data = data, micro_packs = 2 })
      local sep = data:tokenizer():special("sep")
      for _ = 1, 60 do
        local update = loader:next()
        local most = update.max_len or 64
        assert.equal(24, update.sequences)
        for batch in update:batches() do
          local scope <close> = sr.scope()
          assert.is_true(batch.slots <= 2 * 64)
          local ids, starts, lengths = batch.ids:totable(), batch.layout:starts(), batch.layout:lengths()
          for i, len in ipairs(lengths) do
            assert.is_true(len <= most)
            assert.equal(sep, ids[starts[i] + len])
          end
        end
      end
    end
  end)

  it("cut into pieces, lose no token and no label", function()
    local curriculum = sr.curriculum { sequences = 30, window = 2, length = 12, cut = "pieces" }
    local loader = open(curriculum, { targets = { "tags", "mlm" } })
    local found, first = {}, nil
    for _ = 1, 10 do
      local update = loader:next()
      first = first or update
      for batch in update:batches() do
        local scope <close> = sr.scope()
        for _, label in ipairs(batch.targets.tags.labels:totable()) do found[label] = (found[label] or 0) + 1 end
        for _, len in ipairs(batch.layout:lengths()) do assert.is_true(len <= 12) end
      end
    end
    for i = 1, 300 do
      for k = 1, 1 + i * 7 % 40 do assert.equal(1, found[i * 100 + k]) end
    end
    assert.error_matches(function() open(curriculum, { data = corpus }) end, "pieces are of single segments")
  end)

  it("leave few rows empty, at every length", function()
    for length = 8, 40, 2 do
      local loader = open(sr.curriculum { sequences = 150, length = length }, { micro_packs = 32 })
      local tokens, slots = 0, 0
      for _ = 1, 14 do
        local update = loader:next()
        tokens, slots = tokens + update.tokens, slots + update.slots
      end
      assert.is_true(tokens / slots > 0.93, ("%d: %.4f"):format(length, tokens / slots)) -- 1,200 tokens: 10 tiles
    end
  end)

  it("keep the tokens of an update if it is counted in tokens", function()
    for _, length in ipairs { 8, 16, 40 } do
      local loader = open(sr.curriculum { tokens = 1000, length = length }, { micro_packs = 4 })
      local tokens = 0
      for _ = 1, 10 do tokens = tokens + loader:next().tokens end
      assert.is_true(math.abs(tokens / 10000 - 1) < 0.1)
    end
  end)
end)

describe("a loader with a curriculum", function()
  local function make(more)
    return sr.curriculum(with({
      sequences = steps(16, 32, 12), window = 3,
      length = sr.schedule.new { kind = "length", min = 16, max = 40, total = 30, quantum = 8, by = "sequences" },
      metrics = {
        length = { metric = by_length, schedule = steps(30, 100, 25) },
        other = { kind = "value", metric = function(uid) return uid * 7 % 31 end, schedule = function(c)
          return c.real_tokens > 5000 and 40 or 20
        end },
      },
    }, more))
  end

  it("gives the same updates with any number of workers, and after a stop anywhere", function()
    local loader, cursors, want = open(make(), { threads = 0 }), {}, {}
    for i = 1, 25 do
      cursors[i] = loader:cursor()
      local update = loader:next()
      want[i] = contents(update)
      assert.equal(update.from.update + 1, update.upto.update)
      assert.equal(update.sequences, update.upto.sequences - update.from.sequences)
      assert.equal(update.tokens, update.upto.real_tokens - update.from.real_tokens)
    end
    local ahead = open(make(), { threads = 3, prefetch = 5 })
    for i = 1, 25 do
      local cursor = ahead:cursor()
      assert.equal(want[i], contents(ahead:next()))
      local json = require "seqrun.core.json" -- as a checkpoint keeps it
      cursors[-i] = json.decode(json.encode(cursor))
    end
    local other = open(make(), { threads = 2, prefetch = 2 })
    for _, i in ipairs { 25, 3, 14, 1, 8, 2 } do
      for _, from in ipairs { i, -i } do
        other:seek(cursors[from])
        assert.equal(want[i], contents(other:next()))
        if i < 25 then assert.equal(want[i + 1], contents(other:next())) end
      end
    end
  end)

  it("has the same sequences packed, padded and single, and in shares", function()
    local function same(options, micro)
      local packed = open(make(options), { micro_packs = 2 })
      local padded = open(make(options), { arrange = "padded", micro_packs = micro })
      local single = open(make(options), { arrange = "single", micro_packs = micro })
      for _ = 1, 6 do
        local want = (uids(packed:next()))
        assert.same(want, (uids(padded:next())))
        assert.same(want, (uids(single:next())))
      end
    end
    same({}, 2)
    same({ window = 1 }, 5)
    local whole, part = open(make(), { shares = 3, micro_packs = 2 }), open(make(), { shares = 3, micro_packs = 2,
      share_range = { 2, 3 } })
    for _ = 1, 6 do
      local all, some = whole:next(), part:next()
      for _, key in ipairs { "tokens", "masked", "sequences" } do assert.equal(all[key], some[key]) end
      assert.equal(3, some.shares)
    end
  end)

  it("distinguishes the packs of an update from those of a micro-batch", function()
    local loader = open(sr.curriculum { sequences = 40 }, { micro_packs = 2 })
    local summary, tokens = loader:summary(), loader:plan().tokens
    assert.equal(math.ceil(40 * tokens / 300 / 64), summary.packs)
    assert.equal(2, summary.micro_packs)
  end)

  it("explains a step", function()
    local curriculum = make()
    local loader = open(curriculum)
    local step = curriculum:explain(12)
    assert.same({ 300, 2 }, { step.examples, #step.metrics })
    assert.is_true(step.unlocked <= math.min(step.metrics[1].unlocked, step.metrics[2].unlocked))
    assert.matches("all of them", tostring(step))
    assert.equal(contents(open(make()):next()), contents(loader:next())) -- and changes nothing
  end)
end)

describe("a curriculum is refused", function()
  local function refused(message, options, loader)
    assert.error_matches(function() open(sr.curriculum(options), loader) end, message)
  end
  local function metric(t) return { sequences = 20, metrics = { rarity = t } } end

  it("if its first examples are fewer than an update", function()
    refused("step 1 unlocks 0 of 300.*curriculum.rarity: values begin at 3, and %d+ is the lowest that unlocks 20",
      metric { kind = "value", metric = by_length, schedule = 2 })
    refused("percentile 7 is the lowest", metric { metric = by_length, schedule = 1 })
    refused("unlocks 300 of 300.*lower curriculum.sequences", { sequences = 301 })
  end)

  it("if there are fewer examples than percentiles", function()
    refused("curriculum.rarity: 300 examples are fewer than 1000 percentiles",
      metric { metric = by_length, max = 1000, schedule = 10 })
  end)

  it("if a metric is of other examples", function()
    refused("curriculum.rarity: .*3", metric { metric = { 1, 2, 3 }, schedule = 10 })
  end)

  it("if a metric file is of another data set", function()
    sr.must(sr.data.analyze { data = corpus, metrics = { "rarity" }, out = folder, max_len = 64, seed = 3 })
    local path
    for _, name in ipairs(sys.list(folder)) do path = name:find("rarity.metric$") and name or path end
    path = folder .. "/" .. path
    refused("curriculum.rarity: .*data set", metric { metric = path, schedule = 50 })
    local loader = open(sr.curriculum(metric { metric = path, schedule = 50 }), { data = corpus })
    assert.is_true(loader:next().window.unlocked > 0)
  end)

  it("if a schedule fails in the middle of training, with the key and the step", function()
    local function later(what)
      return function(c)
        if c.step < 5 then return 50 end
        return what(c)
      end
    end
    for message, what in pairs {
      ["curriculum.rarity: step 5: no pace"] = function() error("no pace", 0) end,
      ["curriculum.rarity: the schedule returned 'x' at step 5"] = function() return "x" end,
      ["step 5 unlocks 0 of 300 examples %(rarity 0%), fewer than the 20"] = function() return 0 end,
    } do
      local loader = open(sr.curriculum { sequences = 20, window = 1, metrics = {
        rarity = { metric = by_length, schedule = later(what) } } }, { prefetch = 1 })
      for _ = 1, 4 do loader:next() end
      assert.error_matches(function() loader:next() end, message)
    end
  end)

  it("if too few examples are in what several metrics unlock, with a way out", function()
    local function one(sign) return { metric = function(uid) return sign * uid end, schedule = 50 } end
    refused("unlocks 0 of 300 examples .*; each alone unlocks enough, but an update takes only what all have unlocked",
      { sequences = 20, metrics = { up = one(1), down = one(-1) } })
  end)

  it("if a metric is not a number", function()
    refused("curriculum.rarity: the metric of uid 7 is 'x'", metric { schedule = 10, metric = function(uid)
      return uid == 7 and "x" or 1
    end })
    refused("the metric of uid 9 is NaN", metric { schedule = 10, metric = function(uid)
      return uid == 9 and 0 / 0 or 1
    end })
  end)

  it("if its lengths are impossible", function()
    refused("curriculum.length: max is 128, but sequences have at most 64", { sequences = 2, length = 128 })
    refused("curriculum.length: min is 0", { sequences = 2, length = 0 })
    refused("the length of step 1 is 2", { sequences = 2, length = function() return 2 end })
  end)

  it("if it makes no sense", function()
    assert.error_matches(function() sr.curriculum {} end, "either sequences or tokens")
    assert.error_matches(function() sr.curriculum { sequences = 3, order = "esay" } end, "did you mean 'easy'")
    fails.raising("curriculum.a: order competence needs a schedule with min, max and total", sr.curriculum,
      { sequences = 3, order = "competence", metrics = { a = { metric = by_length, schedule = 3 } } })
    assert.error_matches(function() sr.curriculum(metric { schedule = 3 }) end, "curriculum.rarity: metric is missing")
    assert.error_matches(function() sr.curriculum(metric { metric = {} }) end, "schedule is missing")
    assert.error_matches(function() sr.curriculum { sequences = 3 }:explain(1) end, "open a loader")
  end)
end)

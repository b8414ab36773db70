-- What is known to go wrong in the public implementation of curricula and token dropping, and
-- does not here.

local program = require "tests.support.program"
local sr = require "seqrun"

local folder, fixed

local COUNT = 120

setup(function()
  folder = program.folder()
  local words = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" }
  for i = 5, 40 do words[i + 1] = "w" .. i end
  local vocab = program.write(folder, "vocab.txt", table.concat(words, "\n") .. "\n")
  local examples = {}
  for i = 1, COUNT do
    local ids = {}
    for k = 1, 1 + i * 7 % 20 do ids[k] = 5 + (i * k) % 36 end
    examples[i] = { a = ids, label = i % 2, score = i / 4 }
  end
  sr.must(sr.data.write { out = folder .. "/fixed.sqr", vocab = vocab, examples = examples,
    columns = { label = { type = "i32" }, score = { type = "f32" } } })
  fixed = sr.must(sr.data.open(folder .. "/fixed.sqr", { held = 0 }))
end)

local function by_length(_, tokens) return tokens end

local function rising(min, max, total)
  return sr.schedule.new { kind = "count", min = min, max = max, total = total, quantum = 1 }
end

local function open(options)
  local given = { data = fixed, max_len = 32, seed = 3, prefetch = 0, targets = { "label" } }
  return sr.must(sr.data.loader(require("tests.support.with")(given, options)))
end

---Uids of an update in the order of its batches, and the sizes of these.
local function drawn(update)
  local uids, sizes = {}, {}
  for batch in update:batches() do
    local list = batch.layout:uids()
    table.move(list, 1, #list, #uids + 1, uids)
    sizes[#sizes + 1] = #list
  end
  return uids, sizes
end

local function analyze(options)
  options.data, options.out = fixed, folder
  return sr.must(sr.data.analyze(options))
end

describe("unlike in the reference,", function()
  it("a resumed sampler goes on drawing; it does not draw the same examples again", function()
    local function make()
      return open { order = sr.curriculum { sequences = 8, window = 2, metrics = {
        length = { metric = by_length, schedule = rising(40, 100, 10) } } } }
    end
    local loader, want = make(), {}
    for i = 1, 12 do want[i] = drawn(loader:next()) end
    local first = make()
    for _ = 1, 5 do first:next() end
    local resumed = make()
    resumed:seek(first:cursor())
    for i = 6, 12 do
      local got = drawn(resumed:next())
      assert.same(want[i], got)
      assert.not_same(want[i - 5], got)
    end
  end)

  it("a schedule never starts below its minimum, nor at a length of zero", function()
    for _, case in ipairs { { 10, 64, 8 }, { 8, 64, 16 } } do
      local min, max, quantum = table.unpack(case)
      local faithful = sr.schedule.new { min = min, max = max, quantum = quantum, total = 10, faithful = true }
      assert.is_true(faithful:at(0) < min)
      local ours = sr.schedule.new { min = min, max = max, quantum = quantum, total = 10 }
      for t = 0, 20 do assert.is_true(ours:at(t) >= min and ours:at(t) <= max) end
      assert.equal(max, ours:at(10))
      assert.error_matches(function()
        sr.schedule.new {
          name = "curriculum.length", kind = "length", min = min, max = max, quantum = quantum, total = 10,
        }
      end, "curriculum%.length: min is %d+, which is not a multiple of quantum")
    end
  end)

  it("analysis counts sequences, whatever columns they have, and names each by its own uid", function()
    local made = analyze { metrics = { { name = "own", fn = function(s) return s.uid end }, "length" } }
    assert.equal(COUNT, made.own:count())
    for uid = 0, COUNT - 1 do
      assert.equal(uid, made.own:value(uid))
      assert.equal(1 + (uid + 1) * 7 % 20 + 2, made.length:value(uid)) -- with [CLS] and [SEP]
    end
  end)

  it("no update is short because few examples are unlocked, and drawing goes on", function()
    local loader = open { order = sr.curriculum { sequences = 16, window = 1, metrics = {
      length = { metric = by_length, schedule = rising(30, 100, 20) } } } }
    for _ = 1, 40 do
      local update = loader:next()
      assert.equal(16, update.sequences)
      assert.is_true(update.window.unlocked >= 16)
    end
    assert.error_matches(function() -- five examples cannot fill it
      local few = open { order = sr.curriculum { sequences = 16, metrics = {
        length = { metric = by_length, schedule = 5 } } } }
      few:next()
    end, "unlocks 5 of 120 examples .*fewer than the 16 of an update; curriculum%.length: ")
  end)

  it("batches filled by tokens have every example, the last one too", function()
    local loader = open { order = sr.curriculum { tokens = 90, window = 1 } }
    local seen, count = {}, 0
    for _ = 1, 1000 do
      local uids = drawn(loader:next())
      for _, uid in ipairs(uids) do
        if not seen[uid] then count = count + 1 end
        seen[uid] = true
      end
      if count == COUNT then break end
    end
    assert.equal(COUNT, count)
    assert.is_true(seen[COUNT - 1])
    local by_packs, last = open { by = "packs", packs = 3, epochs = 1 }, 0
    for update in function() return by_packs:next() end do last = last + update.sequences end
    assert.equal(COUNT, last)
  end)

  it("an incomplete update at the end has no empty batch, on no rank", function()
    local total = { 0, 0 }
    for rank = 1, 2 do
      local loader = open { by = "sequences", sequences = 16, epochs = 1, micro_packs = 1, shares = 2,
        share_range = { rank, rank } }
      for update in function() return loader:next() end do
        local _, sizes = drawn(update)
        for _, size in ipairs(sizes) do
          assert.is_true(size > 0)
          total[rank] = total[rank] + size
        end
      end
    end
    assert.equal(COUNT, total[1] + total[2])
    assert.is_true(total[1] > 0 and total[2] > 0)
  end)

  it("analysis needs no index field, adds up whole batches, and takes few distinct values", function()
    local made = analyze { metrics = {
      "token_counts", { name = "two", fn = function(s) return s.uid % 2 end },
      { name = "same", fn = function() return 7 end },
    } }
    local sum = 0
    for id = 0, fixed:vocab_size() - 1 do sum = sum + made.token_counts:value(id) end
    local tokens = 0
    for i = 1, COUNT do tokens = tokens + 3 + i * 7 % 20 end
    assert.equal(tokens, sum)
    assert.equal(0, made.two:percentile(49))
    assert.equal(1, made.two:percentile(100))
    assert.equal(COUNT / 2, made.two:upto(0))
    for p = 0, 100 do assert.equal(7, made.same:percentile(p)) end
    for _, name in ipairs { "two", "same" } do -- as a metric of a curriculum
      local loader = open { order = sr.curriculum { sequences = 4, window = 1, metrics = {
        [name] = { kind = "percentile", metric = made[name], schedule = rising(10, 100, 5) } } } }
      for _ = 1, 8 do assert.equal(4, loader:next().sequences) end
    end
  end)

  it("every layer has rows and attention of its own, sorted at any length", function()
    local long = sr.layout { lens = { 5000, 3000 }, seed = 4 }
    local short, rows = long:shorten { fraction = 0.5, layer = 1, layers = 3 }
    assert.same({ 2500, 1500 }, short:lengths())
    local seen = {}
    for k = 1, 3 do
      local list = rows:select(1, k):totable()
      for i = 2, #list do assert.is_true(list[i] > list[i - 1]) end
      assert.is_true(list[2500] < 5000 and list[2501] >= 5000)
      seen[k] = table.concat(list, " ")
    end
    assert.is_true(seen[1] ~= seen[2] and seen[2] ~= seen[3] and seen[1] ~= seen[3])
  end)

  it("layers are named by number, and switched on by one key", function()
    local bert = sr.nn.bert { vocab_size = 50, hidden_size = 8, num_hidden_layers = 12, num_attention_heads = 1,
      intermediate_size = 8, hidden_dropout_prob = 0, attention_probs_dropout_prob = 0, heads = { "mlm" } }
    local rows_of, layer = {}, bert.encoder.layer
    function bert.encoder:layer(x, layout, i)
      rows_of[i] = layout:tokens()
      return layer(self, x, layout, i)
    end
    local int = { dtype = "i32" }
    local batch = { layout = sr.layout { lens = { 20 }, seed = 1 }, ids = sr.zeros(20, int), types = sr.zeros(20, int) }
    bert.encoder.token_drop = sr.nn.token_drop { keep = 0.5, layers = { 1, 1 } }
    bert:encode(batch)
    for i = 0, 11 do assert.equal(i == 1 and 10 or 20, rows_of[i], i) end -- not 10 and 11 as well
    local none = { first = true, last = true, masked = false }
    assert.is_nil(require("seqrun.curriculum.token_drop").new(none, { model = bert }))
  end)

  it("a schedule that has ended stays at its end after a resume", function()
    local t = { type = "discrete", values = { 2, 8, 32 }, upto = { 5, 10 }, min = 2, max = 8, faithful = true }
    local whole, before = sr.schedule.new(t), sr.schedule.new(t)
    for step = 1, 7 do
      whole:advance(step)
      before:advance(step)
    end
    local resumed = sr.schedule.new(t)
    resumed:restore(before:state())
    for step = 8, 15 do assert.equal(whole:advance(step), resumed:advance(step)) end
    assert.equal(8, resumed.value)
  end)

  it("four ranks see the same lengths in every update of a length curriculum, and none waits", function()
    local function make(range)
      return open { micro_packs = 1, shares = 4, share_range = range, order = sr.curriculum {
        sequences = 24, window = 2,
        length = sr.schedule.new { kind = "length", min = 8, max = 24, total = 6, quantum = 8 } } }
    end
    local whole, ranks = make(), {}
    for r = 1, 4 do ranks[r] = make { r, r } end
    for _ = 1, 10 do
      local update, tokens, batches = whole:next(), 0, 0
      for r = 1, 4 do
        local part = ranks[r]:next()
        assert.equal(update.window.max_len, part.window.max_len)
        assert.equal(update.tokens, part.tokens)
        for batch in part:batches() do tokens, batches = tokens + batch.tokens, batches + 1 end
      end
      assert.equal(update.tokens, tokens)
      assert.equal(update.count, batches)
    end
  end)
end)

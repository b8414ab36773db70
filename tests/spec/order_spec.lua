-- Which sequences an update has, in which batches of which share, apart from how they are laid out.

local sr = require "seqrun"
local sys = require "seqrun.core.sys"
local with = require "tests.support.with"

local folder = require("tests.support.program").folder()

local corpus, fixed

---300 sequences of 3 to 42 tokens, each with tokens of its own.
local function write_examples(path, vocab)
  local examples = {}
  for i = 1, 300 do
    local ids = {}
    for k = 1, 1 + i * 7 % 40 do ids[k] = 10 + i * (k + 3) % 140 end
    examples[i] = { a = ids }
  end
  assert(sr.data.write { out = path, vocab = vocab, examples = examples })
end

setup(function()
  corpus = require("tests.support.numbers").corpus(folder, 900, 0)
  write_examples(folder .. "/fixed.sqr", corpus:tokenizer())
  fixed = assert(sr.data.open(folder .. "/fixed.sqr", { held = 0 }))
end)

local function open(options)
  local given = { data = fixed, by = "sequences", max_len = 64, sequences = 32, seed = 3, prefetch = 0 }
  return assert(sr.data.loader(with(given, options)))
end

---What each sequence of an update holds after masking, with its masked positions and labels, in rising order.
local function sequences(update)
  local found = {}
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local ids, starts, lengths = batch.ids:totable(), batch.layout:starts(), batch.layout:lengths()
    local rows, labels = batch.targets.mlm.rows:totable(), batch.targets.mlm.labels:totable()
    local masks = {}
    for i, row in ipairs(rows) do masks[row] = labels[i] end
    for s, uid in ipairs(batch.layout:uids()) do
      local parts = {}
      for i = 0, lengths[s] - 1 do
        parts[#parts + 1] = ("%d:%s"):format(ids[starts[s] + i + 1], masks[starts[s] + i] or "")
      end
      found[#found + 1] = ("%d %s"):format(uid, table.concat(parts, " "))
    end
  end
  table.sort(found)
  return found
end

---All that a model sees of a batch.
local function contents(batch)
  local scope <close> = sr.scope()
  local parts = { batch.share, batch.ids:tostring_bytes(), batch.types:tostring_bytes() }
  for _, name in ipairs(batch.target_names) do
    local target = batch.targets[name]
    parts[#parts + 1] = ("%s %.17g "):format(name, target.denominator)
    for _, key in ipairs { "rows", "labels", "weights", "places" } do
      parts[#parts + 1] = target[key]:tostring_bytes()
    end
  end
  return table.concat(parts)
end

---Uids of an update, batch by batch.
local function uids(update)
  local all = {}
  for batch in update:batches() do
    local scope <close> = sr.scope()
    all[#all + 1] = table.concat(batch.layout:uids(), " ")
  end
  return table.concat(all, "|")
end

describe("by sequences, an update", function()
  it("has exactly as many as asked for, each once per epoch, in a different order in every epoch", function()
    local loader, seen, first = open { sequences = 50, micro_packs = 4 }, {}, {}
    for i = 1, 12 do -- 300 examples: two epochs
      local update = loader:next()
      assert.equal(50, update.sequences)
      local epoch = (i - 1) // 6
      assert.equal(epoch, update:batch(1).epoch)
      for uid in uids(update):gmatch("%d+") do
        assert.equal(epoch, seen[uid] or 0)
        seen[uid] = epoch + 1
      end
      first[epoch] = first[epoch] or uids(update)
    end
    assert.not_equal(first[0], first[1])
    assert.same({ 2, 0 }, { loader:cursor().epoch, loader:cursor().position })
  end)

  it("carries what is left of an epoch into the next; the last of all may be shorter", function()
    local loader, sizes = open { sequences = 128, epochs = 2 }, {}
    for update in function() return loader:next() end do sizes[#sizes + 1] = update.sequences end
    assert.same({ 128, 128, 128, 128, 88 }, sizes)
  end)

  it("holds the same sequences, masks and labels packed, padded and single", function()
    for _, data in ipairs { fixed, corpus } do
      local packed = open { data = data, micro_packs = 2 }
      local padded = open { data = data, arrange = "padded", micro_packs = 5 }
      local single = open { data = data, arrange = "single" }
      for _ = 1, 14 do
        local update = packed:next()
        local want = sequences(update)
        assert.equal(32, #want)
        assert.same(want, sequences(padded:next()))
        assert.same(want, sequences(single:next()))
      end
      assert.same(packed:cursor(), padded:cursor())
    end
  end)

  it("is packed as tightly as the solver can", function()
    local loader = open { sequences = 64, micro_packs = 4 }
    for _ = 1, 5 do
      local update = loader:next()
      local lengths = {}
      for batch in update:batches() do
        local scope <close> = sr.scope()
        table.move(batch.layout:lengths(), 1, batch.sequences, #lengths + 1, lengths)
        assert.is_true(batch.tokens <= 4 * 64)
      end
      assert.equal(sr.must(sr.pack(lengths, { max_len = 64 })).packs, update.packs)
      assert.equal(math.ceil(update.packs / 4), update.count)
    end
  end)

  it("counts tokens over all updates, and comes back to any of them", function()
    local loader, cursors, want, tokens, masked = open { threads = 3, prefetch = 4, micro_packs = 3 }, {}, {}, 0, 0
    for i = 1, 25 do
      cursors[i] = loader:cursor()
      assert.same({ tokens, tokens, masked, i - 1 },
        { cursors[i].real_tokens, cursors[i].raw_tokens, cursors[i].masked_tokens, cursors[i].update })
      local update = loader:next()
      want[i], tokens, masked = uids(update), tokens + update.tokens, masked + update.masked
    end
    local other = open { micro_packs = 3 }
    for i = 25, 1, -1 do
      other:seek(cursors[i])
      assert.equal(want[i], uids(other:next()))
      if i < 25 then assert.same(cursors[i + 1], other:cursor()) end
    end
    assert.error_matches(function() other:seek { epoch = 0, pack = 3 } end, "unknown option 'pack'")
    assert.error_matches(function() other:seek { position = 300 } end, "sequence 300 of epoch 0, which has 300")
  end)

  it("is refused with a number of packs", function()
    assert.error_matches(function() open { packs = 3 } end, "leave out packs")
    assert.error_matches(function() open { adjust = "betas" } end, "leave out adjust 'betas'")
  end)
end)

describe("shares", function()
  local function shape(options)
    local update, shares = open(options):next(), {}
    for batch in update:batches() do
      shares[#shares + 1] = batch.share
      assert.is_true(batch.sequences > 0)
    end
    return update.shares, table.concat(shares, " ")
  end

  it("are the micro-batches, at most 8, unless a number is given", function()
    assert.same({ 1, "1" }, { shape {} })
    for _, arrange in ipairs { "padded", "single" } do
      local micro = arrange == "padded" and 2 or nil
      local shares, list = shape { arrange = arrange, micro_packs = micro, sequences = micro and 20 or 10 }
      assert.same({ 8, "1 2 3 4 4 5 6 7 8 8" }, { shares, list })
    end
    local update = open({ micro_packs = 2, sequences = 24 }):next()
    assert.equal(math.min(8, update.count), update.shares)
  end)

  it("get equally many micro-batches, as many as packs allow", function()
    local update = open({ shares = 4, sequences = 100, micro_packs = 6 }):next()
    assert.equal(4, update.shares)
    assert.equal(0, update.count % 4)
    assert.is_true(update.count >= update.packs / 6)
    local each = {}
    for batch in update:batches() do each[batch.share] = (each[batch.share] or 0) + 1 end
    for share = 1, 4 do assert.equal(update.count // 4, each[share]) end
    assert.same({ 3, "1 2 3" }, { shape { shares = 3, arrange = "padded" } })
    assert.same({ 5, "1 2 3 4 5" }, { shape { shares = 64, arrange = "padded", sequences = 5 } })
  end)

  it("change no sequence of the update", function()
    local want = sequences(open { sequences = 100 }:next())
    for _, shares in ipairs { 1, 2, 4, 8 } do
      assert.same(want, sequences(open { sequences = 100, shares = shares }:next()))
    end
    assert.error_matches(function() open { shares = -1 } end, "shares must be 0")
  end)
end)

it("a loader of some shares makes them as a loader of all would, with the denominators of the whole", function()
  for _, options in ipairs {
    { data = corpus, nsp = true, shares = 4 }, { shares = 4, arrange = "padded" },
    { by = "packs", sequences = 60, shares = 4, loss = "sequence", mask = { whole_word = true } },
    { data = corpus, nsp = true, shares = 4, mask = { prob = 1, max = 1000 } },
    { data = corpus, nsp = false, shares = 4, loss = "sequence", mask = { prob = 0.9, max = 7, whole_word = true } },
    { shares = 4, mask = { prob = 1, max = 1000 } },
  } do
    local function part(given)
      given.sequences = 60
      return open(with(given, options))
    end
    local function range(first, last) return part { share_range = { first, last } } end
    local all, parts = part {}, { range(1, 1), range(2, 3), range(4, 9) }
    for i = 1, 8 do
      if i == 5 then -- the same by rank
        parts = { part { rank = 0, ranks = 3 }, part { rank = 1, ranks = 3 }, part { rank = 2, ranks = 3 } }
        for _, loader in ipairs(parts) do loader:seek(all:cursor()) end
      end
      local whole, shares = all:next(), {}
      for batch in whole:batches() do shares[#shares + 1] = contents(batch) end
      local got = {}
      for _, loader in ipairs(parts) do
        local update = loader:next()
        for batch in update:batches() do got[#got + 1] = contents(batch) end
        for _, key in ipairs { "sequences", "tokens", "slots", "masked", "packs", "shares", "schedule_step" } do
          assert.equal(whole[key], update[key])
        end
        assert.same(all:cursor(), loader:cursor())
      end
      assert.same(shares, got)
    end
  end
  assert.error_matches(function() open { share_range = { 3, 2 } } end, "share_range is {first, last}")
  assert.error_matches(function() open { share_range = 2 } end, "share_range must be")
  assert.error_matches(function() open { rank = 2, ranks = 2 } end, "rank must be below ranks; given 2 of 2")
end)

describe("stages", function()
  local STAGES = {
    { max_len = 12, updates = 4 }, { max_len = 24, sequences = 250 }, { longest = 30, real_tokens = 6000 },
    { filter = function(uid) return uid % 3 == 0 end, updates = 20 }, {},
  }

  local function lengths_of(update)
    local all = {}
    for batch in update:batches() do
      local scope <close> = sr.scope()
      for i, uid in ipairs(batch.layout:uids()) do all[uid] = batch.layout:lengths()[i] end
    end
    return all
  end

  it("cut sequences before packing and masking, and end with [SEP]", function()
    local whole = fixed:lengths("train", 0, 64, { nsp = false })
    for _, by in ipairs { "packs", "sequences" } do
      local stages = { { max_len = 12, updates = 5 }, {} }
      local loader, plain = open { by = by, stages = stages }, open { by = by }
      for i = 1, 8 do
        local update, other = loader:next(), plain:next()
        if by == "sequences" then -- the same pass goes on: the same sequences, cut
          local one, two = lengths_of(update), lengths_of(other)
          for uid in pairs(two) do assert.equal(i <= 5 and math.min(12, two[uid]) or two[uid], one[uid]) end
        end
        for uid, length in pairs(lengths_of(update)) do
          assert.equal(i <= 5 and math.min(12, whole[uid + 1]) or whole[uid + 1], length)
        end
        for batch in update:batches() do
          local scope <close> = sr.scope()
          local ids, starts, lengths = batch.ids:totable(), batch.layout:starts(), batch.layout:lengths()
          for s = 1, batch.sequences do assert.equal(3, ids[starts[s] + lengths[s]]) end
        end
        assert.equal(i <= 5, update.upto.raw_tokens - update.from.raw_tokens > update.tokens)
      end
      assert.equal(2, loader:cursor().stage)
    end
  end)

  it("change at totals, draw what they let through, and resume in any of them", function()
    for _, by in ipairs { "packs", "sequences" } do
      local function stages(options)
        return open(with({ by = by, stages = STAGES, sequences = 40, micro_packs = 3 }, options))
      end
      local loader, cursors, want, reached = stages { threads = 3, prefetch = 3 }, {}, {}, {}
      for i = 1, 26 do
        cursors[i] = loader:cursor()
        local update = loader:next()
        local stage = update.upto.stage
        reached[stage] = true
        want[i] = uids(update)
        for uid, length in pairs(lengths_of(update)) do
          if stage == 1 then assert.is_true(length <= 12) end
          if stage == 3 then assert.is_true(length <= 30) end
          if stage == 4 then assert.equal(0, uid % 3) end
        end
        assert.equal(i <= 4, stage == 1)
        assert.equal(i > 20, stage == 5)
      end
      assert.same({ true, true, true, true, true }, reached)
      for threads = 0, 2 do
        local other <close> = stages { threads = threads, prefetch = threads }
        for k = 0, 25 do -- every update, now ahead, now back
          local i = 1 + k * 7 % 26
          other:seek(cursors[i])
          assert.equal(want[i], uids(other:next()))
          if i < 26 then
            assert.same(cursors[i + 1], other:cursor())
            assert.equal(want[i + 1], uids(other:next()))
          end
        end
      end
    end
  end)

  it("are rejected if they are invalid", function()
    for message, stages in pairs {
      ["stage 1 has no end"] = { {}, {} }, ["stage 1 is the last and must not end"] = { { updates = 3 } },
      ["max_len is 65; must be 5%.%.64"] = { { max_len = 65 } }, ["uids must be ascending"] = { { uids = { 3, 3 } } },
      ["the uid 300, but there are 300"] = { { uids = { 300 } } }, ["unknown option 'lenght'"] = { { lenght = 3 } },
      ["leaves none of the 300 sequences"] = { { shortest = 60 } }, ["stages must be a list"] = 3,
      ["stages%[1%] is a number"] = { 3 }, ["filter must be a function, got a table"] = { { filter = {} } },
      ["stage 1: no uids are left"] = { { filter = function() return false end } },
      ["stage 1: short_seq_prob applies to text"] = { { short_seq_prob = 0.5 } },
      ["both uids and a filter"] = { { uids = { 3 }, filter = print } },
    } do
      local ok, loader, told = pcall(function() return sr.data.loader {
        data = fixed, by = "sequences", sequences = 8, max_len = 64, stages = stages,
      } end)
      assert.error_matches(function() error(ok and told or loader, 0) end, message)
    end
    for message, stage in pairs {
      ["stage 1: short_seq_prob is 3; must be 0..1"] = { short_seq_prob = 3 },
      ["stage 1: text has new examples every epoch"] = { filter = function() return true end },
    } do
      local options = { data = corpus, nsp = true, stages = { stage } }
      assert.error_matches(function() open(options) end, message)
    end
  end)
end)

describe("an order written in Lua", function()
  ---A sampler that knows how many it drew, what the loop wrote, and ends after 12 updates.
  local function sampler(update, state)
    if update == 12 then return nil end
    local order = {}
    for i = 1, 10 do order[i] = (state.next + i * 7 + (state.told or 0)) % 300 end
    state.next = state.next + 11
    return order, { max_len = update % 2 == 0 and 20 or nil }
  end

  local function sampling(options)
    local given = { order = sampler, order_state = { next = 3 }, micro_packs = 2 }
    for key, value in pairs(options or {}) do given[key] = value or nil end
    given.data, given.max_len, given.seed = fixed, 64, 3
    return assert(sr.data.loader(given))
  end

  it("is called once per update, ahead of time, and its order is used", function()
    local asked = {}
    local loader = sampling { prefetch = 3, order = function(update, state)
      asked[#asked + 1] = update
      return sampler(update, state)
    end }
    for i = 1, 12 do
      local update, want = loader:next(), {}
      for k = 1, 10 do want[k] = (3 + (i - 1) * 11 + k * 7) % 300 end
      table.sort(want)
      local got, longest = {}, 0
      for batch in update:batches() do
        local scope <close> = sr.scope()
        table.move(batch.layout:uids(), 1, batch.sequences, #got + 1, got)
        longest = math.max(longest, table.unpack(batch.layout:lengths()))
        assert.equal(i - 1, batch.epoch) -- the number of the update is the word of its keys
      end
      table.sort(got)
      assert.same(want, got)
      assert.is_true(i % 2 == 0 and longest > 20 or longest <= 20)
      assert.is_true(#asked <= math.min(i + 3, 13))
    end
    assert.is_nil(loader:next())
    assert.is_nil(loader:next())
    assert.equal(13, #asked)
  end)

  it("resumes from any update as if it had never stopped, with any number of workers", function()
    local function run(loader, told)
      local list = {}
      for update in function() return loader:next() end do
        list[#list + 1] = table.concat(sequences(update), "\n")
        loader:order_state().told = update.index -- seen `prefetch` updates later
        if told then told(loader:cursor()) end
      end
      return list
    end
    for _, prefetch in ipairs { 1, 3 } do
      local cursors = {}
      local want = run(sampling { threads = 2, prefetch = prefetch }, function(c) cursors[#cursors + 1] = c end)
      assert.equal(12, #want)
      for from, cursor in ipairs(cursors) do
        assert.equal(math.min(prefetch - 1, 12 - from), #cursor.pending)
        local text = require("seqrun.core.json").encode(cursor)
        local loader <close> = sampling { threads = from % 4, prefetch = prefetch }
        loader:next()
        loader:seek(require("seqrun.core.json").decode(text))
        assert.same(table.move(want, from + 1, 12, 1, {}), run(loader))
      end
    end
  end)

  it("keeps a group in one micro-batch", function()
    local groups = {}
    for g = 0, 19 do groups[#groups + 1] = { 5 * g, 5 * g + 1, 5 * g + 2, 5 * g + 3, 5 * g + 4 } end
    groups[#groups + 1] = 299
    for _, arrange in ipairs { "packed", "padded" } do
      for _, micro in ipairs { 5, 6, 0 } do
        local loader = sampling { by = "order", order = false, arrange = arrange, micro_packs = micro, prefetch = 0 }
        loader:order(groups)
        local update, home, seen = loader:next(), {}, 0
        for batch in update:batches() do
          local scope <close> = sr.scope()
          for _, uid in ipairs(batch.layout:uids()) do
            home[uid // 5] = home[uid // 5] or batch.number
            assert.equal(home[uid // 5], batch.number)
            seen = seen + 1
          end
          if arrange == "packed" and micro > 0 then assert.is_true(batch.tokens <= micro * 64) end
        end
        assert.equal(101, seen)
        assert.is_true(micro == 0 and update.count == 1 or update.count > 1)
      end
    end
    local loader = sampling { by = "order", order = false, micro_packs = 1, prefetch = 0 }
    loader:order { { 1, 2, 3, 4, 5, 6, 7, 8 } }
    assert.error_matches(function() loader:next() end, "needs more than the 1 packs of a micro%-batch")
  end)

  it("is rejected if it is invalid", function()
    local loader = sampling { by = "order", order = false, prefetch = 0 }
    for message, order in pairs {
      ["duplicate uid 7 in one update"] = { 7, 1, 7 }, ["uid 300 is out of range"] = { 300 },
      ["group 2 is empty"] = { 1, {} }, ["at least one sequence"] = {}, ["list of uids, not a number"] = 3,
    } do
      assert.error_matches(function() loader:order(order) end, message)
    end
    assert.error_matches(function() loader:order({ 1 }, { max_len = 65 }) end, "max_len is 65; must be 5%.%.64")
    assert.error_matches(function() loader:next() end, "no order is pending")
    assert.error_matches(function() open():order { 1 } end, "open the loader with by = 'order'")
    local bad = sampling { order = function() return { 1, 2, 1 } end }
    assert.error_matches(function() bad:next() end, "the order of update 0: .*duplicate uid 1 in one update")
    local empty = sampling { order = function() end }
    assert.error_matches(function() empty:next() end,
      "order%(update, state%) %(tests/spec/order_spec.lua:%d+%) returned nil for the first update; return a list")
    assert.error_matches(function() sampling { order_state = { f = print } } end, "state%.f is a function")
    assert.error_matches(function() sampling { order = 3 } end, "order must be a function or a curriculum, got")
    assert.error_matches(function() sampling { by = "packs" } end, "leave out by = 'packs'")
    assert.error_matches(function() open { order_state = {} } end, "order_state belongs to a function `order`")
    local drawn, packs = sampling(), open { by = "packs" }
    drawn:next()
    assert.error_matches(function() packs:seek(drawn:cursor()) end, "a loader by order, but this one draws by packs")
    assert.error_matches(function() drawn:seek(packs:cursor()) end, "a loader by packs, but this one draws by order")
  end)
end)

it("a loader refuses what the machine cannot hold, before it takes any of it", function()
  local before = sys.memory()
  for message, options in pairs {
    ["%(%d+%.%d GiB with prefetch 2%), but this machine has .*lower"] = { sequences = 1000000000, prefetch = 2 },
    ["; lower "] = { sequences = 5000000, arrange = "padded", prefetch = 0 }, -- more rows than a batch may have
  } do
    for _, by in ipairs { "packs", "sequences" } do
      options.by, options.data, options.max_len = by, fixed, 64
      local loader, told, code = sr.data.loader(options)
      assert.is_nil(loader)
      assert.error_matches(function() error(told, 0) end, message)
      assert.equal("memory", code)
    end
  end
  assert.is_true(sys.memory() - before < 64 << 20)
  local small = open { sequences = 1 << 30, epochs = 2 } -- but there are only 600
  assert.equal(600, small:next().sequences)
end)

it("an update outlives the loader that made it", function()
  local loader = open { sequences = 20 }
  local update = loader:next()
  loader:close()
  for _ = 1, 50 do open({ sequences = 5 }):close() end -- other collators in the place of the old ones
  assert.same({ "mlm" }, update:batch(1).target_names)
  assert.equal(20, #sequences(update))
end)

describe("a solver written in Lua", function()
  local asked = 0
  setup(function()
    sr.pack.register("one_each", function(counts)
      asked = asked + 1
      local patterns = {}
      for length, count in ipairs(counts) do
        if count > 0 then patterns[#patterns + 1] = { count = count, length } end
      end
      return patterns
    end)
  end)

  it("plans given examples once, for all epochs", function()
    local loader = open { by = "packs", sequences = 100, solver = "one_each" }
    for _ = 1, 7 do
      local update = loader:next()
      assert.equal(100, update.sequences)
      assert.equal(100, update.packs)
    end
    assert.equal(2, loader:cursor().epoch)
    assert.equal("one_each", loader:plan(2).solver)
    assert.equal(1, asked)
    open { by = "packs", solver = "one_each", plan = loader:plan_text() }
    assert.equal(1, asked)
  end)

  it("packs every epoch of text, every stage, and inside every update", function()
    for _, options in ipairs {
      { data = corpus, by = "packs" }, { by = "sequences" }, { by = "packs", stages = { { updates = 2 }, {} } },
      { data = corpus, by = "packs", max_seqs = "auto" },
    } do
      options.data, options.sequences, options.solver = options.data or fixed, 8, "one_each"
      local before, loader = asked, open(options)
      for _ = 1, 60 do assert.is_true(loader:next().sequences > 0) end
      assert.is_true(loader:cursor().epoch >= 1)
      assert.is_true(asked > before)
    end
  end)

  it("gives the same updates after a seek, from any coroutine", function()
    local options = { data = corpus, by = "packs", sequences = 8, solver = "one_each" }
    local loader, other = open(options), open(options)
    for _ = 1, 30 do loader:next() end
    other:seek(loader:cursor())
    local ask = coroutine.wrap(function()
      while true do coroutine.yield(other:next()) end
    end)
    for _ = 1, 30 do assert.equal(tostring(loader:next()), tostring(ask())) end
  end)

  it("fails with its own error, also during training", function()
    local calls = 0
    sr.pack.register("tires", function(counts)
      calls = calls + 1
      if calls > 1 then error("too tired") end
      local patterns = {}
      for length, count in ipairs(counts) do patterns[#patterns + 1] = { count = count, length } end
      return patterns
    end)
    local loader = open { data = corpus, by = "packs", packs = 8, solver = "tires" }
    assert.error_matches(function()
      while loader:next() do end
    end, "too tired")
    sr.pack.register("idle", function() return {} end)
    assert.error_matches(function() open { data = corpus, by = "packs", packs = 8, solver = "idle" } end, "pack")
  end)
end)

it("a run refuses micro-batches whose activations exceed the machine's memory", function()
  local memory = require("seqrun.run.checks.memory")
  local config = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2, intermediate_size = 32,
    vocab_size = 151, max_position_embeddings = 64 }
  local bert = sr.nn.bert(config)
  local function check(packs)
    local summary = { arrange = "packed", micro_packs = packs, max_len = 64 }
    return pcall(memory.check, { model = bert, loader = { summary = function() return summary end } })
  end
  assert.is_true(check(8))
  local ok, failed = check(1 << 40)
  assert.is_false(ok)
  assert.equal(4, failed:exit_code())
  assert.matches("activations [%d.]+ TiB, moments", tostring(failed)) -- the largest owners
  assert.matches("; lower batch.micro_packs %(now %d+%), set model.recompute=true or lower data.max_len %(now 64%)$",
    tostring(failed))
  bert.recompute = true
  assert.is_true(bert:activation_bytes(64) < 2 * 64 * 4 * (10 * 16 + 2 * 32))
end)

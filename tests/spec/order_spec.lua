-- Which sequences an update has, in which batches of which share, apart from how they are laid out.

local sr = require "seqrun"
local sys = require "seqrun.core.sys"

local folder = os.tmpname()
os.remove(folder)

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
  assert(sys.make_dirs(folder))
  local lines = {}
  for i = 1, 900 do
    lines[i] = ("Number %d came %s to the house of number %d."):format(i, ("very "):rep(i % 11), i % 37)
    if i % 5 == 0 then lines[i] = lines[i] .. "\n" end
  end
  assert(sys.write_file(folder .. "/text.txt", table.concat(lines, "\n")))
  assert(sr.data.prepare {
    inputs = folder .. "/text.txt", out = folder .. "/x.sqr", vocab = { size = 300 }, threads = 1,
  })
  corpus = assert(sr.data.open(folder .. "/x.sqr", { held = 0 }))
  write_examples(folder .. "/fixed.sqr", corpus:vocab())
  fixed = assert(sr.data.open(folder .. "/fixed.sqr", { held = 0 }))
end)

teardown(function() assert(sys.remove(folder)) end)

local function open(options)
  local given = { data = fixed, by = "sequences", max_len = 64, sequences = 32, seed = 3, prefetch = 0 }
  for key, value in pairs(options or {}) do given[key] = value end
  return assert(sr.data.loader(given))
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
  it("has exactly as many as asked for, each once an epoch, in another order every epoch", function()
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

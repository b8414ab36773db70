-- Loaders, updates and batches, as seen from a recipe.

local sr = require "seqrun"

require("tests.support.devices").late()

local folder = require("tests.support.program").folder()

local numbers = require("tests.support.numbers")
local corpus, contents = numbers.corpus(folder, 900, 0.1), numbers.contents
local with = require("tests.support.with")

local function open(options)
  local given = with({ data = corpus, max_len = 64, packs = 8, micro_packs = 3, seed = 3 }, options)
  given.packs = given.packs or nil -- false removes the default
  return assert(sr.data.loader(given))
end

for _, device in ipairs(sr.devices()) do
  describe("a batch on " .. device, function()
    setup(function() sr.use(device) end)
    teardown(function() sr.use("cpu") end)

    it("is sent as one block, again when the scope of the first has closed", function()
      local transfers = require("seqrun.core.tensor").transfers
      local batch, sent, first = assert(open():next()):batch(1), transfers().uploads
      do
        local scope <close> = sr.scope()
        first = batch.ids:tostring_bytes()
        assert.equal(#batch.targets.mlm.labels:totable(), batch.masked)
        assert.equal(sent + 1, transfers().uploads)
      end
      local scope <close> = sr.scope()
      assert.is_true(batch.last.rows:is_live())
      assert.equal(sent + 2, transfers().uploads)
      assert.equal(first, assert(open():next()):batch(1).ids:tostring_bytes())
    end)

    it("has ids, types and targets whose rows point at masked tokens", function()
      local scope <close> = sr.scope()
      local batch = open():next():batch(1)
      assert.same({ batch.slots }, batch.ids:shape())
      assert.equal(0, batch.slots % 128)
      assert.equal(batch.slots, batch.layout:rows())
      local mlm, nsp = batch.targets.mlm, batch.targets.nsp
      assert.same({ batch.masked }, mlm.rows:shape())
      assert.same({ batch.sequences }, nsp.labels:shape())
      assert.equal("i32", batch.ids:dtype())
      assert.same(batch.layout:starts(), nsp.rows:totable())
      local ids, mask = batch.ids:totable(), corpus:tokenizer():special("mask")
      local masked = 0
      for _, row in ipairs(mlm.rows:totable()) do masked = masked + (ids[row + 1] == mask and 1 or 0) end
      assert.is_true(masked > batch.masked / 2)
    end)
  end)
end

describe("an update", function()
  it("divides by its own totals, for any number of micro-batches", function()
    for _, loss in ipairs { "token", "sequence" } do
      for _, micro in ipairs { 1, 3, 8 } do
        local sums = { mlm = 0, nsp = 0 }
        for batch in open({ micro_packs = micro, loss = loss }):next():batches() do
          local scope <close> = sr.scope()
          for head in pairs(sums) do sums[head] = sums[head] + batch.targets[head].weights:sum():item() end
        end
        assert.near(1, sums.mlm, 1e-5)
        assert.near(1, sums.nsp, 1e-5)
      end
    end
  end)

  it("holds the same sequences packed, padded and single", function()
    local want
    for _, arrange in ipairs { "packed", "padded", "single" } do
      local update, uids = open({ arrange = arrange }):next(), {}
      for batch in update:batches() do
        local scope <close> = sr.scope()
        table.move(batch.layout:uids(), 1, batch.sequences, #uids + 1, uids)
      end
      table.sort(uids) -- packs are distributed over batches by cost
      want = want or { uids, update.masked, update.tokens }
      assert.same(want, { uids, update.masked, update.tokens })
    end
  end)

  it("distributes packs over batches by cost, and reports the imbalance", function()
    local even = open({ packs = 24, micro_packs = 4, per_square = 1 / 64 }):next()
    assert.is_true(even.imbalance >= 1 and even.imbalance < 1.02, even.imbalance)
    local most, total = 0, 0
    for batch in even:batches() do
      local cost = batch.layout:tokens() + batch.layout:squares() / 64
      most, total = math.max(most, cost), total + cost
    end
    assert.near(even.imbalance, most * 6 / total, 1e-9)
    assert.equal(1, open({ packs = 4, micro_packs = 4 }):next().imbalance)
    assert.has_error(function() open { per_square = 2 } end, "loader: per_square is 2; must be 0 to 1")
  end)

  it("assigns packs to batches as `balance` says, without changing the update", function()
    local want, last = nil, math.huge
    for _, balance in ipairs { "random", "cost" } do
      local update, uids = open({ packs = 24, micro_packs = 4, per_square = 1 / 64, balance = balance }):next(), {}
      for batch in update:batches() do
        local scope <close> = sr.scope()
        table.move(batch.layout:uids(), 1, batch.sequences, #uids + 1, uids)
      end
      table.sort(uids)
      want = want or uids
      assert.same(want, uids)
      assert.is_true(update.imbalance < last, balance)
      last = update.imbalance
    end
    assert.has_error(function() open { balance = "fair" } end)
  end)

  it("counts the contents of its batches", function()
    local update, sums = open():next(), { sequences = 0, tokens = 0, slots = 0, masked = 0 }
    for batch in update:batches() do
      for key in pairs(sums) do sums[key] = sums[key] + batch[key] end
    end
    for key, sum in pairs(sums) do assert.equal(sum, update[key]) end
    assert.same({ 0, 8 }, { update.index, update.packs })
  end)
end)

describe("a loader", function()
  it("yields the same updates with any number of workers", function()
    local want = {}
    local alone = open { prefetch = 0 }
    for i = 1, 30 do want[i] = contents(alone:next()) end
    for _, threads in ipairs { 1, 3 } do
      local loader <close> = open { threads = threads, prefetch = 4 }
      for i = 1, 30 do assert.is_true(want[i] == contents(loader:next())) end
    end
  end)

  it("continues from a cursor as if it had never stopped", function()
    local loader, cursors, want = open { packs = 20 }, {}, {}
    for i = 1, 25 do
      cursors[i] = loader:cursor()
      want[i] = contents(loader:next())
    end
    assert.is_true(loader:cursor().epoch >= 1)
    local other = open { packs = 20 }
    for _, i in ipairs { 25, 3, 14, 1 } do
      other:seek(cursors[i])
      assert.is_true(want[i] == contents(other:next()))
    end
  end)

  it("uses every example of a finite pass exactly once", function()
    local loader, seen, count = open { part = "held", epochs = 1, packs = 3 }, {}, 0
    for update in function() return loader:next() end do
      for batch in update:batches() do
        local scope <close> = sr.scope()
        for _, uid in ipairs(batch.layout:uids()) do
          assert.is_nil(seen[uid])
          seen[uid], count = true, count + 1
        end
      end
    end
    assert.equal(loader:examples(), count)
    assert.is_nil(loader:next())
  end)

  it("converts a number of sequences into packs by either policy", function()
    local factor = open():plan().factor
    assert.equal(math.max(1, math.floor(32 / factor + 0.5)), open({ packs = false, sequences = 32 }):summary().packs)
    assert.equal(32, open({ packs = false, sequences = 32, adjust = "betas" }):summary().packs)
  end)

  it("counts the steps of schedules in sequences, across epochs and after a seek", function()
    for _, adjust in ipairs { "batch", "betas" } do
      local options = { packs = false, sequences = 30, adjust = adjust }
      local loader, drawn, cursor, behind = open(options), 0, nil, nil
      for i = 1, 12 do
        local update = loader:next()
        drawn = drawn + update.sequences
        assert.equal(drawn / 30, update.schedule_step)
        if i == 5 then cursor = loader:cursor() elseif i == 6 then behind = update.schedule_step end
      end
      local again = open(options)
      again:seek(cursor)
      assert.equal(behind, again:next().schedule_step)
    end
    local fixed = open({ packs = 3 })
    assert.same({ 1, 2 }, { fixed:next().schedule_step, fixed:next().schedule_step })
  end)

  it("uses a saved plan if it fits", function()
    local text = open({ solver = "spfhp" }):plan_text()
    assert.equal("spfhp", open({ plan = text }):plan(0).solver)
    assert.not_equal("spfhp", open({ plan = text }):plan(1).solver)
  end)

  it("builds batches of fixed examples", function()
    local loader = open()
    local scope <close> = sr.scope()
    for _, arrange in ipairs { "packed", "padded" } do
      local batch = loader:batch_of({ 4, 2, 9 }, { arrange = arrange, epoch = 2 })
      assert.same({ 4, 2, 9 }, batch.layout:uids())
      assert.equal(2, batch.epoch)
    end
    local longest = loader:batch_of({ 4, 2, 9 }, { arrange = "longest", epoch = 2 }).layout
    local most = math.max(table.unpack(longest:lengths()))
    assert.same({ 0, most, 2 * most }, longest:starts())
    assert.has_error(function() loader:batch_of({ 1, 2 }, { arrange = "single" }) end)
    assert.has_error(function() loader:batch_of({ 1 << 30 }) end)
  end)

  it("omits masks and sentence pairs on request", function()
    local batch = open({ mask = false, nsp = false }):next():batch(1)
    assert.is_nil(next(batch.targets))
  end)

  it("reports invalid options", function()
    assert.has_error(function() open { max_lem = 3 } end)
    assert.has_error(function() open { arrange = "folded" } end)
    assert.has_error(function() open { solver = "magic" } end)
    assert.has_error(function() open { max_len = 3 } end)
    for key, value in pairs { max_len = (1 << 32) + 64, epoch = 1 << 32, threads = -1, max_seqs = 1 << 31 } do
      assert.error_matches(function() open { [key] = value } end, "'" .. key .. "' must be an integer")
    end
    assert.has_error(function() open { mask = { prob = 2 } } end)
    local whole = assert(sr.data.open(folder .. "/x.sqr", { held = 0 }))
    require("tests.support.none")("data", "", sr.data.loader { data = whole, part = "held", packs = 1 })
  end)
end)

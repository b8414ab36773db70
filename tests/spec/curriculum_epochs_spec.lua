-- A curriculum over several epochs of a text: fresh sentence pairs, and metrics that a run computes by itself.

local fails = require("tests.support.fails")
local sr = require "seqrun"
local sys = require "seqrun.core.sys"

local folder = require("tests.support.program").folder()

local corpus = require("tests.support.numbers").corpus(folder, 900, 0)
local with = require("tests.support.with")

local function open(curriculum, options)
  local given = { data = corpus, max_len = 64, seed = 3, prefetch = 0, micro_packs = 4 }
  given.order = sr.curriculum(curriculum)
  return sr.data.loader(with(given, options))
end

---The sequences of an update without masks, as text, with the metric's value of each if there is a metric.
local function sequences(update)
  local all = {}
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local ids = batch.original_ids:totable()
    for i, length in ipairs(batch.layout:lengths()) do
      local at = batch.layout:starts()[i]
      all[#all + 1] = table.concat(ids, " ", at + 1, at + length)
    end
  end
  return all
end

local function percentile(min, max, total)
  return sr.schedule.new { kind = "percentile", min = min, max = max, total = total, quantum = 1 }
end

local function files()
  local found = {}
  for _, name in ipairs(sys.list(folder)) do found[#found + 1] = name:find("metric") and name or nil end
  table.sort(found)
  return found
end

it("a curriculum on a data set beside which nothing can be written names the way out", function()
  local fault = require("tests.support.fault")
  local measured = require("seqrun.curriculum.measured")
  local loader, found = sr.data.loader { data = corpus, max_len = 64, seed = 3, prefetch = 0, micro_packs = 4 }, nil
  for n = 1, 20 do
    fault.storage(n, "EROFS")
    local ok, problem = pcall(measured.first, loader, "rarity", "rarity")
    fault.storage(0)
    sys.remove(folder .. "/x.rarity.metric")
    problem = ok and "" or problem
    found = found or tostring(problem):match("make it in a directory that can be written, with `seqrun analyze "
      .. "[^`]+ %-%-metric rarity[^`]* %-%-out DIR`, and set curriculum.rarity.file to the file there")
  end
  assert.is_truthy(found)
end)

describe("fresh examples", function()
  it("are those that a loader without a curriculum draws, each once an epoch", function()
    local loader = assert(open({ sequences = 16, examples = "fresh" }, { keep_ids = true }))
    local epochs = {}
    for _ = 1, 200 do
      local update = loader:next()
      local epoch = update.window.epoch
      epochs[epoch] = epochs[epoch] or {}
      table.move(sequences(update), 1, 16, #epochs[epoch] + 1, epochs[epoch])
      if epoch == 3 then break end
    end
    assert.is_truthy(epochs[3])
    for epoch = 0, 2 do
      local plain = assert(sr.data.loader {
        data = corpus, max_len = 64, seed = 3, epoch = epoch, prefetch = 0, packs = 1, keep_ids = true, mask = {},
      })
      local known, repeated = {}, 0
      for uid = 0, plain:examples() - 1 do
        local text = sequences(plain:update_of({ uid }, { epoch = epoch }))[1]
        known[text] = (known[text] or 0) + 1
      end
      for _, text in ipairs(epochs[epoch]) do
        known[text] = (known[text] or 0) - 1
        if known[text] < 0 then repeated = repeated + 1 end
      end
      assert.equal(0, repeated)
      assert.equal(plain:examples() // 16 * 16, #epochs[epoch])
    end
    assert.not_same(epochs[0][1], epochs[1][1])
  end)

  it("have metrics of their own epoch", function()
    local loader = assert(open({ sequences = 16, examples = "fresh", metrics = {
      length = { metric = "length", kind = "value", schedule = 40 },
      rarity = { metric = "rarity", schedule = percentile(50, 100, 40) },
    } }))
    local epochs = {}
    for _ = 1, 120 do
      local update = loader:next()
      epochs[update.window.epoch] = true
      for batch in update:batches() do
        local scope <close> = sr.scope()
        for _, length in ipairs(batch.layout:lengths()) do assert.is_true(length <= 40) end
      end
    end
    assert.is_true(epochs[1])
    for _, name in ipairs(files()) do assert.is_nil(name:find("epoch")) end
  end)

  it("are the same with any number of workers and after a stop, also across epochs", function()
    local function curriculum()
      return { sequences = 24, examples = "fresh", length = 48, window = 3, metrics = {
        rarity = { metric = "rarity", schedule = percentile(60, 100, 30) },
        even = { metric = function(uid, tokens, epoch) return tokens + (uid + epoch) % 3 end, schedule = 80 },
      } }
    end
    local straight, cursors, want = assert(open(curriculum(), { keep_ids = true })), {}, {}
    for i = 1, 60 do
      cursors[i] = straight:cursor()
      want[i] = table.concat(sequences(straight:next()), "|")
    end
    assert.is_true(cursors[60].epoch >= 1)
    local json = require "seqrun.core.json"
    local other = assert(open(curriculum(), { keep_ids = true, threads = 2, prefetch = 5 }))
    for i = 1, 60 do
      cursors[i] = json.decode(json.encode(cursors[i]))
      assert.equal(want[i], table.concat(sequences(other:next()), "|"))
    end
    for _, i in ipairs { 59, 3, 40, 41, 42, 43, 44, 45, 12 } do
      other:seek(cursors[i])
      assert.equal(want[i], table.concat(sequences(other:next()), "|"))
      assert.equal(want[i + 1], table.concat(sequences(other:next()), "|"))
    end
  end)

  it("are refused where they or their metrics cannot be drawn again", function()
    local function refused(message, curriculum)
      fails.raising(message, open, curriculum)
    end
    refused("curriculum.own: .* again in each epoch, but this metric belongs to those of one; use length, rarity",
      { sequences = 8, examples = "fresh", metrics = { own = { metric = { 1, 2, 3 }, schedule = 50 } } })
    refused("curriculum.examples must be", { sequences = 8, examples = "new" })
  end)
end)

describe("a metric that is missing", function()
  it("is computed if that is quick, beside the data set, and kept", function()
    for _, name in ipairs(files()) do sys.remove(folder .. "/" .. name) end
    local curriculum = { sequences = 8, metrics = { rarity = { metric = "rarity", schedule = 50 } } }
    local loader = assert(open(curriculum))
    assert.same(1, #files())
    assert.matches("^[%w]+%.rarity%.metric$", files()[1])
    local path = folder .. "/" .. files()[1]
    local hash = sys.hash_file(path)
    loader:next()
    assert(open(curriculum)):next()
    assert.equal(hash, sys.hash_file(path))
    local named = folder .. "/other.length.metric"
    assert(open { sequences = 8, metrics = { easy = { metric = named, schedule = 50 } } }):next()
    assert.is_true(sys.exists(named))
  end)

  it("of other examples is computed beside it, or refused with the command if its path is given", function()
    local function other(metric, key)
      return open({ sequences = 8, metrics = { [key or "rarity"] = { metric = metric, schedule = 50 } } }, { seed = 4 })
    end
    local loader = assert(other("rarity"))
    assert.is_true(loader:next().window.unlocked > 0)
    fails.raising("again with `seqrun analyze .*%.sqr %-%-metric rarity %-%-held 0 %-%-max%-len 64 .*%-%-seed 4`",
      other, folder .. "/x.rarity.metric")
    local hard = { name = "hard", fn = function(sequence) return #sequence.ids end }
    sr.must(sr.data.analyze { data = corpus, metrics = { hard }, max_len = 64, seed = 3, out = folder })
    fails.raising("again with `seqrun analyze .*%.sqr %-%-metric hard.lua ", other, folder .. "/x.hard.metric", "own")
    fails.raising("make it with `seqrun analyze .*%.sqr %-%-metric harder.lua ", other, folder .. "/x.harder.metric",
      "own")
  end)

  it("of another kind than its key says is refused", function()
    local options = { data = corpus, metrics = { "length" }, max_len = 64, seed = 3, out = folder }
    local made = sr.must(sr.data.analyze(options))
    local function named(key)
      return open { sequences = 8, metrics = { [key] = { metric = made.length.about.path, schedule = 50 } } }
    end
    assert.is_truthy(named("short"))
    fails.raising("curriculum.rarity: .* has the metric 'length'; give a file of 'rarity', or use another key", named,
      "rarity")
  end)

  it("that is not quick is an error with the command", function()
    local path = folder .. "/numbers.loss.metric"
    fails.raising("curriculum.loss: .*numbers.loss.metric does not exist; make it with `seqrun analyze .*%.sqr "
      .. "%-%-metric loss %-%-checkpoint DIR %-%-held 0 %-%-max%-len 64 .*%-%-seed 3`", open,
      { sequences = 8, metrics = { loss = { metric = path, schedule = 50 } } })
  end)
end)

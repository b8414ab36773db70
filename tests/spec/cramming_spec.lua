-- recipes/cramming.lua: the pace of a budget, the order of its data, runs, ranks.

local bert = require("tests.support.bert")
local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local mpi = require("tests.support.mpi")
local it_on = require("tests.support.devices").it_on(it)
local Pace = require("seqrun.tasks.cramming.pace")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local on_ranks = mpi.tests(it, function(why) pending(why) end)

local folder, corpus = small.folder()

local function words(out, ...)
  return small.recipe("cramming", corpus, "model.hidden_size=32", "model.num_hidden_layers=1",
    "model.num_attention_heads=2", "model.intermediate_size=32", "model.max_position_embeddings=48", "rate.total=60",
    "--out", folder .. "/" .. out, ...)
end

---Checksums of the last checkpoint of a run, and its step.
local function last_of(out)
  local bits, step = small.newest(folder .. "/" .. out)
  return step, bits
end

local function run(list)
  local out, err = program.ok(list)
  return out .. err
end

describe("the pace of cramming", function()
  local SHAPE = { full = 96, unit = 8, ramp = 0.6, peak = 2 }

  it("has as many updates as asked for, which grow to full size in the first part of all sequences", function()
    for _, updates in ipairs { 1, 2, 10, 57, 400 } do
      local pace, sum = Pace.new(updates, SHAPE), 0
      assert.equal(updates, #pace.sizes)
      for i, size in ipairs(pace.sizes) do
        assert.equal(0, size % 8)
        assert.is_true(size >= (pace.sizes[i - 1] or 8) and size <= 96)
        assert.equal(sum, pace.before[i])
        if sum / pace.total >= 0.65 and updates >= 57 then assert.equal(96, size) end
        sum = sum + size
      end
      assert.equal(sum, pace.total)
    end
    local pace = Pace.new(400, SHAPE)
    assert.same({ 8, 96 }, { pace.sizes[1], pace.sizes[400] })
    assert.same({ 96, 96, 96 }, Pace.new(3, { full = 96, unit = 8, ramp = 0, peak = 1 }).sizes)
  end)

  it("has the published rate: from a quarter of the peak up to it at three quarters, then down to nothing", function()
    local pace = Pace.new(400, SHAPE)
    assert.equal(0.5, pace:rate(1))
    local most = 0
    for step = 1, 400 do
      local p = pace.before[step] / pace.total
      assert.near(2 * math.min(0.25 + p, 4 * (1 - p)), pace:rate { step = step }, 1e-12)
      most = math.max(most, pace:rate(step))
    end
    assert.is_true(most > 1.98 and pace:rate(400) < 0.05 and pace:rate(401) == 0)
  end)

  it("spends a time and no more", function()
    local speed = { sequence = 0.01, update = 0.05 }
    for _, seconds in ipairs { 5, 60, 900 } do
      local pace = Pace.new(Pace.fit(seconds, speed, SHAPE), SHAPE)
      assert.is_true(pace:seconds(speed) > 0.8 * seconds and pace:seconds(speed) < seconds + 96 * 0.01 + 0.05 + 0.02
        * seconds, ("%g of %g s"):format(pace:seconds(speed), seconds))
    end
  end)
end)

describe("the order of cramming", function()
  local order = require("seqrun.tasks.cramming.order")

  it("goes from what compresses best to what compresses worst, leaves the rest out, and begins again", function()
    local opened = sr.must(sr.data.open(corpus, { held = 0.1 }))
    local options = { data = opened, part = "train", max_len = 48, nsp = false, short_seq_prob = 0, seed = 3 }
    local pace = Pace.new(40, { full = 24, unit = 4, ramp = 0.6, peak = 1 })
    local at, kept = order(options, pace, { drop = 0.25, sort = true, seed = 3 })
    local metric = sr.must(sr.data.metric(corpus:gsub("%.sqr$", "") .. ".compressibility.metric"))
    local want = metric:order(0, kept)
    assert.equal(math.floor(metric:count() * 0.75 + 0.5), kept)
    local list = {}
    for update = 0, 39 do
      local uids = at(update)
      assert.equal(pace.sizes[update + 1], #uids)
      table.move(uids, 1, #uids, #list + 1, list)
    end
    assert.is_nil(at(40))
    for i, uid in ipairs(list) do assert.equal(want[(i - 1) % kept + 1], uid) end
    local mixed = order(options, pace, { drop = 0.25, sort = false, seed = 3 })
    assert.not_same(at(20), mixed(20))
    local seen = {}
    for update = 0, 39 do
      for _, uid in ipairs(mixed(update)) do seen[uid] = true end
    end
    for _, uid in ipairs(want) do assert.is_true(#list < kept or seen[uid]) end
    fails.raising("an update has 100000 sequences, but only %d+ are left of the training part", order, options,
      Pace.new(2, { full = 100000, unit = 4, ramp = 0, peak = 1 }), { drop = 0.25, sort = true, seed = 3 })
  end)
end)

describe("the model of cramming", function()
  local function parts()
    local cfg = small.values(sr.tasks.cramming, words("none"))
    cfg.data.prefetch = 0
    local opened, task = sr.must(sr.data.open(corpus, { held = 0.1 })), sr.tasks.cramming
    return task.model(cfg, opened), sr.must(sr.data.loader(task.loader_options(cfg, opened, "train")))
  end

  it_on("cpu", "has the same loss and gradients packed, padded and alone", function()
    bert.check_arrangements(parts())
  end)

  it_on("ref", "has gradients of finite differences", function()
    local model, loader = parts()
    local batch = loader:batch_of { 3, 1 }
    local names = { "model.layers.0.mlp.Wi.weight", "model.final_norm.weight", "head.dense.weight" }
    bert.check_gradients(model.params, names, function() return model:losses(batch).total end)
  end)
end)

describe("a run of cramming", function()
  it("#slow learns on held-out text, says what it reaches, and resumes to the bit", function()
    local said = run(words("whole"))
    assert.matches("it will reach 60 updates of 4 to 24 sequences, [%d,]+ in all, which is", said)
    assert.matches("reached 60 of 60 updates and [%d,]+ sequences %([%d.]+ passes%) in [^\n]+, held%-out mlm", said)
    run(words("half", "--max-steps", "31", "--quiet"))
    run { "recipes/cramming.lua", "--resume=" .. folder .. "/half", "--quiet" }
    assert.same({ last_of("whole") }, { last_of("half") })
    local held, lines = small.metrics(folder .. "/whole", "eval"), small.metrics(folder .. "/whole")
    assert.is_true(held[#held].mlm_loss < lines[1].mlm_loss - 1,
      ("%g, then %g held out"):format(lines[1].mlm_loss, held[#held].mlm_loss))
    assert.is_true(lines[60].sequences > lines[1].sequences * 60)
    sr.must(sr.checkpoint.export(folder .. "/whole", folder .. "/out"))
    local config = json.decode(sys.read_file(folder .. "/out/config.json"))
    assert.same({ "ModernBertForMaskedLM", "modernbert" }, { config.architectures[1], config.model_type })
    local _, _, report = sr.must(sr.nn.pretrained(folder .. "/out"))
    assert.same({ 0, 0 }, { #report.missing, #report.ignored }, tostring(report))
  end)

  it("#slow turns hours into updates once: the run stores them, and a resume keeps them", function()
    local said = run(words("timed", "cramming.hours=0.0005", "--max-steps", "3"))
    local updates = assert(said:match("it will reach ([%d,]+) updates"), said)
    assert.matches("that takes [^\n]+ of the 1.8s at [%d.e+]+ sequences/s, as measured", said)
    local saved = assert(sys.read_file(folder .. "/timed/config.yaml"))
    assert.equal((updates:gsub(",", "")), (saved:match("\n *total: (%d[%d_]*)"):gsub("_", "")))
    said = run { "recipes/cramming.lua", "--resume=" .. folder .. "/timed", "cramming.hours=0.0005",
      "--max-steps", "6" }
    assert.matches("it will reach " .. updates .. " updates", said)
    assert.matches("reached 6 of " .. updates .. " updates and [^\n]+ of 1.8s", said)
  end)

  it("#slow trains a mixture of experts", function()
    run(words("mixture", "model.experts=2", "model.experts_chosen=1", "rate.total=12", "--quiet"))
    local lines = small.metrics(folder .. "/mixture")
    assert.is_true(lines[12].balance_loss >= 0.9 and lines[12].experts_busiest >= 1)
    fails.exiting(2, "experts is 1; expected 0 (none), or 2", words("refused", "--quiet", "model.experts=1"))
  end)

  on_ranks("#slow has the same bits on several ranks", function()
    local more = { "--max-steps", "20", "threads=1", "--quiet", "rate.total=24" }
    run(words("one", table.unpack(more)))
    program.works(mpi.run(2, words("two", table.unpack(more))))
    assert.same({ last_of("one") }, { last_of("two") })
  end)

  it("#slow refuses what it cannot do", function()
    local function refused(text, ...)
      fails.exiting(2, text, words("refused", "--quiet", ...))
    end
    refused("batch.micro_packs is 64, more than the 24 sequences of the largest update", "batch.micro_packs=64")
    refused("fewer than 10 updates are of no use; give more time, or a smaller model", "cramming.hours=1e-9")
    refused("an update has 100000 sequences, but only", "batch.sequences=100000", "rate.total=2", "cramming.ramp=0")
    refused("data.max_len is 64, but the model reads at most 48 tokens", "data.max_len=64")
    fails.exiting(2, "the family gpt2 is causal, and cramming masks tokens",
      small.recipe("cramming", corpus, "rate.total=9", "model.family=gpt2", "--out", folder .. "/refused"))
  end)
end)

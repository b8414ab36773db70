-- A run on several ranks has the bits of a run on one.  With mpirun; says so where there is none.

local files = require("tests.support.task_files")
local long = require("tests.support.long")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local STEPS = 200

local folder, corpus = small.folder()

---Runs a command line on `ranks` ranks.
local function command(ranks, words)
  if ranks == 1 then return program.run(words) end
  return mpi.run(ranks, words, { before = "OMPI_MCA_mpi_yield_when_idle=1" })
end

---The same of one thread each by default.
local function start(ranks, words, threads)
  words = table.move(words, 1, #words, 1, {})
  words[#words + 1] = "threads=" .. (threads or 1)
  return command(ranks, words)
end

local function run(ranks, words, threads)
  local out, err = works(start(ranks, words, threads))
  return out .. err
end

---As `it`, where there are ranks.  What the collector does here does not matter to the runs.
local function many(name, test)
  it(name .. " #slow", function()
    local why = mpi.missing()
    if why then return pending(why) end
    test()
  end)
end

---What a checkpoint and the lines before it must have in common.
local function facts(out, step)
  local path = ("%s/step-%09d"):format(out, step)
  local state = sr.must(require("seqrun.checkpoint").state(path)).state
  return {
    weights = small.weights(out, step), train = small.metrics(out), eval = small.metrics(out, "eval"),
    loaders = state.loaders, window = state.window,
  }
end

local function words(out, ...)
  return small.words(corpus, "--out", folder .. "/" .. out, "rate.total=300", "log.every=10", "batch.shares=none", ...)
end

---Runs a command line on one rank and on two; both have the same bits.
local function check_pair(name, step, list)
  for ranks = 1, 2 do
    local out = folder .. "/" .. name .. ranks
    local own = table.move(list, 1, #list, 1, {})
    run(ranks, table.move({ "--out", out, "--max-steps", tostring(step), "ranks.bucket=0.001" }, 1, 5, #own + 1, own))
  end
  local one, two = facts(folder .. "/" .. name .. 1, step), facts(folder .. "/" .. name .. 2, step)
  assert.is_true(#one.train > 0)
  assert.same(one, two)
end

describe("a run on several ranks", function()
  many("has the bits of one rank, in weights, moments, counters and metrics", function()
    local wanted
    for ranks = 1, 3 do
      local out = "straight" .. ranks
      run(ranks, words(out, "--max-steps", tostring(STEPS), "eval.every=50", "save.every=100", "ranks.bucket=0.001"))
      local got = facts(folder .. "/" .. out, STEPS)
      wanted = wanted or got
      assert.same(wanted, got)
    end
    assert.equal(STEPS // 10, #wanted.train)
    assert.equal(STEPS // 50, #wanted.eval)
  end)

  many("resumes on another number of ranks", function()
    run(3, words("resumed", "--max-steps", "90", "eval.every=50", "save.every=100"))
    run(2, words("resumed", "--max-steps", "150", "eval.every=50", "save.every=100", "--resume"))
    run(1, words("resumed", "--max-steps", tostring(STEPS), "eval.every=50", "save.every=100", "--resume"))
    local got, wanted = facts(folder .. "/resumed", STEPS), facts(folder .. "/straight1", STEPS)
    assert.same(wanted.weights, got.weights)
    assert.same(wanted.train, got.train)
    assert.same({ wanted.loaders, wanted.window }, { got.loaders, got.window })
  end)

  many("says in its first lines who computes what, and only rank 0 writes", function()
    local list = words("told", "--max-steps", "1")
    for i, word in ipairs(list) do
      if word == "--quiet" then table.remove(list, i) end
    end
    local text = run(2, list)
    assert.matches("ranks   2 %(mpi%); shares of an update by rank: 1%-3, 4%-5; batch.shares=6 would be even", text)
    assert.equal(1, select(2, text:gsub("  plan    ", "")))
    assert.equal(1, #small.metrics(folder .. "/told", "eval"))
  end)

  many("is refused when some rank would have no share, which names the key", function()
    exits(2, "2 ranks, but an update has 1 share, of 20 packs; start at most 1, or set batch.shares=2",
      start(2, words("few", "batch.micro_packs=64", "--max-steps", "1")))
    exits(2, "2 ranks, but an update has 1 share", start(2, words("few", "batch.micro_packs=64", "--dry-run")))
    local told = run(2, words("dry", "batch.shares=4", "--dry-run"))
    assert.matches("ranks   2 %(dry run: memory and time are those of one rank", told)
    assert.matches("shares of an update by rank: 1%-2, 3%-4", (told:gsub("%s+", " ")))
    run(2, words("enough", "batch.micro_packs=64", "batch.shares=2", "--max-steps", "1"))
    exits(2, "3 ranks, but an update has 2 shares, of 2 packs; start at most 2, or raise batch.sequences",
      start(3, words("tiny", "batch.sequences=2", "batch.shares=8", "--max-steps", "1")))
  end)

  many("adds up gradients that were kept, and refuses a loop that was left early", function()
    local probe, texts = "tests/support/ranks_probe.lua", {}
    for ranks = 1, 3, 2 do
      local out = ("%s/probe%d."):format(folder, ranks)
      works(command(ranks, { probe, "keep", out }))
      for rank = 0, ranks - 1 do texts[#texts + 1] = sys.read_file(out .. rank) end
    end
    for i = 2, 4 do assert.equal(texts[1], texts[i]) end
    local code, _, err = command(3, { probe, "early", folder .. "/early" })
    assert.is_true(code ~= 0)
    assert.matches("share %d of rank %d was not computed; with several ranks the loop", err)
  end)

  many("refuses gradients that are computed after the loop", function()
    for _, reduce in ipairs { "exact", "library" } do
      local code, _, err = command(2, { "tests/support/ranks_probe.lua", "late", folder .. "/late", reduce })
      assert.is_true(code ~= 0)
      assert.matches("rank %d changed gradients outside of its shares; with several ranks, compute them all", err)
    end
    local _, _, err = command(2, { "tests/support/ranks_probe.lua", "early", folder .. "/early", "library" })
    assert.matches("share %d of rank %d was not computed", err)
    _, _, err = command(2, { "tests/support/ranks_probe.lua", "twice", folder .. "/twice" })
    assert.matches("a loop over update:batches%(%) began without optimizer:step after the one before", err)
  end)

  many("is refused for parameters that are not those of its model", function()
    local recipe = assert(sys.read_file("recipes/pretrain.lua"))
      :gsub("local rate =", "local second = sr.optim.adamw(sr.params.new { { name = 'w', shape = { 4 } } })\n%0")
      :gsub("  run:log", "  second:step { rate = 1 }\n%0")
    local list = words("second", "--max-steps", "1")
    list[1] = program.write(folder, "second.lua", recipe)
    local _, err = exits(2, "", start(2, list))
    local single = sys.read_file("recipes/pretrain.lua"):gsub("for batch in update:batches%(%)",
      "for _, batch in ipairs { update:batch(1) }")
    local other = words("single", "--max-steps", "1")
    other[1] = program.write(folder, "single.lua", single)
    exits(2, "no loop over update:batches%(%) since the last step", start(2, other))
    assert.matches("these parameters %('w', ...%) are not those of the model that run:start got", err)
  end)

  many("is what recipes make: commands run on rank 0", function()
    local code, out, err = command(2, { "info", corpus })
    assert.equal(0, code, err)
    assert.matches("info runs on rank 0 alone; only recipes use all ranks", err)
    assert.equal(program.run({ "info", corpus }), code)
    assert.equal(1, select(2, out:gsub("corpus.sqr", "")))
  end)

  many("is refused where a rank does not see the directory of rank 0", function()
    sr.must(sys.make_dirs(folder .. "/aside"))
    local list = small.words(corpus, "--out", "seen", "--max-steps", "2")
    list[1] = sr.must(sys.real_path(list[1]))
    local other = (": -n 1 -wdir %s/aside %s %s"):format(folder, sr.must(sys.real_path(program.path)),
      table.concat(list, " "))
    local code, _, err = mpi.run(1, list, { mpirun = "-wdir " .. folder, shell = other })
    exits(2, "rank 1 does not see the directory of the run, seen, where it would save", code, "", err)
  end)

  many("is refused when the ranks start from different values", function()
    local recipe = assert(sys.read_file("recipes/pretrain.lua")):gsub("initialise%(cfg.seed%)",
      "initialise(require('seqrun.tensor.ranks').current().rank)")
    local list = words("other", "--max-steps", "1")
    list[1] = program.write(folder, "other.lua", recipe)
    exits(2, "rank 1 starts from other values of bert.embeddings.word_embeddings.weight than rank 0", start(2, list))
  end)

  many("sums with the library where that is asked for", function()
    run(2, words("library", "ranks.reduce=library", "--max-steps", "10"))
    local line, wanted = small.metrics(folder .. "/library")[1], small.metrics(folder .. "/straight1")[1]
    assert.near(wanted.loss, line.loss, 1e-4)
  end)

  many("draws, drops and masks as one rank does along a curriculum", function()
    local list = small.words(corpus, "curriculum.length.min=16", "curriculum.length.max=48",
      "curriculum.length.total=6",
      "curriculum.rarity.file=rarity", "curriculum.rarity.min=30", "curriculum.rarity.max=100",
      "curriculum.rarity.total=8", "token_drop.keep.min=16", "token_drop.keep.max=48",
      "token_drop.keep.total=9", "mask.rate.min=0.15",
      "mask.rate.max=0.3", "mask.rate.total=9", "mask.rate.down=true", "batch.ramp.min=2", "batch.ramp.max=24",
      "batch.ramp.total=5", "model.num_hidden_layers=3", "rate.by=layer_tokens", "rate.total=200_000",
      "rate.warmup=10_000")
    list[1] = "recipes/curriculum.lua"
    check_pair("curriculum", 12, list)
  end)

  many("fine-tunes and scores as one rank does", function()
    local base = files.encoder(folder .. "/base")
    for _, kind in ipairs { "classify", "choice" } do
      local data = files.write(folder, kind)
      check_pair(kind, 10, files.finetune(folder, kind, data, base, "seed=3", "save.minutes=0", "batch.micro_packs=2",
        "epochs=2", "log.every=1", "eval.every=5", "save.every=0", "--quiet"))
    end
  end)

  -- All but the first in `make test-long`, on 2, 3 and 4 ranks of 1 to 3 threads.
  local MATRIX = {
    { "precision=bf16", "optimizer.name=lamb", "model.recompute=true", "batch.loss=sequence" },
    { "pack.arrange=padded", "batch.shares=4" },
    { "pack.arrange=single" },
    { "batch.by=sequences", "batch.sequences=10", "batch.micro_packs=1", "mask.whole_word=true" },
    { "batch.adjust=betas", "pack.max_seqs=2", "data.prefetch=0" },
    { "batch.shares=7", "batch.micro_packs=1", "batch.sequences=48", "balance=random" },
  }
  for i = 1, long and #MATRIX or 1 do
    many("has the bits of one rank with " .. table.concat(MATRIX[i], " "), function()
      local wanted
      for _, ranks in ipairs(long and { 1, 2, 3, 4 } or { 1, 4 }) do
        local out = ("matrix%d-%d"):format(i, ranks)
        local list = words(out, "--max-steps", "30", "ranks.bucket=0.001", "ranks.overlap=" .. tostring(ranks ~= 3))
        run(ranks, table.move(MATRIX[i], 1, #MATRIX[i], #list + 1, list), 1 + ranks % 3)
        wanted = wanted or facts(folder .. "/" .. out, 30)
        assert.same(wanted, facts(folder .. "/" .. out, 30))
      end
    end)
  end
end)

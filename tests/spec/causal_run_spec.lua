-- recipes/causal.lua: its loaders, what fill-in-the-middle makes of a text, training, resuming, ranks.

local fails = require("tests.support.fails")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local with = require("tests.support.with")

local on_ranks = mpi.tests(it, function(why) pending(why) end)

local folder, corpus = small.folder()
local vocab = folder .. "/fim.txt"

setup(function()
  local tokens = { "<fim_prefix>", "<fim_suffix>", "<fim_middle>" }
  sr.must(sr.data.prepare {
    inputs = { folder .. "/corpus.txt" }, vocab = { size = 120, tokens = tokens }, vocab_out = vocab,
    out = folder .. "/fim.sqr",
  })
end)

local function words(out, ...)
  return small.recipe("causal", folder .. "/fim.sqr", "model.n_embd=16", "model.n_layer=2", "model.n_head=2",
    "model.n_positions=48", "rate.warmup=3", "rate.total=40", "--quiet", "--out", folder .. "/" .. out, ...)
end

local run = program.ok

---Checksums of the last checkpoint of a run.
local function bits(out) return (small.newest(folder .. "/" .. out)) end

local FIM = { 120, 121, 122 }

describe("a loader of causal targets", function()
  local function loader(target, more)
    return sr.must(sr.data.loader(with({
      data = sr.must(sr.data.open(folder .. "/fim.sqr")), max_len = 48, packs = 16, nsp = false, mask = false, seed = 5,
      prefetch = 0, targets = { target },
    }, more)))
  end

  ---The ids of each sequence of a batch, by its number.
  local function sequences(batch, key)
    local ids, found, starts, lengths = batch:host(key or "ids"), {}, batch.layout:starts(), batch.layout:lengths()
    for i, uid in ipairs(batch.layout:uids()) do
      found[uid] = table.move(ids, starts[i] + 1, starts[i] + lengths[i], 1, {})
    end
    return found
  end

  it("predicts each token of a sequence but the first, and none of another sequence", function()
    local batch = loader("causal"):next():batch(1)
    local ids, target, n = batch:host("ids"), batch.targets.causal, 0
    local rows, labels, owners = target.rows:totable(), target.labels:totable(), batch.layout:owners()
    for i, row in ipairs(rows) do
      assert.equal(ids[row + 2], labels[i])
      assert.equal(owners[row + 1], owners[row + 2])
    end
    for _, length in ipairs(batch.layout:lengths()) do n = n + length - 1 end
    assert.equal(n, #rows)
    assert.near(1 / target.denominator, target.weights:totable()[1], 1e-9)
  end)

  local function fim(more)
    local own = { rate = 1, spm = 0.5, prefix = FIM[1], suffix = FIM[2], middle = FIM[3] }
    return { name = "causal", fim = with(own, more) }
  end

  ---The text of a rearranged sequence without special tokens, and its order; nil if it was left as it is.
  local function restored(ids)
    local at = {}
    for i, id in ipairs(ids) do
      for k, special in ipairs(FIM) do at[k] = at[k] or id == special and i or nil end
    end
    if not at[1] then return nil end
    assert.equal(2, at[1], "after [CLS]")
    local function part(from, to) return table.move(ids, from, to, 1, {}) end
    local last, spm = #ids - 1, at[2] == at[1] + 1 -- before [SEP]
    assert.same({ 2, 3 }, { ids[1], ids[#ids] })
    local whole = spm and {} or part(at[1] + 1, at[2] - 1)
    for _, more in ipairs { part(at[3] + 1, last), part(at[2] + 1, at[3] - 1) } do
      table.move(more, 1, #more, #whole + 1, whole)
    end
    return whole, spm
  end

  it("rearranges texts for fill-in-the-middle in both orders, without a change of their length", function()
    local options = { keep_ids = true }
    local batch, orders = loader(fim {}, options):next():batch(1), { [true] = 0, [false] = 0 }
    local before = sequences(batch, "original_ids")
    for uid, ids in pairs(sequences(batch)) do
      local text, spm = restored(ids)
      if text then
        orders[spm] = orders[spm] + 1
        assert.equal(#before[uid], #ids)
        assert.same(table.move(before[uid], 2, #ids - 4, 1, {}), text, "all but the last three tokens")
      else
        assert.is_true(#ids < 7, "too short")
      end
    end
    assert.is_true(orders[true] > 2 and orders[false] > 2)
    local whole = 0
    for _, ids in pairs(sequences(loader(fim { rate = 0.3 }):next():batch(1))) do
      whole = whole + (restored(ids) and 0 or 1)
    end
    assert.is_true(whole > 4)
  end)

  it("cuts texts between characters too, and tokenizes the parts again", function()
    local tokenizer = sr.must(sr.data.open(folder .. "/fim.sqr")):tokenizer()
    local batch = loader(fim { characters = true, spm = 0 }, { keep_ids = true }):next():batch(1)
    local before, inside = sequences(batch, "original_ids"), 0
    for uid, ids in pairs(sequences(batch)) do
      local text = restored(ids)
      if text then
        assert.equal(#before[uid], #ids)
        local function letters(list) return (tokenizer:decode(list, true):gsub("%s+", "")) end
        local whole = letters(table.move(before[uid], 2, #ids - 1, 1, {}))
        local cut = 0
        for i = 1, #text do
          if text[i] ~= before[uid][i + 1] then cut = 1 end
        end
        inside = inside + cut
        assert.is_true(cut == 0 or #letters(text) > 0 and #letters(text) <= #whole)
      end
    end
    assert.is_true(inside > 2)
  end)

  it("gives a sequence the same tokens whatever it is packed with", function()
    for _, characters in ipairs { false, true } do
      local own = loader(fim { characters = characters })
      local batch = own:next():batch(1)
      for uid, ids in pairs(sequences(batch)) do
        for _, way in ipairs { "packed", "padded", "single" } do
          assert.same(ids, sequences(own:batch_of({ uid }, { arrange = way }))[uid])
        end
      end
    end
  end)

  it("masks the sequences that are not causal, which are read one token earlier", function()
    local own = loader({ name = "causal", causal = 0.5 }, {
      targets = { { name = "causal", causal = 0.5 }, { name = "mlm", causal = 0.5 } }, keep_ids = true,
      mask = { prob = 0.3, max = 20 },
    })
    local batch = own:next():batch(1)
    local owners, kinds, original = batch.layout:owners(), {}, batch:host("original_ids")
    for name in pairs(batch.targets) do
      local labels = batch.targets[name].labels:totable()
      for i, row in ipairs(batch:host_rows(name)) do
        local owner = owners[row + 1]
        assert.is_true((kinds[owner] or name) == name, "a sequence in both")
        kinds[owner] = name
        assert.equal(original[row + 2], labels[i])
      end
    end
    local count = { causal = 0, mlm = 0 }
    for _, name in pairs(kinds) do count[name] = count[name] + 1 end
    assert.is_true(count.causal > 4 and count.mlm > 4)
    assert.equal(#batch:host_rows("mlm"), batch.masked)
  end)

  it("has tokens that prepare adds on request, once each", function()
    local tokenizer = sr.must(sr.data.open(folder .. "/fim.sqr")):tokenizer()
    assert.same(FIM, { tokenizer:id("<fim_prefix>"), tokenizer:id("<fim_suffix>"), tokenizer:id("<fim_middle>") })
    for word, wrong in pairs { the = "'the' is in the trained vocabulary already", ["a b"] = "'a b' is not a token" } do
      fails.returning("config", wrong,
        sr.data.prepare { inputs = { folder .. "/corpus.txt" }, out = folder .. "/no.sqr",
        vocab = { size = 120, tokens = { word } } })
    end
  end)

  it("refuses pairs for fill-in-the-middle, and fractions that are none", function()
    local out = folder .. "/pairs.sqr"
    sr.must(sr.data.write { out = out, vocab = vocab, examples = {
      { a = { 10, 11, 12, 13, 14, 15 }, b = { 20, 21 } }, { a = { 10, 11 }, b = { 20 } } } })
    local own = loader(fim {}, { data = sr.must(sr.data.open(out)) })
    fails.raising("is a pair of texts; fill%-in%-the%-middle rearranges single ones", own.next, own)
    fails.raising("rate is 2", loader, fim { rate = 2 })
    fails.raising("two of them are id 7", loader, fim { prefix = 7, suffix = 7, middle = 9 })
    fails.raising("id 4000 is not a token", loader, fim { prefix = 4000 })
    fails.raising("causal is 1.5; it is a fraction", loader, { name = "causal", causal = 1.5 })
  end)
end)

describe("recipes/causal.lua", function()
  it("#slow learns, resumes to the bit, and its runs are scored and continued", function()
    run(words("whole", "fim.rate=0.5"))
    run(words("half", "fim.rate=0.5", "--max-steps", "17"))
    run { "recipes/causal.lua", "--resume=" .. folder .. "/half", "--quiet" }
    assert.same(bits "whole", bits "half")
    local lines = small.metrics(folder .. "/whole")
    local found = small.metrics(folder .. "/whole", "eval")
    local last = found[#found]
    assert.is_true(last.causal_loss < lines[1].causal_loss - 1.5, ("%g, then %g"):format(lines[1].causal_loss,
      last.causal_loss))
    assert.near(math.exp(last.causal_loss), last.causal_perplexity, 1e-9)
    local out = program.ok { "eval", folder .. "/whole", folder .. "/fim.sqr" }
    assert.matches("held%-out part\n  causal loss %d.%d+, unigram model %d.%d+: %d.%d+ nats below, perplexity", out)
    assert.is_true(#sr.must(sr.continue.open(folder .. "/whole")):one("the cat").added > 0)
    assert.is_true(sr.must(sr.score.open(folder .. "/whole")):one("the cat sees the dog.").score
      > sr.must(sr.score.open(folder .. "/whole")):one("dog the sees cat the.").score)
  end)

  it("#slow trains on masked sequences beside, and learns both", function()
    run(words("mixed", "causal.share=0.5", "mask.prob=0.3"))
    run(words("mixed-half", "causal.share=0.5", "mask.prob=0.3", "--max-steps", "9"))
    run { "recipes/causal.lua", "--resume=" .. folder .. "/mixed-half", "--quiet" }
    assert.same(bits "mixed", bits "mixed-half")
    local lines = small.metrics(folder .. "/mixed")
    for _, name in ipairs { "causal_loss", "mlm_loss" } do
      assert.is_true(lines[#lines][name] < lines[1][name] - 1, name .. " " .. lines[#lines][name])
    end
  end)

  on_ranks("#slow has the same bits on several ranks", function()
    for _, more in ipairs { "fim.rate=0.5", "causal.share=0.5" } do
      run(words("one-" .. more:match("%l+"), more, "--max-steps", "6", "threads=1"))
      local out = "two-" .. more:match("%l+")
      program.works(mpi.run(2, words(out, more, "--max-steps", "6", "threads=1")))
      assert.same(bits("one-" .. more:match("%l+")), bits(out))
    end
  end)

  it("#slow says what does not fit together", function()
    local function refused(text, ...)
      fails.exiting(2, text, words("refused", ...))
    end
    refused("no token '<pre>'; prepare the data again with it (recipes/prepare.lua vocab.tokens=[<pre>,",
      "fim.rate=0.5", "fim.tokens=[<pre>,<fim_suffix>,<fim_middle>]")
    refused("data.max_len is 64, but the model reads at most 48 tokens; raise model.n_positions", "data.max_len=64")
    local pairs_of = words("refused", "fim.rate=0.5")
    pairs_of[3] = "data.file=" .. folder .. "/two.sqr"
    sr.must(sr.data.write { out = folder .. "/two.sqr", vocab = vocab, examples = {
      { a = { 10, 11, 12, 13, 14, 15 }, b = { 20, 21 } }, { a = { 10, 11 }, b = { 20 } } } })
    fails.exiting(3, "is a pair of texts; fill-in-the-middle rearranges single ones, so set", pairs_of)
    for family, case in pairs {
      bert = { "causal", "the family bert is bidirectional" },
      gpt2 = { "pretrain", "the family gpt2 is causal: train it with recipes/causal.lua" },
    } do
      fails.exiting(2, case[2], { "recipes/" .. case[1] .. ".lua", "config=" .. folder .. "/empty.yaml", "rate.peak=1",
        "data.file=" .. corpus, "rate.total=9", "model.family=" .. family, "--out", folder .. "/no" })
    end
    fails.exiting(2, "a causal model, but task heads need tokens that attend to both sides", { "recipes/finetune.lua",
      "task=classify", "data.train=x.csv", "init.from=tests/data/causal/gpt2", "--out", folder .. "/no", "--quiet" })
  end)
end)

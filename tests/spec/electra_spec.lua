-- recipes/electra.lua: its targets, both networks and SAS, packed and alone, gradients, runs, ranks, what is exported.

local bert = require("tests.support.bert")
local fails = require("tests.support.fails")
local families = require("tests.support.families")
local json = require("seqrun.core.json")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local on_ranks = mpi.tests(it, function(why) pending(why) end)

local folder, corpus = small.folder()

local function words(out, ...)
  return small.recipe("electra", corpus, "model.embedding_size=8", "model.hidden_size=32", "model.num_hidden_layers=2",
    "model.num_attention_heads=4", "model.intermediate_size=64", "model.max_position_embeddings=48", "rate.warmup=3",
    "rate.total=200", "model.hidden_dropout_prob=0", "seed=2", "--quiet", "--out", folder .. "/" .. out, ...)
end

---Checksums of the last checkpoint of a run, its step and its path.
local function last_of(out) return small.newest(folder .. "/" .. out) end

local run = program.ok

---A model and a loader of a config.
local function parts(...)
  local cfg = small.values(sr.tasks.electra, words("none", ...))
  cfg.data.prefetch = 0
  local opened = sr.must(sr.data.open(corpus, { held = 0.1 }))
  local task = sr.tasks.electra
  return task.model(cfg, opened), sr.must(sr.data.loader(task.loader_options(cfg, opened, "train")))
end

local it_on = require("tests.support.devices").it_on(it)
local on = require("tests.support.devices").on

local BOTH = { "electra.by=generator", "electra.by=itself" }

describe("the loader of ELECTRA", function()
  it("has all tokens with their ids before masking, and in SAS the same positions in each epoch", function()
    local _, loader = parts(BOTH[2])
    local uids = { 0, 1, 2, 3 }
    local first, second = loader:batch_of(uids, { epoch = 0 }), loader:batch_of(uids, { epoch = 5 })
    assert.same(first:host_rows("mlm"), second:host_rows("mlm"))
    local ids, original = first:host("ids"), first.targets.replaced.labels:totable()
    assert.equal(first.layout:tokens(), #original)
    local changed, masked = 0, {}
    for _, row in ipairs(first:host_rows("mlm")) do masked[row] = true end
    for i, row in ipairs(first:host_rows("replaced")) do
      if ids[row + 1] ~= original[i] then
        changed = changed + 1
        assert.is_true(masked[row])
      end
    end
    assert.is_true(changed > 5)
    local _, other = parts(BOTH[1])
    assert.not_same(other:batch_of(uids, { epoch = 0 }):host_rows("mlm"),
      other:batch_of(uids, { epoch = 5 }):host_rows("mlm"))
  end)
end)

for _, by in ipairs(BOTH) do
  describe("ELECTRA, " .. by, function()
    ---The losses and the gradients of some sequences, as one batch or several.
    local function measure(model, loader, uids, way)
      model.params:zero_grad()
      local update, items, sums = loader:update_of(uids, { arrange = way }), { mlm = {}, replaced = {} }, {}
      model:begin(update)
      for i = 1, update.count do
        local losses = model:losses(update:batch(i))
        losses.total:backward()
        for name, list in pairs(items) do
          if losses[name] then table.move(losses[name].items:totable(), 1, losses[name].count, #list + 1, list) end
          sums[name] = (sums[name] or 0) + (losses[name] and losses[name].total:item() or 0)
        end
      end
      return sums, bert.gradients(model.params), items
    end

    it("gives the same losses and gradients packed, padded and alone, and the same bits of each token", function()
      on("cpu", function()
        local model, loader = parts(by)
        local uids = { 3, 1, 7, 12, 5 }
        local sums, gradients, items = measure(model, loader, uids, "packed")
        for _, way in ipairs { "padded", "single" } do
          local other_sums, other, other_items = measure(model, loader, uids, way)
          for name, sum in pairs(sums) do
            assert.near(sum, other_sums[name], 1e-5 * math.max(1, sum), way)
            if way == "padded" then assert.same(items[name], other_items[name], name) end
          end
          assert.is_nil(bert.differ(other, gradients, 3e-5), way)
        end
      end)
    end)

    it_on("ref", "has gradients on ref that finite differences confirm", function()
      local model, loader = parts(by)
      local batch = loader:batch_of { 3, 1 }
      local names = { "electra.embeddings.LayerNorm.weight", "discriminator_predictions.dense.bias",
        "electra.encoder.layer.1.output.dense.bias" }
      -- the draws are not a function of the weights: ids stay as they are while these move
      local kept = sr.ops.sample
      local drawn = {}
      sr.ops.sample = function(...)
        drawn.ids = drawn.ids or kept(...):keep()
        return drawn.ids
      end
      finally(function() sr.ops.sample = kept end)
      bert.check_gradients(model.params, names, function() return model:losses(batch).total end, 2)
    end)

    it("#slow resumes to the bit", function()
      local name = "short-" .. by:match("=(%l+)")
      run(words(name, by, "rate.total=12"))
      run(words(name .. "-half", by, "rate.total=12", "--max-steps", "7"))
      run { "recipes/electra.lua", "--resume=" .. folder .. "/" .. name .. "-half", "--quiet" }
      local bits, _, path = last_of(name)
      local others, _, half = last_of(name .. "-half")
      assert.same(bits, others)
      if by == BOTH[2] then
        local kept = sys.read_file(path .. "/trainer/predictions.bin", 1 << 24)
        assert.is_true(#kept > 500)
        assert.is_true(kept == sys.read_file(half .. "/trainer/predictions.bin", 1 << 24))
      end
    end)

    it("#slow learns on held-out text, and is exported as two models", function()
      local name = by:match("=(%l+)")
      run(words(name, by))
      local found, lines = small.metrics(folder .. "/" .. name, "eval"), small.metrics(folder .. "/" .. name)
      local last = found[#found]
      assert.is_true(last.mlm_loss < lines[1].mlm_loss - 1,
        ("mlm: %g, then %g"):format(lines[1].mlm_loss, last.mlm_loss))
      local p = last.replaced_rate
      local rate_alone = -p * math.log(p) - (1 - p) * math.log(1 - p) -- who knows no more than the rate
      assert.is_true(last.replaced_loss < rate_alone - 0.005 and lines[1].replaced_loss > 0.6,
        ("replaced: %g, then %g, by the rate %g"):format(lines[1].replaced_loss, last.replaced_loss, rate_alone))

      local out = folder .. "/out-" .. name
      sr.must(sr.checkpoint.export(folder .. "/" .. name, out))
      sr.must(sr.checkpoint.export(folder .. "/" .. name, out .. "-generator", { network = "generator" }))
      local function class(of) return json.decode(sys.read_file(of .. "/config.json")).architectures[1] end
      assert.same({ "ElectraForPreTraining", "ElectraForMaskedLM" }, { class(out), class(out .. "-generator") })
      local tell, _, report = sr.must(sr.nn.pretrained(out, { heads = { families.discriminator } }))
      assert.same({ 0, 0 }, { #report.missing, #report.ignored }, tostring(report))
      local model, _, theirs = sr.must(sr.nn.pretrained(out .. "-generator"))
      assert.same({ 0, 0, "mlm" }, { #theirs.missing, #theirs.ignored, model.heads[1].name }, tostring(theirs))
      assert.is_true(tell.params:get("electra.embeddings.word_embeddings.weight"):tostring_bytes()
        == model.params:get("electra.embeddings.word_embeddings.weight"):tostring_bytes())
      assert.equal(5, #sr.must(sr.fill.open(out .. "-generator")):one("The cat [MASK] the dog.").masks[1])
      fails.returning(nil, "unknown network 'teacher'; choose discriminator or generator",
        sr.checkpoint.export(folder .. "/" .. name, out .. "-x", { network = "teacher" }))
      assert.is_truthy(sr.checkpoint.export(out, out .. "-again"))
      fails.returning(nil, "leave out %-%-network", sr.checkpoint.export(out, out .. "-y", { network = "generator" }))
    end)

    it("#slow trains a discriminator with experts, and resumes it to the bit", function()
      local out = by:match("[^=]*$")
      local options = { by, "model.experts=[0,2]", "model.experts_chosen=1", "rate.total=12" }
      run(words("mixture-" .. out, table.unpack(options)))
      local lines = small.metrics(folder .. "/mixture-" .. out)
      assert.is_true(lines[12].balance_loss >= 0.9 and lines[12].experts_busiest >= 1)
      run(words("again-" .. out, "--max-steps", "7", table.unpack(options)))
      run(words("again-" .. out, "--resume", table.unpack(options)))
      assert.same((last_of("mixture-" .. out)), (last_of("again-" .. out)))
      local trained = sr.must(sr.nn.pretrained(folder .. "/mixture-" .. out))
      assert.same({ [0] = 0, 2 }, trained.design.experts.counts)
    end)

    it("#slow is where further training and fine-tuning begin", function()
      local name = by:match("=(%l+)")
      run(words(name .. "-more", by, "init.from=" .. folder .. "/" .. name, "--max-steps", "1"))
      local first = small.metrics(folder .. "/" .. name .. "-more")[1]
      assert.is_true(first.replaced_loss < 0.6 and first.mlm_loss < 4.2, ("%g %g"):format(first.replaced_loss,
        first.mlm_loss))
      local rows = program.write(folder, "rows.csv", "text,label\nthe cat sees,0\na song,1\nthe dog,0\na river,1\n")
      run { "recipes/finetune.lua", "task=classify", "data.train=" .. rows, "data.held=0", "epochs=1", "--quiet",
        "init.from=" .. folder .. "/" .. name, "--out", folder .. "/" .. name .. "-tuned" }
      local config = json.decode(sys.read_file(sr.must(sr.checkpoint.resolve(folder .. "/" .. name .. "-tuned"))
        .. "/config.json"))
      assert.equal("ElectraForSequenceClassification", config.architectures[1])
      assert.is_nil(config.seqrun_networks)
    end)

    on_ranks("#slow has the same bits on several ranks", function()
      local name = "one-" .. by:match("=(%l+)")
      run(words(name, by, "--max-steps", "12", "threads=1"))
      program.works(mpi.run(2, words(name .. "-two", by, "--max-steps", "12", "threads=1")))
      assert.same((last_of(name)), (last_of(name .. "-two")))
    end)
  end)
end

describe("what ELECTRA refuses", function()
  local function refused(text, ...)
    fails.exiting(2, text, words("refused", ...))
  end

  it("#slow is said before the run", function()
    refused("electra.by=itself keeps predictions by sequence, and data.nsp draws other sequences in each epoch",
      "electra.by=itself", "data.nsp=true")
    refused("and data.short_seq_prob draws other sequences", "electra.by=itself", "data.short_seq_prob=0.1")
    refused("data.max_len is 64, but the model reads at most 48 tokens", "data.max_len=64")
    fails.exiting(2, "the family bert has no head for replaced tokens; choose electra",
      small.recipe("electra", corpus, "rate.total=9", "model.family=bert", "--out", folder .. "/refused"))
  end)

  it("#slow are networks of another vocabulary", function()
    run(words("own", "--max-steps", "1"))
    local place = folder .. "/other"
    assert(sys.make_dirs(place))
    local text = assert(sys.read_file(folder .. "/corpus.txt")):gsub("teacher", "painter")
    local input = program.write(place, "other.txt", text)
    sr.must(sr.data.prepare { inputs = { input }, vocab = { size = 120 }, out = place .. "/other.sqr" })
    local list = words("refused", "init.from=" .. folder .. "/own")
    list[3] = "data.file=" .. place .. "/other.sqr"
    fails.exiting(3, "init.from: the tokenizer of .* %(120 and 120 tokens, first difference at id %d+", list)
  end)

  it("are predictions of other sequences, and files that are cut short", function()
    local Predictions = require("seqrun.tasks.electra.predictions")
    local own = Predictions.new({ 0, 5, 5 }, 1)
    own:begin { index = 0 }
    own:add(7, 1, { 3, 4 })
    own:add(7, 0, { 5, 6 })
    own:begin { index = 0 }
    assert.equal(2, #own:of(7, 2))
    own:add(7, 1, { 3, 4 })
    own:add(7, 0, { 5, 6 })
    own:begin { index = 1 }
    assert.same({ 3, 4 }, own:of(7, 2))
    assert.not_same({ 3, 4 }, own:of(7, 2, true))
    fails.raising("sequence 7 has 3 masked tokens, but 2 saved predictions", own.of, own, 7, 3)
    local again = Predictions.new({ 0, 5, 5 }, 1)
    again:unpack(own:pack())
    assert.same({ 3, 4 }, again:of(7, 2))
    fails.raising("cut short", again.unpack, again, own:pack():sub(1, -2))
    for _, id in ipairs(Predictions.new({ 0, 5, 0, 1 }, 3):of(1, 50)) do assert.is_true(id == 1 or id == 3) end
  end)
end)

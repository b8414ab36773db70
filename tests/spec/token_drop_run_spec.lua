-- Token dropping in a run: its keys, its schedule, and what they refuse.

local cost = require("seqrun.nn.cost")
local files = require("tests.support.task_files")
local token_drop = require("seqrun.curriculum.token_drop")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local CONFIG = {
  vocab_size = 50, hidden_size = 8, num_hidden_layers = 4, num_attention_heads = 1, intermediate_size = 8,
}

local function model(layers)
  local config = {}
  for key, value in pairs(CONFIG) do config[key] = value end
  config.num_hidden_layers = layers or 4
  return sr.nn.bert(config)
end

local function open(keep, more, layers)
  local group = { keep = keep, first = true, last = true, masked = false }
  for key, value in pairs(more or {}) do group[key] = value end
  local bert = model(layers)
  return token_drop.new(group, { max_len = 512, steps = 100, model = bert }), bert
end

local function at(step) return { counters = { step = step, schedule_step = step } } end

describe("the key token_drop", function()
  it("is off without token_drop.keep", function()
    local run, bert = open(nil)
    assert.is_nil(run)
    assert.is_nil(bert.encoder.token_drop)
    assert.is_nil(token_drop.new(nil, {}))
  end)

  it("takes a share of the tokens", function()
    local run, bert = open { value = 0.5 }
    assert.equal(0.5, bert.encoder.token_drop.keep)
    assert.equal(0.5, run:before(at(7), 128))
  end)

  it("takes the published tokens of a sequence, as a share of the current length", function()
    local keep = { type = "linear", min = 128, max = 512, quantum = 16, total = 1000, by = "step" }
    local run, bert = open(keep)
    assert.equal("length", token_drop.kind(keep))
    assert.equal(0.25, bert.encoder.token_drop.keep)
    assert.equal(128 / 512, run:before(at(0)))
    assert.equal(320 / 512, run:before(at(500)))
    assert.equal(1, run:before(at(500), 256)) -- none dropped where 320 tokens exceed the length
    assert.equal(128 / 256, run:before(at(10), 256))
    assert.equal(1, run:before(at(1000)))
    assert.equal(512, run.schedule.value)
  end)

  it("asks for less memory where layers keep fewer tokens", function()
    local _, bert = open { value = 0.5 }
    local half = bert:activation_bytes(1000)
    bert.encoder.token_drop = nil
    local layer, last = cost.layer_elements(bert.encoder.design, 1), 4 * bert.encoder.design.hidden
    assert.near((2 * layer + last) / (3 * layer + last), half / bert:activation_bytes(1000), 1e-6) -- two of four layers
  end)

  it("refuses what cannot be, before the run, and names the key", function()
    assert.error_matches(function() open({ value = 0.5 }, nil, 2) end, "token_drop: 2 layers have none between")
    assert.error_matches(function() open({ value = 0.5 }, { layers = { 2, 9 } }) end, "token_drop: layers is %[2, 9%]")
    assert.error_matches(function() open { value = -1 } end, "token_drop%.keep")
    assert.error_matches(function() token_drop.new({ keep = { value = 0.5 } }, { model = { params = {} } }) end,
      "the model has no encoder")
  end)
end)

describe("token dropping of a loader's batches", function()
  local folder = program.folder()
  local corpus = assert(sr.data.open(small.corpus(folder)))

  local function bert_with(options)
    local bert = sr.nn.bert {
      vocab_size = corpus:vocab_size(), hidden_size = 16, num_hidden_layers = 3, num_attention_heads = 2,
      intermediate_size = 32, max_position_embeddings = 64,
    }
    bert.encoder.token_drop = sr.nn.token_drop(options)
    return bert:initialise(1)
  end

  local function loader(arrange)
    return assert(sr.data.loader {
      data = corpus, by = "sequences", sequences = 12, max_len = 48, arrange = arrange, micro_packs = 4, prefetch = 0,
    })
  end

  it("keeps the [SEP] of both segments, and masked tokens if asked", function()
    local bert, sep = bert_with { keep = 0.1, masked = true }, corpus:tokenizer():special("sep")
    for batch in loader("packed"):next():batches() do
      local scope <close> = sr.scope()
      bert:losses(batch)
      local ids, kept, seps = batch.ids:totable(), {}, 0
      for _, row in ipairs(batch.kept.rows[1]:totable()) do kept[row] = true end
      for row, id in ipairs(ids) do
        if id == sep then
          seps = seps + 1
          assert.is_true(kept[row - 1])
        end
      end
      assert.equal(2 * batch.sequences, seps)
      for _, row in ipairs(batch.targets.mlm.rows:totable()) do assert.is_true(kept[row]) end
    end
  end)

  it("gives the same update packed, padded and one by one", function()
    local bert, found = bert_with { keep = 0.5 }, {}
    for _, arrange in ipairs { "packed", "padded", "single" } do
      bert.params:zero_grad()
      local total, tokens = 0, 0
      for batch in loader(arrange):next():batches() do
        local scope <close> = sr.scope()
        local losses = bert:losses(batch)
        losses.total:backward()
        total, tokens = total + losses.total:item(), tokens + bert:layer_tokens(batch)
      end
      local g = bert.params:get("bert.encoder.layer.1.intermediate.dense.weight"):grad():square():sum():item()
      found[#found + 1] = { total, g, tokens }
    end
    for k = 2, 3 do
      assert.near(found[1][1], found[k][1], 1e-5 * found[1][1])
      assert.near(found[1][2], found[k][2], 1e-4 * found[1][2])
      assert.equal(found[1][3], found[k][3])
    end
  end)
end)

it("recipes/bench/step.lua with keep compares a step with what its layer tokens predict", function()
  local out = works(program.run { "recipes/bench/step.lua", "model=tiny", "layers=4", "keep=0.5", "packs=1",
    "updates=1", "repeats=1", "longest=32" })
  assert.matches("keep=0.5: 0.7%d+ of the layer tokens; step [%d.]+ ms, dense [%d.]+ ms", out)
  assert.matches("[%d.]+ times the [%d.]+ ms that layer tokens predict", out)
end)

describe("fine-tuning with token dropping", function()
  local folder = program.folder()
  local base = files.encoder(folder .. "/base")
  local data = files.write(folder, "classify")

  local function words(out, ...)
    return files.finetune(folder, "classify", data, base, "seed=3", "save.minutes=0", "log.every=1", "--quiet", "--out",
      folder .. "/" .. out, ...)
  end

  local function run(out, ...) works(program.run(words(out, ...))) end

  local GROWING = {
    "token_drop.keep.min=8", "token_drop.keep.max=48", "token_drop.keep.quantum=4", "token_drop.keep.total=10",
    "token_drop.layers=[0,1]",
  }

  it("follows its schedule, counts what layers processed, and resumes to the bit", function()
    run("whole", "--max-steps", "6", table.unpack(GROWING))
    run("cut", "--max-steps", "3", table.unpack(GROWING))
    run("cut", "--resume", "--max-steps", "6", "--threads", "1", table.unpack(GROWING))
    assert.same(small.weights(folder .. "/whole", 6), small.weights(folder .. "/cut", 6))
    local lines = small.metrics(folder .. "/whole")
    assert.same(lines, small.metrics(folder .. "/cut"))
    local kept = {}
    for i = 1, 6 do kept[i] = lines[i].token_drop end
    assert.same({ 12, 16, 20, 24, 28, 32 }, kept)
    assert.is_true(lines[6].effective_tokens < 0.6 * lines[6].real_tokens)
    assert.is_true(lines[6].effective_tokens > 0.4 * lines[6].real_tokens)
  end)

  it("changes no bit at token_drop.keep=1", function()
    run("plain", "--max-steps", "3")
    run("all", "--max-steps", "3", "token_drop.keep=1", "token_drop.layers=[0,1]")
    local plain, all = small.weights(folder .. "/plain", 3), small.weights(folder .. "/all", 3)
    assert.same(plain["model.safetensors"], all["model.safetensors"])
  end)

  it("is refused, by the name of the key, before anything is written", function()
    for _, case in ipairs {
      { "token_drop.keep=0", "token_drop%.keep" }, { "token_drop.kep=0.5", "keep" },
      { "token_drop.keep=0.5", "have none between the first and the last" },
    } do
      exits(2, case[2], program.run(words("refused", case[1])))
      assert.is_false(sys.exists(folder .. "/refused"))
    end
  end)
end)

it("pretraining with token dropping is one key of every pretraining recipe, and resumes to the bit", function()
  local folder, corpus = small.folder()

  local function run(out, ...)
    works(program.run(small.words(corpus, "model.num_hidden_layers=3", "--out", folder .. "/" .. out, ...)))
  end

  local keep = { "token_drop.keep.min=16", "token_drop.keep.max=48", "token_drop.keep.total=6" }
  run("whole", "--max-steps", "5", table.unpack(keep))
  run("cut", "--max-steps", "2", table.unpack(keep))
  run("cut", "--resume", "--max-steps", "5", "--threads", "1", table.unpack(keep))
  assert.same(small.weights(folder .. "/whole", 5), small.weights(folder .. "/cut", 5))
  local lines = small.metrics(folder .. "/whole")
  assert.same(lines, small.metrics(folder .. "/cut"))
  assert.is_true(lines[5].token_drop > lines[1].token_drop and lines[1].effective_tokens < 0.9 * lines[1].real_tokens)
  for _, recipe in ipairs { "bert_phase1", "bert_phase2", "pretrain", "curriculum" } do
    local out = works(program.run { ("recipes/%s.lua"):format(recipe), "--explain" })
    assert.matches("token_drop", out)
  end
end)

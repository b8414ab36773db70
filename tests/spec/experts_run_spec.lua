-- Mixtures of experts in a run: training, resuming, ranks, upcycling, distillation, and what is refused.

local fails = require("tests.support.fails")
local mpi = require("tests.support.mpi")
local on = require("tests.support.devices").on
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local support = require("tests.support.bert")
local sys = require("seqrun.core.sys")
local with = require("tests.support.with")

local on_ranks = mpi.tests(it, function(why) pending(why) end)

local folder, corpus = small.folder()

local function words(out, ...) return small.words(corpus, "--out", folder .. "/" .. out, ...) end

local run = program.ok

---The same, unless it has been made.
local function once(out, ...)
  if not sys.exists(folder .. "/" .. out) then run(words(out, ...)) end
end

local function newest(out) return sr.must(sr.checkpoint.resolve(folder .. "/" .. out)) end

---Checksums of the last checkpoint of a run.
local function bits(out) return (small.newest(folder .. "/" .. out)) end

local function refused(list, text) fails.exiting(2, text, list) end

describe("a run with experts", function()
  it("learns, resumes to the bit, and keeps its experts in the checkpoint #slow", function()
    local options = { "model.experts=4", "rate.peak=1e-2", "gate.temperature=4", "gate.total=20" }
    run(words("whole", table.unpack(options)))
    local lines = small.metrics(folder .. "/whole")
    local last = lines[#lines]
    assert.is_true(last.mlm_loss < 0.9 * lines[1].mlm_loss)
    assert.is_true(last.balance_loss < 1.3 and last.experts_busiest < 2.5)
    assert.is_truthy(last.router_z_loss)
    assert.equal(1, last.gate)
    assert.is_true(lines[10].gate > 2)
    run(words("twice", "--max-steps", "13", table.unpack(options)))
    run(words("twice", "--resume", table.unpack(options)))
    assert.same(bits "whole", bits "twice")
    assert.same(lines, small.metrics(folder .. "/twice"))
    local held = small.metrics(folder .. "/whole", "eval")
    assert.is_true(held[#held].mlm_loss < held[#held].unigram_loss + 0.2)
    assert.is_true(held[#held].mlm_loss < lines[1].mlm_loss - 1)

    local bert = sr.must(sr.nn.pretrained(folder .. "/whole"))
    assert.same({ [0] = 4, 4 }, bert.design.experts.counts)
    assert.is_true(bert.params:has("bert.encoder.layer.1.experts.3.intermediate.dense.weight"))
    local known = sr.must(require("seqrun.advise.models").model(sr.must(sr.checkpoint.resolve(folder .. "/whole"))))
    local count = require("seqrun.advise.models").count(known)
    assert.near(1, count / bert.params:count(), 0.15) -- without biases and positions
    fails.exiting(2, "has experts, which Transformers does not support in its family",
      { "export", folder .. "/whole", folder .. "/out" })
  end)

  on_ranks("has the same bits on one rank and on three #slow", function()
    local options = { "model.experts=[0,3]", "model.experts_chosen=1", "model.experts_residual=true", "batch.shares=4",
      "rate.total=6" }
    run(words("one", table.unpack(options)))
    program.works(mpi.run(3, words("three", table.unpack(options))))
    assert.same(bits "one", bits "three")
  end)

  it("trains a causal model, and one of another family in bf16 #slow", function()
    run(small.recipe("causal", corpus, "model.n_embd=16", "model.n_layer=1", "model.n_head=2", "model.n_positions=48",
      "model.experts=2", "model.experts_chosen=1", "rate.warmup=1", "rate.total=3", "--quiet", "--out",
      folder .. "/causal"))
    run(small.recipe("pretrain", corpus, "model.family=modernbert", "model.hidden_size=16",
      "model.num_hidden_layers=2", "model.num_attention_heads=2", "model.intermediate_size=24", "model.experts=4",
      "precision=bf16", "rate.warmup=1", "rate.total=3", "--quiet", "--out", folder .. "/modern"))
  end)

  it("has the same bits in a recipe that makes and calls its parts itself #slow", function()
    local text = assert(sys.read_file("recipes/pretrain.lua")):gsub("%-%- optimizer\n", [[
local steps = cfg.steps or cfg.rate.total
local token_drop = sr.run.token_drop(cfg, bert, steps)
local gate = sr.run.gate(cfg, bert, steps)
]]):gsub("  run:before%b()[^\n]*\n", [[
  if token_drop then token_drop:before(update) end
  if gate then gate:before(update) end
]]):gsub("run:losses%(batch%)", "bert:losses(batch)"):gsub("rate = rate }", [[rate = rate,
  schedules = { token_drop = token_drop and token_drop.schedule, gate = gate and gate.schedule } }]])
    local options = { "model.experts=4", "gate.temperature=4", "gate.total=6", "token_drop.keep=0.5",
      "token_drop.layers=[0,1]", "rate.total=8" }
    run(words("whole_loop", table.unpack(options)))
    local own = words("own_loop", "config=recipes/pretrain.yaml", table.unpack(options))
    own[1] = program.write(folder, "own_loop.lua", text)
    run(own)
    assert.same(bits "whole_loop", bits "own_loop")
    assert.same(small.metrics(folder .. "/whole_loop"), small.metrics(folder .. "/own_loop"))
  end)

  it("reports what a capacity drops #slow", function()
    fails.exiting(1, "alert: dropped: step %d+: %d+%.%d %% of the choices of experts were dropped",
      words("full", "model.experts=4", "model.experts_capacity=1", "rate.total=4",
      "model.experts_balance=0", "alert.dropped=0.01", "alert.stop=true"))
  end)

  it("refuses what cannot be, before it starts #slow", function()
    refused(words("no", "model.experts=[2,2,2]"), "experts has 3 numbers; give one for all layers, or one for each")
    refused(words("no", "model.experts=1"), "experts is 1; expected 0 (none), or 2")
    refused(words("no", "model.experts=4", "model.experts_capacity=0.25"), "at least 75 %")
    refused(words("no", "model.experts_residual=true"), "the model has no experts")
    refused(words("no", "gate.temperature=3"), "gate.temperature needs experts")
    local text = assert(sys.read_file("recipes/pretrain.lua"))
    local other = words("silent", "model.experts=4", "gate.temperature=3", "config=recipes/pretrain.yaml")
    other[1] = program.write(folder, "silent.lua", (text:gsub("  run:before%b()[^\n]*\n", "")))
    refused(other, "gate.temperature: the loop of this recipe does not call run:before(update)")
    refused(words("no", "distill.from=x", "distill.weight=0"), "would have no effect")
  end)
end)

it("experts of a loader's batches have the same losses and gradients packed, padded, one by one", function()
  local data = sr.must(sr.data.open(corpus))
  local bert = sr.nn.bert {
    vocab_size = data:vocab_size(), hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2,
    intermediate_size = 32, max_position_embeddings = 64, experts = 4, experts_balance = 1, experts_z = 1,
  }:initialise(1)
  for _, micro in ipairs { 1, 8 } do
    local loader = sr.must(sr.data.loader {
      data = data, by = "sequences", sequences = 12, max_len = 48, micro_packs = micro, prefetch = 0,
    })
    local losses = bert:losses(loader:batch_of { 3, 1 })
    assert.is_true(losses.balance.total:item() > 0 and losses.router_z.total:item() > 0)
    support.check_arrangements(bert, loader)
  end
end)

describe("a checkpoint without experts", function()
  local function held(out)
    local lines = small.metrics(folder .. "/" .. out, "eval")
    return lines[#lines].mlm_loss
  end

  it("becomes a mixture of copies of its feed-forward blocks, with the same predictions #slow", function()
    once("dense", "rate.peak=1e-2")
    run(words("upcycled", "model.experts=[0,4]", "init.from=" .. folder .. "/dense", "rate.total=1", "rate.warmup=0",
      "rate.peak=1e-30"))
    assert.near(held "dense", held "upcycled", 1e-5)
    run(words("residual", "model.experts=4", "model.experts_residual=true", "init.from=" .. folder .. "/dense",
      "rate.total=1", "rate.warmup=0", "rate.peak=1e-30"))
    assert.near(held "dense", held "residual", 1e-5)
    run(words("on", "model.experts=[0,4]", "init.from=" .. folder .. "/dense", "rate.total=20"))
    assert.is_true(held "on" < held "dense")
  end)

  it("gives no moments, and takes no experts #slow", function()
    once("dense", "rate.peak=1e-2")
    refused(words("no", "model.experts=4", "init.from=" .. folder .. "/dense", "init.carry=moments"), "has no experts")
    run(words("mixture", "model.experts=4", "rate.total=1", "rate.warmup=0"))
    run(words("carried", "model.experts=4", "rate.total=1", "rate.warmup=0", "init.from=" .. folder .. "/mixture",
      "init.carry=moments"))
    local text = "has other experts than this one; set model.experts=[4,4] model.experts_chosen=2 "
      .. "model.experts_residual=false"
    run(words("taken", "rate.total=1", "rate.warmup=0", "init.from=" .. folder .. "/mixture")) -- its experts
    refused(words("no", "model.experts=8", "init.from=" .. folder .. "/mixture"), text)
  end)
end)

describe("a student", function()
  local TEACHER = { "teacher", "model.experts=4", "rate.peak=1e-2", "rate.total=60" }

  ---A student, its teacher up to step 9, and a batch.
  local function student(distill, model)
    local data = sr.must(sr.data.open(corpus))
    local bert = sr.nn.bert(with({ vocab_size = data:vocab_size(), hidden_size = 16, num_hidden_layers = 1,
      num_attention_heads = 2, intermediate_size = 16, max_position_embeddings = 64 }, model)):initialise(4)
    local teacher = sr.run.teacher({ precision = "f32", data = { max_len = 48 },
      distill = with({ from = newest "teacher", upto = 9 }, distill) }, bert, data, 20)
    local loader = sr.must(sr.data.loader { data = data, by = "sequences", sequences = 3, max_len = 48, prefetch = 0 })
    return bert, teacher, loader:next():batch(1)
  end

  it("learns from a teacher with experts, and in the last stage without it #slow", function()
    once(table.unpack(TEACHER))
    local options = { "model.num_hidden_layers=1", "distill.from=" .. newest("teacher"), "distill.temperature=2",
      "distill.upto=0.75", "rate.peak=1e-2" }
    refused(words("no", "model.num_hidden_layers=1", "distill.from=" .. folder .. "/teacher"), "name the checkpoint")
    local place = folder .. "/other"
    assert(sys.make_dirs(place))
    local text = assert(sys.read_file(folder .. "/corpus.txt")):gsub("teacher", "painter")
    local input = program.write(place, "other.txt", text)
    sr.must(sr.data.prepare { inputs = { input }, vocab = { size = 120 }, out = place .. "/other.sqr" })
    refused(small.words(place .. "/other.sqr", "--out", folder .. "/no", table.unpack(options)),
      "differs from that of the data set " .. place .. "/other.sqr (120 and 120 tokens, first difference at id ")
    run(words("student", table.unpack(options)))
    local lines = small.metrics(folder .. "/student")
    assert.is_true(lines[30].distill_loss < 0.5 * lines[1].distill_loss)
    assert.is_nil(lines[31].distill_loss)
    run(words("again", "--max-steps", "9", table.unpack(options)))
    run(words("again", "--resume", table.unpack(options)))
    assert.same(bits "student", bits "again")
  end)

  it("frees its teacher after the last step with it, and takes it back for an earlier one #slow", function()
    once(table.unpack(TEACHER))
    local _, teacher, batch = student { weight = 1, temperature = 1 }
    local weak = setmetatable({ teacher.model }, { __mode = "v" })
    teacher:before { counters = { step = 9 } }
    assert.truthy(weak[1])
    assert.truthy(teacher:losses(batch).distill)
    teacher:before { counters = { step = 10 } }
    assert.is_nil(weak[1])
    assert.is_nil(teacher:losses(batch).distill)
    teacher:before { counters = { step = 9 } }
    assert.truthy(teacher:losses(batch).distill)
  end)

  it("has gradients of finite differences #slow", function()
    once(table.unpack(TEACHER))
    on("ref", function()
      local bert, teacher, batch = student({ weight = 0.7, temperature = 2 },
        { hidden_dropout_prob = 0, attention_probs_dropout_prob = 0 })
      local names = { "cls.predictions.bias", "bert.encoder.layer.0.output.dense.weight" }
      support.check_gradients(bert.params, names, function() return teacher:losses(batch).total end)
    end)
  end)
end)

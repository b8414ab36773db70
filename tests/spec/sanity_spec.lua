-- Settings that are probably a mistake, and beginning again: what a run says before it trains.

local devices = require("seqrun.tensor.devices")
local program = require("tests.support.program")
local sanity = require("seqrun.run.checks.sanity")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local folder, corpus = small.folder()

local function run(...) return program.run(small.words(corpus, ...)) end

it("a head that no target trains is warned of, unless it is frozen", function()
  local function heads(targets, frozen)
    local list = { { name = "mlm", specs = { { name = "m" } } }, { name = "own", specs = { { name = "w" } } } }
    local optimizer = { segments = { {}, { frozen = frozen } } }
    local model = { heads = list, params = { list = { { name = "m" }, { name = "w" } } } }
    local data = { info = function() return {} end }
    local loader = { options = { targets = targets }, data = data }
    return sanity.heads { model = model, optimizer = optimizer, loaders = { main = loader } }
  end
  assert.matches("no target of the loader is named 'own', so this head is not trained", heads())
  assert.is_nil(heads(nil, true))
  assert.is_nil(heads { "mlm", { name = "own" } })
end)

it("a text is refused whose pairs have one label, and warned of if pairs use little of it", function()
  local words = require("tests.support.task_model").words()
  ---A data set of documents of `sentences` sentences of `size` words.
  local function data(name, documents, sentences, size)
    local lines, at = {}, 0
    for _ = 1, documents do
      for _ = 1, sentences do
        local list = {}
        for i = 1, size do
          at = at + 1
          list[i] = words[at * 7 % #words + 1]
        end
        lines[#lines + 1] = table.concat(list, " ")
      end
      lines[#lines + 1] = ""
    end
    local out = ("%s/%s.sqr"):format(folder, name)
    sr.must(sr.data.prepare { inputs = { program.write(folder, name .. ".txt", table.concat(lines, "\n")) }, out = out,
      vocab = require("tests.support.task_model").VOCAB, format = "lines" })
    return out
  end
  local function on(file, ...)
    local out = folder .. "/p"
    return program.run(small.words(file, "data.max_len=32", "--max-steps", "1", "--force", "--out", out, ...))
  end
  local lines = data("lines", 60, 1, 6)
  exits(2, "each example has one sentence of its document .* have one label; set data.nsp=false", on(lines))
  local _, err = works(on(lines, "data.nsp=false"))
  assert.is_nil(err:find("warning", 1, true))
  local long = data("long", 12, 9, 100)
  exits(2, "one label", on(long))
  local mixed = data("mixed", 40, 2, 28)
  _, err = works(on(mixed))
  assert.matches("warning: the examples of an epoch hold [1-7]%d %% of the tokens: pairs of sentences leave out", err)
end)

it("a loop whose losses have items of another shape is refused", function()
  local contracts = require("seqrun.run.checks.contracts")
  local function losses(shape)
    local one = { name = "own", total = sr.zeros(), count = 3, items = sr.zeros(table.unpack(shape)) }
    return setmetatable({ one }, { __index = { total = one.total } })
  end
  for _, shape in ipairs { {}, { 1 }, { 2 } } do
    assert.error_matches(function() contracts.check_losses(losses(shape)) end,
      "'own' has `items` with %d values?, but its count is 3; return a value for each item")
  end
  local own = { losses = function() end }
  assert.error_matches(function() contracts.check_losses(own.losses(), "run:losses", own) end,
    "run:losses: model:losses%(batch%) %(tests/spec/sanity_spec.lua:%d+%) returned nil, without a scalar tensor")
  assert.error_matches(function() contracts.check_losses { total = sr.zeros() } end, "no loss with a name")
  for _, shape in ipairs { { 3 }, { 5 }, { 3, 1 } } do contracts.check_losses(losses(shape)) end
  assert.error_matches(function() contracts.check_losses(losses { 3, 3 }) end,
    "run:tally: 'own' has items of shape %(3, 3%); each item has one value, and %(N, 1%) with %(N%) spreads")
end)

it("frozen layers that the optimizer's decay would move are refused", function()
  local contracts = require("seqrun.run.checks.contracts")
  local bert = sr.nn.bert { vocab_size = 32, hidden_size = 8, num_hidden_layers = 2, num_attention_heads = 2,
    intermediate_size = 16, max_position_embeddings = 16, heads = { "mlm" } }
  bert:initialise(1)
  bert.encoder.frozen = 1
  local function none() end
  local loader = { next = none, cursor = none, seek = none, summary = none, plan = none, plan_text = none }
  local function check(options)
    contracts.check { model = bert, optimizer = sr.optim.adamw(bert.params, options), loader = loader }
  end
  assert.error_matches(function() check { decay = 0.01 } end,
    "run:start: encoder.frozen is 1, but decay moves [%w._]+; use groups = model:frozen%(targets%)")
  check { decay = 0.01, groups = bert:frozen { "mlm" } }
  check { decay = 0 }
end)

describe("a run that makes no sense #slow", function()
  it("warns of absurd rates and lengths, also in a dry run", function()
    local out, err = works(run("--dry-run", "rate.peak=0.2", "optimizer.decay=2", "rate.total=1000000000000"))
    assert.matches("warning: rate.peak is 0.2; usual for adamw is", err)
    assert.matches("warning: optimizer.decay is 2; usual is 0 to 0.1", err)
    assert.matches("warning: the run passes over the data [%d.]+G times; check rate.total\n", err)
    assert.matches("warning: at this speed the run takes [%d,]+ years", err)
    assert.matches("%d steps? of 1,0", out)
    err = select(3, run("--dry-run"))
    assert.is_nil(err:find("warning"))
  end)

  it("is refused if it is to keep the best by a metric that there is not", function()
    exits(2, "save.best: the evaluations have no metric 'mlm_acuracy'; did you mean 'mlm_accuracy'%?\n",
      run("--dry-run", "save.best=mlm_acuracy"))
    exits(2, "no metric 'sequences'; they have mlm_loss, mlm_accuracy, nsp_loss, nsp_accuracy",
      run("--dry-run", "save.best=sequences"))
    exits(2, "save.best=mlm_loss: nothing is held out for evaluation; set data.held",
      run("--dry-run", "save.best=mlm_loss", "data.held=0"))
  end)

  it("names the key that its task has", function()
    local function of(fields, steps) return sanity.length_key({ steps = steps }, { by_name = fields }) end
    assert.same({ "epochs", "rate.total", "steps" }, { of { epochs = true }, of {}, of({}, 7) })
    assert.matches("check epochs$", sanity.epochs(5000, "epochs"))
    assert.matches("5.00k times; check rate.total$", sanity.epochs(5000, "rate.total"))
    assert.is_nil(sanity.epochs(999, "epochs"))
    assert.matches("takes 412d00h; check epochs", sanity.duration(412 * 86400, "epochs"))
    assert.matches("takes over a million years", sanity.duration(math.huge, "steps"))
    assert.is_nil(sanity.duration(29 * 86400, "steps"))
  end)
end)

describe("a config with large numbers #slow", function()
  it("is refused with the bytes that it would need, before they are allocated", function()
    for _, word in ipairs {
      "model.hidden_size=1000000", "model.intermediate_size=1000000000", "batch.sequences=1000000000",
    } do
      local code, _, err = run("--dry-run", word)
      assert.equal(4, code, word .. "\n" .. err)
      assert.matches("need[s]? [%a ]*[%d.]+ GiB", err)
    end
    exits(4, "^seqrun: [%d,]+ parameters with gradients and moments need [%d.]+ GiB",
      run("--dry-run", "model.hidden_size=65536", "model.num_hidden_layers=1"))
  end)
end)

it("an optimizer is refused with the bytes it needs, if its moments do not fit", function()
  local model = sr.nn.encoder { hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, vocab_size = 99 }
  local count, plain = model.params:count(), devices.memory
  devices.memory = function() return 12 * count, "this machine" end
  local good, problem = pcall(sr.optim.adamw, model.params)
  devices.memory = plain
  assert.is_false(good)
  assert.equal("memory", problem.code)
  local words = "^[%d,]+ parameters with gradients and moments need [%d.]+ GiB, but this machine has"
  assert.matches(words, problem.message)
  assert.is_truthy(sr.optim.adamw(model.params))
end)

describe("a run in a directory that is not empty #slow", function()
  it("begins again with --force, and keeps the earlier run under another name", function()
    local out = folder .. "/again"
    assert.equal(0, (run("--out", out, "--max-steps", "1")))
    exits(2, "is not empty; resume with %-%-resume, begin again with %-%-force, or choose another",
      run("--out", out, "--max-steps", "1"))
    works(run("--out", out, "--max-steps", "2", "--force"))
    assert.is_true(sys.exists(out .. "/step-000000002"))
    assert.is_true(sys.exists(out .. "-before-1/step-000000001"))
    exits(2, "", run("--out", out, "--max-steps", "1", "--force", "rate.peak=x"))
    assert.is_true(sys.exists(out .. "/step-000000002"), "a start that fails moves nothing")
  end)

  it("does not touch other directories, and does not both resume and begin again", function()
    local other = folder .. "/other"
    sys.make_dirs(other)
    program.write(other, "thesis.txt", "years of work")
    exits(2, "is not empty and not a run, so %-%-force leaves it alone", run("--out", other, "--force"))
    assert.equal(2, (run("--out", other, "--force", "--resume")))
    assert.equal("years of work", sys.read_file(other .. "/thesis.txt"))
  end)

  it("is evaluated only, if it has all its steps", function()
    local out = folder .. "/only"
    assert.equal(0, (run("--out", out, "--max-steps", "2")))
    local said = works(run("--out", out, "--max-steps", "0", "--resume"))
    assert.matches("2 steps, ", said)
    assert.matches("step 2 is beyond %-%-max%-steps 0, which is a total, so nothing is trained: .*; to train them "
      .. "further, raise %-%-max%-steps\n", sys.read_file(out .. "/run.log"))
    said = works(run("--out", folder .. "/untrained", "--max-steps", "0"))
    assert.matches("0 steps, 0 sequences", said)
    assert.is_nil(said:find("packing", 1, true))
  end)
end)

describe("unusual settings", function()
  local function told(optimizer, mask)
    return sanity.rates { rate = { peak = 1e-3 }, optimizer = optimizer, mask = mask and { prob = mask } }
  end

  it("of the optimizer and the masks are reported, usual ones are not", function()
    assert.same({}, told({ name = "adamw", betas = { 0.9, 0.98 }, eps = 1e-6, decay = 0.01 }, 0.15))
    assert.same({}, told({}))
    assert.matches("^optimizer.eps is 10;", told({ eps = 10 })[1])
    assert.matches("^optimizer.betas are %[0.999, 0.1%];", told({ betas = { 0.999, 0.1 } })[1])
    assert.matches("^mask.prob is 0.9;", told({}, 0.9)[1])
    assert.matches("^optimizer.clip is 0,", told({ clip = 0 })[1])
    assert.same({}, told({ name = "stable_adamw", clip = 0 }))
  end)

  it("of the model and the length are reported", function()
    local function of(model, max_len)
      local cfg = { rate = { peak = 1e-3 }, model = model, mask = { prob = 0.15 }, data = { max_len = max_len } }
      return sanity.rates(cfg)
    end
    assert.same({}, of({ initializer_range = 0.02, hidden_dropout_prob = 0.1 }, 128))
    assert.matches("^model.initializer_range is 100; usual is 0.02", of({ initializer_range = 100 }, 128)[1])
    assert.matches("^model.hidden_dropout_prob is 0.9;", of({ hidden_dropout_prob = 0.9 }, 128)[1])
    assert.matches("^data.max_len is 8; .* has 1 token to predict$", of({}, 8)[1])
  end)
end)

-- The keys `tune` that change the loss of training or what is trained, and cross-validation.

local config = require("seqrun.config")
local costs = require("seqrun.nn.heads.costs")
local files = require("tests.support.task_files")
local json_file = require("seqrun.base.json_file")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local tasks = require("tests.support.tasks")

local works = program.works
local fails = require("tests.support.devices").fails

local folder = program.folder()
local base = files.encoder(folder .. "/base")
for _, kind in ipairs { "classify", "regress", "tokens" } do tasks.corpus(kind, folder, 60) end

local function values(task, kind, ...)
  local schema, rules = sr.run.schema(task)
  local loaded, message = config.load {
    schema = schema, rules = rules, arguments = {
      ("data.train=%s/%s.sqr"):format(folder, kind), "data.max_len=48", "init.from=" .. base, ...,
    },
  }
  return assert(loaded, message).values
end

---The cross entropy of a row with the label's probability spread, and times a factor, as it is defined.
local function by_hand(row, label, smoothing, factor)
  local sum, loss = 0, 0
  for _, x in ipairs(row) do sum = sum + math.exp(x) end
  for c, x in ipairs(row) do
    local wanted = smoothing / #row + (c == label + 1 and 1 - smoothing or 0)
    loss = loss - wanted * (x - math.log(sum))
  end
  return factor * loss
end

describe("the loss of classes", function()
  local LOGITS, LABELS, WEIGHTS = { { 1, -2, 0.5 }, { 0, 3, -1 }, { 2, 2, 2 } }, { 2, 1, 0 }, { 0.25, 0.5, 0.25 }
  local FACTORS = { 0.5, 2, 4 }

  it("is that of smoothed labels, times the factor of the class, with its gradient", function()
    for _, device in ipairs { "ref", "cpu" } do
      local before = sr.device()
      sr.use(device)
      local scope <close> = sr.scope()
      local target = { labels = sr.tensor(LABELS, { dtype = "i32" }), weights = sr.tensor(WEIGHTS) }
      for _, smoothing in ipairs { 0, 0.1, 0.9 } do
        local given = { smoothing = smoothing, factors = sr.tensor(FACTORS) }
        local found = costs.loss(sr.tensor(LOGITS), target, given)
        local wanted = 0
        for i, row in ipairs(LOGITS) do
          wanted = wanted + WEIGHTS[i] * by_hand(row, LABELS[i], smoothing, FACTORS[LABELS[i] + 1])
          assert.near(by_hand(row, LABELS[i], smoothing, 1), found.items:totable()[i], 1e-6)
        end
        assert.near(wanted, found.total:item(), 1e-6)
        assert.same({ 0, 1, 1 }, found.correct:totable())
        if device == "ref" then
          local x = sr.tensor(LOGITS, { requires_grad = true })
          assert(sr.gradcheck(function(y) return costs.loss(y, target, given).total end, { x }))
        end
      end
      sr.use(before)
    end
  end)

  it("is the plain one in evaluations, and in training as the keys say", function()
    local task = sr.tasks.classify
    local cfg = values(task, "classify", "data.held=0", "tune.label_smoothing=0.2", "tune.class_weights=[1,2,3]",
      "model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0")
    local data = task:data(cfg)
    local model, loader = task:model(cfg, data), task:loader(cfg, data, "train")
    assert.equal("tune.label_smoothing: 0.2 of each label is spread over 3 classes", data.notes[#data.notes - 1])
    assert.equal("tune.class_weights: 0 1, 1 2, 2 3", data.notes[#data.notes])
    local scope <close> = sr.scope()
    local batch = loader:next():batch(1)
    local trained = model:losses(batch).total:item()
    model.training = false
    local plain = model:losses(batch).total:item()
    model.heads[1].costs = nil
    assert.equal(plain, model:losses(batch).total:item())
    assert.is_true(math.abs(trained - plain) > 0.1)
  end)

  it("takes factors that make classes count alike from the examples to train on", function()
    for _, kind in ipairs { "classify", "tokens" } do
      local task = sr.tasks[kind]
      local cfg = values(task, kind, "data.held=0.3", "tune.class_weights=balanced",
        kind == "tokens" and "data.labels=[O,B-HOT]" or "seed=3")
      local data = task:data(cfg)
      local model = task:model(cfg, data)
      local factors, counts, all, sum = model.heads[1].costs.factors:totable(), {}, 0, 0
      local column = kind == "tokens" and "tags" or "label"
      for _, i in ipairs(data.train:units("train")) do
        local value = data.train:column(column, i)
        for _, label in ipairs(type(value) == "table" and value or { value }) do
          if label >= 0 then counts[label + 1], all = (counts[label + 1] or 0) + 1, all + 1 end
        end
      end
      for c, count in ipairs(counts) do
        assert.near(all / (#counts * count), factors[c], 1e-5)
        sum = sum + factors[c] * count
      end
      assert.near(all, sum, 1e-3) -- 1 on average
      assert.matches("^tune.class_weights: .* %(balanced%)$", data.notes[#data.notes])
    end
  end)

  it("refuses factors that fit no class, and tasks without classes", function()
    local task = sr.tasks.classify
    local function model(...)
      local cfg = values(task, "classify", "data.held=0", ...)
      return task:model(cfg, task:data(cfg))
    end
    fails("tune.class_weights has 2 numbers, but the data have 3 classes: 0, 1, 2", model, "tune.class_weights=[1,2]")
    fails("tune.class_weights: 'x' is not a factor; give a number of at least 0 for each class, or balanced", model,
      "tune.class_weights=[1,2,x]")
    local cfg = values(sr.tasks.regress, "regress", "data.held=0", "tune.label_smoothing=0.1")
    fails("tune.label_smoothing requires one class for each item, which the task regress does not have",
      sr.tasks.regress.model, sr.tasks.regress, cfg, sr.tasks.regress:data(cfg))
  end)
end)

describe("tune.freeze", function()
  local task

  local function frozen(...)
    task = sr.tasks.classify
    local cfg = values(task, "classify", "data.held=0", ...)
    local data = task:data(cfg)
    local model = task:model(cfg, data)
    local optimizer, found = sr.optim.adamw(model.params, task:optimizer_options(cfg, model)), {}
    for i, name in ipairs(model.params:names()) do
      if optimizer.segments[i].frozen then found[#found + 1] = name end
    end
    return found, model, data.notes
  end

  it("freezes the parameters of its patterns, says which, and leaves layers at the bottom without gradients", function()
    local found, model, notes = frozen("tune.freeze=[embeddings,layer.0]", "tune.layer_decay=0.9")
    for _, name in ipairs(found) do assert.truthy(name:find("embeddings") or name:find("layer.0", 1, true), name) end
    assert.equal(1, model.encoder.frozen)
    assert.matches("^tune.freeze: embeddings freezes 5 parameters %(", notes[#notes - 1])
    assert.matches("^tune.freeze: layer.0 freezes 16 parameters %(.* ... .*%)$", notes[#notes])
    found, model = frozen("tune.freeze=LayerNorm")
    assert.equal(10, #found)
    assert.is_nil(model.encoder.frozen)
    found, model = frozen("tune.freeze=bert")
    assert.equal(2, model.encoder.frozen)
    assert.equal(#model.params:names() - 2, #found)
  end)

  it("refuses a pattern that matches nothing, and to freeze all", function()
    fails("tune.freeze: 'embedings' matches no parameter; names are such as bert.embeddings.",
      frozen, "tune.freeze=embedings")
    fails("tune.freeze: all parameters are frozen", frozen, "tune.freeze=[bert,classifier]")
  end)
end)

it("a regression proposes to scale values that are far from 0, and only these", function()
  local function notes(columns, ...)
    local lines = { "text\tprice\tshare" }
    for i, row in ipairs { ... } do lines[i + 1] = ("w%d\t%g\t%g"):format(i, row[1], row[2]) end
    local file = program.write(folder, "prices.tsv", table.concat(lines, "\n") .. "\n")
    return table.concat(sr.must(sr.data.read {
      task = "regress", files = file, out = folder .. "/prices.sqr", vocab = tasks.VOCAB,
      columns = { label = columns },
    }).notes, "\n")
  end
  assert.equal("", notes("share", { 1, 0.1 }, { 2, 4.9 }, { 3, 2 }))
  assert.equal("warning: the values have mean 1200 and deviation 163.3; outputs begin near 0 and need many steps to "
    .. "get there: train on (value - 1200) / 163.3, and scale predictions back",
    notes("price", { 1000, 0 }, { 1200, 1 }, { 1400, 0 }))
  assert.matches("the values 1 of columns.label have mean 1200 ", notes({ "price", "share" }, { 1000, 0 },
    { 1200, 1 }, { 1400, 0 }))
end)

it("folds share no text, hold out each example once, and are of nearly one size", function()
  local examples = (tasks.examples("classify", 50, 11))
  for i = 1, 13 do examples[50 + i] = examples[1 + i % 4] end -- groups of duplicates
  local path = folder .. "/repeated.sqr"
  sr.must(sr.data.write { out = path, vocab = tasks.VOCAB, examples = examples,
    columns = { label = { type = "i32" } } })
  local seen, fold_of = {}, {}
  for fold = 1, 5 do
    local set = sr.must(sr.data.open(path, { folds = 5, fold = fold, seed = 9 }))
    local held = set:units("held")
    assert.is_true(#held >= 63 // 5 - 5 and #held <= 63 // 5 + 5, tostring(#held))
    assert.equal(63, #held + #set:units("train"))
    for _, i in ipairs(held) do
      local text = set:decode(i)
      assert.is_nil(seen[i])
      seen[i] = true
      assert.equal(fold, fold_of[text] or fold)
      fold_of[text] = fold
    end
  end
  assert.equal(63, #seen)
  local again = sr.must(sr.data.open(path, { folds = 5, fold = 2, seed = 9 })):units("held")
  assert.same(again, sr.must(sr.data.open(path, { folds = 5, fold = 2, seed = 9 })):units("held"))
  assert.not_same(again, sr.must(sr.data.open(path, { folds = 5, fold = 2, seed = 10 })):units("held"))
  fails("there is no fold 6 of 5", function() sr.must(sr.data.open(path, { folds = 5, fold = 6 })) end)
end)

it("folds are refused beside a development set, and where examples belong together", function()
  local schema, rules = sr.run.schema(sr.tasks.classify)
  local function problem(...)
    local words = { "data.train=a.csv", "init.from=" .. base, ... }
    return select(2, config.load { schema = schema, rules = rules, arguments = words })
  end
  assert.matches("data.folds holds out parts of data.train; leave out data.dev", problem("data.folds=3",
    "data.dev=b.csv"))
  assert.matches("data.fold is 4, but data.folds is 3", problem("data.folds=3", "data.fold=4"))
  assert.matches("data.fold needs data.folds", problem("data.fold=1"))
  tasks.corpus("choice", folder, 60)
  local cfg = values(sr.tasks.choice, "choice", "data.folds=3")
  fails("its examples belong together, so they cannot be in folds", sr.tasks.choice.data, sr.tasks.choice, cfg)
end)

describe("a run with these keys #slow", function()
  local function words(out, ...)
    local data = files.write(folder, "classify")
    local list = {
      "recipes/finetune.lua", "task=classify", "data.train=" .. data.train, "data.folder=" .. folder .. "/sets",
      "init.from=" .. base, "data.max_len=48", "seed=3", "rate.peak=4e-3", "--quiet", "--out", folder .. "/" .. out,
      ...,
    }
    return table.move(data.words, 1, #data.words, #list + 1, list)
  end

  it("is the same to the bit after a stop", function()
    local keys = { "tune.label_smoothing=0.1", "tune.class_weights=balanced", "tune.freeze=embeddings",
      "data.held=0.2", "epochs=1", "save.every=4", "model.hidden_dropout_prob=0.1" }
    works(program.run(words("whole", table.unpack(keys))))
    table.insert(keys, "--max-steps")
    table.insert(keys, "6")
    works(program.run(words("stopped", table.unpack(keys))))
    keys[#keys], keys[#keys - 1] = nil, "--resume"
    works(program.run(words("stopped", table.unpack(keys))))
    local one, two = small.metrics(folder .. "/whole", "eval"), small.metrics(folder .. "/stopped", "eval")
    assert.equal(one[#one].label_loss, two[#two].label_loss)
    assert.equal(one[#one].accuracy, two[#two].accuracy)
  end)

  it("is repeated for each fold, with a summary, and continues", function()
    local told = works(program.run(words("folds", "data.folds=3", "epochs=2")))
    assert.matches("3 folds: 1, 2, 3\n", told)
    local found = assert(json_file.read(folder .. "/folds/folds.json"))
    assert.same({ 1, 2, 3 }, found.folds)
    local sum = 0
    for fold = 1, 3 do
      local lines = small.metrics(("%s/folds/fold-%d"):format(folder, fold), "eval")
      assert.equal(found.metrics.accuracy.values[fold], lines[#lines].accuracy)
      sum = sum + lines[#lines].accuracy
    end
    assert.near(sum / 3, found.metrics.accuracy.mean, 1e-9)
    local results = require("seqrun.run.sweep.results")
    assert.equal(found.metrics.accuracy.mean, results.last(folder .. "/folds").accuracy)
    local again = select(2, program.run(words("folds", "data.folds=3", "epochs=2")))
    assert.equal(told:match("3 folds.*"), again:match("3 folds.*"))
    told = works(program.run(words("both", "data.folds=2", "seeds=[1,2]", "epochs=0.1")))
    assert.matches("2 seeds: 1, 2\n", told)
    local one, two = json_file.read(folder .. "/both/seed-1/folds.json"), json_file.read(folder .. "/both/seeds.json")
    assert.equal(one.metrics.accuracy.mean, two.metrics.accuracy.values[1])
  end)
end)

-- Texts that are longer than the model, read in windows (data.windows): each counts as one, in training, eval, predict.

local decisions = require("seqrun.scores.decisions")
local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local predicted = require("tests.support.predicted")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local task_model = require("tests.support.task_model")
local with = require("tests.support.with")

local heads, text = sr.nn.heads, task_model.text
local folder, MAX = program.folder(), 12

---A file of texts of 1 to 41 words, some of them longer than the model reads.
local function write(name, label_of, count)
  local rows = {}
  for i = 1, count or 40 do rows[i] = json.encode { text = text(i * 7 % 41 + 1, i), label = label_of(i) } end
  return program.write(folder, name .. ".jsonl", table.concat(rows, "\n") .. "\n")
end

local CLASSES = write("classes", function(i) return i * i % 7 % 2 == 0 and "no" or "yes" end)
local SETS = write("sets", function(i)
  local list = json.array {}
  for k, name in ipairs { "a", "b" } do
    if i * k % (k + 2) == 0 then list[#list + 1] = name end
  end
  return list
end)

local function read(options)
  local all = with({
    task = "classify", train = CLASSES, vocab = task_model.VOCAB, folder = folder, max_len = MAX, stride = 4,
    windows = "mean", labels = { "no", "yes" },
  }, options)
  all.windows = all.windows or nil
  return sr.data.files(all)
end

---The tokens of an example.
local function tokens(set, i)
  local list = {}
  for token in set:decode(i):gmatch("%S+") do list[#list + 1] = token end
  return list
end

describe("a text that is longer than the model", function()
  it("is read in windows that overlap, each a share of it", function()
    local set, at, cut = sr.must(read {}).train, 1, 0
    sr.must(sr.data.read { task = "classify", files = CLASSES, vocab = task_model.VOCAB,
      out = folder .. "/whole.sqr", labels = { "no", "yes" } })
    local whole = sr.must(sr.data.open(folder .. "/whole.sqr", { held = 0 }))
    for i = 1, whole:info().examples do
      local ids, sum, covered, first = tokens(whole, i), 0, 0, at
      while at <= set:info().examples and set:column("source", at) == i - 1 do
        local part, from = tokens(set, at), (at - first) * 4
        assert.is_true(#part <= MAX - 2)
        for k, id in ipairs(part) do assert.equal(ids[from + k], id) end
        assert.equal(whole:column("label", i), set:column("label", at))
        sum, covered, at = sum + set:column("window_share", at), from + #part, at + 1
      end
      assert.same({ #ids, true }, { covered, math.abs(sum - 1) < 1e-6 })
      cut = cut + (at - first > 1 and 1 or 0)
    end
    assert.equal(set:info().examples, at - 1)
    local notes = table.concat(sr.must(read {}).notes, "\n")
    assert.matches(("train: longer than 12 tokens: %d texts, read in %%d+ windows that overlap"):format(cut), notes)
  end)

  it("is trained on, or held out, as a whole", function()
    for _, options in ipairs { { held = 0.3 }, { folds = 3, fold = 2 } } do
      local set, part = sr.must(read(options)).train, {}
      for _, name in ipairs { "train", "held" } do
        for _, example in ipairs(set:units(name)) do
          local source = set:column("source", example)
          assert.equal(name, part[source] or name)
          part[source] = name
        end
      end
    end
  end)

  it("weighs as much as any other in the loss, in whichever updates its windows are", function()
    local set, bert = sr.must(read {}).train, task_model.new(heads.classify { labels = { "no", "yes" } })
    local loader <close> = sr.must(sr.data.loader {
      data = set, max_len = MAX, by = "sequences", sequences = 16, targets = { "label", "window_share" }, seed = 3,
      epochs = 1,
    })
    local sums = {}
    for update in function() return loader:next() end do
      for batch in update:batches() do
        local scope <close> = sr.scope()
        local loss, wanted = bert:losses(batch).label, 0
        local items, weights = loss.items:totable(), batch.targets.label.weights:totable()
        for i, uid in ipairs(require("seqrun.data.items").uids(batch.targets.label, batch)) do
          local from = loader:origin(uid)
          local weight = weights[i] * set:column("window_share", from.example)
          wanted = wanted + weight * items[i]
          sums[from.source] = (sums[from.source] or 0) + weight * update.sequences
        end
        assert.near(wanted, loss.total:item(), 1e-5)
        bert.mean_share = 0.25
        assert.near(4 * wanted, bert:losses(batch).label.total:item(), 1e-4)
        bert.mean_share = nil
      end
    end
    for document = 0, 39 do assert.near(1, sums[document], 1e-5) end
  end)
end)

describe("the windows of a text", function()
  it("count together as mean, maximum or first, by hand", function()
    local list = { { output = { 1, 1 } }, { output = { 0, math.log(3) } } } -- p = 1/2, 1/2 and 1/4, 3/4
    local function p(rule, each) return decisions.probabilities(decisions.pooled(list, rule, each), nil, each) end
    assert.near(math.sqrt(3) / (1 + math.sqrt(3)), p("mean")[2], 1e-12) -- the ratio is that of geometric means
    assert.near(0.75 / 1.25, p("max")[2], 1e-12)
    assert.near(0.5, p("first")[2], 1e-12)
    assert.near((1 + math.log(3)) / 2, decisions.pooled(list, "mean", true)[2], 1e-12)
    assert.same({ 1, math.log(3) }, decisions.pooled(list, "max", true))
  end)

  ---What eval finds, which predict says too.
  local function both(path, file)
    local found = program.json { "eval", path, file, "data.folder=" .. folder, "--json", "--mistakes", "100" }
    local predictions = predicted(path, file)
    assert.equal(40, #predictions.said)
    assert.equal(predictions.accuracy, found.metrics.accuracy)
    assert.equal(predictions.f1, predictions.f1 and found.metrics.f1)
    assert.near(predictions.roc_auc or 0, predictions.roc_auc and found.metrics.roc_auc or 0, 1e-9)
    return found, predictions.p
  end

  it("are one prediction, the same in eval and predict, and the first is what truncation leaves", function()
    local function saved(task, labels, rule)
      return task_model.save(folder .. "/" .. task .. rule, task_model.new(heads[task] { labels = labels }), { files = {
        ["trainer/config.yaml"] = ("data: {max_len: %d, stride: 4, windows: %s}\n"):format(MAX, rule),
      } })
    end
    local all = {}
    for _, rule in ipairs { "none", "first", "mean", "max" } do
      local found, p = both(saved("classify", { "no", "yes" }, rule), CLASSES)
      assert.equal(40, found.heads[1].classes[1].count + found.heads[1].classes[2].count)
      all[rule] = p
    end
    assert.same(all.none, all.first)
    assert.not_same(all.none, all.mean)
    assert.not_same(all.max, all.mean)
    for _, rule in ipairs { "mean", "max" } do both(saved("multilabel", { "a", "b" }, rule), SETS) end
  end)

  it("are read by a run, its predictions, and by eval --fit", function()
    local out, base = folder .. "/run", task_model.save(folder .. "/base", task_model.new("mlm"))
    local _, told = program.ok { "recipes/finetune.lua", "task=classify", "init.from=" .. base,
      "data.train=" .. CLASSES, "data.dev=" .. CLASSES, "data.folder=" .. folder, "data.max_len=12", "data.stride=4",
      "data.windows=max", "decide.threshold=f1", "epochs=1", "--out", out }
    assert.matches("train: longer than 12 tokens: %d+ texts, read in %d+ windows", told)
    local lines, train, found = small.metrics(out, "eval"), small.metrics(out, "train"), both(out, CLASSES)
    assert.near(train[#train].label_loss, lines[#lines].label_loss, 0.3) -- on one scale
    assert.same({ lines[#lines].f1, 40 }, { found.metrics.f1, found.heads[1].decide.items })
    local open = sr.must(sr.predict.open(out))
    assert.equal("max", open.windows)
    fails.returning("config", "nbest is for question answering (task=squad), but the model is for task=classify; leave",
      sr.predict.open(out, { nbest = 2 }))
    fails.returning("config", "stride is for", sr.predict.open(folder .. "/classifynone", { stride = 4 }))
    assert.equal(open:one(text(40, 3)).label, program.json({ "predict", out }, { input = text(40, 3) .. "\n" }).label)
    program.ok { "predict", out, CLASSES, "--stride", "2" }
    fails.exiting(2, "--stride is for question answering (task=squad), token classification and data.windows, but",
      { "predict", folder .. "/classifynone", CLASSES, "--stride", "2" })
  end)

  it("are refused of other tasks, of pairs, and of data sets that were made otherwise", function()
    fails.returning("config", "data.windows is for texts with labels (task=classify, multilabel), not for task=regress",
      read { task = "regress" })
    fails.returning("config", "not for task=tokens",
      sr.data.read { task = "tokens", files = CLASSES, out = "x.sqr", vocab = task_model.VOCAB, windows = true })
    local path = sr.must(read {}).train:info().path
    fails.returning("data", "its texts are cut in windows; say how they count together",
      read { train = path, windows = false })
    fails.returning("data", "its texts are not cut in windows", read { train = folder .. "/whole.sqr" })
    fails.exiting(2, "data.windows cuts single texts; leave it out, or columns.pair", { "recipes/finetune.lua",
      "task=pair", "init.from=" .. folder .. "/base", "data.train=" .. CLASSES, "data.windows=mean", "--dry-run" })
    fails.exiting(2, "but with data.weights each is a source; leave one of them out", { "recipes/finetune.lua",
      "task=classify", "init.from=" .. folder .. "/base", ("data.train=[%s,%s]"):format(CLASSES, SETS),
      "data.weights=[1,2]", "data.windows=mean", "--dry-run" })
  end)
end)

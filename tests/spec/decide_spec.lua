-- Temperature and thresholds of a run: fitted in its evaluations, or later by eval --fit; used by eval and predict.

local draws = require("tests.support.draws")
local fails = require("tests.support.fails")
local files = require("tests.support.task_files")
local json = require("seqrun.core.json")
local predicted = require("tests.support.predicted")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local folder = program.folder()
local base = files.encoder(folder .. "/base")

---Rows of texts with few positive ones: those with hot words, one in ten labelled wrongly.
local function write(name, seed, count, label_of)
  local pick, rows = draws(seed), {}
  for i = 1, count do
    local words, hot = {}, pick(4) == 0
    for k = 1, 6 + pick(6) do words[k] = "w" .. 25 + pick(70) end
    if hot then words[1 + pick(#words)] = "w" .. 5 + pick(3) end
    rows[i] = json.encode { text = table.concat(words, " "), label = label_of((pick(10) == 0) ~= hot, pick) }
  end
  return program.write(folder, name .. ".jsonl", table.concat(rows, "\n") .. "\n")
end

local function binary(positive) return positive and "yes" or "no" end
local function several(positive, pick)
  local list = json.array {}
  if positive then list[1] = "hot" end
  if pick(3) == 0 then list[#list + 1] = "any" end
  return list
end

local data = {
  classify = { train = write("train", 1, 240, binary), dev = write("dev", 2, 160, binary) },
  multilabel = { train = write("sets", 3, 240, several), dev = write("sets_dev", 4, 160, several) },
}

local function words(task, out, ...)
  return {
    "recipes/finetune.lua", "task=" .. task, "data.train=" .. data[task].train, "data.dev=" .. data[task].dev,
    "data.folder=" .. folder .. "/sets", "init.from=" .. base, "data.max_len=32", "rate.peak=3e-3", "epochs=3",
    "--out", folder .. "/" .. out, ...,
  }
end

local function eval(dir, file, ...)
  return program.json { "eval", folder .. "/" .. dir, file, "data.folder=" .. folder, "--json", ... }
end

describe("temperature and threshold of two classes", function()
  local dev = data.classify.dev
  it("are fitted by the run, kept with the last and the best weights, and used by eval and predict alike", function()
    local out = program.ok(words("classify", "run", "decide.threshold=f1", "decide.temperature=true", "save.best=f1"))
    assert.matches("decided by temperature %d.%d+, 'yes' from a probability of 0.%d+ %(f1, fitted on 160 items%)",
      (out:gsub("%s+", " ")))
    local lines = small.metrics(folder .. "/run", "eval")
    local last = lines[#lines]
    assert.is_true(last.f1 >= last.f1_at_half and last.f1 > 0)
    for _, dir in ipairs { "run", "run/best" } do
      local found = eval(dir, dev)
      local decide = found.heads[1].decide
      if dir == "run" then
        for _, name in ipairs { "f1", "f1_at_half", "accuracy", "roc_auc" } do
          assert.near(last[name], found.metrics[name], 1e-12)
        end
      end
      local predictions = predicted(folder .. "/" .. dir, dev)
      for _, one in ipairs(predictions.said) do
        assert.equal(one.label == "yes", one.probabilities.yes >= decide.thresholds[1])
      end
      assert.equal(predictions.f1, found.metrics.f1)
      assert.matches("decided by temperature", predictions.told)
    end
  end)

  it("go with an export, whose card says so, and not with the encoder alone or an average", function()
    program.ok { "export", folder .. "/run", folder .. "/out" }
    local config = json.decode(sr.must(sys.read_file(folder .. "/out/config.json")))
    assert.equal(160, config.seqrun_decide.label.items)
    local card = sr.must(sys.read_file(folder .. "/out/README.md"))
    assert.matches("Decided by temperature [^\n]*'yes' from a probability of", card)
    local found, exported = eval("run", dev), eval("out", dev, "data.max_len=32")
    assert.equal(found.metrics.f1, exported.metrics.f1)
    assert.same(found.heads[1].decide, exported.heads[1].decide)
    program.ok { "export", folder .. "/run", folder .. "/encoder", "--encoder" }
    assert.is_nil(sys.read_file(folder .. "/encoder/config.json"):find("seqrun_decide"))
  end)

  it("can be fitted later, again, and taken away, without touching the checkpoint", function()
    program.ok(words("classify", "plain"))
    local plain = eval("plain", dev)
    assert.same({ nil, nil }, { plain.metrics.f1_at_half, plain.heads[1].decide })
    local fitted = eval("plain", dev, "--fit", "decide.threshold=f1")
    assert.same({ plain.metrics.f1, plain.metrics.roc_auc }, { fitted.metrics.f1_at_half, fitted.metrics.roc_auc })
    assert.is_true(fitted.metrics.f1 >= plain.metrics.f1)
    assert.is_nil(fitted.heads[1].decide.temperature)
    assert.equal(fitted.metrics.f1, eval("plain", dev).metrics.f1)
    local newest = sr.must(sr.checkpoint.latest(folder .. "/plain"))
    assert(sr.checkpoint.verify(newest))
    local precise = eval("plain", dev, "--fit", "decide.threshold=precision:0.3")
    local class = precise.heads[1].classes[2]
    assert.is_true(class.precision >= 0.3 and class.recall >= fitted.heads[1].classes[2].recall * 0.5)
    local cooler = eval("plain", dev, "--fit", "decide.temperature=true")
    assert.is_nil(cooler.metrics.f1_at_half)
    assert.equal(plain.metrics.f1, cooler.metrics.f1)
    assert.is_true(cooler.heads[1].calibration.without == plain.heads[1].calibration.error)
    assert.same(plain.metrics, eval("plain", dev, "--fit", "decide.threshold=none").metrics)
    for given, text in pairs {
      ['"items": 9, "thresholds": [2]'] = "decide.json: 'label' has a threshold that is not from 0 to 1; correct it",
      ['"items": 9, "thresholds": 0.5'] = "decide.json: 'label' has thresholds that are not a list",
      ['"items": 9, "rule": 1'] = "decide.json: 'label' has a rule that is not text",
      ['"temperature": 2'] = "decide.json: 'label' does not say on how many items it was fitted",
      ['"items": 9, "thresholds": [0.5, 0.4]'] = "'label' has 2 thresholds for 2 outputs; remove it (decide.json, or",
    } do
      sr.must(sys.write_file(newest .. "/decide.json", '{"label": {' .. given .. "}}"))
      fails.exiting(3, text, { "predict", folder .. "/plain", dev })
    end
    os.remove(newest .. "/decide.json")
  end)

  it("are not those of later weights: a checkpoint between evaluations has none; a resume gives the same", function()
    local function run(out, ...)
      program.ok(words("classify", out, "decide.threshold=f1", "epochs=2", "eval.every=5", "eval.epochs=0",
        "save.every=3", "save.keep=20", ...))
    end
    run("whole")
    run("cut", "--max-steps", "7")
    run("cut", "--resume")
    local whole, cut = small.metrics(folder .. "/whole", "eval"), small.metrics(folder .. "/cut", "eval")
    assert.equal(whole[#whole].f1, cut[#cut].f1)
    for _, one in ipairs(sr.must(sr.checkpoint.list(folder .. "/whole"))) do
      local has = sys.read_file(one.path .. "/config.json"):find("seqrun_decide") ~= nil
      assert.equal(one.step % 5 == 0 or one.step == whole[#whole].step, has)
    end
  end)

  it("are refused where they mean nothing", function()
    local function refused(text, task, ...) fails.exiting(2, text, words(task, "none", "--dry-run", ...)) end
    refused("decide.threshold is 'best'; give f1, or a precision", "classify", "decide.threshold=best")
    refused("decide.threshold is 'precision:90'; give f1", "classify", "decide.threshold=precision:90")
    refused("with eval.average a checkpoint has others", "classify", "decide.threshold=f1", "optimizer.average=0.9",
      "eval.average=true")
    refused("nothing is held out; set data.dev or data.held", "classify", "decide.temperature=true", "data.dev=none",
      "data.held=0")
    local dir = folder .. "/plain"
    local function fit(code, text, ...)
      fails.exiting(code, text, { "eval", dir, dev, "data.folder=" .. folder, ... })
    end
    fit(2, "--fit: say what to fit, decide.threshold=f1", "--fit")
    fit(2, "decide.* says what --fit fits; give --fit", "decide.threshold=f1")
    fit(2, "--fit is for the weights of a directory", "--fit", "--average", "decide.threshold=f1")
    fit(3, "no threshold of 'yes' reaches precision:1; the best precision is 0.%d+; nothing is written", "--fit",
      "decide.threshold=precision:1")
    dev = program.write(folder, "no.jsonl", '{"text":"w30 w31","label":"no"}\n{"text":"w32","label":"no"}\n')
    fit(3, "no item is 'yes', so there is no threshold to fit", "--fit", "decide.threshold=f1")
    dev = program.write(folder, "yes.jsonl", '{"text":"w30 w31","label":"yes"}\n{"text":"w32","label":"yes"}\n')
    fit(3, "every item is 'yes', so there is no threshold to fit", "--fit", "decide.threshold=f1")
    local unlabelled = program.write(folder, "texts.jsonl", '{"text":"w30 w31"}\n')
    fails.exiting(3, "label", { "eval", dir, unlabelled, "data.folder=" .. folder, "--fit", "decide.threshold=f1" })
    assert.is_false(sys.exists(sr.must(sr.checkpoint.latest(dir)) .. "/decide.json"))
  end)
end)

it("the thresholds of labels are those of each, and few positive items a warning", function()
  local dev = data.multilabel.dev
  local out = program.ok(words("multilabel", "labels", "decide.threshold=f1"))
  assert.matches("decided by 'any' from a probability of 0.%d+, 'hot' from a probability of 0.%d+ %(f1",
    (out:gsub("%s+", " ")))
  local found = eval("labels", dev)
  assert.is_true(found.metrics.f1_macro >= found.metrics.f1_macro_at_half)
  assert.equal(predicted(folder .. "/labels", dev).accuracy, found.metrics.accuracy)
  local rare = program.write(folder, "rare.jsonl", '{"text":"w30 w31","label":["hot"]}\n{"text":"w32","label":[]}\n')
  local told = program.ok { "eval", folder .. "/labels", rare, "data.folder=" .. folder, "--fit" }
  assert.matches("warning: only 1 of 2 items is 'hot', too few to trust its threshold\n", told)
  assert.matches("warning: no item is 'any', so its threshold stays 0.5\n", told)
end)

it("values and many classes have no threshold", function()
  local rows = { "text,label" }
  for i = 1, 30 do rows[i + 1] = ("w%d w%d,%d"):format(i + 20, i + 40, i % 3) end
  local file = program.write(folder, "three.csv", table.concat(rows, "\n") .. "\n")
  for task, text in pairs {
    regress = "decide.threshold is for classify, pair and multilabel; task=regress predicts no probabilities",
    classify = "decide.threshold: of 3 classes (0, 1, 2) the most probable one is predicted",
  } do
    fails.exiting(2, text, { "recipes/finetune.lua", "task=" .. task, "data.train=" .. file, "init.from=" .. base,
      "data.folder=" .. folder, "data.max_len=32", "decide.threshold=f1", "--dry-run", "--out", folder .. "/x" })
  end
end)

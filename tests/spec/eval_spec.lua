-- The command eval: metrics of a checkpoint on labelled files, as the run that made it reads them.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

describe("the command eval", function()
  local dir, model, file, gold, guess
  setup(function()
    dir = program.folder()
    local bert = task_model.new(sr.nn.heads.classify { labels = { "no", "yes" } })
    model = task_model.save(dir .. "/model", bert)
    local predictor = sr.predict.new(bert, { tokenizer = task_model.tokenizer(), max_len = 64 })
    local words, rows = task_model.words(), { "answer\tsentence" }
    gold, guess = {}, {}
    for i = 1, 40 do
      local text = ("%s %s %s"):format(words[i], words[i * 3 % #words + 1], words[i * i % #words + 1])
      gold[i], guess[i] = i % 3 == 0 and 1 or 0, predictor:one(text).label == "yes" and 1 or 0
      rows[i + 1] = ("%s\t%s"):format(gold[i] == 1 and "yes" or "no", text)
    end
    file = program.write(dir, "test.tsv", table.concat(rows, "\n") .. "\n")
  end)

  local function eval(...)
    local columns = { "columns.text=sentence", "columns.label=answer" }
    return program.run { "eval", model, file, "data.folder=" .. dir, columns[1], columns[2], ... }
  end

  it("prints metrics, classes, the confusion matrix, calibration and the worst mistakes", function()
    local code, out, err = eval("--mistakes", "2")
    assert.same({ 0, true }, { code, err:find("40 examples", 1, true) ~= nil })
    assert.matches(("accuracy %.3f, f1 "):format(sr.scores.accuracy(gold, guess)), out)
    assert.matches("\n  class +precision +recall +f1 +count +predicted\n  no ", out)
    assert.matches("\n  confusion matrix: rows are labels, columns are predictions\n +no +yes\n  no +%d+ +%d+\n", out)
    assert.matches("calibration error 0%.%d+", out)
    assert.matches("\n    " .. file:gsub("%p", "%%%0") .. ":%d+  label %a+, predicted %a+ %(0%.%d+%)\n      %w", out)
    local _, mistakes = out:gsub("label %a+, predicted", "")
    assert.equal(2, mistakes)
  end)

  it("and predict truncate alike: to data.max_len of the run that trained the model", function()
    local bert, folder = task_model.new(sr.nn.heads.classify { labels = { "no", "yes" } }), dir .. "/short"
    task_model.save(folder, bert, { files = { ["trainer/config.yaml"] = "data:\n  max_len: 8\n" } })
    local long = table.concat(task_model.words(), " ", 1, 30)
    local out, err = program.ok({ "predict", folder }, { input = long .. "\n" })
    assert.matches("1 text was truncated to 8 tokens", err)
    local whole = select(2, program.run({ "predict", folder, "--max-len", "32" }, { input = long .. "\n" }))
    assert.are_not.equal(whole, out)
    assert.equal(8, sr.must(sr.predict.open(folder)).max_len)
    local rows = program.write(dir, "long.tsv", "answer\tsentence\nno\t" .. long .. "\n")
    local told = program.ok { "eval", folder, rows, "data.folder=" .. dir, "columns.text=sentence",
      "columns.label=answer", "--json" }
    local found = json.decode(out)
    assert.near(-math.log(found.label == "no" and found.probability or 1 - found.probability),
      json.decode(told).metrics.label_loss, 1e-4)
  end)

  it("scores each of two heads, whatever keys its recipe had; export says that they stay beside the encoder", function()
    local heads = sr.nn.heads
    local bert = task_model.new(heads.classify { labels = { "no", "yes" } },
      heads.tokens { labels = { "X", "Y" }, prefix = "tags_" })
    local folder = dir .. "/two"
    task_model.save(folder, bert, { files = {
      ["trainer/config.yaml"] = "data:\n  nsp: true\n  max_len: 8\nrate:\n  total: 4\n  by: step\nmask:\n  p: 0.15\n",
    } })
    local texts = program.write(dir, "two.jsonl", '{"text":"the cat","label":"no"}\n{"text":"a dog","label":"yes"}\n')
    local tags = program.write(dir, "tags.jsonl", '{"tokens":["a","dog"],"tags":["X","Y"]}\n')
    local out, err = program.ok { "eval", folder, texts, "data.folder=" .. dir }
    assert.matches("scoring the head label of label, tags; %-%-head chooses another", err)
    assert.matches("\n  label loss %d", out)
    out = program.ok { "eval", folder, tags, "--head", "tags", "data.folder=" .. dir }
    assert.matches("\n  tags loss %d", out)
    assert.matches("has no head 'tag'; its heads are label, tags",
      select(3, program.run { "eval", folder, tags, "--head", "tag" }))
    assert.matches("command line: unknown key 'nspp'", select(3, program.run { "eval", folder, texts, "nspp=1" }))

    out = program.ok { "export", folder, dir .. "/two_exported" }
    assert.matches("no class with the heads label, tags", (out:gsub("%s+", " ")))
    out = program.ok { "eval", dir .. "/two_exported", tags, "--head", "tags", "data.folder=" .. dir }
    assert.matches("tags loss", out)
  end)

  it("says of data of one class that they show little, not that the model has not learned", function()
    local scores = sr.scores
    local function text(labels)
      return require("seqrun.scores.report").text({ heads = { {
        head = { kind = "classify", name = "label", outputs = 2, labels = { "no", "yes" } },
        details = { confusion = scores.confusion(labels, { 1, 1 }, 2) }, items = {},
      } }, loader = { data = {} } }, 0)
    end
    assert.matches("all 2 items are of the class 'yes': score data of several classes", text { 1, 1 })
    assert.matches("all 2 predictions are 'yes': the model has not learned", text { 0, 1 })
  end)

  it("fits 80 columns with many classes and long texts, without control characters", function()
    local report, scores = require("seqrun.scores.report"), sr.scores
    for _, classes in ipairs { 2, 9, 15 } do
      local names, labels = {}, {}
      for i = 1, classes do names[i], labels[i] = ("é"):rep(3 * i) .. "\27[1m", i - 1 end
      local guesses = { table.unpack(labels, 2) }
      guesses[classes] = 0
      local entry = {
        head = { kind = "classify", name = "label", outputs = classes, labels = names },
        items = { { uid = 1, wrong = true, p = 0.9, gold = 0, guess = 1 } },
        details = { confusion = scores.confusion(labels, guesses, classes),
          calibration = scores.calibration({ 0.9, 0.4 }, { true, false }) },
      }
      local corpus = {
        place = function() return "a.csv:7" end, columns = function() return { { name = "text" } } end,
        column = function() return ("the wörd\27 "):rep(60) .. ("x"):rep(200) end,
      }
      local loader = { data = corpus, origin = function() return { example = 1 } end }
      local out = report.text({ heads = { entry }, loader = loader }, 3)
      for line in out:gmatch("[^\n]+") do assert.is_true(utf8.len(line) <= 80, line) end
      assert.is_nil(out:find("\27"))
      assert.matches("a.csv:7.*\n      the wörd", out)
      assert.equal(classes < 15, out:find("confusion matrix", 1, true) ~= nil)
      assert.equal(classes == 15, out:find("predicted instead", 1, true) ~= nil)
    end
  end)

  it("gives the same as JSON", function()
    local report = json.decode((program.works(eval("--json"))))
    assert.near(sr.scores.matthews(gold, guess), report.metrics.matthews, 1e-12)
    assert.equal("yes", report.heads[1].f1_class)
    assert.matches("\n  f1 and average precision are those of the class 'yes'\n", select(2, eval()))
    assert.same({ "no", "yes" }, { report.heads[1].classes[1].name, report.heads[1].classes[2].name })
    assert.same(sr.scores.confusion(gold, guess, 2)[1], { table.unpack(report.heads[1].confusion[1]) })
  end)

  it("refuses labels that the model does not have, and a missing column", function()
    local other = program.write(dir, "other.csv", "text,label\nthe,maybe\n")
    program.refuses(3, "other.csv:2: unknown label 'maybe'; the labels are no, yes; correct the file, or set "
      .. "data.bad=skip to leave such rows out\n$",
      program.run { "eval", model, other, "data.folder=" .. dir, "--json" })
    fails.exiting(3, "no column 'text'", { "eval", model, file, "data.folder=" .. dir })
    fails.exiting(2, "did you mean 'columns'", { "eval", model, file, "colums.text=sentence" })
    fails.exiting(2, "no file to score on", { "eval", model, "columns.text=sentence" })
  end)

  it("scores a pretrained checkpoint on text, which is nothing to label", function()
    local corpus = small.corpus(dir)
    local text = dir .. "/text.sqr"
    sr.must(sr.data.prepare { inputs = { dir .. "/corpus.txt" }, vocab = task_model.VOCAB, out = text })
    fails.exiting(3, "^seqrun: %S+text.sqr is a data set of text, without examples and labels; give labelled files",
      { "eval", model, text })
    local out = dir .. "/run"
    assert.equal(0, (program.run(small.words(corpus, "--out", out, "--max-steps", "1", "data.nsp=true"))))
    local told = program.json { "eval", out, corpus, "--json", "--max-len", "48" }
    local line = told.metrics
    assert.equal("held", told.part)
    assert.same({ "number", "number" }, { type(line.mlm_loss), type(line.nsp_accuracy) })
    assert.is_true(line.masked > 0)
    sys.remove(out)
  end)

  it("gives what the run measured, with its masks and its held-out part", function()
    local corpus, out = small.corpus(dir), dir .. "/run"
    program.ok(small.words(corpus, "--out", out, "--max-steps", "2", "eval.updates=0", "mask.prob=0.2", "seed=7"))
    local lines = sr.must(sr.metrics.read(out))
    local line = program.json({ "eval", out, corpus, "--json" }).metrics
    for _, name in ipairs { "mlm_loss", "mlm_accuracy", "nsp_loss", "unigram_loss" } do
      assert.near(lines[#lines][name], line[name], 1e-5, name)
    end
    assert.matches("its held%-out part: %d+ masked tokens\n  mlm loss .*, unigram model ",
      select(2, program.run { "eval", out, corpus }))
    assert.matches("its training part: [%d,]+ masked tokens\n",
      select(2, program.run { "eval", out, corpus, "--part", "train" }))
    assert.equal(0, (program.run { "export", out, dir .. "/exported" }))
    assert.matches("corpus.sqr: [%d,]+ masked tokens\n.*note: scored the whole data set, .*%-%-part held",
      select(2, program.run { "eval", dir .. "/exported", corpus }))
    local whole = program.json { "eval", out, corpus, "--part", "train", "mask.prob=0.4", "--json" }
    assert.equal("train", whole.part)
    assert.is_true(whole.metrics.masked > 5 * line.masked)
  end)

  it("scores a pretrained checkpoint on text, tables and fixed examples", function()
    local out = dir .. "/run"
    local function metrics(...) return program.json({ "eval", out, "--json", ... }).metrics end
    local text = metrics(dir .. "/corpus.txt")
    assert.is_true(text.masked > 1000 and type(text.nsp_loss) == "number")
    local reviews = program.write(dir, "reviews.csv", "review,stars\nthe cat sees the dog,1\n,2\nthe river,3\n")
    local rows = metrics(reviews, "columns.text=review")
    assert.same({ true, nil }, { rows.masked >= 2, rows.nsp_loss })
    local set, corpus = dir .. "/fixed.sqr", sr.must(sr.data.open(dir .. "/corpus.sqr"))
    local examples = { { text = "the cat sees", label = 0 }, { text = "a dog", label = 1 } }
    sr.must(sr.data.write { out = set, vocab = corpus:tokenizer(), examples = examples })
    assert.is_nil(metrics(set).nsp_loss)
    assert.same({}, { sr.must(sys.list(dir))[1]:match("^%.tmp") })
  end)

  it("scores the pretraining heads beside a head that only its recipe knows", function()
    local config = json.decode(sr.must(sys.read_file("tests/data/model/tiny/config.json")))
    local function own(encoder)
      local specs, add = sr.nn.specs(0.02)
      add.linear("own", 1, encoder.config.hidden_size)
      return { name = "own", specs = specs, loss = function() end }
    end
    config.architectures, config.heads = nil, { "mlm", own }
    local path = task_model.save(dir .. "/own", sr.nn.bert(config):initialise(3))
    assert.same({ "mlm" }, sr.must(sr.checkpoint.pretrained(path)).heads)
    local reviews = program.write(dir, "own.csv", "text\nthe cat sees the dog\n")
    assert.equal("number", type(program.json({ "eval", path, reviews, "--json" }).metrics.mlm_loss))
  end)

  it("says what it cannot score a pretrained checkpoint on", function()
    local out = dir .. "/run"
    local function refused(code, words, ...)
      assert.equal("", (fails.exiting(code, words, { "eval", out, ... })))
    end
    refused(3, "no such file; did you mean '.*/corpus.sqr'", dir .. "/corpus.sq")
    refused(3, "a vocabulary, nothing to score on", dir .. "/corpus.vocab.txt")
    refused(2, "did you mean 'prob'", dir .. "/corpus.sqr", "mask.porb=0.3")
    refused(2, "corpus.sqr is given twice", dir .. "/corpus.sqr", dir .. "/corpus.sqr")
    refused(3, "", dir .. "/reviews.csv", "columns.text=reviw")
  end)
end)

it("a model with NaN is refused by what predicts, with the tensor", function()
  local dir = program.folder()
  local bert = task_model.new(sr.nn.heads.classify { labels = { "a", "b" } })
  bert.params:set("classifier.bias", { 0, 0 / 0 })
  local path = task_model.save(dir .. "/model", bert)
  local file = program.write(dir, "dev.csv", "text,label\nthe,a\nof,b\n")
  for _, verb in ipairs { "predict", "eval" } do
    program.refuses(3, "the weights contain NaN or infinity, first in 'classifier.bias'; use an earlier checkpoint",
      program.run { verb, path, file, "columns.text=text" })
  end
end)

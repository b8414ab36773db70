-- Metrics of an evaluation are those of the predictions for each text alone, however sequences are packed.

local evaluate = require("seqrun.run.evaluation.evaluate")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local task_model = require("tests.support.task_model")

local heads, scores = sr.nn.heads, sr.scores
local text = task_model.text

describe("an evaluation", function()
  local dir
  before_each(function() dir = program.folder() end)

  ---The data set of some records, as JSON lines or a given file.
  local function read(task, records, options)
    local lines = {}
    for i, record in ipairs(records) do lines[i] = json.encode(record) end
    local given = {
      task = task, files = { program.write(dir, "data.jsonl", table.concat(lines, "\n") .. "\n") },
      out = dir .. "/data.sqr", vocab = task_model.VOCAB, columns = { text = "text", label = "label" },
    }
    sr.must(sr.data.read(require("tests.support.with")(given, options)))
    return sr.must(sr.data.open(dir .. "/data.sqr", { held = 0 }))
  end

  local function metrics(bert, options)
    options.max_len, options.epochs, options.prefetch = 64, not options.order and 1 or nil, 0
    local loader <close> = sr.must(sr.data.loader(options))
    local line, order, scoring = evaluate.run(bert, loader, { from = loader:cursor(), updates = 0 })
    return line, order, scoring
  end

  local function predictor(bert)
    return sr.predict.new(bert, { tokenizer = task_model.tokenizer(), max_len = 64 })
  end

  it("has the metrics of a head's own score() besides those of its kind", function()
    local records = {}
    for i = 1, 30 do records[i] = { text = text(i % 9 + 1, i), label = i % 3 == 0 and "yes" or "no" } end
    local corpus, own = read("classify", records, { labels = { "no", "yes" } }), {}
    local bert = task_model.new(heads.classify { labels = { "no", "yes" } })
    local head = bert.heads[1]
    function head.score(_, predictions, labels)
      own.gold, own.guess = labels, predictions
      return { yes = scores.f1(labels, predictions) }
    end
    local line, order = metrics(bert, { data = corpus, targets = { "label" } })
    assert.same({ 30, 30 }, { #own.gold, #own.guess })
    assert.same({ line.f1, "yes" }, { line.yes, order[1].scores[#order[1].scores] })
    assert.equal(scores.confusion(own.gold, own.guess, 2):accuracy(), line.accuracy)
    head.score = function() return 0.5 end
    assert.error_matches(function() metrics(bert, { data = corpus, targets = { "label" } }) end,
      "the head 'label': score.* %(tests/spec/scoring_spec.lua:%d+%) must return { metric = number }, but returned 0.5")
    for metric, value in pairs { accuracy = 1, label_loss = 0, step = 1, yes = false } do
      head.score = function() return { [metric] = value or nil } end
      local ok, problem = pcall(metrics, bert, { data = corpus, targets = { "label" } })
      assert.equal(not value, ok)
      if value then assert.matches(metric .. ", which is reported already and would be replaced", problem) end
    end
    for i, record in ipairs(records) do record.label = i % 4 end
    bert, corpus = task_model.new(heads.regress {}), read("regress", records)
    bert.params:set("classifier.weight", 0) -- all predictions are equal: there is no correlation
    bert.heads[1].score = function() return { pearson = 1 } end
    assert.error_matches(function() metrics(bert, { data = corpus, targets = { "label" } }) end, "returned pearson")
  end)

  it("needs a prediction for each item of a head of one's own", function()
    local records = {}
    for i = 1, 9 do records[i] = { text = text(i, i), label = i % 3 == 0 and "yes" or "no" } end
    local corpus = read("classify", records, { labels = { "no", "yes" } })
    local bert = task_model.new(heads.classify { labels = { "no", "yes" } })
    local head, given = bert.heads[1], { 1, 2 }
    function head.score(_, predictions) return { predicted = #predictions } end
    function head.predict(_, _, target)
      if given == 9 then return target.labels:totable() end
      return given
    end
    local function run() return metrics(bert, { data = corpus, targets = { "label" } }) end
    assert.error_matches(run, "predict.* %(tests/spec/scoring_spec.lua:%d+%) returned 2 values for 9 items")
    given = nil
    assert.error_matches(run, "returned nil for 9 items")
    given = 9
    local line, order = run()
    assert.same({ 9, { "predicted" } }, { line.predicted, order[1].scores })
  end)

  it("of classes has accuracy, F1 and Matthews", function()
    local names, records, gold, guess, p = { "no", "yes" }, {}, {}, {}, {}
    local bert = task_model.new(heads.classify { labels = names })
    for i = 1, 30 do records[i] = { text = text(i % 9 + 1, i), label = names[i * i % 5 % 2 + 1] } end
    local corpus = read("classify", records, { labels = names })
    for i, result in ipairs((function()
      local list = {}
      for result in predictor(bert):each(records) do list[#list + 1] = result end
      return list
    end)()) do
      gold[i], guess[i] = records[i].label == "yes" and 1 or 0, result.label == "yes" and 1 or 0
      p[i] = result.probabilities.yes
    end
    for _, arrange in ipairs { "packed", "padded", "single" } do
      local options = { data = corpus, sequences = 7, by = "sequences", targets = { "label" }, arrange = arrange }
      local line, order, scoring = metrics(bert, options)
      assert.near(scores.accuracy(gold, guess), line.accuracy, 1e-12)
      assert.near(scores.f1(gold, guess), line.f1, 1e-12)
      assert.near(scores.f1(gold, guess, "macro"), line.f1_macro, 1e-12)
      assert.near(scores.matthews(gold, guess), line.matthews, 1e-12)
      assert.near(line.label_accuracy, line.accuracy, 1e-12)
      assert.near(scores.roc_auc(gold, p), line.roc_auc, 1e-12)
      assert.near(scores.average_precision(gold, p), line.average_precision, 1e-12)
      assert.same({ "accuracy", "f1", "matthews", "roc_auc", "average_precision", "f1_macro" }, order[1].scores)
      assert.equal(30, scoring.heads[1].details.confusion.total)
    end
  end)

  it("of classes and of labels has the mean of each against the others, and says what is not defined; of sets of "
    .. "labels, F1 over all decisions", function()
    for _, task in ipairs { "classify", "multilabel" } do
      local names, records, sums, gold, p = { "a", "b", "c", "none" }, {}, { 0, 0 }, {}, {}
      local sets, guesses, several = {}, {}, task == "multilabel"
      local bert = task_model.new(heads[task] { labels = names })
      for k = 1, 3 do gold[k], p[k] = {}, {} end
      for i = 1, 24 do
        local label, second = names[i * i % 7 % 3 + 1], several and i % 3 == 0 and "c" or nil
        records[i] = { text = text(i % 9 + 1, i), label = several and { label, second } or label }
        local result = predictor(bert):one(records[i].text)
        sets[i], guesses[i] = {}, {}
        for k, name in ipairs(names) do
          sets[i][k] = (name == label or name == second) and 1 or 0
          guesses[i][k] = result.probabilities[name] >= 0.5 and 1 or 0
          if k < 4 then gold[k][i], p[k][i] = sets[i][k], result.probabilities[name] end
        end
      end
      for k = 1, 3 do
        sums[1] = sums[1] + scores.roc_auc(gold[k], p[k]) / 3
        sums[2] = sums[2] + scores.average_precision(gold[k], p[k]) / 3
      end
      local corpus = read(task, records, { labels = names })
      local line, _, scoring = metrics(bert, { data = corpus, sequences = 7, targets = { sr.tasks[task].target } })
      assert.near(sums[1], line.roc_auc, 1e-12)
      assert.near(sums[2], line.average_precision, 1e-12)
      if several then
        assert.near(scores.multilabel_f1(sets, guesses), line.f1, 1e-12)
        assert.near(scores.multilabel_f1(sets, guesses, "macro"), line.f1_macro, 1e-12)
        assert.near(scores.multilabel_accuracy(sets, guesses), line.accuracy, 1e-12)
      end
      local told = require("seqrun.scores.report").text(scoring, 0)
      assert.matches("needs items with and without a label; it is not defined for none\n", told)
      assert.matches("\n  none +%- +%-\n", told)
    end
    local one = {}
    for i = 1, 5 do one[i] = { text = text(i, i), label = "no" } end
    local bert = task_model.new(heads.classify { labels = { "no", "yes" } })
    local corpus = read("classify", one, { labels = { "no", "yes" } })
    local line, order, scoring = metrics(bert, { data = corpus, sequences = 2, targets = { "label" } })
    assert.same({ nil, nil }, { line.roc_auc, line.average_precision })
    assert.same({ "accuracy", "f1", "matthews", "f1_macro" }, order[1].scores)
    assert.is_true(scoring:undefined().roc_auc)
  end)

  it("of values has Pearson and Spearman", function()
    local records, gold, guess = {}, {}, {}
    local bert = task_model.new(heads.regress { outputs = 1 })
    for i = 1, 20 do
      records[i] = { text = text(i % 9 + 1, i), label = i * 7 % 11 / 2 }
      gold[i], guess[i] = records[i].label, predictor(bert):one({ text = records[i].text }).value
    end
    local line = metrics(bert, { data = read("regress", records), sequences = 6, targets = { "label" } })
    assert.near(scores.pearson(gold, guess), line.pearson, 1e-4)
    assert.near(scores.spearman(gold, guess), line.spearman, 1e-12)
  end)

  it("of sets of at most one label is the same", function()
    local records, right = {}, 0
    local bert = task_model.new(heads.multilabel { labels = { "a" } })
    for i = 1, 12 do
      records[i] = { text = text(i % 9 + 1, i), label = i % 2 == 0 and { "a" } or require("seqrun.core.json").array {} }
      local guess = #predictor(bert):one({ text = records[i].text }).labels
      right = right + (guess == #records[i].label and 1 or 0)
    end
    local line = metrics(bert, { data = read("multilabel", records), sequences = 6, targets = { "labels" } })
    assert.near(right / 12, line.accuracy, 1e-12)
  end)

  it("of choices has the accuracy of questions", function()
    local records, hits = {}, 0
    local bert = task_model.new(heads.choice {})
    for i = 1, 12 do
      local item = { text = text(i % 5 + 1, i), choices = { text(2, i), text(4, i + 1), text(1, i + 2) } }
      local right = predictor(bert):one(item).choice
      local label = i % 3 == 0 and (right + 1) % 3 or right
      hits = hits + (label == right and 1 or 0)
      records[i] = { text = item.text, a = item.choices[1], b = item.choices[2], c = item.choices[3],
        label = tostring(label) }
    end
    local columns = { text = "text", choices = { "a", "b", "c" }, label = "label" }
    local corpus = read("choice", records, { columns = columns })
    local order = sr.data.groups(corpus, { groups = 5, epochs = 1 })
    local line = metrics(bert, { data = corpus, order = order, targets = { "answer", "group" } })
    assert.near(hits / 12, line.accuracy, 1e-12)
  end)

  it("of answers has exact match and F1, over the windows of a context", function()
    local bert, paragraphs, gold, guess = task_model.new(heads.squad {}), {}, {}, {}
    local answer = sr.predict.new(bert, { tokenizer = task_model.tokenizer(), max_len = 64, stride = 10 })
    for i = 1, 10 do
      local context, question = text(i * 9, i), text(3, i)
      local first = context:find(" ", 1, true) or 0
      local right = i % 4 > 0 and { { text = context:sub(first + 1, first + 12), answer_start = first } } or {}
      paragraphs[i] = {
        context = context,
        qas = { { id = "q" .. i, question = question, answers = json.array(right), is_impossible = #right == 0 } },
      }
      gold[i] = #right > 0 and { right[1].text } or {}
      guess[i] = answer:one({ question = question, context = context }).answer
    end
    local file = json.encode { version = "v2.0", data = { { title = "t", paragraphs = paragraphs } } }
    local corpus = read("squad", {}, { files = { program.write(dir, "dev.json", file) }, max_len = 64,
      stride = 10, query = 32 })
    local targets = { { name = "span", reads = "spans", outside = "cls" } }
    local line, _, scoring = metrics(bert, { data = corpus, sequences = 4, targets = targets })
    local wanted = scores.squad(guess, gold)
    assert.near(wanted.exact_match, line.exact_match, 1e-12)
    local answers = scoring.heads[1].details.answers
    assert.equal(10, answers.count)
    assert.is_true(answers.best.f1 >= wanted.f1 and answers.best.exact_match >= wanted.exact_match)
    local told = require("seqrun.scores.report").text(scoring, 0)
    assert.matches(("best null threshold  exact match %.2f %%%% with "):format(100 * answers.best.exact_match), told)
    assert.matches(("answerable +exact match %.2f %%%%, f1 %.2f %%%% of 8 questions"):format(
      100 * answers.answerable.exact_match, 100 * answers.answerable.f1), told)
    for i, item in ipairs(scoring.heads[1].items) do assert.same({ i, guess[i] }, { i, item.guess }) end
    assert.near(wanted.f1, line.f1, 1e-12)
  end)
end)

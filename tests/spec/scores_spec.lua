-- Metrics of predictions equal those of scikit-learn, SciPy, seqeval and the official SQuAD definition.

local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local golden = json.decode(sr.must(sys.read_file("tests/data/scores/golden.json")))
local scores = sr.scores

describe("a score", function()
  it("of classes equals scikit-learn's", function()
    for _, case in ipairs(golden.classes) do
      assert.near(case.accuracy, scores.accuracy(case.gold, case.guess), 1e-12)
      assert.near(case.matthews, scores.matthews(case.gold, case.guess), 1e-12)
      assert.near(case.f1_macro, scores.f1(case.gold, case.guess, "macro"), 1e-12)
      assert.near(case.f1_micro, scores.f1(case.gold, case.guess, "micro"), 1e-12)
      if case.f1_binary then assert.near(case.f1_binary, scores.f1(case.gold, case.guess), 1e-12) end
    end
  end)

  it("of sets of labels equals scikit-learn's", function()
    for _, case in ipairs(golden.multilabels) do
      assert.near(case.accuracy, scores.multilabel_accuracy(case.gold, case.guess), 1e-12)
      assert.near(case.micro, scores.multilabel_f1(case.gold, case.guess), 1e-12)
      assert.near(case.macro, scores.multilabel_f1(case.gold, case.guess, "macro"), 1e-12)
    end
  end)

  it("of correlation equals SciPy's, with ties and with very large and very small numbers", function()
    for _, case in ipairs(golden.correlations) do
      assert.near(case.pearson, scores.pearson(case.x, case.y), 1e-12)
      assert.near(case.spearman, scores.spearman(case.x, case.y), 1e-12)
    end
  end)

  it("of correlation is nil, not NaN, if one list is constant", function()
    assert.is_nil(scores.pearson({ 1, 2, 3 }, { 0.1, 0.1, 0.1 }))
    assert.is_nil(scores.spearman({ 2, 2 }, { 1, 3 }))
  end)

  it("of correlation is nil if a number is NaN or a sum infinite; nearly equal numbers are not constant", function()
    assert.is_nil(scores.pearson({ 1, 0 / 0, 3 }, { 1, 2, 3 }))
    assert.is_nil(scores.pearson({ 1, math.huge, 3 }, { 1, 2, 3 }))
    assert.is_nil(scores.spearman({ 1, 0 / 0, 2, 3, 5, 6, 7, 8, 0 / 0 }, { 1, 2, 3, 4, 5, 6, 7, 8, 9 }))
    assert.near(0.5, scores.spearman({ 1, math.huge, 2 }, { 1, 2, 3 }), 1e-12)
    assert.near(0, scores.pearson({ 1, 1 + 2 ^ -50, 1 }, { 1, 2, 3 }), 1e-3)
  end)

  it("of spans equals seqeval's, also in sequences that break the scheme", function()
    for _, case in ipairs(golden.spans) do
      local result = scores.spans(case.gold, case.guess)
      for _, key in ipairs { "precision", "recall", "f1" } do assert.near(case[key], result[key], 1e-12) end
    end
    local result = scores.spans({ { "B-PER", "I-PER", "O", "B-LOC" } }, { { "B-PER", "I-PER", "O", "O" } })
    assert.same({ 1, 1.0, 0.0 }, { result.types.PER.count, result.types.PER.f1, result.types.LOC.f1 })
  end)

  it("of answers equals the official SQuAD script's", function()
    local guesses, gold, exact, f1 = {}, {}, 0, 0
    for i, case in ipairs(golden.answers) do
      assert.equal(case.normal, require("seqrun.core.text").answer(case.guess))
      local e, f = scores.answer(case.guess, case.gold)
      assert.near(case.exact, e, 1e-12)
      assert.near(case.f1, f, 1e-12)
      guesses[i], gold[i], exact, f1 = case.guess, case.gold, exact + e, f1 + f
    end
    local result = scores.squad(guesses, gold)
    assert.near(exact / #gold, result.exact_match, 1e-12)
    assert.near(f1 / #gold, result.f1, 1e-12)
    assert.equal(#gold, result.answerable.count + result.unanswerable.count)
  end)

  it("of answers is best with the threshold of no other", function()
    local gold, guess, odds = {}, {}, {}
    for i = 1, 60 do
      gold[i] = i * 7 % 5 < 2 and {} or { "the word" .. i % 3 }
      guess[i], odds[i] = i % 4 == 0 and "another" or "word" .. i % 3, (i * 37 % 23 - 11) / 2 -- with ties
    end
    local found = scores.best_threshold(guess, gold, odds)
    local function with(threshold)
      local answers = {}
      for i = 1, #guess do answers[i] = odds[i] > threshold and "" or guess[i] end
      return scores.squad(answers, gold)
    end
    local most = { exact_match = 0, f1 = 0 }
    for threshold = -7, 7, 0.25 do
      local result = with(threshold)
      for name, value in pairs(most) do most[name] = math.max(value, result[name]) end
    end
    assert.near(most.exact_match, found.exact_match, 1e-12)
    assert.near(most.f1, found.f1, 1e-12)
    assert.near(most.exact_match, with(found.exact_threshold).exact_match, 1e-12)
    assert.near(most.f1, with(found.f1_threshold).f1, 1e-12)
    local nothing = scores.best_threshold({ "x", "y" }, { {}, {} }, { 1, 2 }) -- best is not to answer
    assert.same({ 1, true }, { nothing.exact_match, nothing.exact_threshold < 1 })
    assert.error_matches(function() scores.best_threshold({ "x" }, { {} }, {}) end, "1 questions, but 0 odds")
  end)

  it("of an answer survives any bytes", function()
    local answer = require("seqrun.core.text").answer
    assert.equal("", answer(""))
    assert.equal("b c", answer("\xff\xfea \xc3 the\0b\xe2\x80 C"):gsub("%z", "")  .. "")
    for byte = 0, 255 do assert.is_true(#answer(string.char(byte):rep(9)) <= 18) end
    assert.equal(("\u{2c65}"):rep(50), answer(("\u{23a}"):rep(50))) -- lower case that takes more bytes
  end)

  it("of calibration is the mean distance between confidence and accuracy", function()
    for _, case in ipairs(golden.calibrations) do
      local result = scores.calibration(case.p, case.hit)
      assert.near(case.error, result.error, 1e-12)
      assert.equal(10, #result.bins)
    end
  end)

  it("counts a confusion matrix, by label and prediction", function()
    local confusion = scores.confusion({ 0, 0, 1, 2 }, { 0, 1, 1, 1 }, 4)
    assert.same({ 1, 1, 0, 0 }, confusion[1])
    assert.same({ 0, 1, 0, 0 }, confusion[3])
    assert.equal(0.5, confusion:accuracy())
    assert.same({ precision = 1 / 3, recall = 1.0, f1 = 0.5, count = 1, predicted = 3 }, confusion:classes()[2])
  end)

  it("of more classes than a matrix is written out for is that of the same items under other numbers", function()
    local gold, guess, far, away = { 0, 1, 2, 3, 0, 1, 1 }, { 0, 1, 2, 0, 2, 1, 3 }, {}, {}
    for i = 1, #gold do far[i], away[i] = gold[i] * 1500, guess[i] * 1500 end
    local few, many = scores.confusion(gold, guess), scores.confusion(far, away)
    assert.same({ 4501, false, true }, { many.size, many.dense, few.dense })
    for _, name in ipairs { "accuracy", "macro_f1", "matthews" } do assert.equal(few[name](few), many[name](many)) end
    assert.same({ few:classes()[2], few[1][3] }, { many:classes()[1501], many[1][3001] })
    assert.same({ 0, 0 }, { many[7][8], many:classes()[7].count })
  end)

  it("of lists that do not fit names itself, the item and what was expected, at the line of its caller", function()
    local text = { "a", "b" }
    for _, case in ipairs {
      { function() scores.f1({ 0, 1 }, { 0 }) end, "scores.f1: 2 labels, but 1 predictions" },
      { function() scores.f1({ 0, 1 }, { 0 }, "micro") end, "scores.f1: 2 labels, but 1 predictions" },
      { function() scores.matthews({}, {}) end, "scores.matthews: no items to score" },
      { function() scores.pearson({ 1 }, { 1 }) end, "at least 2 items" },
      { function() scores.f1({ 1 }, { 1 }, "mikro") end, "did you mean 'micro'" },
      { function() scores.spans({ { "O" } }, { { "O", "O" } }) end, "1 tags, but 2" },
      { function() scores.squad({ "x" }, {}) end, "0 questions, but 1 answers" },
      { function() scores.f1(text, text) end, "scores.f1: label 1 is 'a'; labels are integers from 0" },
      { function() scores.f1(text, text, "macro") end, "scores.f1: label 1 is 'a'; labels are integers from 0" },
      { function() scores.matthews({ 0, 1 }, { 0, -1 }) end, "scores.matthews: prediction 2 is -1; labels are" },
      { function() scores.confusion({ 0, 0.5 }, { 0, 1 }) end, "scores.confusion: label 2 is 0.5; labels are" },
      { function() scores.confusion({ 0 / 0 }, { 0 }) end, "scores.confusion: label 1 is NaN; labels are" },
      { function() scores.confusion({ 2 }, { 0 }, 2) end,
        "scores.confusion: label 1 is 2, but there are 2 classes, from 0" },
      { function() scores.confusion({ 0 }, { 0 }, -1) end,
        "scores.confusion: size must be an integer from 1 to 1048576" },
      { function() scores.f1({ 0 }, { 0 }, "binary", "yes") end,
        "scores.f1: positive must be an integer >= 0, got 'yes'" },
      { function() scores.f1(nil, { 0 }) end, "scores.f1: labels must be a table, got nil" },
      { function() scores.accuracy("a", "b") end, "scores.accuracy: labels must be a table, got 'a'" },
      { function() scores.multilabel_f1({ { 0, 1 } }, { { 0 } }) end,
        "multilabel_f1: item 1 has 2 labels, but 1 predictions" },
      { function() scores.multilabel_f1({ { "a" } }, { { 1 } }) end,
        "multilabel_f1: item 1: expected zeros and ones, got 'a'" },
      { function() scores.multilabel_accuracy({ 1 }, { { 1 } }) end, "multilabel_accuracy: item 1: expected lists" },
      { function() scores.pearson(text, { 1, 2 }) end, "scores.pearson: element 1 must be a number, got 'a'" },
      { function() scores.spearman({ 1, 2 }, { 1, {} }) end,
        "scores.spearman: element 2 must be a number, got a table" },
      { function() scores.spans({ { 1 } }, { { "O" } }) end, "scores.spans: element 1 must be a string, got 1" },
      { function() scores.spans({ "O" }, { "O" }) end, "scores.spans: sequence 1 must be a table, got 'O'" },
      { function() scores.squad({ {} }, { { "x" } }) end, "scores.squad: answers: element 1 must be a string, got" },
      { function() scores.squad({ "x" }, { "x" }) end, "scores.squad: accepted answers must be a table, got 'x'" },
      { function() scores.best_threshold({ "x" }, { { "x" } }, text) end,
        "scores.best_threshold: odds: element 1 must be a number" },
      { function() scores.best_threshold({ "x" }, { { "x" } }, { "a" }) end,
        "best_threshold: odds: element 1 must be a number" },
      { function() scores.calibration({ "x" }, { true }) end,
        "scores.calibration: element 1 must be a number, got 'x'" },
      { function() scores.calibration({ 0 / 0 }, { true }) end, "scores.calibration: probability 1 is NaN" },
      { function() scores.calibration({ 1 }, { true }, 0) end,
        "scores.calibration: bins must be an integer from 1 to 10000, got 0" },
    } do
      assert.matches("scores_spec.lua:%d+: [^\n]*$", require("tests.support.fails").raising(case[2], case[1]))
    end
    assert.equal(0.5, scores.accuracy(text, { "a", "c" })) -- any values that can be equal
  end)
end)

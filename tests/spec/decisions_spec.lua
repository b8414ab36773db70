-- ROC-AUC, average precision, temperature and thresholds: what scores over all thresholds say, and what is fitted.

local decisions = require("seqrun.scores.decisions")
local draws = require("tests.support.draws")
local fails = require("tests.support.fails")
local sr = require("seqrun")
local sweep = require("seqrun.scores.sweep")

local scores = sr.scores

---Labels and scores with ties.
local function drawn(seed, count)
  local pick, gold, p = draws(seed), {}, {}
  for i = 1, count do gold[i], p[i] = pick(3) == 0 and 1 or 0, (1 + pick(9)) / 10 end
  gold[1], gold[2] = 1, 0
  return gold, p
end

local function counts(gold, p, threshold)
  local hits, predicted, positives = 0, 0, 0
  for i, one in ipairs(gold) do
    positives = positives + one
    if p[i] >= threshold then hits, predicted = hits + one, predicted + 1 end
  end
  return hits, predicted, positives
end

describe("over all thresholds", function()
  it("ROC-AUC is the share of pairs in the right order, and average precision the sum of that of gains of recall",
    function()
      for seed = 1, 30 do
        local gold, p = drawn(seed, 2 + seed)
        local right, pairs_, sum, before = 0, 0, 0, 0
        for i, a in ipairs(p) do
          for k, b in ipairs(p) do
            local weight = gold[i] * (1 - gold[k])
            right, pairs_ = right + weight * (a > b and 1 or a == b and 0.5 or 0), pairs_ + weight
          end
        end
        for tenth = 10, 1, -1 do
          local hits, predicted, positives = counts(gold, p, tenth / 10)
          if predicted > 0 then sum, before = sum + (hits / positives - before) * hits / predicted, hits / positives end
        end
        assert.near(right / pairs_, scores.roc_auc(gold, p), 1e-12)
        assert.near(sum, scores.average_precision(gold, p), 1e-12)
      end
    end)

  it("both are those of scikit-learn's manual, and undefined where a kind is missing", function()
    local gold, p = { 0, 0, 1, 1 }, { 0.1, 0.4, 0.35, 0.8 }
    assert.near(0.75, scores.roc_auc(gold, p), 1e-12)
    assert.near(5 / 6, scores.average_precision(gold, p), 1e-12)
    assert.same({ 0.5, 0.5 }, { scores.roc_auc({ 0, 1 }, { 3, 3 }), scores.average_precision({ 0, 1 }, { 3, 3 }) })
    assert.is_nil(scores.roc_auc({ 1, 1 }, { 0.2, 0.3 }))
    assert.equal(1.0, scores.average_precision({ 1, 1 }, { 0.2, 0.3 }))
    assert.is_nil(scores.roc_auc({ 0, 0 }, { 0.2, 0.3 }))
    assert.is_nil(scores.average_precision({ 0, 0 }, { 0.2, 0.3 }))
    for _, case in ipairs {
      { { 2, 0 }, { 1, 0 }, "scores.roc_auc: label 1 is 2, not 0 or 1" }, { {}, {}, "no items to score" },
      { { 1, 0 }, { 1 }, "2 labels, but 1 scores" }, { { 1, 0 }, { 0 / 0, 1 }, "score 1 is NaN" },
    } do
      fails.raising(case[3], function() scores.roc_auc(case[1], case[2]) end)
    end
  end)

  it("a curve has few points, from the first hit to all of them", function()
    local gold, p = {}, {}
    for i = 1, 5000 do gold[i], p[i] = i % 2, (i * 7919 % 5003) / 5003 end
    local points = sweep.all("x", gold, p, 100).points
    assert.is_true(#points > 90 and #points <= 102)
    assert.equal(1.0, points[#points][1])
    for _, point in ipairs(points) do
      local hits, predicted, positives = counts(gold, p, point[3])
      assert.same({ hits / positives, hits / predicted }, { point[1], point[2] })
    end
  end)
end)

describe("a threshold", function()
  it("has the best F1 of all, or reaches a precision with the most items", function()
    for seed = 1, 40 do
      local gold, p = drawn(seed, 3 + seed)
      local best, most = 0, 0
      for tenth = 1, 10 do
        local hits, predicted, positives = counts(gold, p, tenth / 10)
        best = math.max(best, 2 * hits / (predicted + positives))
        if predicted > 0 and hits / predicted >= 0.5 then most = math.max(most, predicted) end
      end
      local threshold, f1 = scores.threshold(gold, p, "f1")
      local hits, predicted, positives = counts(gold, p, threshold)
      assert.near(best, f1, 1e-12)
      assert.near(best, 2 * hits / (predicted + positives), 1e-12)
      threshold = scores.threshold(gold, p, "precision:0.5")
      assert.equal(most, threshold and select(2, counts(gold, p, threshold)) or 0)
    end
  end)

  it("lies in the middle between two items", function()
    local gold, p = { 1, 1, 0, 1, 0 }, { 0.9, 0.8, 0.6, 0.4, 0.1 }
    assert.same({ 0.25, 6 / 7, 3 }, { scores.threshold(gold, p, "f1") })
    assert.near(0.7, (scores.threshold(gold, p, "precision:0.9")), 1e-12)
    assert.near(0.25, (scores.threshold(gold, p, "precision:.75")), 1e-12)
    assert.near(0.05, (scores.threshold(gold, p, "precision:0.6")), 1e-12) -- all items
    local threshold, reached = scores.threshold({ 0, 1 }, { 0.9, 0.8 }, "precision:0.9")
    assert.same({ nil, 0.5 }, { threshold, reached })
    assert.is_nil(scores.threshold({ 0, 0 }, { 0.9, 0.8 }, "f1"))
    fails.raising("the rule is 'best'; give f1 or precision:0.9", function() scores.threshold(gold, p, "best") end)
    fails.raising("the rule is 'precision:2'", function() scores.threshold(gold, p, "precision:2") end)
  end)
end)

describe("a temperature", function()
  local function loss(items, temperature, each)
    local sum = 0
    for _, item in ipairs(items) do
      local p = decisions.probabilities(item.logits, { temperature = temperature }, each)
      for k, one in ipairs(each and p or {}) do sum = sum - math.log(item.gold[k] == 1 and one or 1 - one) end
      sum = each and sum or sum - math.log(p[item.gold + 1])
    end
    return sum
  end

  ---Items whose logits are too large by a factor.
  local function items_of(seed, factor, each)
    local pick, items = draws(seed), {}
    for i = 1, 200 do
      local logits, gold = {}, each and {} or pick(3)
      for k = 1, 3 do
        logits[k] = factor * (pick(100) / 25 - 2 + (gold == k - 1 and 1 or 0))
        if each then gold[k] = pick(100) < 100 / (1 + math.exp(-logits[k] / factor)) and 1 or 0 end
      end
      items[i] = { logits = logits, gold = gold }
    end
    return items
  end

  it("has the least negative log-likelihood, of classes and of labels", function()
    for seed = 1, 5 do
      for _, each in ipairs { false, true } do
        local items = items_of(seed, 3, each)
        local best = decisions.temperature(items, each)
        for _, factor in ipairs { 0.5, 0.9, 0.999, 1.001, 1.1, 2 } do
          assert.is_true(loss(items, best, each) < loss(items, factor * best, each))
        end
      end
    end
  end)

  it("is where the mean confidence of two classes is the accuracy, by hand", function()
    local items = {} -- logit 2 for the class that is right three times of four: p = 3/4 at 2 / T = log 3
    for i = 1, 4 do items[i] = { logits = { 0, 2 }, gold = i > 1 and 1 or 0 } end
    assert.near(2 / math.log(3), decisions.temperature(items), 1e-9)
    for i, item in ipairs(items) do items[i] = { logits = { 2 }, gold = { item.gold } } end
    assert.near(2 / math.log(3), decisions.temperature(items, true), 1e-9)
  end)

  it("is none where all items are right, or none better than chance", function()
    assert.is_nil(decisions.temperature { { logits = { 3, 1 }, gold = 0 }, { logits = { 0, 2 }, gold = 1 } })
    assert.is_nil(decisions.temperature { { logits = { 3, 1 }, gold = 1 }, { logits = { 0, 2 }, gold = 0 } })
    assert.is_nil(decisions.temperature { { logits = { 1, 1 }, gold = 1 } })
  end)
end)

-- Scoring held-out text: which sums, over which tokens, in which mode.

local evaluate = require("seqrun.run.evaluation.evaluate")
local sr = require("seqrun")

---A loader of `count` updates of two batches with 3 masked tokens each, from any cursor.
local function held(count)
  local loader = { sought = {}, left = 0 }
  function loader:seek(cursor) self.sought[#self.sought + 1], self.left = cursor, count end
  function loader:next()
    if self.left == 0 then return nil end
    self.left = self.left - 1
    local batches = {
      { masked = 3, labels = { 0, 1, 1 } }, { masked = 3, labels = { 2, 2, 1 } },
    }
    local i = 0
    local function following()
      i = i + 1
      return batches[i]
    end
    return { batches = function() return following end }
  end
  return loader
end

local function model()
  local bert = { training = true, modes = {} }
  function bert:losses()
    self.modes[#self.modes + 1] = self.training
    return sr.nn.losses()
      :add("words", { total = sr.tensor(9), items = sr.tensor { 1, 2, 6 }, correct = sr.tensor { 1, 0, 0 }, count = 3 })
      :add("pairs", { total = sr.tensor(0.25), correct = sr.tensor { 1, 0 }, count = 2, sums = { shift = { 1.5, 3 } } })
  end
  return bert
end

describe("an evaluation", function()
  it("averages over all masked tokens and pairs, without dropout, and restores the mode of the model", function()
    local bert, loader = model(), held(3)
    local result, order = evaluate.run(bert, loader, { from = "here", updates = 0 })
    assert.same({
      words_loss = 3.0, words_accuracy = 1 / 3, masked = 18, pairs_accuracy = 0.5, shift = 0.5,
      pairs_loss = 0.5, -- no items: the mean of what the updates minimised, two batches each
    }, result)
    assert.same({
      { name = "words", accuracy = true, metrics = {} }, { name = "pairs", accuracy = true, metrics = { "shift" } },
    }, order)
    assert.same({ false, false, false, false, false, false }, bert.modes)
    assert.is_true(bert.training)
    evaluate.run(bert, loader, { from = "here", updates = 2 })
    assert.equal(10, #bert.modes)
    assert.same({ "here", "here" }, loader.sought)
  end)

  it("computes the loss of the unigram model, from token counts plus one", function()
    local unigram = require("seqrun.nn.heads.mlm").unigram { 5, 0, 2 } -- of 7 + 3
    assert.near(-math.log(6 / 10) - 2 * math.log(1 / 10), unigram { 0, 1, 1 }, 1e-12)
    local function score(batch) return unigram(batch.labels), #batch.labels end
    local baselines = { { loss = "words", metric = "unigram_loss", title = "unigram model", score = score } }
    local result, order = evaluate.run(model(), held(1), { from = "here", updates = 0, baselines = baselines })
    assert.near(-(math.log(0.6) + 3 * math.log(0.1) + 2 * math.log(0.3)) / 6, result.unigram_loss, 1e-12)
    assert.same({ "unigram_loss" }, order[1].metrics)
    baselines[1].loss = "another" -- a model without this loss is compared with nothing
    assert.is_nil(evaluate.run(model(), held(1), { from = "here", updates = 0, baselines = baselines }).unigram_loss)
  end)
end)

-- Scoring held-out text: which sums, over which tokens, in which mode.

local evaluate = require("seqrun.run.evaluate")
local sr = require("seqrun")

---A loader of `count` updates of two batches with 3 masked tokens each, from any cursor.
local function held(count)
  local loader = { sought = {}, left = 0 }
  function loader:seek(cursor)
    self.sought[#self.sought + 1], self.left = cursor, count
  end
  function loader:next()
    if self.left == 0 then return nil end
    self.left = self.left - 1
    local batches = {
      { masked = 3, sequences = 2, targets = { mlm = { labels = sr.tensor({ 0, 1, 1 }, { dtype = "i32" }) } } },
      { masked = 3, sequences = 2, targets = { mlm = { labels = sr.tensor({ 2, 2, 1 }, { dtype = "i32" }) } } },
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
    return {
      mlm_nll = sr.tensor { 1, 2, 6 }, mlm_correct = sr.tensor { 1, 0, 0 }, nsp = true,
      nsp_correct = sr.tensor { 1, 0 },
    }
  end
  return bert
end

describe("an evaluation", function()
  it("averages over all masked tokens and pairs, without dropout, and restores the mode of the model", function()
    local bert, loader = model(), held(3)
    local result = evaluate.run(bert, loader, { from = "here", updates = 0 })
    assert.same({ mlm_loss = 3.0, mlm_accuracy = 1 / 3, masked = 18, nsp_accuracy = 0.5 }, result)
    assert.same({ false, false, false, false, false, false }, bert.modes)
    assert.is_true(bert.training)
    evaluate.run(bert, loader, { from = "here", updates = 2 })
    assert.equal(10, #bert.modes)
    assert.same({ "here", "here" }, loader.sought)
  end)

  it("computes the loss of the unigram model, from token counts plus one", function()
    local unigram = evaluate.unigram { 5, 0, 2 } -- of 7 + 3
    assert.near(-math.log(6 / 10) - 2 * math.log(1 / 10), unigram { 0, 1, 1 }, 1e-12)
    local result = evaluate.run(model(), held(1), { from = "here", updates = 0, unigram = unigram })
    assert.near(-(math.log(0.6) + 3 * math.log(0.1) + 2 * math.log(0.3)) / 6, result.unigram_loss, 1e-12)
  end)
end)

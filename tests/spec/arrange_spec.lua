-- Training on the same sequences, packed, padded and one by one: only the speed may differ.

local small = require "tests.support.small"
local sr = require "seqrun"

local UPDATES = require("tests.support.long") and 100 or 30
local LOSSES = 1e-5 -- relative, f32: the rows of a product are summed in the same order, weight gradients are not

local folder = require("tests.support.program").folder()
local with = require("tests.support.with")
local corpus = sr.must(sr.data.open(small.corpus(folder), { held = 0.1 }))

---The loss of each update of a training run with dropout.
---@param options table of the loader
---@return number[] losses
---@return integer[][] uids of each update, sorted
local function train(options)
  local given = { data = corpus, by = "sequences", sequences = 12, max_len = 48, seed = 7, prefetch = 0 }
  local loader = sr.must(sr.data.loader(with(given, options)))
  local bert = sr.nn.bert {
    vocab_size = corpus:vocab_size(), hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
    num_attention_heads = 2, max_position_embeddings = 48,
  }
  bert:initialise(3)
  local optimizer = sr.optim.adamw(bert.params)
  local losses, uids = {}, {}
  for i = 1, UPDATES do
    local update, sum, seen = loader:next(), 0, {}
    for batch in update:batches(bert.params) do
      local scope <close> = sr.scope()
      local loss = bert:losses(batch).total
      loss:backward()
      sum = sum + loss:item()
      for _, uid in ipairs(batch.layout:uids()) do seen[#seen + 1] = uid end
    end
    optimizer:step { rate = 1e-3, clip = 1 }
    table.sort(seen)
    losses[i], uids[i] = sum, seen
  end
  return losses, uids
end

local function largest_difference(a, b)
  local largest = 0
  for i = 1, UPDATES do largest = math.max(largest, math.abs(a[i] - b[i]) / math.abs(b[i])) end
  return largest
end

describe("updates of the same sequences with dropout #slow", function()
  local packed, uids

  setup(function() packed, uids = train { arrange = "packed" } end)

  it("learn something", function()
    assert.is_true(packed[UPDATES] < packed[1] - UPDATES / 100, ("%g, then %g"):format(packed[1], packed[UPDATES]))
  end)

  for _, case in ipairs {
    { "padded", { arrange = "padded" } },
    { "one sequence at a time", { arrange = "single" } },
    { "packed in 2 micro-batches of the same share", { shares = 1, micro_packs = 2 } },
    { "packed in micro-batches of one pack", { micro_packs = 1 } },
  } do
    it("have the same losses " .. case[1], function()
      local losses, theirs = train(case[2])
      assert.same(uids, theirs)
      local difference = largest_difference(losses, packed)
      assert.is_true(difference <= LOSSES, ("relative difference %g"):format(difference))
    end)
  end
end)

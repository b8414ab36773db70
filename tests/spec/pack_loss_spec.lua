-- Packing changes nothing but speed: an update of a whole epoch gives the same loss and gradients with
-- any solver.

local sr = require("seqrun")

local folder = require("tests.support.program").folder()

local corpus = require("tests.support.numbers").corpus(folder, 120, 0)
local bert = sr.nn.bert {
  vocab_size = corpus:vocab_size(), hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
  num_attention_heads = 2, max_position_embeddings = 64,
}
bert:initialise(5)

---The first epoch as one update.
local function whole_epoch(options)
  local given = { data = corpus, max_len = 64, packs = 1, seed = 3, prefetch = 0, short_seq_prob = 1 }
  for key, value in pairs(options) do given[key] = value end
  local looked = assert(sr.data.loader(given)):plan(0)
  given.packs = looked.packs
  return assert(sr.data.loader(given)):next(), looked
end

local function measure(update)
  local total, sequences = 0, 0
  bert.params:zero_grad()
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = bert:losses(batch)
    losses.total:backward()
    total, sequences = total + losses.total:item(), sequences + batch.sequences
  end
  local squares, gradients = 0, {}
  for _, name in ipairs(bert.params:names()) do
    local gradient = bert.params:get(name):grad():clone()
    gradients[name] = gradient
    squares = squares + (gradient * gradient):sum():item()
  end
  return { total = total, sequences = sequences, norm = math.sqrt(squares), gradients = gradients }
end

local function distance(a, b)
  local difference = a - b
  return math.sqrt((difference * difference):sum():item())
end

it("two packings of the same data give the same training loss and the same gradients", function()
  local scope <close> = sr.scope()
  local update, plan = whole_epoch { solver = "none" }
  local alone = measure(update)
  assert.equal(plan.sequences, alone.sequences)
  local packs = { [plan.packs] = true }
  for _, options in ipairs {
    { solver = "optimal" }, { solver = "lpfhp", max_seqs = 2 }, { solver = "spfhp" },
    { solver = "nnlshp", max_seqs = 2 },
  } do
    update, plan = whole_epoch(options)
    local packed = measure(update)
    packs[plan.packs] = true
    assert.equal(alone.sequences, packed.sequences)
    assert.near(alone.total, packed.total, 1e-5 * alone.total)
    for name, gradient in pairs(alone.gradients) do
      -- CONTRACTS, "Numbers": small tensors are measured against all gradients
      local norm = math.sqrt((gradient * gradient):sum():item())
      local allowed = 1e-5 * math.max(norm, 1e-3 * alone.norm)
      assert.is_true(distance(gradient, packed.gradients[name]) <= allowed, name .. " under " .. options.solver)
    end
  end
  local _, auto = whole_epoch { max_seqs = "auto" }
  assert.is_true(auto.max_seqs >= 1 and auto.packs <= auto.lower_bound * 1.001 + 1)
  assert.truthy(auto.reason:find(("%d sequences per pack"):format(auto.max_seqs), 1, true))
  assert.has_error(function() whole_epoch { max_seqs = "deep" } end)
  local different = 0
  for _ in pairs(packs) do different = different + 1 end
  assert.is_true(different >= 3) -- the packings do differ
end)

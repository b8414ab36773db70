-- Training on a device that runs every op late, on a thread of its own, at the next wait (support/late.c): the
-- same bits as where every op is done when it returns, and no wait inside a step.

local core = require("seqrun.core.tensor")
local devices = require("tests.support.devices")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")

local works = program.works

local STEPS = 12

local folder, corpus = small.folder()

setup(function()
  devices.late()
end)

describe("a run on the late device", function()
  ---recipes/pretrain.lua with every new block of memory full of NaN.
  local function run(device, out, ...)
    local recipe = program.write(folder, "poisoned.lua", ([[
      require("seqrun.core.tensor").poison(true, "%s")
      arg[0] = "recipes/pretrain.lua"
      dofile(arg[0])]]):format(device))
    local words = small.words(corpus, "device=" .. device, "--out", folder .. "/" .. out, ...)
    words[1] = recipe
    local before = ("SEQRUN_PLUGINS='%s'"):format(devices.plugin("late"))
    works(program.run(words, { before = before }))
  end

  it("leaves the bits of a run on the cpu device, stopped and resumed too", function()
    run("cpu", "cpu", "--max-steps", tostring(STEPS))
    run("late", "late", "--max-steps", tostring(STEPS), "log.every=5")
    run("late", "again", "--max-steps", "5")
    run("late", "again", "--max-steps", tostring(STEPS), "--resume")
    local wanted = small.weights(folder .. "/cpu", STEPS)
    assert.same(wanted, small.weights(folder .. "/late", STEPS))
    assert.same(wanted, small.weights(folder .. "/again", STEPS))
    assert.same(small.metrics(folder .. "/cpu"), small.metrics(folder .. "/again"))
  end)
end)

describe("a step", function()
  local data, bert

  before_each(function() sr.use("late") end)
  after_each(function() sr.use("cpu") end)

  ---Waits and uploads of `steps` updates, and their micro-batches.
  local function count(loader, optimizer, steps)
    local before, batches = core.transfers(), 0
    for _ = 1, steps do
      local update = loader:next()
      for batch in update:batches(bert.params) do
        local scope <close> = sr.scope()
        bert:losses(batch).total:backward()
        batches = batches + 1
      end
      optimizer:step { rate = 1e-3, clip = 1 }
    end
    local now = core.transfers()
    return now.waits - before.waits, now.uploads - before.uploads, batches
  end

  for _, recompute in ipairs { false, true } do
    it("waits for nothing and sends each micro-batch at once" .. (recompute and ", with recompute" or ""), function()
      data = assert(sr.data.open(corpus))
      bert = sr.nn.bert {
        vocab_size = data:info().vocab, hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2,
        intermediate_size = 32, max_position_embeddings = 64,
      }
      bert:initialise(3)
      bert.recompute, bert.training = recompute, true
      local loader = assert(sr.data.loader { data = data, max_len = 48, packs = 6, micro_packs = 2, seed = 3 })
      local optimizer = sr.optim.lamb(bert.params, { max_skipped = 10 })
      local waits, uploads, batches = count(loader, optimizer, 4)
      assert.is_true(batches >= 8)
      assert.equal(0, waits)
      assert.equal(batches, uploads)
      assert.same({ 4, 0, 0 }, { optimizer:counts() })
    end)
  end
end)

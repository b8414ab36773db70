-- A step on the GPU's device, here on the CPU (device simt), waits for nothing, and an update can be recorded as one
-- piece of work (CUDA graphs), with the same bits.

local core = require("seqrun.core.tensor")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")

local it_on_simt = require("tests.support.devices").on_simt(it, function(reason) pending(reason) end)

local exits, works = program.exits, program.works
local folder = program.folder()
local corpus = small.corpus(folder, 30)

it_on_simt("a step on simt waits for nothing", function()
  sr.use("simt")
  finally(function() sr.use("cpu") end)
  local data = assert(sr.data.open(corpus))
  local bert = sr.nn.bert {
    vocab_size = data:info().vocab, hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2,
    intermediate_size = 32, max_position_embeddings = 64,
  }
  bert:initialise(3)
  bert.training = true
  local loader = assert(sr.data.loader { data = data, max_len = 48, packs = 2, micro_packs = 1, seed = 3 })
  local optimizer = sr.optim.lamb(bert.params)
  local before = core.transfers().waits
  for _ = 1, 2 do
    for batch in loader:next():batches(bert.params) do
      local scope <close> = sr.scope()
      bert:losses(batch).total:backward()
    end
    optimizer:step { rate = 1e-3, clip = 1 }
  end
  assert.equal(before, core.transfers().waits)
  assert.same({ 2, 0, 0 }, { optimizer:counts() })
end)

describe("a run with cuda_graph", function()
  local function run(out, ...)
    local words = small.words(corpus, "device=simt", "model.num_hidden_layers=1", "batch.sequences=6",
      "--out", folder .. "/" .. out, "--max-steps", "4", ...)
    return program.run(words, { before = "SEQRUN_SIMT_CHECK=0" })
  end

  it_on_simt("has the bits of one without", function()
    assert.equal(0, (run("plain")))
    works(run("graph", "cuda_graph=true"))
    assert.same(small.weights(folder .. "/plain", 4), small.weights(folder .. "/graph", 4))
  end)

  it("is refused on a device without graphs, as tf32 is", function()
    for key, value in pairs { cuda_graph = "true", tf32 = "true", deterministic = "false" } do
      exits(2, "^seqrun: " .. key .. "=" .. value .. " requires device=cuda; cpu [^\n]+\n$",
        run(key, key .. "=" .. value, "device=cpu"))
    end
  end)

  it_on_simt("refuses a loop over micro-batches that ends early", function()
    local recorded = require("seqrun.data.loader.recorded")
    sr.use("simt")
    finally(function() sr.use("cpu") end)
    local left = 3
    local function each()
      left = left - 1
      return left > 0 and left or nil
    end
    local done, message = pcall(function()
      for i in recorded(each) do
        if i == 2 then break end
      end
    end)
    assert.is_false(done)
    assert.matches("recorded_spec.lua:%d+: update:batches: the loop ended before its last micro%-batch", message)
    done, message = pcall(function()
      for _ in recorded(each) do error("another", 0) end
    end)
    assert.same({ false, "another" }, { done, message })
    for _ in recorded(each) do error("no micro-batch is left") end
    assert(core.capture("run")) -- nothing was begun
  end)

  it_on_simt("refuses to read a value while an update is recorded", function()
    sr.use("simt")
    finally(function() sr.use("cpu") end)
    local x = sr.ones(3)
    assert(core.capture("begin"))
    local done, message = pcall(x.item, x:sum())
    assert(core.capture("drop"))
    assert.is_false(done)
    assert.is_truthy(tostring(message):find("read it after the update", 1, true), tostring(message))
    assert.equal(3, x:sum():item())
    assert(core.capture("run")) -- nothing was begun
  end)
end)

-- Keys and files of earlier versions that have no effect any more; and a step on the GPU's device waits for nothing.

local core = require("seqrun.core.tensor")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local it_on_simt = require("tests.support.devices").on_simt(it, function(reason) pending(reason) end)
local folder, corpus = small.folder(30)

describe("a step on simt", function()
  it_on_simt("waits for nothing", function()
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
end)

describe("a run of an earlier version", function()
  local function run(out, ...)
    return program.run(small.words(corpus, "--out", folder .. "/" .. out, "threads=1", ...))
  end

  it("goes on with keys that have no effect any more, and a note for each that was set", function()
    assert.equal(0, (run("plain", "--max-steps", "2")))
    local yaml = assert(sys.read_file("recipes/pretrain.yaml"))
    program.write(folder, "old.yaml", yaml .. "\ndeterministic: false\n")
    local _, err = program.works(run("old", "--max-steps", "2", "config=" .. folder .. "/old.yaml",
      "cuda_graph=true"))
    for _, key in ipairs { "deterministic=false", "cuda_graph=true" } do
      assert.equal(1, select(2, err:gsub("warning: " .. key .. " has no effect any more; remove it", "")), err)
    end
    assert.same(small.weights(folder .. "/plain", 2), small.weights(folder .. "/old", 2))
    _, err = program.works(run("usual", "--max-steps", "1", "cuda_graph=false", "deterministic=true"))
    assert.equal("", err)
    program.exits(2, "unknown key 'cuda_graphs'", run("unknown", "--max-steps", "1", "cuda_graphs=true"))
  end)

  it("goes on without the products that it had timed, and says so", function()
    local step = folder .. "/plain/step-000000002"
    program.write(step .. "/trainer", "choices.txt", "seqrun choices 1 cublaslt-130100-h100-132 64\nend 0\n")
    local _, err = program.works(run("plain", "--max-steps", "3", "--resume"))
    assert.matches("step%-000000002/trainer/choices.txt is ignored: products are no longer chosen by timing, so "
      .. "resuming is not bit%-exact", (err:gsub("%s+", " ")))
    assert.is_false(sys.exists(folder .. "/plain/step-000000003/trainer/choices.txt"))
  end)

  it("is refused with tf32 on a device without it", function()
    program.exits(2, "^seqrun: tf32=true requires device=cuda; cpu [^\n]+\n$",
      run("tf32", "tf32=true", "device=cpu"))
  end)
end)

-- what a run says of its memory before it starts
local sr = require "seqrun"
local devices = require "seqrun.tensor.devices"
local memory = require "seqrun.run.memory"

describe("a model whose activations do not fit", function()
  local limit = devices.memory

  after_each(function()
    devices.memory = limit
    memory.forget()
  end)

  local function open(batch, more)
    local cfg = { pack = { arrange = "packed" }, data = { max_len = 128 }, batch = batch, model = {} }
    for key, value in pairs(more or {}) do cfg[key] = value end
    memory.expect { config = cfg, ranks = { rank = 0, size = 1 } }
  end

  local function small()
    return sr.nn.bert { vocab_size = 50, hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2,
      intermediate_size = 32, max_position_embeddings = 128 }
  end

  it("is refused before its weights are made", function()
    devices.memory = function() return 1 << 20, "this machine" end
    open { sequences = 4096, micro_packs = 64 }
    local model = small()
    local ok, message = pcall(model.initialise, model, 1)
    assert.is_false(ok)
    assert.matches("^a micro%-batch of 64 packs of 128 tokens needs at least 8.* MiB, but this machine has 1.0 MiB: "
      .. "activations", tostring(message))
    assert.equal(0, model.params:get(model.params:names()[1]):abs():sum():item())
  end)

  it("is refused with three ways out, whatever has been done already", function()
    devices.memory = function() return 1 << 16, "this machine" end
    open({ sequences = 4096, micro_packs = 1 }, { model = { recompute = true }, precision = "bf16" })
    local model = sr.nn.bert { vocab_size = 50, hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2,
      intermediate_size = 32, max_position_embeddings = 128, precision = "bf16" }
    local ok, message = pcall(model.initialise, model, 1)
    assert.is_false(ok)
    assert.matches("lower data.max_len %(now 128%), use a smaller model or use a device with more memory$",
      tostring(message))
  end)

  it("is not refused where an update may have fewer packs, or activations are recomputed, or no run is open", function()
    devices.memory = function() return 4 << 20, "this machine" end
    open { sequences = 40, micro_packs = 64 }
    small():initialise(1)
    devices.memory = function() return 6 << 20, "this machine" end
    open({ sequences = 4096, micro_packs = 64 }, { model = { recompute = true } })
    small():initialise(1)
    memory.forget()
    devices.memory = function() return 1 << 20, "this machine" end
    small():initialise(1)
  end)
end)

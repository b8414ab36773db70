-- what a run says of its memory before it starts
local sr = require "seqrun"
local checks = require "seqrun.run.checks"
local cost = require "seqrun.nn.cost"
local devices = require "seqrun.tensor.devices"
local training = require "seqrun.tensor.training"

describe("a model whose activations do not fit", function()
  local limit, check_fits, runs = devices.memory, devices.check_fits, {}

  local function close(self)
    self:close()
    self:close() -- and once more, as the collector does
  end

  after_each(function()
    devices.memory, devices.check_fits = limit, check_fits
    for _, self in ipairs(runs) do close(self) end
    runs = {}
    assert.is_nil(training.current())
  end)

  local function open(batch, more)
    local cfg = { pack = { arrange = "packed" }, data = { max_len = 128 }, batch = batch, model = {} }
    for key, value in pairs(more or {}) do cfg[key] = value end
    local self = checks.new { config = cfg, ranks = { rank = 0, size = 1 } }
    runs[#runs + 1] = self
    return self
  end

  local function small()
    return sr.nn.bert { vocab_size = 50, hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2,
      intermediate_size = 32, max_position_embeddings = 128 }
  end

  it("is refused before its weights are made", function()
    devices.memory = function() return 1 << 20, "this machine" end
    open { sequences = 4096, micro_packs = 64 }
    local model = small()
    assert.error_matches(function() model:initialise(1) end, "^a micro%-batch of 64 packs of 128 tokens needs at least "
      .. "9.* MiB, but this machine has 1.0 MiB: activations")
    assert.equal(0, model.params:get(model.params:names()[1]):abs():sum():item())
  end)

  it("is refused with three ways out, whatever has been done already", function()
    devices.memory = function() return 1 << 16, "this machine" end
    local model = sr.nn.bert { vocab_size = 50, hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2,
      intermediate_size = 32, max_position_embeddings = 128, precision = "bf16" }
    open({ sequences = 4096, micro_packs = 1 }, { model = { recompute = true }, precision = "bf16" })
    assert.error_matches(function() model.initialise(model, 1) end,
      "lower data.max_len %(now 128%), use a smaller model or use a device with more memory$")
  end)

  it("is not refused where an update may have fewer packs, or activations are recomputed, or no run is open", function()
    devices.memory = function() return 4 << 20, "this machine" end
    open { sequences = 40, micro_packs = 64 }
    small():initialise(1)
    devices.memory = function() return 17 << 19, "this machine" end
    open({ sequences = 4096, micro_packs = 64 }, { model = { recompute = true } })
    small():initialise(1)
    for _, self in ipairs(runs) do close(self) end
    devices.memory = function() return 1 << 20, "this machine" end
    small():initialise(1)
  end)

  it("is refused as long as a run is open, whichever of several is closed", function()
    local function is_refused()
      local whats
      devices.check_fits = function(_, _, what) whats = what end
      devices.memory = function() return 1 << 20, "this machine" end
      local model = small()
      return not pcall(model.initialise, model, 1), whats == "with gradients and moments"
    end
    local batch = { sequences = 4096, micro_packs = 64 }
    assert.same({ false, false }, { is_refused() })
    local first, second = open(batch), open(batch)
    assert.same({ true, true }, { is_refused() })
    close(second)
    assert.same({ true, true }, { is_refused() })
    local third = open(batch)
    close(first)
    assert.same({ true, true }, { is_refused() })
    close(third)
    assert.same({ false, false }, { is_refused() })
  end)

  it("leaves a run to the collector", function()
    local weak = setmetatable({ open { sequences = 1, micro_packs = 1 } }, { __mode = "v" })
    local token = weak[1].expects
    runs = {}
    collectgarbage()
    collectgarbage()
    assert.is_nil(weak[1])
    training.forget(token)
  end)
end)

describe("the activations of a layer", function()
  ---Elements for each row that a layer between others keeps in training: as measured, and as estimated.
  local function kept(config, rows)
    local function used(layers)
      config.num_hidden_layers = layers
      local model, ids = sr.nn.bert(config), sr.zeros({ rows }, { dtype = "i32" })
      local before = sr.memory().used
      local scope <close> = sr.scope()
      model.encoder.training = true
      model.encoder:encode { ids = ids, types = ids, layout = sr.layout { lens = { rows } } }
      return sr.memory().used - before, cost.layer_elements(model.encoder.design, 1)
    end
    collectgarbage() -- and not again: so little memory does not ask for it
    collectgarbage("stop")
    local less, more, estimated = used(2), used(3)
    collectgarbage("restart")
    return (more - less) / (require("seqrun.core.tensor").element_size() * rows), estimated
  end

  for _, family in ipairs { "bert", "gte", "modernbert" } do
    local dropout = family == "modernbert" and "mlp_dropout" or "hidden_dropout_prob"
    it("are estimated as they are measured: " .. family, function()
      local measured, estimated = kept({ model_type = family, vocab_size = 10, hidden_size = 16, intermediate_size = 32,
        num_attention_heads = 2, [dropout] = 0.1 }, 64)
      assert.near(measured, estimated, 0.05 * measured)
    end)
  end
end)

-- Token dropping in a run: its keys, its schedule, and what they refuse.

local sr = require("seqrun")
local ltd = require("seqrun.run.ltd")

local CONFIG = {
  vocab_size = 50, hidden_size = 8, num_hidden_layers = 4, num_attention_heads = 1, intermediate_size = 8,
}

local function model(layers)
  local config = {}
  for key, value in pairs(CONFIG) do config[key] = value end
  config.num_hidden_layers = layers or 4
  return sr.nn.bert(config)
end

local function open(keep, more, layers)
  local group = { keep = keep, first = true, last = true, masked = false }
  for key, value in pairs(more or {}) do group[key] = value end
  local bert = model(layers)
  return ltd.new(group, { max_len = 512, steps = 100, model = bert }), bert
end

local function at(step) return { counters = { step = step, schedule_step = step } } end

describe("the key ltd", function()
  it("is off without ltd.keep", function()
    local run, bert = open(nil)
    assert.is_nil(run)
    assert.is_nil(bert.encoder.ltd)
    assert.is_nil(ltd.new(nil, {}))
  end)

  it("takes a share of the tokens", function()
    local run, bert = open { value = 0.5 }
    assert.equal(0.5, bert.encoder.ltd.keep)
    assert.equal(0.5, run:before(at(7), 128))
  end)

  it("takes the published tokens of a sequence, as a share of the current length", function()
    local keep = { type = "linear", min = 128, max = 512, quantum = 16, total = 1000, by = "step" }
    local run, bert = open(keep)
    assert.equal("length", ltd.kind(keep))
    assert.equal(0.25, bert.encoder.ltd.keep)
    assert.equal(128 / 512, run:before(at(0)))
    assert.equal(320 / 512, run:before(at(500)))
    assert.equal(1, run:before(at(500), 256)) -- none dropped where 320 tokens exceed the length
    assert.equal(128 / 256, run:before(at(10), 256))
    assert.equal(1, run:before(at(1000)))
    assert.equal(512, run.schedule.value)
  end)

  it("asks for less memory where layers keep fewer tokens", function()
    local _, bert = open { value = 0.5 }
    local half = bert:activation_bytes(1000)
    bert.encoder.ltd = nil
    assert.equal(3 / 4, half / bert:activation_bytes(1000)) -- two of four layers
  end)

  it("refuses what cannot be, before the run, and names the key", function()
    assert.error_matches(function() open({ value = 0.5 }, nil, 2) end, "ltd: 2 layers have none between")
    assert.error_matches(function() open({ value = 0.5 }, { layers = { 2, 9 } }) end, "ltd: layers is %[2, 9%]")
    assert.error_matches(function() open { value = -1 } end, "ltd%.keep")
    assert.error_matches(function() ltd.new({ keep = { value = 0.5 } }, { model = { params = {} } }) end,
      "the model has no encoder")
  end)
end)

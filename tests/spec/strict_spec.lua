-- unknown fields of modules, objects and configs
local sr = require "seqrun"
local strict = require "seqrun.base.strict"

local function message_of(fn) return require("tests.support.fails").raising("", fn) end

describe("an unknown field", function()
  local params = sr.params.new { { name = "w", shape = { 3, 3 } } }

  it("of a module is an error at the line that reads it, with a guess", function()
    assert.matches("^tests/spec/strict_spec.lua:%d+: sr.schedule has no 'liner'; did you mean 'linear'%?$",
      message_of(function() return sr.schedule.liner end))
    assert.matches("sr.optim has no 'sgd'; it has adamw, lamb, muon, stable_adamw$",
      message_of(function() return sr.optim.sgd end))
    assert.matches("sr.nn.heads has no 'mlmx'; did you mean 'mlm'%?$",
      message_of(function() return sr.nn.heads.mlmx end))
  end)

  it("of an object is one too, but not a field without a value", function()
    local optimizer = sr.optim.adamw(params)
    assert.is_nil(optimizer.rate)
    assert.matches("the optimizer has no 'lr'; use rate, of the last step",
      message_of(function() return optimizer.lr end))
    assert.matches("params has no 'nmes'; did you mean 'names'%?$", message_of(function() return params.nmes end))
  end)

  it("of a config hides none of its values from JSON, of which names of data sets are made", function()
    local c, json = sr.config, require("seqrun.core.json")
    local schema = c.map { { "text", c.string {} }, { "columns", c.map { { "label", c.list(c.string {}, {}) } } } }
    local values = { text = "a", columns = { label = { "x", "y" } } }
    local view = strict.config(values, schema, "the config")
    assert.equal(json.encode(values), json.encode(view))
    assert.equal(json.encode(values), json.encode { text = view.text, columns = view.columns })
  end)

  it("of a model is one where a name is similar, since a model may have fields of its own", function()
    local model = sr.nn.model { { { name = "w", shape = { 3, 3 } } } }
    assert.matches("the model has no 'parms'; did you mean 'params'%?$", message_of(function() return model.parms end))
    assert.matches("the model has no 'eval'; use training = false", message_of(function() return model.eval end))
    for _, name in ipairs { "teacher", "loss", "dropout", "norm", "embedding" } do assert.is_nil(model[name]) end
    model.teacher = 1
    assert.equal(1, model.teacher)
  end)

  it("of a config is one, but not a key without a value", function()
    local c = sr.config
    local schema = c.map {
      { "rate", c.map {
        { "peak", c.number { default = 1 } }, { "power", c.number { optional = true } },
        { "bend", c.number { optional = true } },
      } },
      { "seed", c.integer { optional = true } },
    }
    local values = sr.must(c.load { schema = schema }).values
    values = strict.config(values, schema, "the config")
    assert.is_nil(values.seed)
    assert.is_nil(values.rate.power)
    assert.equal(1, values.rate.peak)
    assert.matches("the config.rate has no 'peek'; did you mean 'peak'%?$",
      message_of(function() return values.rate.peek end))
    local keys = {}
    for key in pairs(values) do keys[#keys + 1] = key end
    assert.same({ "rate" }, keys)
    for _ in pairs(values.rate) do keys[1] = nil end -- as what takes all keys of a group does
    assert.matches("config: rate.bend has been read before this line, .*: rate.bend=2$",
      message_of(function() values.rate.bend = 2 end))
  end)

  it("is nil to the library and to C functions", function()
    assert.is_nil(require("seqrun.base.names").field(sr.schedule, "liner"))
    assert.is_nil(select(2, pcall(rawget, sr.schedule, "liner")))
    assert.is_true(pcall(require, "seqrun.schedule"))
  end)
end)

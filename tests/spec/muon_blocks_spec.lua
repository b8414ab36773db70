-- Muon on a tensor that has several matrices: the same as on tensors of their own.

local checkpoint = require("seqrun.checkpoint")
local program = require("tests.support.program")
local sr = require("seqrun")
local none = require("tests.support.none")

require("tests.support.devices").late()
require("tests.support.devices").gpus()

local COLUMNS, ROWS = 70, { 900, 300, 300 } -- a matrix of two chunks

---A store with q, k and v in three parameters, or in one.
local function store(fused)
  local list = {}
  if fused then
    list[1] = { name = "layer.0.qkv", shape = { 1500, COLUMNS }, init = "zeros", blocks = ROWS }
  else
    for i, name in ipairs { "q", "k", "v" } do
      list[i] = { name = "layer.0." .. name, shape = { ROWS[i], COLUMNS }, init = "zeros", fuse = "qkv" }
    end
  end
  list[#list + 1] = { name = "layer.0.bias", shape = { 9 }, group = "no_decay" }
  return sr.params.new(list)
end

---Numbers of a flat store that depend on the element alone.
local function draw(flat, step)
  local values = {}
  for i = 1, 1500 * COLUMNS do values[i] = math.sin(0.37 * i * step + i * i * 1e-4) end
  flat:narrow(1, 1, #values):copy_(sr.tensor(values))
end

local function train(fused, options)
  local p = store(fused)
  options.decay = 0.1
  local opt = sr.optim.muon(p, options)
  draw(p.core:value(), 0.5)
  p:refresh()
  for step = 1, 2 do
    draw(p.core:grad(), step)
    opt:step { rate = 0.02, clip = 1 }
  end
  return p.core:value():narrow(1, 1, 1500 * COLUMNS):contiguous():tostring_bytes(), opt, p
end

for _, device in ipairs { "ref", "cpu", "simt" } do
  describe("#slow Muon on " .. device, function()
    before_each(function() sr.use(device) end)
    after_each(function() sr.use("cpu") end)

    for _, scale in ipairs { "rms", "shape" } do
      local long = device == "simt" and scale == "shape" and " #long" or ""
      it("takes blocks of rows as matrices of their own, bit by bit, with scale=" .. scale .. long, function()
        local apart = train(false, { scale = scale })
        assert.is_true(apart == train(true, { scale = scale }))
        assert.is_false(apart == train(true, { scale = scale, split = false }))
      end)
    end
  end)
end

describe("Muon", function()
  it("finds q, k, v and the halves of a gated block in the table of an encoder", function()
    local small = {
      vocab_size = 40, hidden_size = 32, intermediate_size = 24, num_hidden_layers = 2, num_attention_heads = 4,
      max_position_embeddings = 64,
    }
    for family, wanted in pairs {
      modernbert = { ["attn.Wqkv"] = { 32, 32, 32 }, ["mlp.Wi"] = { 24, 24 } },
      gte = { ["attention.qkv_proj"] = { 32, 32, 32 }, ["mlp.up_gate_proj"] = { 24, 24 } },
      bert = {}, eurobert = {},
    } do
      local options = { family = family, heads = {} }
      for key, value in pairs(small) do options[key] = value end
      if family == "eurobert" then options.num_key_value_heads = 2 end
      local params, found = sr.nn.bert(options).params, {}
      for _, param in ipairs(params.list) do
        local name = param.name:match("layers?%.0%.(.*)%.weight$")
        if param.blocks and #param.blocks > 1 then found[name or param.name:gsub("1", "0")] = param.blocks end
      end
      for name, rows in pairs(wanted) do assert.same(rows, found[name], name) end
      local opt = sr.optim.muon(params)
      assert.equal(next(wanted) ~= nil, opt.split)
    end
  end)

  it("goes on with a checkpoint from before by split=false, and says so", function()
    local dir = program.folder()
    local opt, p = select(2, train(true, { split = false }))
    sr.must(checkpoint.save(dir, { step = 2, model = p, opt = opt }))
    local path = dir .. "/step-000000002"
    assert.is_nil(sr.must(checkpoint.state(path)).optimizer.split) -- as one that knows nothing of it
    local other = store(true)
    none("config", "written with optimizer%.muon%.split=false",
      checkpoint.load(path, { model = other, opt = sr.optim.muon(other), carry = "resume" }))
    sr.must(checkpoint.load(path, { model = other, opt = sr.optim.muon(other, { split = false }), carry = "resume" }))
    sr.must(checkpoint.load(path, { model = other, opt = sr.optim.muon(other), carry = "moments" })) -- a new phase
  end)

  it("names segments that do not cover their parameters", function()
    local train_core = require("seqrun.core.train")
    local p = store(true)
    p.core:keep_whole(1)
    local function make(...)
      local list = { ... }
      list[#list + 1] = {}
      return train_core.optim(p.core, { method = "muon" }, list)
    end
    local ok, message = pcall(make, { rows = 900, columns = COLUMNS })
    assert.is_false(ok)
    assert.is_truthy(message:find("segments", 1, true) or message:find("not a matrix", 1, true), message)
    assert.error_matches(function() make({ rows = 900, columns = COLUMNS }, { rows = 700, columns = COLUMNS }) end,
      "not a matrix of 700 x 70")
    assert.error_matches(function() make({ rows = 1500, columns = COLUMNS }, {}) end,
      "3 segments, but the parameters have 2")
  end)
end)

-- Models: what a config may hold, encoders alone, heads of one's own, losses by name.

local sr = require("seqrun")
local fails = require("tests.support.fails")
local support = require("tests.support.bert")

local SMALL = {
  vocab_size = 50, hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2, intermediate_size = 32,
  max_position_embeddings = 64,
}

local function with(changes) return require("tests.support.with")(SMALL, changes) end

local function refused(config, ...)
  local message = fails.raising("", function()
    local bert = sr.nn.bert(config)
    return bert
  end)
  for _, part in ipairs { ... } do assert.truthy(message:find(part, 1, true), message) end
  return message
end

local SEQUENCES = {
  { ids = { 2, 5, 6, 3 }, types = { 0, 0, 0, 0 }, masked_positions = { 1 }, masked_labels = { 7 }, nsp = 1 },
  { ids = { 2, 8, 9, 3 }, types = { 0, 0, 1, 1 }, masked_positions = { 2, 3 }, masked_labels = { 4, 5 }, nsp = 0 },
}

describe("the config of a model", function()
  it("rejects unknown keys from any source", function()
    local message = refused(with { hiden_size = 32 }, "bert: unknown key 'hiden_size'; did you mean 'hidden_size'?")
    refused(with { hidden = 32 }, "bert: unknown key 'hidden'; use attention_probs_dropout_prob")
    assert.matches("^tests/spec/nn_spec.lua:%d+: ", message) -- the line of the mistake
    refused(setmetatable(with(), { __index = { num_hiden_layers = 3 } }), "'num_hiden_layers'")
    refused(setmetatable({}, { __index = setmetatable({ layers = 3 }, { __index = SMALL }) }), "'layers'")
    refused(setmetatable({}, { __index = function() return 1 end }), "through a function")
    refused({ [1] = 5 }, "unknown key '1'")
    refused("large", "the config is a string")
  end)

  it("counts inherited keys", function()
    local between = setmetatable({}, { __index = SMALL })
    local bert = sr.nn.bert(setmetatable({ num_hidden_layers = 3 }, { __index = between }))
    assert.same({ 3, 16 }, { bert.config.num_hidden_layers, bert.config.hidden_size })
    between.hidden_size = 8
    assert.equal(16, bert.config.hidden_size) -- a copy
  end)

  it("has a precision that there is, or the error is at the line of the caller", function()
    for _, precision in ipairs { "f16", 3, false, {} } do
      for name, make in pairs {
        bert = function() sr.nn.bert(with { precision = precision }) end,
        encoder = function() sr.nn.encoder(with { precision = precision }) end,
        model = function() sr.nn.model({ { { name = "w", shape = { 2 } } } }, { precision = precision }) end,
        pretrained = function() sr.nn.pretrained("tests/data/model/tiny", { precision = precision }) end,
        params = function() sr.params.new({ { name = "w", shape = { 2 } } }, { precision = precision }) end,
      } do
        fails.raising("nn_spec.lua:%d+: [%w.]+: precision [^\n]*f32[^\n]*bf16", make)
      end
    end
  end)

  it("has values of the right type, in range", function()
    for key, cases in pairs {
      hidden_size = { "16", 0, -2, 16.5, true }, num_hidden_layers = { 0, "two" }, vocab_size = { 0, 0 / 0 },
      hidden_dropout_prob = { 1, -0.1, "0.1" }, layer_norm_eps = { -1, "x" }, hidden_act = { 3, "mish" },
      initializer_range = { -0.1 }, max_position_embeddings = { 0 },
    } do
      for _, value in ipairs(cases) do refused(with { [key] = value }, key, tostring(value)) end
    end
    refused(with { num_attention_heads = 3 }, "hidden_size 16 is not a multiple of num_attention_heads 3")
    assert.equal(16, math.type(sr.nn.bert(with { hidden_size = 16.0 }).config.hidden_size) == "integer" and 16)
  end)
end)

it("an encoder stands alone: no pooler, no heads, and loads from checkpoints that have none", function()
  local bert, folder = sr.nn.bert(SMALL):initialise(1), os.tmpname()
  os.remove(folder)
  local encoder = sr.nn.encoder(SMALL)
  for _, name in ipairs(encoder.params:names()) do
    assert.is_nil(name:find("pooler") or name:find("^cls"))
    assert.same(bert.params:shape(name), encoder.params:shape(name))
  end
  assert.equal("BertModel", encoder:hf_config().architectures[1])
  local lock = assert(sr.checkpoint.lock(folder))
  assert(sr.checkpoint.save(folder, { step = 0, model = bert.params, config = bert:hf_config() }))
  local report = assert(sr.checkpoint.load(folder, { model = encoder.params })).report
  assert.same({ #encoder.params:names(), 0 }, { #report.loaded, #report.missing })
  lock:close()
  require("seqrun.core.sys").remove(folder)
  bert.training, encoder.training = false, false
  local batch = support.batch(SEQUENCES)
  assert.same(bert:encode(batch):totable(), encoder:encode(batch):totable())
end)

it("an encoder shares store and mode with the other parts of a model", function()
  local one, two = sr.nn.encoder(SMALL, { prefix = "one." }), sr.nn.encoder(SMALL, { prefix = "two.", pooler = true })
  local model = sr.nn.model { one, two, { { name = "w", shape = { 3 } } } }
  assert.equal(model.params, one.params)
  assert.equal(model.params, two.params)
  for _, name in ipairs { "one.encoder.layer.1.output.dense.weight", "two.pooler.dense.bias", "w" } do
    assert.is_true(model.params:has(name), name)
  end
  model.training, model.recompute = false, true
  assert.same({ false, true, false }, { one.training, two.recompute, two.training })
  assert.has_error(function() sr.nn.model { one } end) -- it belongs to a model
  assert.has_error(function() sr.nn.model {} end)
  assert.has_error(function() sr.nn.model { { flops = 1 } } end)
  assert.has_error(function() sr.nn.encoder(SMALL, { pooling = true }) end)
  assert.has_error(function() sr.nn.encoder(with { heads = { "mlm" } }) end)
end)

describe("heads", function()
  it("are chosen by name, and bring what they need", function()
    local mlm = sr.nn.bert(with { heads = { "mlm" } })
    assert.is_false(mlm.params:has("bert.pooler.dense.weight") or mlm.params:has("cls.seq_relationship.weight"))
    assert.equal("BertForMaskedLM", mlm:hf_config().architectures[1])
    assert.is_nil(mlm:hf_config().heads)
    local nsp = sr.nn.bert(with { heads = { "nsp" } })
    assert.is_true(nsp.params:has("bert.pooler.dense.weight"))
    assert.equal("BertForNextSentencePrediction", nsp:hf_config().architectures[1])
    assert.equal("BertForPreTraining", sr.nn.bert(SMALL):hf_config().architectures[1])
    refused(with { heads = { "mml" } }, "unknown head 'mml'; did you mean 'mlm'?")
    refused(with { heads = "mlm" }, "heads is a string")
    refused(with { heads = { { name = "x" } } }, "head 1 must have")
  end)

  it("run on batches that have their target, and a batch without any is refused", function()
    local bert, batch = sr.nn.bert(SMALL):initialise(1), support.batch(SEQUENCES)
    local names = {}
    for i, loss in ipairs(bert:losses(batch)) do names[i] = loss.name end
    assert.same({ "mlm", "nsp" }, names)
    local both = bert:losses(batch)
    assert.near(both.mlm.total:item() + both.nsp.total:item(), both.total:item(), 1e-6)
    assert.same({ 3, 2 }, { both.mlm.count, both.nsp.count })
    batch.targets.mlm = nil
    local one = bert:losses(batch)
    assert.same({ 1, "nsp" }, { #one, one[1].name })
    batch.targets.nsp = nil
    assert.error_matches(function() bert:losses(batch) end, "no target for any of the heads mlm, nsp")
  end)

  it("may be user-written, next to the built-in ones", function()
    local head = { name = "mark", pooler = true, specs = (function()
      local list, add = sr.nn.specs(0.02)
      add.linear("mark", 1, 16)
      return list
    end)() }
    function head:loss(hidden, target)
      local x = sr.ops.linear(hidden:pooled(target), self.params:get("mark.weight"), self.params:get("mark.bias"))
      return { total = sr.ops.mse_loss(x:reshape(-1), target.labels, target.weights), count = 2 }
    end
    local bert, batch = sr.nn.bert(with { heads = { "mlm", head } }):initialise(1), support.batch(SEQUENCES)
    local half = sr.tensor { 0.5, 0.5 }
    batch.targets.mark = { rows = batch.targets.nsp.rows, labels = sr.tensor { 0.5, 2 }, weights = half }
    local losses = bert:losses(batch)
    losses.total:backward()
    assert.same({ "mlm", "mark" }, bert:loss_names())
    for _, name in ipairs { "mark.weight", "bert.pooler.dense.weight" } do
      assert.is_true(bert.params:get(name):grad():abs():max():item() > 0, name)
    end
    assert.equal("BertModel", bert:hf_config().architectures[1])
    function head.loss() end
    assert.error_matches(function() bert:losses(batch) end,
      "the head 'mark': loss.* %(tests/spec/nn_spec.lua:%d+%) returned nil; return { total =, items = }")
  end)

  it("whose name is not that of the target are rejected", function()
    local batch = support.batch(SEQUENCES)
    local function losses(heads, targets)
      local bert, only = sr.nn.bert(with { heads = heads }):initialise(1), {}
      for to, from in pairs(targets) do only[to] = batch.targets[from] end
      local part = setmetatable({ targets = only }, { __index = batch })
      return function() return bert:losses(part) end
    end
    assert.has_no.errors(losses({ "mlm", "nsp" }, { mlm = "mlm" })) -- an update of several tasks
    assert.has_no.errors(losses({ "mlm" }, { mlm = "mlm", nsp = "nsp" }))
    assert.error_matches(losses({ "mlm", "nsp" }, { mlm = "mlm", npx = "nsp" }),
      "the head 'nsp' has no target, and no head reads the target 'npx'")
    assert.error_matches(losses({ "nsp" }, { mlm = "mlm" }), "no target for any of the heads nsp, so nothing can be")
  end)

  it("that a batch lacks leave parameters without gradient, which are frozen by name", function()
    local bert = sr.nn.bert(SMALL):initialise(1)
    assert.is_nil(bert:frozen { "mlm", "nsp" })
    local batch = support.batch(SEQUENCES)
    for kept, lost in pairs { mlm = "nsp", nsp = "mlm" } do
      local frozen = {}
      for _, group in ipairs(bert:frozen { kept }) do
        assert.is_true(group.frozen)
        for _, name in ipairs(bert.params:names()) do
          if name:find(group.match) then frozen[name] = true end
        end
      end
      bert.params:zero_grad()
      local part = support.batch(SEQUENCES)
      part.targets = { [kept] = batch.targets[kept] }
      bert:losses(part).total:backward()
      for _, name in ipairs(bert.params:names()) do
        local still = bert.params:get(name):grad():abs():max():item() == 0
        if not name:find("key.bias") then assert.equal(frozen[name] or false, still, lost .. ": " .. name) end
      end
    end
  end)
end)

it("a frozen part of an encoder is frozen in the optimizer too, and has no more layers than there are", function()
  local bert = sr.nn.bert(SMALL):initialise(1)
  bert.encoder.frozen = 1
  local optimizer = sr.optim.adamw(bert.params, { groups = bert:frozen { "mlm", "nsp" }, decay = 0.5 })
  local before = {}
  for _, name in ipairs(bert.params:names()) do before[name] = bert.params:value_of(name) end
  bert:losses(support.batch(SEQUENCES)).total:backward()
  optimizer:step { rate = 0.1 }
  for name, value in pairs(before) do
    local still = (bert.params:value_of(name) - value):abs():max():item() == 0
    local wanted = name:find("embeddings%.") or name:find("layer%.0%.")
    assert.equal(wanted ~= nil, still, name)
  end
  bert.encoder.frozen = 99
  assert.error_matches(function() bert:losses(support.batch(SEQUENCES)) end, "from 0 to %d+, got 99")
end)

describe("losses", function()
  local function add(name, loss)
    return function() sr.nn.losses():add(name, loss) end
  end
  local one = sr.tensor(1)

  it("refuse what cannot be added up", function()
    assert.error_matches(add("a b", {}), "'a b' is not a valid name")
    assert.error_matches(add("total", {}), "'total' is reserved")
    assert.error_matches(add("add", {}), "'add' is reserved")
    assert.error_matches(add("x", 3), "'x' is a number; expected")
    assert.error_matches(add("x", { count = 1 }), "needs `total`, a scalar tensor")
    assert.error_matches(add("x", { total = sr.tensor { 1, 2 }, count = 1 }), "needs `total`, a scalar tensor")
    assert.error_matches(add("x", { total = one }), "needs `count`")
    assert.error_matches(add("x", { total = one, count = -1 }), "needs `count`")
    assert.error_matches(add("x", { total = one, count = 1, corect = 1 }), "unknown option 'corect'; did you mean")
    assert.error_matches(add("x", { total = one, count = 1, items = 3 }), "`items` that is not a tensor")
    assert.error_matches(add("x", { total = one, count = 1, sums = { mae = { one } } }), "sums.mae")
    assert.error_matches(add("x", { total = one, count = 1, sums = { mae = { one, 0 / 0 } } }), "sums.mae")
    for _, name in ipairs { "x_accuracy", "x_loss", "lr" } do
      assert.error_matches(add("x", { total = one, count = 1, sums = { [name] = { one, 1 } } }), "another value by")
    end
    local losses = sr.nn.losses():add("x", { total = one, count = 1 })
    assert.error_matches(function() losses:add("x", { total = one, count = 1 }) end, "'x' was already added")
  end)

  it("count in the total by their factor", function()
    local losses = sr.nn.losses():add("x", { total = sr.tensor(2), count = 1 })
    assert.equal(2, losses.total:item())
    losses:add("y", { total = sr.tensor(3), count = 1, factor = 50 })
    assert.equal(152, losses.total:item())
    for _, name in ipairs { "x", "y" } do
      assert.error_matches(function() losses[name].factor = 2 end, name .. ".factor is set after the loss was added")
      assert.error_matches(function() losses[name].total = one end, name .. ".total is set after the loss was added")
    end
    losses.x.sums = { mae = { 1, 2 } }
    assert.equal(50, losses.y.factor)
  end)
end)

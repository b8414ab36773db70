-- Mixtures of experts: what a layer with experts computes, its losses, and what refuses it.

local configs = require("seqrun.nn.config")
local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local it_on = require("tests.support.devices").it_on(it)
local sr = require("seqrun")
require("tests.support.devices").late()
local support = require("tests.support.bert")

local each_device = require("tests.support.devices").each(it)
local with = require("tests.support.with")

local TOLERANCE = 1e-5 -- f32 against the reference, and packed against alone

local input = support.input()

local CONFIG = {
  vocab_size = 120, hidden_size = 32, num_hidden_layers = 3, num_attention_heads = 2, intermediate_size = 48,
  max_position_embeddings = 64, hidden_dropout_prob = 0, attention_probs_dropout_prob = 0, experts = { 0, 4, 3 },
  experts_balance = 0.5, experts_z = 0.25, initializer_range = 0.2,
}

local function make(changes) return sr.nn.bert(with(CONFIG, changes)):initialise(3) end

---A mixture with norms before its blocks, which are gated and have no biases.
local function modern(drop)
  return sr.nn.bert {
    family = "modernbert", vocab_size = 120, hidden_size = 32, num_hidden_layers = 3, num_attention_heads = 2,
    intermediate_size = 48, max_position_embeddings = 64, pad_token_id = 0, experts = 4, heads = { "mlm" },
    mlp_dropout = drop or 0,
  }:initialise(3)
end

---Losses and gradients of an update.
local function measure(bert, batches) return support.measure(bert, batches, "balance", "router_z") end

local function alike(a, b, tolerance)
  for _, key in ipairs { "total", "balance", "router_z" } do
    assert.is_true(math.abs(a[key] - b[key]) <= tolerance * math.abs(a[key]), ("%s: %.9g, %.9g"):format(key, a[key],
      b[key]))
  end
  assert.is_nil(support.differ(b.gradients, a.gradients, tolerance))
end

local function whole(options) return { support.batch(input, options) } end

local function alone(last)
  local batches = support.cut(input, nil, { last = last })
  for _, batch in ipairs(batches) do batch.update_sequences = #input end
  return batches
end

---The same by hand: every expert computes every row, and a mask of the chosen ones weighs them.
local function feed_by_hand(bert, x, i, chosen)
  local p, name = bert.params, ("bert.encoder.layer.%d."):format(i)
  local probabilities = sr.ops.linear(x, p:get(name .. "router.weight")):softmax(2)
  local ranks, y = probabilities:totable(), nil
  for t, row in ipairs(ranks) do
    local sorted = table.move(row, 1, #row, 1, {})
    table.sort(sorted, function(a, b) return a > b end)
    for e, value in ipairs(row) do ranks[t][e] = value >= sorted[chosen] and 1 or 0 end
  end
  local gates = probabilities * sr.tensor(ranks)
  local sum = chosen > 1 and gates:sum(2, true) or nil
  for e = 1, #ranks[1] do
    local own = name .. ("experts.%d."):format(e - 1)
    local function linear(input_of, layer, act)
      return sr.ops.linear(input_of, p:get(own .. layer .. ".weight"), p:get(own .. layer .. ".bias"), { act = act })
    end
    local out = linear(linear(x, "intermediate.dense", "gelu"), "output.dense")
    local gate = gates:narrow(2, e, 1)
    out = out * (sum and gate / sum or gate)
    y = y and y + out or out
  end
  return y
end

describe("a layer with experts", function()
  each_device("is the weighted sum of the experts that a token has chosen", function()
    for _, chosen in ipairs { 1, 2, 3 } do
      local bert = make { experts_chosen = chosen }
      local x = sr.randn(50, 32)
      local layout = sr.layout { lens = { 30, 20 } }
      local quiet <close> = sr.no_grad()
      local got = require("seqrun.nn.experts").feed(bert.encoder, x, layout, 1, "bert.encoder.layer.1.")
      local miss = (got - feed_by_hand(bert, x, 1, chosen)):abs():max():item()
      assert.is_true(miss <= TOLERANCE * got:abs():max():item(), tostring(miss))
    end
  end)

  it_on("ref", "has the gradients of finite differences", function()
    local kinds = {
      {}, { experts_chosen = 1, experts_residual = true }, { experts_capacity = 1 }, { gate = true },
      { gated = true },
    }
    for _, changes in ipairs(kinds) do
      local bert, list = changes.gated and modern(0.1) or nil, {}
      local gate = changes.gate
      changes.gate = nil
      bert = bert or make(changes)
      bert.encoder.gate = gate and { temperature = 2, threshold = 0.5 }
      for _, name in ipairs(bert.params:names()) do
        if name:find("router") or name:find("residual_gate") or name:find("experts.[12].output")
          or name:find("layer.0.attention.self.value") or name:find("experts.1.mlp") then
          list[#list + 1] = bert.params:get(name)
        end
      end
      local batch = whole()[1]
      assert(sr.gradcheck(function() return bert:losses(batch).total end, list, { samples = 2 }))
    end
  end)

  each_device("gives a packed sequence what it would get padded and alone", function()
    local bert = make { hidden_dropout_prob = 0.1, experts_residual = true }
    alike(measure(bert, alone()), measure(bert, whole()), TOLERANCE)
    alike(measure(bert, alone(true)), measure(bert, whole { slots = 64, rows = 512, last = true }), TOLERANCE)
    bert = modern(0.2)
    alike(measure(bert, alone()), measure(bert, whole()), TOLERANCE)
    assert.not_equal(measure(modern(), whole()).total, measure(bert, whole()).total)
  end)

  it("has a key of dropout for each choice in each layer, or is refused", function()
    local ops, seen, count = require("seqrun.tensor.ops"), {}, 0
    local own, config = ops.dropout, {
      family = "modernbert", vocab_size = 120, hidden_size = 16, num_hidden_layers = 3, num_attention_heads = 2,
      intermediate_size = 8, max_position_embeddings = 64, pad_token_id = 0, experts = 12, experts_chosen = 12,
      heads = { "mlm" }, mlp_dropout = 0.1,
    }
    ops.dropout = function(x, layout, options)
      if options.site == "inner" then
        assert.is_nil(seen[options.layer])
        seen[options.layer], count = true, count + 1
      end
      return own(x, layout, options)
    end
    local good, message = pcall(function() sr.nn.bert(config):initialise(3):losses(whole()[1]) end)
    ops.dropout = own
    assert.is_true(good, tostring(message))
    assert.equal(36, count)
    config.experts, config.experts_chosen = 2000, 1500
    fails.raising("1500 experts of a token in 3 layers: dropout inside experts has 4096 keys, which is at most 1365",
      sr.nn.bert, config)
    config.mlp_dropout = 0
    assert.is_nil(require("seqrun.nn.keys.experts").dropout_problem(3, 1500, 0))
    assert.is_nil(require("seqrun.nn.keys.experts").dropout_problem(3, 1365, 0.1))
  end)

  it("gives a packed token the same bits as alone and padded", function()
    local bert = make()
    local quiet <close> = sr.no_grad()
    local packed, padded = bert:encode(whole()[1]), bert:encode(whole { slots = 64, rows = 512 }[1])
    local first = 0
    for i, s in ipairs(input) do
      local n = #s.ids
      local own = bert:encode(alone()[i])
      assert.same(own:totable(), packed:narrow(1, first + 1, n):totable())
      assert.same(own:totable(), padded:narrow(1, 64 * (i - 1) + 1, n):totable())
      first = first + n
    end
  end)

  each_device("changes no bit when activations are recomputed", function()
    for _, more in ipairs { {}, { family = "modernbert" } } do
      local bert = more.family and modern() or make { hidden_dropout_prob = 0.1 }
      local kept = measure(bert, whole { last = true })
      bert.recompute = true
      local again = measure(bert, whole { last = true })
      assert.equal(kept.total, again.total)
      assert.is_nil(support.differ(again.gradients, kept.gradients, 0))
    end
  end)

  it("trains on the tokens that random token dropping keeps", function()
    local bert = make()
    bert.encoder.token_drop = sr.nn.token_drop { keep = 0.5, layers = { 1, 1 } }
    alike(measure(bert, alone()), measure(bert, whole()), TOLERANCE)
  end)

  it("has no losses of its router in evaluations", function()
    local bert = make()
    bert.training = false
    assert.is_nil(bert:losses(whole()[1]).balance)
  end)

  it("has its capacity in training only, so that predictions do not depend on the batch", function()
    local free, full = make { experts_chosen = 1 }, make { experts_chosen = 1, experts_capacity = 1 }
    local quiet <close> = sr.no_grad()
    assert.not_same(free:encode(whole()[1]):totable(), full:encode(whole()[1]):totable())
    free.training, full.training = false, false
    assert.same(free:encode(whole()[1]):totable(), full:encode(whole()[1]):totable())
  end)
end)

describe("the losses of a router", function()
  it("are those of the formulas, for each sequence", function()
    local bert, x = make(), sr.randn(12, 32)
    local layout = sr.layout { lens = { 7, 4 }, starts = { 0, 8 }, rows = 12 }
    local _, losses, load = require("seqrun.nn.experts").feed(bert.encoder, x, layout, 2, "bert.encoder.layer.2.")
    losses = losses:totable()
    local logits = sr.ops.linear(x, bert.params:get("bert.encoder.layer.2.router.weight")):totable()
    local loads = { 0, 0, 0 }
    for n, range in ipairs { { 1, 7 }, { 9, 12 } } do
      local share, mean, square = { 0, 0, 0 }, { 0, 0, 0 }, 0
      local count = range[2] - range[1] + 1
      for t = range[1], range[2] do
        local sum, order = 0, { 1, 2, 3 }
        for e = 1, 3 do sum = sum + math.exp(logits[t][e]) end
        table.sort(order, function(a, b) return logits[t][a] > logits[t][b] end)
        for e = 1, 3 do mean[e] = mean[e] + math.exp(logits[t][e]) / sum / count end
        for k = 1, 2 do
          share[order[k]] = share[order[k]] + 1 / (2 * count)
          loads[order[k]] = loads[order[k]] + 1
        end
        square = square + math.log(sum) ^ 2 / count
      end
      local wanted = 3 * (share[1] * mean[1] + share[2] * mean[2] + share[3] * mean[3])
      assert.is_true(math.abs(wanted - losses[n][1]) < 1e-5)
      assert.is_true(math.abs(square - losses[n][2]) < 1e-5 * math.max(1, square))
    end
    assert.same(loads, load:totable())
  end)

  it("are 1 and above where the load is even, and count what a capacity drops", function()
    local bert = make { experts_capacity = 1, experts_chosen = 1 }
    local losses = bert:losses(whole()[1])
    local dropped, choices = table.unpack(losses.balance.sums.experts_dropped)
    local busiest, layers = table.unpack(losses.balance.sums.experts_busiest)
    assert.is_true(dropped:item() > 0 and dropped:item() < choices)
    assert.equal(2, layers)
    assert.is_true(busiest:item() / layers >= 1 and busiest:item() / layers < 2)
    local free = make { experts_chosen = 1 }:losses(whole()[1])
    assert.is_nil(free.balance.sums.experts_dropped)
  end)
end)

describe("a gate that begins dense", function()
  it("sends tokens to all experts while it is hot, and to the chosen ones in the end", function()
    local bert = make()
    local layout, x = sr.layout { lens = { 40 } }, sr.randn(40, 32)
    local function load_at(temperature)
      bert.encoder.gate = temperature > 1 and { temperature = temperature, threshold = 0.5 } or nil
      local _, _, load = require("seqrun.nn.experts").feed(bert.encoder, x, layout, 1, "bert.encoder.layer.1.")
      return load:sum():item()
    end
    assert.equal(4 * 40, load_at(1000))
    local warm = load_at(2)
    assert.is_true(warm > 2 * 40 and warm < 4 * 40, tostring(warm))
    assert.equal(2 * 40, load_at(1))
  end)

  it("follows its schedule", function()
    local bert = make()
    local gate = sr.run.gate({ gate = { temperature = 5, total = 0.5, threshold = 0.5 } }, bert, 100)
    local function at(step) return gate:before { counters = { step = step, schedule_step = step } } end
    assert.equal(5, bert.encoder.gate.temperature)
    assert.equal(3, at(25))
    assert.equal(3, bert.encoder.gate.temperature)
    assert.equal(1, at(50))
    assert.is_nil(bert.encoder.gate)
    assert.is_nil(sr.run.gate({ gate = { temperature = 1 } }, bert, 100))
  end)
end)

describe("the config of experts", function()
  local function refused(changes, pattern)
    fails.raising(pattern, sr.nn.bert, with(CONFIG, changes))
  end

  it("refuses what cannot be, in one sentence", function()
    refused({ experts = 1 }, "experts is 1; expected 0 %(none%), or 2 to 4096")
    refused({ experts = { 2, 2 } }, "experts has 2 numbers; give one for all layers, or one for each of the 3 layers")
    refused({ experts = "four" }, "experts is 'four'; expected")
    refused({ experts_capacity = 0.5 }, "at least 50 %% of the choices would be dropped")
    refused({ experts_chosen = 0 }, "experts_chosen is 0; expected an integer")
    refused({ experts = 0, experts_residual = true, experts_balance = 0.01, experts_z = 0.001 },
      "experts_residual is true, but the model has no experts")
    refused({ expert = 4 }, "experts")
  end)

  it("is kept in config.json, and read again", function()
    local bert = make { experts_chosen = 1, experts_residual = true }
    local config = json.decode(json.encode(bert:hf_config()))
    local own = assert(configs.encoder(config))
    assert.same({ 0, 4, 3 }, own.experts)
    local design = configs.design(own)
    assert.same(bert.design.experts, design.experts)
    assert.is_nil(sr.nn.bert({ hidden_size = 32, num_attention_heads = 2, experts = 0 }):hf_config().experts)
  end)

  it("counts the products of the experts that a token goes through", function()
    local batch = whole()[1]
    local dense, sparse = make { experts = 0, experts_balance = 0.01, experts_z = 0.001 }, make { experts = 4 }
    local tokens, block, router = batch.layout:tokens(), 2 * 32 * 48, 4 * 32
    assert.equal(6 * 3 * tokens * (block + router), sparse.encoder:flops(batch) - dense.encoder:flops(batch))
  end)
end)

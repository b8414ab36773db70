-- Random layerwise token dropping: what layers keep, and that nothing else changes.

local sr = require("seqrun")
require("tests.support.devices").late()
local support = require("tests.support.bert")

local each_device = require("tests.support.devices").each(it)

local TOLERANCE = 1e-5 -- f32 against the reference, and packed against alone

local input = support.input()

local CONFIG = {
  vocab_size = 120, hidden_size = 32, num_hidden_layers = 4, num_attention_heads = 2, intermediate_size = 64,
  max_position_embeddings = 64, hidden_dropout_prob = 0, attention_probs_dropout_prob = 0,
}

local function make(options, changes)
  local bert = sr.nn.bert(require("tests.support.with")(CONFIG, changes)):initialise(3)
  bert.encoder.token_drop = options and sr.nn.token_drop(options)
  return bert
end

local measure = support.measure

local function alike(a, b, tolerance)
  assert.is_true(math.abs(a.total - b.total) <= tolerance * math.abs(a.total), ("%.9g, %.9g"):format(a.total, b.total))
  assert.is_nil(support.differ(b.gradients, a.gradients, tolerance))
end

local function whole(options) return { support.batch(input, options) } end

local function alone(last) return support.cut(input, nil, { last = last }) end

---The same from gather_rows and put_rows, each layer's rows drawn by itself, with dense attention.
local function composed(bert, layers)
  local encoder, token_drop = bert.encoder, bert.encoder.token_drop
  encoder.attention, encoder.token_drop = sr.nn.dense_attention, nil
  local layer = encoder.layer
  function encoder:layer(x, layout, i, needed)
    if i < layers[1] or i > layers[2] then return layer(self, x, layout, i, needed) end
    local short, rows = layout:shorten {
      fraction = token_drop.keep, layer = i, first = token_drop.first, last = token_drop.last,
    }
    return sr.ops.put_rows(x, rows, layer(self, sr.ops.gather_rows(x, rows), short, i))
  end
  return bert
end

describe("random layerwise token dropping", function()
  each_device("computes what gather_rows, dense attention and put_rows compute", function()
    for _, layers in ipairs { { 1, 2 }, { 0, 3 } } do
      local options = { keep = 0.4, layers = layers }
      alike(measure(composed(make(options), layers), whole()), measure(make(options), whole()), TOLERANCE)
    end
  end)

  ---The same where positions are rotary: each layer runs on all rows, at their own positions, but attends on some.
  local function composed_rotary(bert, layers)
    local encoder, token_drop = bert.encoder, bert.encoder.token_drop
    encoder.token_drop = nil
    local layer = encoder.layer
    function encoder:layer(x, layout, i, needed, fed)
      if fed then x = x + fed end
      if i < layers[1] or i > layers[2] then return layer(self, x, layout, i, needed) end
      local short, rows = layout:shorten {
        fraction = token_drop.keep, layer = i, first = token_drop.first, last = token_drop.last,
      }
      function self.attention(qkv, _, options)
        local kept = sr.ops.attention(sr.ops.gather_rows(qkv, rows), short, options)
        return sr.ops.put_rows(sr.zeros(x:size(1), kept:size(2)), rows, kept)
      end
      local y, more = layer(self, x, layout, i)
      self.attention = nil
      return sr.ops.put_rows(x, rows, sr.ops.gather_rows(more and y + more or y, rows))
    end
    return bert
  end

  local NONE = { attention_probs_dropout_prob = 0, hidden_dropout_prob = 0 }
  for family, own in pairs {
    nomic_bert = NONE, gte = NONE, eurobert = { num_key_value_heads = 1, attention_dropout = 0 },
  } do
    each_device("keeps the positions of tokens in " .. family .. ", packed and alone", function()
      local changes = { family = family, hidden_dropout_prob = false, attention_probs_dropout_prob = false }
      for key, value in pairs(own) do changes[key] = value end
      for key, value in pairs(changes) do changes[key] = value or nil end
      local function rotary(options)
        local config = {}
        for key, value in pairs(CONFIG) do config[key] = value end
        config.hidden_dropout_prob, config.attention_probs_dropout_prob = nil, nil
        for key, value in pairs(changes) do config[key] = value end
        config.heads = { "mlm" }
        local bert = sr.nn.bert(config):initialise(3)
        bert.encoder.token_drop = sr.nn.token_drop(options)
        return bert
      end
      for _, layers in ipairs { { 1, 2 }, { 0, 3 } } do
        local options = { keep = 0.4, layers = layers }
        alike(measure(composed_rotary(rotary(options), layers), whole()), measure(rotary(options), whole()), TOLERANCE)
      end
      local bert = rotary { keep = 0.5 }
      local packed = measure(bert, whole())
      alike(measure(bert, alone()), packed, TOLERANCE)
      bert.recompute = true
      assert.equal(packed.total, measure(bert, whole()).total)
    end)
  end

  it("has the gradients of finite differences", function()
    local before = sr.device()
    sr.use("ref")
    local bert = make({ keep = 0.5 }, { hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1 })
    local batch, checked = whole()[1], {}
    for _, name in ipairs {
      "bert.embeddings.LayerNorm.weight", "bert.encoder.layer.0.output.dense.bias",
      "bert.encoder.layer.1.attention.self.value.weight", "bert.encoder.layer.2.output.LayerNorm.bias",
    } do checked[#checked + 1] = bert.params:get(name) end
    local good, message = sr.gradcheck(function() return bert:losses(batch).total end, checked, { samples = 4 })
    sr.use(before)
    assert.is_true(good, message)
  end)

  each_device("gives a packed sequence what it would get padded and alone", function()
    local bert = make({ keep = 0.5, first = false, last = false },
      { hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1 })
    alike(measure(bert, alone()), measure(bert, whole()), TOLERANCE)
    alike(measure(bert, alone(true)), measure(bert, whole { slots = 64, rows = 512, last = true }), TOLERANCE)
  end)

  each_device("changes no bit at keep = 1", function()
    local dropout = { hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1 }
    local plain, all = measure(make(nil, dropout), whole()), measure(make({ keep = 1 }, dropout), whole())
    assert.equal(plain.total, all.total)
    assert.is_nil(support.differ(all.gradients, plain.gradients, 0))
  end)

  each_device("changes no bit when activations are recomputed", function()
    local bert = make({ keep = 0.5 }, { hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1 })
    local kept = measure(bert, whole { last = true })
    bert.recompute = true
    local again = measure(bert, whole { last = true })
    assert.equal(kept.total, again.total)
    assert.is_nil(support.differ(again.gradients, kept.gradients, 0))
  end)

  it("computes the same with the kernels of the GPU", function()
    local before = sr.device()
    local wanted = measure(make { keep = 0.5 }, { support.batch { input[1], input[2] } })
    if not pcall(sr.use, "simt") then
      sr.use(before)
      pending("no simt device: g++ was not found")
    end
    local good, got = pcall(measure, make { keep = 0.5 }, { support.batch { input[1], input[2] } })
    local total = good and got.total
    sr.use(before)
    assert.is_true(good, got)
    assert.is_true(math.abs(total - wanted.total) <= TOLERANCE * wanted.total)
  end)

  it("works with the last layer's needed rows, also where the last layer drops tokens", function()
    for _, layers in ipairs { { 1, 2 }, { 2, 3 } } do
      local bert = make { keep = 0.5, layers = layers }
      alike(measure(bert, whole()), measure(bert, whole { last = true }), TOLERANCE)
    end
  end)

  it("works over frozen layers, with the same loss and gradients of the others", function()
    local bert = make { keep = 0.5 }
    local free = measure(bert, whole())
    bert.encoder.frozen = 2
    bert.params:zero_grad()
    local frozen = measure(bert, whole())
    assert.equal(free.total, frozen.total)
    for name, g in pairs(frozen.gradients) do
      local layer = tonumber(name:match("layer%.(%d+)") or name:find("bert.embeddings", 1, true) and -1 or 9)
      local same = (g - free.gradients[name]):abs():max():item() == 0
      local tied = name:find("word_embeddings", 1, true) -- of the decoder
      assert.is_true(tied ~= nil or (layer < 2 and g:abs():max():item() == 0) or (layer >= 2 and same), name)
    end
  end)

  it("works in bf16", function()
    local options = { keep = 0.5 }
    local wanted = measure(make(options), whole())
    local got = measure(make(options, { precision = "bf16" }), whole())
    alike(wanted, got, 0.05)
  end)

  it("passes the rows that it drops through, to the bit, and gives each layer rows of its own", function()
    local bert, batch = make { keep = 0.3, layers = { 1, 3 } }, whole()[1]
    local hidden, layer, seen = {}, bert.encoder.layer, {}
    function bert.encoder:layer(x, layout, i)
      hidden[i] = { x = x:clone(), y = layer(self, x, layout, i) }
      return hidden[i].y
    end
    bert:encode(batch)
    local dense = hidden[0].y -- overwritten in place by layers 1 to 3
    local kept = batch.kept
    local x = layer(bert.encoder, hidden[0].x, batch.layout, 0):clone()
    for i = 1, 3 do
      local rows = kept.rows[i]:totable()
      seen[table.concat(rows, " ")] = true
      assert.same(sr.ops.gather_rows(x, kept.rows[i]):totable(), hidden[i].x:narrow(1, 1, #rows):totable())
      x = sr.ops.put_rows(x, kept.rows[i], hidden[i].y:narrow(1, 1, #rows))
    end
    assert.same(x:totable(), dense:totable())
    local count = 0
    for _ in pairs(seen) do count = count + 1 end
    assert.equal(3, count)
  end)

  it("keeps a share of each sequence, and what must be kept", function()
    local bert, batch = make { keep = 0.25, masked = true }, whole()[1]
    local dense = bert:flops(batch)
    bert:losses(batch)
    local kept, lengths = batch.kept.layout:lengths(), batch.layout:lengths()
    local tokens = 0
    for i, s in ipairs(input) do
      local forced = { [0] = true, [#s.ids - 1] = true }
      for _, position in ipairs(s.masked_positions) do forced[position] = true end
      local count = 0
      for _ in pairs(forced) do count = count + 1 end
      assert.equal(math.max(count, math.floor(0.25 * lengths[i] + 0.5)), kept[i])
      tokens = tokens + kept[i]
    end
    local rows = {}
    for _, row in ipairs(batch.kept.rows[2]:totable()) do rows[row] = true end
    for _, row in ipairs(batch.targets.mlm.rows:totable()) do assert.is_true(rows[row]) end
    assert.equal(2 * batch.layout:tokens() + 2 * tokens, bert:layer_tokens(batch))
    assert.is_true(bert:flops(batch) < 0.7 * dense)
  end)

  it("is off in evaluation", function()
    local batch = whole()[1]
    local bert, plain = make { keep = 0.5 }, make()
    bert.training, plain.training = false, false
    assert.equal(plain:losses(batch).total:item(), bert:losses(batch).total:item())
    assert.is_nil(batch.kept)
    assert.equal(4 * batch.layout:tokens(), bert:layer_tokens(batch))
  end)

  it("keeps every position equally often (chi-square)", function()
    local LENGTH, TIMES = 24, 3000
    local hits = {}
    for i = 1, LENGTH do hits[i] = 0 end
    local lens, uids = {}, {}
    for i = 1, TIMES do lens[i], uids[i] = LENGTH, i end
    local layout = sr.layout { lens = lens, uids = uids, seed = 12 }
    local _, rows = layout:shorten { fraction = 1 / 3, layer = 1, layers = 2 }
    for _, row in ipairs(rows:select(1, 2):totable()) do hits[row % LENGTH + 1] = hits[row % LENGTH + 1] + 1 end
    local expected, chi = TIMES / 3, 0
    for i = 1, LENGTH do chi = chi + (hits[i] - expected) ^ 2 / (expected * (1 - 1 / 3)) end
    chi = chi * (LENGTH - 1) / LENGTH -- a fixed number is kept of each sequence
    assert.is_true(chi < 49.7, chi) -- 0.999 of chi-square with 23 degrees of freedom
  end)

  it("names the option that is wrong, and the way out", function()
    assert.error_matches(function() sr.nn.token_drop { keep = 0 } end,
      "keep is 0; choose a share of the tokens in %(0, 1%]")
    assert.error_matches(function() sr.nn.token_drop {} end, "keep is nil")
    assert.error_matches(function() sr.nn.token_drop { kep = 1 } end, "did you mean 'keep'")
    local two = make({ keep = 0.5 }, { num_hidden_layers = 2 })
    assert.error_matches(function() two:losses(whole()[1]) end, "2 layers have none between")
    local outside = make { keep = 0.5, layers = { 2, 4 } }
    assert.error_matches(function() outside:losses(whole()[1]) end, "layers is %[2, 4%].*from 0 to 3")
    local unmasked = make { keep = 0.5, masked = true }
    local batch = whole()[1]
    batch.targets.mlm = nil
    assert.error_matches(function() unmasked:losses(batch) end, "masked is set, but the batch has no masked tokens")
    local x = sr.randn({ 3, 2 }, { seed = 1, uid = 1, requires_grad = true })
    local rows = sr.tensor({ 1 }, { dtype = "i32" })
    local function same(taken) return taken end
    assert.error_matches(function() sr.ops.on_rows(x, rows, same, { in_place = true }) end, "leave out in_place")
    assert.error_matches(function() sr.ops.on_rows(x, rows, same, { count = 0 }) end, "do not fit in a count of 0")
    assert.error_matches(function() sr.ops.on_rows(x, rows, function(t) return t:narrow(1, 1, 0) end) end,
      "0 values for 1 rows")
  end)
end)

-- Causal models against Transformers (tests/data/causal), packed, padded and alone, in both directions of GPT-BERT, and
-- what predicts with them.

local bert = require("tests.support.bert")
local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local families = require("tests.support.families")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local tensor_file = require("seqrun.checkpoint.tensor_file")

local ROOT = "tests/data/causal/"
local IN_F32, IN_F64, GRADIENT = 1e-5, 1e-6, 3e-5 -- largest error over largest magnitude; golden values are f32

local folder = program.folder()

local it_on = require("tests.support.devices").it_on(it)
local on = require("tests.support.devices").on
local with = require("tests.support.with")

local function golden_of(name)
  local golden = json.decode(sr.must(sys.read_file(ROOT .. name .. "/golden.json")))
  golden.tensors = sr.must(tensor_file.read(ROOT .. name .. "/golden.safetensors"))
  return golden
end

local function int(list) return #list > 0 and sr.tensor(list, { dtype = "i32" }) or sr.zeros(0, { dtype = "i32" }) end

---A batch of sequences; those in `masked`, by number, have these rows as items of mlm, read one row earlier.
local function batch_of(sequences, options)
  options = options or {}
  local ids, lens, starts, uids, n = {}, {}, {}, {}, 0
  local target = { causal = { rows = {}, labels = {} }, mlm = { rows = {}, labels = {} } }
  for i, s in ipairs(sequences) do
    if options.slots then n = math.max(n, (i - 1) * options.slots) end
    starts[i], lens[i], uids[i] = n, #s, (options.first or 1) + i - 2
    local places = options.masked and options.masked[uids[i] + 1]
    local own = places and target.mlm or target.causal
    for row = 1, #s do ids[n + row] = s[row] end
    for k = 1, places and #places or #s - 1 do
      local row = places and places[k] - 1 or k -- from 1, of what is read
      own.rows[#own.rows + 1], own.labels[#own.labels + 1] = n + row - 1, s[row + 1]
    end
    n = n + #s
  end
  local rows = options.rows or (n + 127) // 128 * 128
  for row = 1, rows do ids[row] = ids[row] or 0 end
  local batch = {
    layout = sr.layout { lens = lens, starts = starts, uids = uids, rows = rows, seed = 7 },
    ids = int(ids), types = sr.zeros(rows, { dtype = "i32" }), targets = {}, sequences = #sequences,
  }
  for name, own in pairs(target) do
    local count = options.count and options.count[name] or #own.rows
    local weights = {}
    for k = 1, #own.rows do weights[k] = 1 / count end
    if name == "causal" or options.masked then
      batch.targets[name] = {
        name = name, rows = int(own.rows), labels = int(own.labels), count = #own.rows,
        weights = #weights > 0 and sr.tensor(weights) or sr.zeros(0),
      }
    end
  end
  return batch
end

local error_of, close, own_rows = families.error, families.close, families.own_rows

local function measure(model, batches)
  local found = bert.measure(model, batches)
  for _, param in ipairs(model.params.list) do
    local grad = found.gradients[param.name]
    if param.transposed then found.gradients[param.name] = grad:transpose(1, 2):contiguous() end
  end
  return found.total, found.gradients
end

for _, name in ipairs { "gpt2", "gpt2_untied" } do
  describe("the causal model " .. name, function()
    local function check(device, tolerance, gradient)
      on(device, function()
        local golden = golden_of(name)
        local model, _, report = sr.must(sr.nn.pretrained(ROOT .. name))
        assert.same({ 0, 0 }, { #report.missing, #report.ignored }, tostring(report))
        local batch = batch_of(golden.sequences)
        local hidden = own_rows(model:encode(batch):detach(), batch.layout)
        close("hidden", hidden, golden.tensors.hidden, tolerance)
        close("logits", model:head("causal"):logits(hidden), golden.tensors.logits, tolerance)
        local loss, gradients = measure(model, { batch })
        assert.near(golden.loss, loss, tolerance * golden.loss)
        local wanted = {}
        for _, own in ipairs(model.params:names()) do wanted[own] = assert(golden.tensors["grad." .. own], own) end
        assert.is_nil(bert.differ(gradients, wanted, gradient))
      end)
    end

    it("computes what Transformers does, in f64 and in f32", function()
      check("ref", IN_F64, IN_F64)
      check("cpu", IN_F32, GRADIENT)
    end)

    it_on("cpu", "follows 20 steps of AdamW", function()
      local golden = golden_of(name)
      local model = sr.must(sr.nn.pretrained(ROOT .. name))
      local optimizer = sr.optim.adamw(model.params, { betas = { 0.9, 0.999 }, eps = 1e-6, decay = 0.01 })
      for step, wanted in ipairs(golden.adamw) do
        local loss = measure(model, { batch_of(golden.sequences) })
        assert.near(wanted[1], loss, IN_F32 * wanted[1], "loss of step " .. step)
        assert.near(wanted[2], optimizer:step({ rate = 1e-3, clip = 1 }).norm, 1e-4 * wanted[2])
      end
    end)

    it_on("cpu", "gives a sequence the same bits packed, padded and alone, with dropout too", function()
      local golden = golden_of(name)
      for _, p in ipairs { 0, 0.25 } do
        local model = sr.nn.bert(with(sr.must(sr.checkpoint.pretrained(ROOT .. name)).config,
          { resid_pdrop = p, embd_pdrop = p, attn_pdrop = p }))
        sr.must(sr.checkpoint.load(ROOT .. name, { model = model.params }))
        local function bits(sequences, options)
          local batch = batch_of(sequences, options)
          return own_rows(model:encode(batch):detach(), batch.layout):tostring_bytes()
        end
        local alone = {}
        for i, s in ipairs(golden.sequences) do alone[i] = bits({ s }, { first = i }) end
        for way, options in pairs { packed = {}, longer = { rows = 384 }, padded = { slots = 40 } } do
          assert.is_true(table.concat(alone) == bits(golden.sequences, options), way)
        end
      end
    end)

    it_on("cpu", "is saved as Transformers wrote it, and read again", function()
      local model = sr.must(sr.nn.pretrained(ROOT .. name))
      sys.make_dirs(folder .. "/" .. name)
      local path = sr.must(sr.checkpoint.save(folder .. "/" .. name, {
        step = 1, model = model.params, config = model:hf_config(),
      }))
      local theirs = sr.must(tensor_file.read(ROOT .. name .. "/model.safetensors"))
      local ours, count = sr.must(tensor_file.read(path .. "/model.safetensors")), 0
      for key, value in pairs(theirs) do
        assert.same(value:shape(), ours[key]:shape(), key)
        assert.is_true(value:tostring_bytes() == ours[key]:tostring_bytes(), key)
        count = count + 1
      end
      assert.equal(count, #model.params:names())
      local config = json.decode(sys.read_file(path .. "/config.json"))
      assert.equal("GPT2LMHeadModel", config.architectures[1])
      sr.must(sr.checkpoint.export(path, folder .. "/out-" .. name))
      config = json.decode(sys.read_file(folder .. "/out-" .. name .. "/config.json"))
      assert.same({ "GPT2LMHeadModel", "gpt2" }, { config.architectures[1], config.model_type })
      assert.equal("causal", sr.must(sr.nn.pretrained(folder .. "/out-" .. name)).heads[1].name)
    end)
  end)
end

it("the loss of a causal model has the same gradients in chunks as in one piece", function()
  for device, tolerance in pairs { ref = 1e-12, cpu = 1e-6 } do
    on(device, function()
      local golden, model, sequences = golden_of("gpt2"), sr.must(sr.nn.pretrained(ROOT .. "gpt2")), {}
      for i = 1, 80 do sequences[i] = golden.sequences[i % 2 + 4] end
      local batch = batch_of(sequences)
      assert.is_true(batch.targets.causal.count > 1024)
      local loss, gradients = measure(model, { batch })
      model:head("causal").chunks = false
      local whole, others = measure(model, { batch })
      assert.near(whole, loss, 1e-6 * whole)
      assert.is_nil(bert.differ(gradients, others, tolerance))
      local items = model:losses(batch).causal
      assert.equal(batch.targets.causal.count, items.items:size(1))
      assert.equal(batch.targets.causal.count, items.correct:size(1))
    end)
  end
end)

describe("a causal model with masked sequences beside", function()
  local MASKED = { [2] = { 2 }, [4] = { 3, 8, 17 } } -- places of masked tokens, from 1, by the number of the sequence

  local function model_of()
    local head
    local config = { heads = {
      function(encoder)
        head = sr.nn.heads.causal(encoder)
        return head
      end,
      function() return require("seqrun.nn.heads.mlm").masked_too(head) end,
    } }
    local model = sr.nn.bert(with(config, sr.must(sr.checkpoint.pretrained(ROOT .. "gpt2")).config))
    sr.must(sr.checkpoint.load(ROOT .. "gpt2", { model = model.params }))
    return model
  end

  it_on("cpu", "sees both sides in these, and only what came before in the others", function()
    local golden, model = golden_of("gpt2"), model_of()
    local both = model.encoder:both_sides()
    local function values(change)
      local sequences = {}
      for i, s in ipairs(golden.sequences) do
        sequences[i] = table.move(s, 1, #s, 1, {})
        if change then sequences[i][#s] = (s[#s] + 1) % 60 end
      end
      local batch, found = batch_of(sequences, { masked = MASKED }), {}
      model:losses(batch, function(head, hidden, target)
        found[head.name] = head:logits(hidden:rows(target)):detach():tostring_bytes()
      end)
      return found
    end
    local before, after = values(), values(true)
    assert.is_true(before.mlm ~= after.mlm)
    local quiet <close> = sr.no_grad()
    local one = batch_of({ golden.sequences[4] }, { first = 4 })
    assert.is_true(error_of(both:encode(one), model:encode(one)) > 0.01)
    assert.is_true(#before.causal == #after.causal)
    assert.is_true(before.causal == after.causal, "the last token is read by none") -- labels alone differ
  end)

  it("has the same loss and gradients packed and one sequence after the other", function()
    for device, tolerance in pairs { cpu = GRADIENT, ref = 1e-10 } do
      on(device, function()
        local golden, model = golden_of("gpt2"), model_of()
        local packed = batch_of(golden.sequences, { masked = MASKED })
        local count = { causal = packed.targets.causal.count, mlm = packed.targets.mlm.count }
        local loss, gradients = measure(model, { packed })
        local alone = {}
        for i, s in ipairs(golden.sequences) do
          alone[i] = batch_of({ s }, { first = i, masked = MASKED, count = count })
        end
        local other_loss, other = measure(model, alone)
        assert.near(loss, other_loss, 1e-5)
        assert.is_nil(bert.differ(other, gradients, tolerance))
      end)
    end
  end)

  it_on("ref", "has gradients that finite differences confirm", function()
    local golden, model = golden_of("gpt2"), model_of()
    local batch = batch_of({ golden.sequences[2], golden.sequences[3] }, { masked = { { 2 } } })
    local names = { "transformer.wpe.weight", "transformer.h.0.attn.c_attn.weight", "transformer.ln_f.bias" }
    bert.check_gradients(model.params, names, function() return model:losses(batch).total end)
  end)
end)

describe("predicting with a causal model", function()
  it("continues greedily as Transformers does, alone and beside others", function()
    for _, name in ipairs { "gpt2", "gpt2_untied" } do
      local golden = golden_of(name).continued
      local continue = sr.must(sr.continue.open(ROOT .. name, { tokens = #golden.ids }))
      local core = continue.tokenizer.core
      local text = core:decode(golden.from, true)
      local again = core:ids(text)
      if table.concat(again, " ") == table.concat(golden.from, " ") then -- else its text has other tokens
        local wanted = {}
        for _, id in ipairs(golden.ids) do
          if id == golden["end"] then break end
          wanted[#wanted + 1] = id
        end
        assert.same(wanted, continue:one(text).ids)
      end
      local one = continue:one("the his")
      for found, item in continue:each { "of", "the his", "in that" } do
        if item.text == "the his" then assert.same(one, found) end
      end
      assert.equal("the his" .. one.added, one.text)
    end
  end)

  it("keeps keys and values of a text, with the bits of passes over all of it", function()
    local batches = require("seqrun.predict.batches")
    for _, case in ipairs { { "gpt2", "f32" }, { "gpt2_untied", "f32" }, { "gpt2", "bf16" } } do
      local continue = sr.must(sr.continue.open(ROOT .. case[1], { tokens = 9, precision = case[2] }))
      local core, model = continue.tokenizer.core, continue.model
      for found, item in continue:each { "the his", "of", "in that the his of the", "his" } do
        local ids, sum = core:ids(item.text), 0.0
        local steps = table.move(found.ids, 1, #found.ids, 1, {})
        steps[#steps + 1] = found.ended and next(continue.ends) or nil
        for _, id in ipairs(steps) do
          local scope <close> = sr.scope()
          local quiet <close> = sr.no_grad()
          local batch = batches.make({ { a = ids, open = true } }, core)
          batches.last_rows(batch)
          local x = model.encoder:encode(batch, batch.last):narrow(1, 1, 1)
          sum = sum + model:head("causal"):logits(x):to("f32"):log_softmax(-1):totable()[1][id + 1]
          ids[#ids + 1] = id
        end
        assert.equal(sum, found.score, case[1] .. " " .. case[2] .. ": " .. item.text)
      end
    end
  end)

  it("draws with a seed, the same whatever stands beside, among the most probable ones if asked to", function()
    local function ids(options, ...)
      local list = {}
      for found in sr.must(sr.continue.open(ROOT .. "gpt2", options)):each { ... } do list[#list + 1] = found.ids end
      return list
    end
    local options = { tokens = 8, temperature = 1, seed = 3 }
    local three = ids(options, "the", "of it", "his")
    assert.same(three, ids(options, "the", "of it", "his"))
    assert.same(three[2], ids({ tokens = 8, temperature = 1, seed = 3, rows = 32 }, "a", "of it")[2])
    assert.not_same(three, ids({ tokens = 8, temperature = 1, seed = 4 }, "the", "of it", "his"))
    assert.same(ids({ tokens = 8 }, "the"), ids({ tokens = 8, temperature = 0.5, top = 1 }, "the"))
  end)

  it("scores a text by the tokens before each", function()
    local score = sr.must(sr.score.open(ROOT .. "gpt2"))
    local text = "the his that"
    local ids, sum = score.tokenizer.core:ids(text), 0
    on("cpu", function()
      local quiet <close> = sr.no_grad()
      local batch = batch_of { ids }
      local model = sr.must(sr.nn.pretrained(ROOT .. "gpt2"))
      local logs = model:head("causal"):logits(model:encode(batch)):log_softmax(-1):totable()
      for i = 2, #ids do sum = sum + logs[i - 1][ids[i] + 1] end
    end)
    local found = score:one(text)
    assert.near(sum, found.score, 1e-4)
    assert.equal(#ids - 1, found.tokens, "nothing stands before the first")
    local pair = score:one { sentence_good = text, sentence_bad = text }
    assert.same({ found.score, found.score, nil }, { pair.good, pair.bad, pair.correct })
    assert.matches("one token, with nothing before it", select(2, pcall(function() score:one("t") end)))
  end)

  it("refuses models of the other kind, and heads that need both sides", function()
    fails.returning(nil, "is a gpt2, a causal model, which sees no token after a mask; `seqrun fill %-%-causal`",
      sr.fill.open(ROOT .. "gpt2"))
    fails.returning(nil, "is a bert, which sees both sides of a token and continues no text",
      sr.continue.open("tests/data/families/bert"))
    fails.raising("the family gpt2 is causal", sr.nn.bert,
      { family = "gpt2", heads = { sr.nn.heads.classify { outputs = 2 } } })
    fails.raising("the family bert is bidirectional", sr.nn.bert, { family = "bert", heads = { "causal" } })
    fails.raising("it is causal", sr.nn.bert, { family = "gpt2", heads = { "mlm" } })
    assert.matches("temperature is %-1", select(2, pcall(sr.continue.open, ROOT .. "gpt2", { temperature = -1 })))
  end)

  it("#slow is a command: lines that go on, in JSON too, and options that need --causal", function()
    local out = program.ok { "fill", "--causal", ROOT .. "gpt2", "--text", "the his", "--tokens", "3" }
    assert.matches("^the his", out)
    local found = program.json { "fill", "--causal", ROOT .. "gpt2", "--text", "the his", "--tokens", "3", "--json" }
    assert.same({ 1, true }, { found.line, #found.ids <= 3 and found.score < 0 })
    fails.exiting(2, "fill: %-%-seed needs %-%-causal",
      { "fill", "tests/data/families/bert", "--text", "the [MASK]", "--seed", "1" })
    local lines = program.write(folder, "score.txt", "the his\nin that\n")
    local _, said = program.ok { "score", ROOT .. "gpt2", lines }
    assert.matches("a token; perplexity %d", said)
    out = program.ok { "eval", ROOT .. "gpt2", lines }
    assert.matches("causal loss %d+%.%d+, perplexity %d+%.%d+, accuracy", out)
  end)
end)

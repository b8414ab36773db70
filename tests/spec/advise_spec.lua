-- The layout advisor: formulas by hand, what more of something can only do, and the command.

local advise = require("seqrun.advise")
local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local memory = require("seqrun.advise.memory")
local models = require("seqrun.advise.models")
local program = require("tests.support.program")
local time = require("seqrun.advise.time")
local with = require("tests.support.with")

---A job and a layout on it; overrides go into either.
local function case(overrides)
  local layout = {
    micro_batch = 1, data = 8, tensor = 1, pipeline = 1, sequence_parallel = false, recompute = false, zero = 1,
  }
  local job = assert(advise.job {
    model = overrides.model or "llama-13b", device = overrides.device or "a100", seq = overrides.seq or 2048,
    batch = overrides.batch or 64, devices = overrides.devices or 8, kernel = overrides.kernel,
  })
  for key in pairs(layout) do
    if overrides[key] ~= nil then layout[key] = overrides[key] end
  end
  return job, layout
end

local function predict(overrides) return advise.predict(case(overrides)) end

describe("the shapes of models", function()
  it("have the published parameters", function()
    local function count(name) return models.count(assert(models.model(name))) end
    assert.near(336.2e6, count "bert-large", 2e6) -- its pooler and next-sentence head are left out
    assert.near(110.1e6, count "bert-base", 1e6)
    assert.near(6.74e9, count "llama-2-7b", 0.01e9)
    assert.near(68.98e9, count "llama-2-70b", 0.1e9)
    assert.near(8.03e9, count "llama-3-8b", 0.01e9)
  end)

  it("have the FLOP of a token that are usual", function()
    local llama = assert(models.model "llama-13b")
    local h, f, V, L, s = 5120, 13824, 128000, 40, 2048
    local N = L * (4 * h * h + 3 * h * f) + 2 * V * h
    assert.equal(6 * N + 12 * L * h * s, models.flop(llama, s))
    assert.near(1.955e9, models.flop(assert(models.model "bert-large"), 386.3), 0.005e9)
  end)

  it("are read from a config.json", function()
    local home = program.folder()
    program.write(home, "config.json", json.encode {
      model_type = "llama", hidden_size = 64, num_hidden_layers = 2, num_attention_heads = 4, intermediate_size = 160,
      vocab_size = 1000, num_key_value_heads = 2,
    })
    local model = assert(models.model(home))
    assert.is_true(model.causal and model.gated)
    local layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160 + 2 * 64
    assert.equal(2 * layer + 2 * 1000 * 64, models.count(model))
    program.write(home, "config.json", json.encode {
      hidden_size = 100, num_hidden_layers = 2, num_attention_heads = 3, intermediate_size = 160, vocab_size = 1000,
    })
    assert.matches("hidden_size 100 is not a multiple of num_attention_heads 3", select(2, models.model(home)))
    local modern = assert(models.model "tests/data/configs/ModernBERT-base.json")
    assert.same({ 22, 1152, true, false }, { modern.layers, modern.inner, modern.gated, modern.causal })
    assert.near(1.496e8, models.count(modern), 3e5)
    assert.near((8 * 4096 + 14 * 129) / 22, models.attended(modern, 4096), 1e-9) -- 8 of 22 layers are global
    assert.equal(models.count(modern), models.count(assert(models.model "modernbert-base")))
    assert.equal(6, assert(models.model "tests/data/configs/distilbert-base-uncased.json").layers)
    assert.matches("ntk", select(2, models.model "tests/data/configs/gte-base-en-v1.5.json"))
    program.write(home, "config.json", "{\"hidden_size\": \"wide\"}")
    fails.returning("data", "hidden_size is wide; expected an integer", models.model(home))
  end)
end)

describe("the time of a step", function()
  -- constants that leave one cause at a time
  local function only(constants)
    local c = with({ product = math.huge, edge = 0, flash2 = math.huge, link = math.huge, send = math.huge,
      network = math.huge }, constants)
    for name in pairs(advise.coefficients("flash2_rms").time) do c[name] = c[name] or 0 end
    return c
  end

  it("is the FLOP of the products over the rate where nothing else costs", function()
    local job, layout = case { micro_batch = 2 }
    local _, parts = time.step(job, layout, only { product = 0.5 })
    local h, f, V, L = 5120, 13824, 128000, 40
    local rows = 64 * 2048 / 8
    assert.near(6 * rows * L * (4 * h * h + 3 * h * f) / (0.5 * 312e12), parts.products, 1e-9)
    assert.near(6 * rows * h * V / (0.5 * 312e12), parts.head, 1e-9)
    assert.near(0, parts.attention + parts.pointwise + parts.tensor + parts.bubble + parts.data, 1e-9)
  end)

  it("adds a third of the products for recomputation, and (p - 1) micro-batches for the bubble", function()
    local job, layout = case { pipeline = 4, data = 2, recompute = true }
    local c = only { product = 0.5 }
    local _, parts = time.step(job, layout, c)
    assert.near(parts.products / 3, parts.recompute, 1e-9)
    local count = 64 / 2
    assert.near((parts.products + parts.recompute) / count * 3, parts.bubble, 1e-9)
  end)

  it("cuts the bubble by interleaved stages, which send as much more often", function()
    local job, layout = case { pipeline = 4, data = 2 }
    local c = only { product = 0.5, send = 1 }
    local _, plain = time.step(job, layout, c)
    layout.interleave = 2
    local _, interleaved = time.step(job, layout, c)
    assert.near(plain.bubble / 2, interleaved.bubble, 1e-12)
    assert.near(2 * plain.sends, interleaved.sends, 1e-12)
    assert.equal(plain.products, interleaved.products)
  end)

  it("has row-wise ops once more with selective recomputation, and attention where scores are kept", function()
    local job, layout = case { selective = true }
    local c = only { norm_fused = 3, norm_plain = 3, pointwise = 3, torch = 6, product = 1e6 }
    layout.selective = true
    local _, parts = time.step(job, layout, c)
    assert.near(parts.pointwise / 3, parts.recompute, 1e-12)
    job.kernel = "torch"
    _, parts = time.step(job, layout, c)
    assert.near((parts.pointwise + parts.attention) / 3, parts.recompute, 1e-12)
  end)

  it("has rings share the links between switches beyond 8 nodes", function()
    local c = only { network = 0.5, congestion = 2 }
    local function seconds(devices, congestion)
      c.congestion = congestion
      local job, layout = case { devices = devices, data = 64, batch = 256 }
      return (select(2, time.step(job, layout, c))).data
    end
    assert.near(seconds(64, 0), seconds(64, 2), 1e-12)
    assert.near(16 * seconds(256, 0), seconds(256, 2), 1e-9)
  end)

  it("moves 2 (n - 1) / n of the activations in an all-reduce, of the gradients in the exchange", function()
    local job, layout = case { tensor = 2, data = 4 }
    local _, parts = time.step(job, layout, only { link = 1 })
    local rows, h = 2048, 5120
    local bytes = 2 * rows * h * 2 * (2 - 1) / 2 -- bf16, ring
    assert.near(64 / 4 * 40 * 4 * bytes / 300e9, parts.tensor, 1e-9) -- two forward, two backward
    assert.near(2 * 2 * time.parameters(job.model, layout) * 3 / 4 / 300e9, parts.data, 1e-9)
  end)

  it("never grows with more devices where efficiency is the same", function()
    for _, kernel in ipairs { "torch", "fused", "flash1", "flash2", "flash2_rms" } do
      local before = math.huge
      for _, data in ipairs { 1, 2, 4, 8 } do
        local now = predict { kernel = kernel, data = data, devices = data, batch = 512 }.step_seconds
        assert.is_true(now < before)
        before = now
      end
    end
  end)

  it("grows with recomputation, with slower kernels, and never beats the peak", function()
    assert.is_true(predict({ recompute = true }).step_seconds > predict({}).step_seconds)
    local last = 0
    for _, kernel in ipairs { "flash2_rms", "flash2", "flash1", "fused", "torch" } do
      local found = predict { kernel = kernel }
      assert.is_true(found.step_seconds > last, kernel)
      assert.is_true(found.mfu > 0 and found.mfu < 1)
      last = found.step_seconds
    end
  end)

  it("is the sum of its causes", function()
    local found = predict { tensor = 2, data = 2, pipeline = 2, recompute = true }
    local sum, bytes = 0, 0
    for _, seconds in pairs(found.seconds) do sum = sum + seconds end
    for _, each in pairs(found.bytes) do bytes = bytes + each end
    assert.near(found.step_seconds, sum, 1e-9)
    assert.near(found.memory_bytes, bytes, 1)
  end)
end)

describe("the memory of a device", function()
  local function need(overrides)
    local job, layout = case(overrides)
    return (memory.need(job, layout, advise.coefficients(job.kernel).memory))
  end

  it("grows with the micro-batch and the sequence", function()
    for _, recompute in ipairs { false, true } do
      local last = 0
      for _, micro in ipairs { 1, 2, 4, 8 } do
        local now = need { micro_batch = micro, recompute = recompute }
        assert.is_true(now > last)
        last = now
      end
    end
    assert.is_true(need { seq = 4096 } > need { seq = 2048 })
  end)

  it("shrinks with recomputation, tensor and sequence parallelism, ZeRO and fused kernels", function()
    local plain = need { tensor = 2, data = 4 }
    assert.is_true(plain < need { data = 8 })
    assert.is_true(need { tensor = 2, data = 4, sequence_parallel = true } < plain)
    assert.is_true(need { tensor = 2, data = 4, recompute = true } < plain)
    assert.is_true(need { tensor = 2, data = 4, zero = 0 } > plain)
    assert.is_true(need { tensor = 2, data = 4, kernel = "torch" } > plain)
  end)

  it("shrinks with selective recomputation, by the outputs of norms and activations and by score matrices", function()
    local job, layout = case { kernel = "torch" }
    local c = { gradient = 0, norm_plain = 5, split = 1, torch = 2, logits = 0, reserved = 0 }
    local before = memory.layer(job, layout, c)
    layout.selective = true
    local rows, h, f = 2048, 5120, 13824
    assert.near(2 * rows * (2 * h + f + 2 * 40 * 2048), before - memory.layer(job, layout, c), 1)
  end)

  it("grows by (p - 1) / (p v) of the activations with v pieces on p stages", function()
    local job, layout = case { pipeline = 4, data = 2 }
    local c = { gradient = 0, norm_fused = 1, split = 0, logits = 0, reserved = 0 }
    local _, plain = memory.need(job, layout, c)
    layout.interleave = 2
    local _, parts = memory.need(job, layout, c)
    assert.near((1 + 3 / 8) * plain.activations, parts.activations, 1)
  end)

  it("has weights, gradients and optimizer state by the byte", function()
    local job, layout = case {}
    local parameters = models.count(job.model)
    local _, parts = memory.need(job, layout, { gradient = 4, norm_fused = 0, split = 0, logits = 0, reserved = 0 })
    assert.equal(2 * parameters, parts.weights)
    assert.equal(4 * parameters, parts.gradients)
    assert.equal(12 * parameters / 8, parts.optimizer)
    assert.equal(0, parts.activations + parts.logits + parts.reserved)
  end)

  it("keeps as many micro-batches on the first stage as there are stages", function()
    local job, layout = case { pipeline = 4, data = 2 }
    local c = { gradient = 0, norm_fused = 1, split = 0, logits = 0, reserved = 0 }
    local _, parts = memory.need(job, layout, c)
    assert.equal(4 * 40 / 4 * 2 * 2048 * 5120, parts.activations)
    layout.recompute = true
    _, parts = memory.need(job, layout, c)
    assert.equal(4 * 40 / 4 * 2 * 2048 * 5120 + 2 * 2048 * 5120, parts.activations)
  end)
end)

describe("advice", function()
  local function options(overrides)
    return with({ model = "llama-13b", seq = 2048, batch = 2048, devices = 64, device = "a100" }, overrides)
  end

  it("is sorted, fits, and uses every device and sequence", function()
    local advice = assert(advise.advise(options()))
    local last = 0
    for _, l in ipairs(advice.layouts) do
      assert.is_true(l.fits and l.memory_bytes <= advice.job.device.memory)
      assert.is_true(l.step_seconds >= last)
      assert.equal(64, l.data * l.tensor * l.pipeline)
      assert.equal(0, 2048 % (l.data * l.micro_batch))
      assert.equal(0, 40 % l.tensor)
      assert.is_true(40 % l.pipeline == 0 or l.pipeline & (l.pipeline - 1) == 0)
      assert.is_true(l.tensor > 1 or not l.sequence_parallel)
      assert.is_true(l.interleave == 1 or l.pipeline > 1 and 40 % (l.pipeline * l.interleave) == 0)
      assert.is_false(l.recompute and l.selective)
      last = l.step_seconds
    end
    for _, l in ipairs(advice.unfit) do assert.is_false(l.fits) end
  end)

  it("is pure data parallelism for BERT, with the largest micro-batch", function()
    local advice = assert(advise.advise(options { model = "bert-large", seq = 512, batch = 1536, device = "h100" }))
    local best = advice.layouts[1]
    assert.same({ 64, 1, 1, 8, false }, { best.data, best.tensor, best.pipeline, best.micro_batch, best.recompute })
    assert.equal("packed", advice.job.kernel)
  end)

  it("marks layouts that fill the memory, and keeps their rank", function()
    local advice = assert(require("seqrun").advise(options()))
    local marked = 0
    for _, l in ipairs(advice.layouts) do
      local full = l.memory_bytes > 0.95 * advice.job.device.memory
      assert.equal(full, l.tight)
      assert.equal(full, l.why:find("^may not fit: %d+ %% of memory, ") ~= nil)
      if full then marked = marked + 1 end
    end
    assert.is_true(marked > 0)
    for _, l in ipairs(advice.unfit) do assert.is_false(l.tight) end
  end)

  it("says in one sentence that nothing fits and what would", function()
    local none, message, code = advise.advise(options { model = "llama-65b", devices = 8 })
    assert.is_nil(none)
    assert.equal("memory", code)
    local devices = math.tointeger(tonumber(message:match("; (%d+) devices would do")))
    assert.truthy(message:find("does not fit on 8 x a100: the smallest layout %(.-%) needs [%d%.]+ of 79%.2 GiB"))
    assert.is_not_nil(advise.advise(options { model = "llama-65b", devices = devices }))
    assert.is_nil(advise.advise(options { model = "llama-65b", devices = devices // 2 }))
    fails.returning(nil, "cannot be divided among 64 devices",
      advise.advise(options { model = "bert-base", batch = 7 }))
    none, message, code = advise.advise(options { model = "bert-large", seq = 512, batch = 1536, devices = 1000 })
    assert.same({ nil, "config" }, { none, code })
    local fewer, batch = message:match("use (%d+) devices, or a %-%-batch that a data degree divides, such as (%d+)$")
    assert.same({ "768", "2000" }, { fewer, batch })
    assert.is_not_nil(advise.advise(options { model = "bert-large", seq = 512, batch = 1536, devices = 768 }))
    assert.is_not_nil(advise.advise(options { model = "bert-large", seq = 512, batch = 2000, devices = 1000 }))
  end)

  it("has some layout for any number of devices, one included, that divides the batch", function()
    for _, devices in ipairs { 1, 3, 6, 48, 1024 } do
      local advice = assert(advise.advise(options { model = "bert-base", seq = 512, batch = 3072, devices = devices }))
      local best = advice.layouts[1]
      assert.equal(devices, best.data * best.tensor * best.pipeline)
      if devices == 1 then assert.equal(0, best.zero) end
    end
    assert(advise.advise(options { model = "bert-base", seq = 512, batch = 2, devices = 8 })) -- fewer sequences
  end)

  it("says what takes longer than in the fastest layout", function()
    local advice = assert(advise.advise(options()))
    assert.matches("^products %d+ %%, ", advice.layouts[1].why)
    local best = advice.layouts[1]
    for i = 2, 20 do
      local l = advice.layouts[i]
      local percent, cause, more = l.why:match("([%d.]+) %% slower than 1: ([%a -]+) %+([%d.]+) %%")
      local longer = 100 * (l.step_seconds / best.step_seconds - 1)
      assert.near(longer, tonumber(percent or l.why:find("as fast as 1", 1, true) and 0), 0.051, l.why)
      local key = ({ products = "products", ["tensor all-reduces"] = "tensor", ["gradient exchange"] = "data" })[cause]
      if key then
        assert.near(100 * (l.seconds[key] - best.seconds[key]) / best.step_seconds, tonumber(more), 0.051, l.why)
      end
    end
  end)

  it("notes what it takes as given", function()
    local function notes(overrides) return assert(advise.advise(options(overrides))).notes end
    assert.same({}, notes())
    local long = { model = "bert-base", seq = 2048, batch = 64, devices = 8 }
    assert.matches("^bert%-base has 512 positions and cannot read 2048 tokens; for packs", notes(long)[1])
    long.attended = 300
    assert.same({}, notes(long))
    local few = notes { model = "bert-base", seq = 512, batch = 4, devices = 64 }
    assert.same({ "seqrun runs data parallel layouts; none of these is one" }, few)
    long.attended = 2049
    fails.returning("config", "at most the 2048 tokens of its sequence, but %-%-attended is 2049",
      advise.advise(options(long)))
  end)

  it("guesses what a name was meant to be", function()
    for key, wrong in pairs { model = "bert-lage", device = "a10", kernel = "flash_2" } do
      fails.returning("config", ("unknown %s '%s'; did you mean"):format(key, wrong),
        advise.advise(options { [key] = wrong }))
    end
    assert.error_matches(function() advise.advise(options { seq = 0 }) end, "seq must be a positive integer")
  end)
end)

local function check_documented(object)
  local help = program.ok { "advise", "--help" }
  for key in pairs(object) do assert.truthy(help:find(key, 1, true), key) end
end

describe("seqrun advise", function()
  local words = { "advise", "--model", "llama-13b", "--seq", "2048", "--batch", "2048", "--devices", "64", "--device" }
  local function run(...)
    local line = table.move(words, 1, #words, 1, {})
    for _, word in ipairs { ... } do line[#line + 1] = word end
    return program.run(line)
  end

  it("prints a table, or one object with the documented fields", function()
    local out = program.works(run("a100"))
    assert.truthy(out:find("^llama%-13b .- layouts fit\n"))
    assert.equal(12, select(2, out:gsub("\n", "")))
    out = program.works(run("a100", "--json", "--top", "3"))
    local object = json.decode(out)
    assert.equal(3, #object.layouts)
    check_documented(object)
    check_documented(object.layouts[1])
    out = program.works(run("a100", "--json", "--all"))
    object = json.decode(out)
    assert.equal(object.considered, #object.layouts)
    assert.is_true(object.fitting < object.considered)
  end)

  it("exits with the code of the problem, and stdout stays empty", function()
    assert.equal("", (program.exits(2, "did you mean 'a100'", run("a10", "--json"))))
    local code, out, err = program.run { "advise", "--model", "llama-65b", "--seq", "8192", "--batch", "8",
      "--devices", "1", "--device", "h100" }
    assert.same({ 4, "" }, { code, out })
    assert.equal(1, select(2, err:gsub("\n", "")))
    assert.equal("", (fails.exiting(2, "--seq is missing", { "advise", "--model", "bert-base" })))
  end)
end)

it("the advisor says the same in every run, to the last bit", function()
  local words = { "advise", "--model", "bert-large", "--seq", "512", "--batch", "1536", "--devices", "64", "--device",
    "h100", "--json" }
  local _, first = program.run(words)
  assert.matches("^{", first)
  for _ = 1, 4 do assert.equal(first, select(2, program.run(words))) end
end)

describe("the advisor on this machine", function()
  local here = require("seqrun.advise.here")

  ---A machine of round figures, so that predictions can be checked by hand.
  local function machine()
    local function speed(factor)
      local constants = advise.coefficients("packed")
      for name in pairs(constants.time) do constants.time[name] = 0 end
      constants.time.product, constants.time.packed, constants.time.link = 1, 1e9, 1
      constants.memory.reserved = 0
      return { peak = factor * 1e9, copy = factor * 1e9, constants = constants }
    end
    return { model = assert(models.model "bert-mini"), seq = 128, threads = 4, memory = 1 << 34, cpu = "a cpu",
      seconds = 1, by_threads = { [1] = speed(1), [4] = speed(2) } }
  end

  it("divides the machine among ranks and threads", function()
    local function products(ranks, threads)
      return here.predict(machine(), { batch = 4, micro_batch = 1, ranks = ranks, threads = threads }).seconds.products
    end
    local flop = 6 * 4 * 128 * 4 * 12 * 256 * 256
    assert.near(flop / 1e9, products(1, 1), 1e-6)
    assert.near(flop / 2e9, products(1, 4), 1e-6)
    assert.near(flop / 2e9, products(4, 1), 1e-6) -- four ranks share what four threads reach
    assert.is_true(products(1, 2) < products(1, 1) and products(1, 2) > products(1, 4))
    assert.error_matches(function() here.predict(machine(), { batch = 4, micro_batch = 3 }) end, "cannot be divided")
  end)

  it("predicts more time and less memory with recomputation", function()
    local arms = here.check(machine(), { batch = 4, measure = false })
    local plain, again
    for _, arm in ipairs(arms) do
      assert.is_nil(arm.seconds)
      if arm.ranks == 1 and arm.threads == 4 and arm.micro_batch == 4 then
        if arm.recompute then again = arm else plain = arm end
      end
    end
    assert.is_true(again.predicted.step_seconds > plain.predicted.step_seconds)
    assert.is_true(again.keeps < plain.keeps)
    assert.is_nil(here.judge(arms))
    plain.seconds, again.seconds = 2 * plain.predicted.step_seconds, again.predicted.step_seconds
    local verdict = here.judge { plain, again }
    assert.near(0.25, verdict.error, 1e-9)
    assert.near(1 - again.seconds / plain.seconds, verdict.regret, 1e-9)
  end)

  it("probes, measures and reports as documented", function()
    local home = program.folder()
    program.write(home, "config.json", json.encode {
      model_type = "bert", hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 2, intermediate_size = 64,
      vocab_size = 200,
    })
    local object = program.json { "advise", "--here", "--model", home, "--seq", "64", "--batch", "2", "--json" }
    check_documented(object)
    for _, step in ipairs(object.steps) do
      check_documented(step)
      assert.is_true(step.predicted_seconds > 0)
      assert.is_true(step.measured_seconds ~= json.null or step.ranks > 1 and #step.problem > 0)
      if step.measured_bytes ~= json.null then assert.near(1, step.predicted_bytes / step.measured_bytes, 0.1) end
    end
    fails.exiting(2, "--here takes an encoder", { "advise", "--here", "--model", "llama-13b" })
    fails.exiting(2, "--device cannot be combined with --here", { "advise", "--here", "--device", "h100" })
  end)
end)

-- Every family against Transformers (tests/data/families), and against itself packed, padded and alone.

local bert = require("tests.support.bert")
local devices = require("tests.support.devices")
local fails = require("tests.support.fails")
local families = require("tests.support.families")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local tensor_file = require("seqrun.checkpoint.tensor_file")
local with = require("tests.support.with")

local IN_F32 = 1e-5 -- largest error over largest magnitude
local IN_F64 = 1e-6 -- golden values are f32
local GRADIENT = 3e-5 -- in f32: the weights are so large that rounding grows from layer to layer
local TIMES = 2 -- of PyTorch's error in bf16

local it_on = devices.it_on(it)
local on = devices.on

local close = families.close

local function near(what, got, wanted, tolerance)
  local allowed = tolerance * math.max(1, math.abs(wanted))
  assert.is_true(math.abs(got - wanted) <= allowed, ("%s: %.9g is not %.9g"):format(what, got, wanted))
end

---The hidden state and the logits of the head's rows.
local function forward(model, batch)
  local quiet <close> = sr.no_grad()
  local hidden, head = model:encode(batch), model.heads[1]
  return hidden, head:logits(sr.ops.gather_rows(hidden, batch.targets[head.name].rows))
end

---The loss and the gradients of some batches.
local function measure(model, batches)
  local found = bert.measure(model, batches)
  return found.total, found.gradients
end

local function one_by_one(golden, options)
  local batches = {}
  for i = 1, #golden.sequences do
    batches[i] = families.batch(golden, with({ from = i, to = i }, options))
  end
  return batches
end

---The golden gradients; all of the model's parameters have one.
local function wanted_gradients(golden, names)
  local wanted = {}
  for _, name in ipairs(names) do wanted[name] = assert(golden.tensors["grad." .. name], name) end
  return wanted
end

local function check_values(golden, tolerance, gradients_within)
  local model = families.model(golden)
  local batch = families.batch(golden)
  local hidden, logits = forward(model, batch)
  close("hidden", hidden, golden.tensors.hidden, tolerance)
  close("logits", logits, golden.tensors.logits, tolerance)
  local loss, gradients = measure(model, { batch })
  near("loss", loss, golden.loss, tolerance)
  assert.is_nil(bert.differ(gradients, wanted_gradients(golden, model.params:names()), gradients_within))
end

local function follow(golden, tolerance)
  local model = families.model(golden)
  local optimizer = sr.optim.adamw(model.params, { betas = { 0.9, 0.999 }, eps = 1e-6, decay = 0.01 })
  local batch = families.batch(golden)
  for step, wanted in ipairs(golden.adamw) do
    local loss = measure(model, { batch })
    near("loss of step " .. step, loss, wanted[1], tolerance)
    near("norm of step " .. step, optimizer:step({ rate = 1e-3, clip = 1 }).norm, wanted[2], 10 * tolerance)
  end
end

for _, name in ipairs(families.names()) do
  describe("the family " .. name, function()
    local golden
    local function test(device, what, body)
      it_on(device, what, function()
        golden = families.golden(name)
        body()
      end)
    end

    test("cpu", "loads every tensor that Transformers wrote, and no other", function()
      local model, report = families.model(golden)
      assert.same({ 0, 0 }, { #report.missing, #report.ignored }, tostring(report))
      local written = sr.must(tensor_file.read(golden.folder .. "/model.safetensors"))
      local count = 0
      for _ in pairs(written) do count = count + 1 end
      assert.equal(count, #model.params:names())
      for _, own in ipairs(model.params:names()) do assert.truthy(written[own], own) end
    end)

    test("cpu", "computes what Transformers does, in f32 on the CPU", function()
      check_values(golden, IN_F32, GRADIENT)
    end)
    test("ref", "computes what Transformers does, in f64", function()
      check_values(golden, IN_F64, IN_F64)
    end)
    for _, device in ipairs { "ref", "cpu" } do
      test(device, "follows 20 steps of AdamW, " .. device, function() follow(golden, IN_F32) end)
    end
    test("cpu", "has at most twice PyTorch's error in bf16", function()
      local model = families.model(golden, { precision = "bf16" })
      local hidden, logits = forward(model, families.batch(golden))
      close("hidden", hidden, golden.tensors.hidden, TIMES * golden.bf16.hidden)
      close("logits", logits, golden.tensors.logits, TIMES * golden.bf16.logits)
    end)

    for _, p in ipairs { 0, 0.25 } do
      describe(("with dropout %g"):format(p), function()
        local function model_of(more)
          local changes = families.dropout(sr.must(sr.checkpoint.pretrained(golden.folder)).config, p)
          return (families.model(golden, with(changes, more)))
        end
        local ways = { packed = {}, ["in a longer pack"] = { rows = 384 }, padded = { slots = 128 } }

        ---Bits of the rows of all sequences, laid out in one way.
        local function bits(model, options)
          local batch = families.batch(golden, options)
          return families.own_rows(model:encode(batch):detach(), batch.layout):tostring_bytes()
        end

        for _, precision in ipairs { "f32", "bf16" } do
          test("cpu", "gives a sequence the same bits packed, padded and alone, in " .. precision, function()
            local model, alone = model_of { precision = precision }, {}
            for i = 1, #golden.sequences do alone[i] = bits(model, { from = i, to = i }) end
            for way, options in pairs(ways) do assert.is_true(table.concat(alone) == bits(model, options), way) end
          end)
        end

        test("cpu", "gives the same gradients packed, padded, alone, recomputed and with few rows in the last layer",
          function()
            local model = model_of()
            local function same(what, batches, loss, gradients)
              local other_loss, other = measure(model, batches)
              near(what, other_loss, loss, IN_F32)
              assert.is_nil(bert.differ(other, gradients, GRADIENT), what)
            end
            local loss, gradients = measure(model, one_by_one(golden))
            for way, options in pairs(ways) do same(way, { families.batch(golden, options) }, loss, gradients) end
            local few_loss, few = measure(model, one_by_one(golden, { last = true }))
            same("few rows", { families.batch(golden, { last = true, slots = 128, rows = 768 }) }, few_loss, few)
            if p == 0 then same("all rows", { families.batch(golden) }, few_loss, few) end
            model.recompute = true
            same("recomputed", { families.batch(golden) }, loss, gradients)
          end)
        if p > 0 then
          test("cpu", "drops only while training, and other values in every epoch", function()
            local model = model_of()
            local dropped = bits(model)
            assert.is_false(dropped == bits(model, { epoch = 1 }))
            model.training = false
            assert.is_false(dropped == bits(model))
            close("hidden", model:encode(families.batch(golden)), golden.tensors.hidden, IN_F32)
          end)
        end
      end)
    end
  end)
end

-- ---- on the kernels of CUDA, run on the CPU ----------------------------------------------------------

local on_simt = devices.on_simt(it, pending)
for _, name in ipairs { "modernbert_bias", "eurobert", "gte" } do
  on_simt(("the family %s computes what Transformers does on simt #slow"):format(name), function()
    on("simt", function() check_values(families.golden(name), IN_F32, GRADIENT) end)
  end)
end

-- ---- heads of tasks ----------------------------------------------------------------------------------

---Our names of the tasks.
local KINDS = { class = "classify", tokens = "tokens", squad = "squad", choice = "choice" }

local function int(values) return sr.tensor(values, { dtype = "i32" }) end

---What the head of a task reads, for all sequences of a batch.
local function targets_of(task, name, batch)
  local layout, all = batch.layout, {}
  local starts, lengths = layout:starts(), layout:lengths()
  local first = { rows = int(starts), labels = int(starts) * 0, weights = sr.ones(#starts), count = #starts }
  if task == "choice" then return { [name] = first, group = first } end
  if task == "class" then return { [name] = first } end
  if task == "squad" then
    local twice = {}
    for i, start in ipairs(starts) do twice[i] = { start, start } end
    return { [name] = {
      rows = int(twice), labels = int(twice) * 0, weights = first.weights, count = #starts, reads = "spans",
    } }
  end
  for i, start in ipairs(starts) do
    for row = start, start + lengths[i] - 1 do all[#all + 1] = row end
  end
  return { [name] = { rows = int(all), labels = int(all) * 0, weights = sr.ones(#all), count = #all } }
end

---Rows of (start, end) of every token, as Transformers has them.
local function by_token(logits, lengths)
  local rows, all = {}, logits:totable()
  for i, length in ipairs(lengths) do
    for t = 1, length do rows[#rows + 1] = { all[i][1][t], all[i][2][t] } end
  end
  return sr.tensor(rows)
end

---The logits of a task's model for the sequences of its golden values.
local function task_logits(golden, folder, task, options)
  local model, facts, report = sr.must(sr.nn.pretrained(folder))
  assert.equal(KINDS[task], facts.kind)
  assert.same({ 0, 0 }, { #report.missing, #report.ignored }, tostring(report))
  model.training = false
  local some = { table.unpack(golden.sequences, 2, 4) }
  options = options or {}
  options.masked = 1
  local batch = bert.batch(some, options)
  local head = model.heads[1]
  batch.targets = targets_of(task, head.name, batch)
  if options.few then bert.add_last(batch) end
  local target = batch.targets[head.name]
  local logits = head:logits(model.encoder:states(batch), target, batch)
  return task == "squad" and by_token(logits, batch.layout:lengths()) or logits, model
end

---The tensors of a model's directory as bytes by name.
local function tensors_of(folder)
  local bytes = {}
  for name, value in pairs(sr.must(tensor_file.read(folder .. "/model.safetensors"))) do
    bytes[name] = value:tostring_bytes()
  end
  return bytes
end

---Exports a directory and compares what Transformers reads of it with what Transformers wrote.
local function check_export(folder, config)
  local out = program.folder() .. "/out"
  sr.must(sr.checkpoint.export(folder, out))
  assert.same(tensors_of(folder), tensors_of(out))
  local written = json.decode(sr.must(sys.read_file(out .. "/config.json")))
  for key, value in pairs(config) do
    if key ~= "transformers_version" and key ~= "dtype" then assert.same(value, written[key], key) end
  end
end

for _, name in ipairs(families.names()) do
  describe("a task of the family " .. name, function()
    local golden = families.golden(name)
    for task in pairs(golden.tasks) do
      it_on("cpu", task .. " has the logits of Transformers, packed and padded", function()
        golden = families.golden(name)
        local folder = families.task_folder(golden, task)
        local wanted = golden.tensors["task." .. task .. ".logits"]
        local packed = task_logits(golden, folder, task)
        close("logits", packed, wanted, IN_F32)
        local padded = task_logits(golden, folder, task, { slots = 128, rows = 512 })
        assert.is_true(packed:tostring_bytes() == padded:tostring_bytes())
        if task ~= "squad" then
          close("few rows", task_logits(golden, folder, task, { few = true, slots = 128 }), wanted, IN_F32)
        end
      end)

      it_on("cpu", task .. " is exported as Transformers wrote it", function()
        golden = families.golden(name)
        check_export(families.task_folder(golden, task), golden.tasks[task].config)
      end)
    end

    it_on("cpu", "for pretraining is exported as Transformers wrote it", function()
      check_export(golden.folder, json.decode(sr.must(sys.read_file(golden.folder .. "/config.json"))))
    end)

    for _, kind in ipairs { "bos", "mean" } do
      if golden.tensors["pooling." .. kind] then
        it_on("cpu", "class pools by " .. kind, function()
          golden = families.golden(name)
          local folder = families.task_folder(golden, "class", { classifier_pooling = kind })
          close("logits", task_logits(golden, folder, "class"), golden.tensors["pooling." .. kind], IN_F32)
        end)
      end
    end

    if golden.pads then
      it("counts positions as Transformers does where a text has pads", function()
        for _, device in ipairs { "cpu", "ref" } do
          on(device, function()
            golden = families.golden(name)
            local model = families.model(golden)
            golden.pads.masked_positions, golden.pads.masked_labels = {}, {}
            local batch = bert.batch({ golden.sequences[3], golden.pads, golden.sequences[4] }, { masked = 1 })
            local places = sr.arange(7, 7 + #golden.pads.ids - 1, 1, { dtype = "i32" })
            local rows = sr.ops.gather_rows(model:encode(batch), places)
            close("hidden", rows, golden.tensors.pads, IN_F32)
          end)
        end
      end)
    end
  end)
end

it("a discriminator has no head that fills masks", function()
  fails.exiting(3, "discriminator", { "fill", families.ROOT .. "electra_discriminator" }, { input = "the [MASK]\n" })
end)

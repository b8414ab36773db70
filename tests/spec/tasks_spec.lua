-- What fine-tuning tasks make of a config: data, head, rates by layer, frozen and new layers, schedule.

local config = require("seqrun.config")
local files = require("tests.support.task_files")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local tasks = require("tests.support.tasks")

local exits, works = program.exits, program.works
local fails = require("tests.support.devices").fails

local folder = program.folder()
local base = files.encoder(folder .. "/base")
for _, kind in ipairs { "classify", "regress", "choice" } do tasks.corpus(kind, folder, 60) end
local examples = (tasks.examples("regress", 200))
for _, example in ipairs(examples) do example.label = example.label[1] end
sr.must(sr.data.write {
  out = folder .. "/one.sqr", vocab = tasks.VOCAB, examples = examples, columns = { label = { type = "f32" } },
})

---The values of a config with these words.
local function values(task, kind, ...)
  local schema, rules = sr.run.schema(task)
  local loaded, message = config.load {
    schema = schema, rules = rules, arguments = {
      ("data.train=%s/%s.sqr"):format(folder, kind), ("data.dev=%s/%s.sqr"):format(folder, kind), "data.max_len=48",
      "init.from=" .. base, ...,
    },
  }
  return assert(loaded, message).values
end

describe("a fine-tuning task", function()
  it("has a doc string for every key, and keys of its own in the place of those of a pretraining run", function()
    local paths = {}
    for _, name in ipairs(sr.tasks.names) do
      config.each((sr.run.schema(sr.tasks[name])), function(path, wanted)
        assert.is_true(#(wanted.doc or "") > 3, path)
        paths[name .. " " .. path] = true
      end)
    end
    for _, path in ipairs { "epochs", "data.train", "data.dev", "columns.text", "columns.pair", "columns.label",
      "columns.header", "init.from", "batch.sequences", "rate.peak", "seed", "pack.arrange" } do
      assert.is_true(paths["classify " .. path], path)
    end
    for _, path in ipairs { "data.file", "rate.decay_from", "rate.from" } do
      assert.is_true(paths["pretraining " .. path])
      assert.is_nil(paths["classify " .. path])
    end
    assert.error_matches(function() return sr.tasks.clasify end, "unknown task 'clasify'; did you mean 'classify'")
  end)

  it("draws exactly batch.sequences examples an update, and questions whole", function()
    local task = sr.tasks.classify
    local cfg = values(task, "classify", "batch.sequences=25", "epochs=2")
    local loader, updates = task:loader(cfg, task:data(cfg), "train")
    assert.equal(60 / 25, updates)
    assert.equal(25, loader:next().sequences)
    local _, total = task:schedule(cfg, updates)
    assert.equal(5, total)
    cfg = values(sr.tasks.choice, "choice", "batch.sequences=4", "epochs=2")
    local data = sr.tasks.choice:data(cfg)
    loader, updates = sr.tasks.choice:loader(cfg, data, "train")
    local update = loader:next()
    local questions = {}
    for i = 1, update.count do
      local batch = update:batch(i)
      for _, question in ipairs(batch.targets.group.labels:totable()) do
        assert.is_true((questions[question] or i) == i, "a question in two micro-batches")
        questions[question] = i
      end
    end
    local count = 0
    for _ in pairs(questions) do count = count + 1 end
    assert.equal(4, count)
    local alone = sr.tasks.choice:data(values(sr.tasks.choice, "choice", "data.dev=none"))
    assert.equal("dev: none, so nothing is evaluated; data.dev names files, data.held=0.1 holds out a part",
      alone.notes[#alone.notes])
    local dev, seen = (sr.tasks.choice:loader(cfg, data, "dev")), 0
    for one in function() return dev:next() end do seen = seen + one.sequences end
    assert.equal(data.dev:info().examples, seen)
    assert.is_true(updates >= 5)
    cfg = values(sr.tasks.choice, "choice", "data.dev=none", "data.held=0.3")
    data = sr.tasks.choice:data(cfg)
    local of = {} -- the part of each question
    for _, part in ipairs { "train", "dev" } do
      local loader_of, many = (sr.tasks.choice:loader(cfg, data, part)), 0
      for one in function() return (part == "dev" or many == 0) and loader_of:next() or nil end do
        many = many + 1
        for batch in one:batches() do
          for _, question in ipairs(batch.targets.group.labels:totable()) do
            assert.equal(of[question] or part, part)
            of[question] = part
          end
        end
      end
    end
  end)

  it("judges before the start whether the choices of a question fit a micro-batch", function()
    local task, rows = sr.tasks.choice, {}
    for question = 0, 5 do
      for k = 0, 4 do
        local b = {}
        for i = 1, question == 3 and 30 or 3 do b[i] = 30 + i end
        rows[#rows + 1] = { a = { 40, 41 }, b = b, group = question, answer = k == 0 and 1 or -100 }
      end
    end
    sr.must(sr.data.write { out = folder .. "/long.sqr", vocab = tasks.VOCAB, examples = rows,
      columns = { group = { type = "i32" }, answer = { type = "i32" } } })
    local function loader(part, ...)
      local cfg = values(task, "choice", ("data.%s=%s/long.sqr"):format(part, folder), "batch.sequences=2", ...)
      return task:loader(cfg, task:data(cfg), part)
    end
    local words = "/long.sqr: example 16 has 5 choices that need 5 packs of data.max_len=48 tokens, and must share a "
      .. "micro-batch; set batch.micro_packs=5"
    for _, part in ipairs { "train", "dev" } do
      fails("batch.micro_packs=4: ", loader, part, "batch.micro_packs=4")
      fails(words, loader, part, "batch.micro_packs=4")
      fails(" has 5 choices that need 5 packs", loader, part, "batch.micro_packs=2", "arrange=padded")
      local good, count = loader(part, "batch.micro_packs=5"), 0
      for _ = 1, 3 do count = count + (part == "train" and good:next().sequences or 0) end
      assert.equal(part == "train" and 30 or 0, count)
    end
    local cfg = values(task, "choice", "batch.micro_packs=2")
    assert.is_truthy(task:loader(cfg, task:data(cfg), "train"):next()) -- short ones share a pack
  end)

  it("takes whole packs if asked to, but not of questions", function()
    local task = sr.tasks.classify
    local cfg = values(task, "classify", "batch.sequences=20", "batch.by=packs")
    local loader = task:loader(cfg, task:data(cfg), "train")
    assert.equal("packs", loader:summary().by)
    cfg = values(sr.tasks.choice, "choice", "batch.by=packs")
    fails("batch.by=packs would separate the choices of a question", sr.tasks.choice.loader, sr.tasks.choice, cfg,
      sr.tasks.choice:data(cfg), "train")
  end)

  it("warms up for a fraction of all steps, then falls to nearly zero at the last", function()
    local task = sr.tasks.classify
    local rate, total = task:schedule(values(task, "classify", "rate.peak=1e-3", "epochs=4"), 25)
    assert.equal(100, total)
    assert.near(1e-4, rate(1), 1e-12)
    assert.near(1e-3, rate(10), 1e-12)
    assert.near(1e-3 / 91, rate(100), 1e-12)
    rate = task:schedule(values(task, "classify", "rate.peak=1e-3", "rate.warmup=20", "epochs=4"), 25)
    assert.near(1e-3, rate(20), 1e-12)
    fails("rate.warmup is 100 of 100 steps; lower it, or raise epochs", task.schedule, task,
      values(task, "classify", "rate.warmup=100", "epochs=4"), 25)
    fails("rate.warmup is 1.5", task.schedule, task, values(task, "classify", "rate.warmup=1.5", "epochs=4"), 25)
  end)

  it("gives the head as many outputs as the data has classes or values", function()
    local function shape(task, kind)
      local cfg = values(task, kind)
      return task:model(cfg, task:data(cfg)).params:shape("classifier.weight")
    end
    assert.same({ 3, 32 }, shape(sr.tasks.classify, "classify"))
    assert.same({ 2, 32 }, shape(sr.tasks.regress, "regress"))
    assert.same({ 1, 32 }, shape(sr.tasks.choice, "choice"))
  end)

  it("lowers the rate from layer to layer, and freezes from below", function()
    local task = sr.tasks.classify
    local function options(...)
      local cfg = values(task, "classify", ...)
      local model = task:model(cfg, task:data(cfg))
      local optimizer, found = sr.optim.adamw(model.params, task:optimizer_options(cfg, model)), {}
      for i, name in ipairs(model.params:names()) do
        local s = optimizer.segments[i]
        found[name:match("layer%.%d") or name:match("embeddings") or name:match("pooler") or name] =
          s.frozen and "frozen" or s.rate
      end
      return found
    end
    local found = options("tune.layer_decay=0.5")
    assert.same({ 0.125, 0.25, 0.5, 1, 1 }, { found.embeddings, found["layer.0"], found["layer.1"], found.pooler,
      found["classifier.weight"] })
    found = options("tune.freeze_layers=1")
    assert.same({ "frozen", "frozen", 1 }, { found.embeddings, found["layer.0"], found["layer.1"] })
    found = options("tune.freeze_embeddings=true")
    assert.same({ "frozen", 1, 1 }, { found.embeddings, found["layer.0"], found["layer.1"] })
    local cfg = values(task, "classify", "tune.freeze_layers=3")
    fails("tune.freeze_layers is 3, but the model has 2 layers", task.model, task, cfg, task:data(cfg))
  end)

  it("computes no gradients below what is trained, and the same above", function()
    local task = sr.tasks.classify
    local cfg = values(task, "classify", "tune.freeze_layers=1", "model.hidden_dropout_prob=0.1")
    local data = task:data(cfg)
    local function gradients(frozen, recompute)
      local model, loader = task:model(cfg, data), task:loader(cfg, data, "train")
      assert.equal(1, model.encoder.frozen)
      model.encoder.frozen, model.recompute = frozen, recompute
      local scope <close> = sr.scope()
      model:losses(loader:next():batch(1)).total:backward()
      local found = {}
      for _, name in ipairs(model.params:names()) do found[name] = model.params:get(name):grad():tostring_bytes() end
      return found
    end
    local all, zero = gradients(nil), ("\0"):rep(4 * 32)
    for _, recompute in ipairs { false, true } do
      for name, bytes in pairs(gradients(1, recompute)) do
        if name:find("embeddings", 1, true) or name:find("layer.0", 1, true) then
          assert.equal(zero, bytes:sub(1, #zero), name)
        else
          assert.equal(all[name], bytes, name)
        end
      end
    end
  end)

  it("initializes the top layers again when asked to", function()
    local task = sr.tasks.classify
    local cfg = values(task, "classify", "tune.reinit_layers=1")
    local model = task:model(cfg, task:data(cfg))
    local fresh = {}
    for _, name in ipairs(task:fresh(cfg, model)) do
      fresh[name:match("layer%.%d") or name:match("pooler") or name] = 1
    end
    assert.same({ ["layer.1"] = 1, pooler = 1 }, fresh)
    assert.same({}, task:fresh(values(task, "classify"), model))
  end)

  it("lowers data.max_len to the positions of the model, and says so", function()
    local cfg = values(sr.tasks.classify, "classify", "data.max_len=65")
    local data = sr.tasks.classify:data(cfg)
    assert.equal(64, cfg.data.max_len)
    assert.matches("data.max_len: 64 instead of 65, since .* has no more position embeddings", data.notes[1])
    local path = files.write(folder, "squad").dev
    cfg = values(sr.tasks.squad, "squad", "data.max_len=384", "data.train=" .. path, "data.dev=none", "data.held=0",
      "data.folder=" .. folder .. "/sets")
    assert.matches("data.max_len: 64 instead of 384", sr.tasks.squad:data(cfg).notes[1])
    assert.same({ 64, 32, 21 }, { cfg.data.max_len, cfg.data.query, cfg.data.stride })
  end)
end)

---Runs a recipe for two steps, and returns the checkpoint's tensors as text by name.
local function run(out, ...)
  local text = works(program.run {
    "recipes/finetune.lua", "task=classify",
    ("data.train=%s/classify.sqr"):format(folder), "data.dev=none", "data.held=0",
    "data.max_len=48", "init.from=" .. base, "rate.peak=1e-3", "save.minutes=0", "--max-steps", "2", "--quiet",
    "--out", folder .. "/" .. out, ...,
  })
  return text, assert(sys.read_file(folder .. "/" .. out .. "/run.log"))
end

describe("a fine-tuning run", function()
  it("starts from the weights of init.from, or from random ones", function()
    local _, log = run("from")
    assert.matches("initialized from the weights of " .. base, log, 1, true)
    _, log = run("random", "init.carry=none")
    assert.is_nil(log:find("initialized from", 1, true))
    _, log = run("new-top", "tune.reinit_layers=1")
    assert.matches("missing%s+16%s+bert.encoder.layer", log)
  end)

  it("resumes bit for bit", function()
    local function weights(out) return sys.hash_file(("%s/%s/step-000000006/model.safetensors"):format(folder, out)) end
    run("whole", "--max-steps", "6")
    run("cut", "--max-steps", "3")
    run("cut", "--max-steps", "6", "--resume")
    assert.equal(weights "whole", weights "cut")
    exits(2, "cut is a run of the task classify, not pair; leave out task=pair",
      program.run { "recipes/finetune.lua", "task=pair", "--resume=" .. folder .. "/cut" })
  end)

  it("has the same losses packed, padded and one by one, with dropout", function()
    local small, wanted = require("tests.support.small"), nil
    for arrange, key in pairs { packed = "arrange", padded = "arrange", single = "pack.arrange" } do
      run(arrange, "--max-steps", "6", "log.every=1", key .. "=" .. arrange, "model.hidden_dropout_prob=0.1",
        "model.attention_probs_dropout_prob=0.1", "batch.micro_packs=4")
      local lines = small.metrics(folder .. "/" .. arrange)
      wanted = wanted or lines
      assert.equal(6, #lines)
      for i, line in ipairs(lines) do
        assert.near(wanted[i].label_loss, line.label_loss, 1e-5 * wanted[i].label_loss)
        assert.same({ wanted[i].sequences, wanted[i].real_tokens }, { line.sequences, line.real_tokens })
      end
      local read = assert(sys.read_file(("%s/%s/config.yaml"):format(folder, arrange)))
      assert.matches("\n  arrange: " .. arrange, read) -- of pack
    end
  end)

  it("goes on with a head for the same labels, and trains a new one for others", function()
    local function csv(name, one, two)
      local rows = { "text,label" }
      for i = 1, 24 do rows[i + 1] = ("w%d w%d,%s"):format(i, i % 2, i % 2 == 0 and one or two) end
      return program.write(folder, name, table.concat(rows, "\n") .. "\n")
    end
    local first, other = csv("first.csv", "no", "yes"), csv("other.csv", "bad", "good")
    run("first", "data.train=" .. first, "data.folder=" .. folder .. "/sets")
    local _, log = run("again", "data.train=" .. first, "data.folder=" .. folder .. "/sets",
      "init.from=" .. folder .. "/first")
    assert.is_nil(log:find("missing", 1, true))
    local words = {
      "recipes/finetune.lua", "task=classify",
      "data.train=" .. other, "init.from=" .. folder .. "/first", "data.held=0",
      "data.max_len=48", "--max-steps", "1", "data.folder=" .. folder .. "/sets", "--out", folder .. "/x",
    }
    exits(3, "other.csv:%d+: unknown label '%a+'.*these are the labels of the model: to train a new",
      program.run(words))
    assert.is_false(sys.exists(folder .. "/x"))
    words[#words + 1] = "init.heads=new"
    assert.equal(0, (program.run(words)))
  end)

  it("takes a head of one's own", function()
    works(program.run {
      "recipes/finetune_own.lua", ("data.train=%s/one.sqr"):format(folder), ("data.dev=%s/one.sqr"):format(folder),
      "data.max_len=48", "init.from=" .. base, "epochs=8", "rate.peak=4e-3", "log.every=1", "--quiet",
      "--out", folder .. "/own",
    })
    local small = require("tests.support.small")
    local train, eval = small.metrics(folder .. "/own"), small.metrics(folder .. "/own", "eval")
    assert.is_true(train[#train].label_loss < train[1].label_loss / 4)
    assert.is_true(eval[#eval].absolute_error < 0.3, eval[#eval].absolute_error)
  end)
end)

describe("a fine-tuning recipe", function()
  local function recipe(name, ...) return program.run { "recipes/finetune.lua", name, ... } end

  it("says with --help what it is for, and with --explain which keys must be given", function()
    local out = works(recipe("task=pair", "--help"))
    assert.matches("task=pair %[key.*%-%-resume.*a class for each pair.*columns.pair=sentence2.*%-%-explain lists", out)
    out = works(recipe("task=pair", "--explain"))
    assert.matches("data.train +%(required%) +missing +labelled files", out)
    assert.matches("columns.pair +pair +default", out)
  end)

  it("says what to do where something is missing", function()
    exits(2, "key 'train' is missing in 'data'", recipe "task=pair")
    exits(3, "init.from: .*nowhere: no such file or directory; give a run, a checkpoint or",
      recipe("task=pair", "data.train=x.csv", "init.from=" .. folder .. "/nowhere"))
    local _, err = exits(2, "finetune.lua: no task given; add task=NAME: choice, classify", recipe())
    assert.is_nil(err:find("embed", 1, true)) -- which has a recipe of its own
  end)

  it("finds the task of a config however YAML writes it", function()
    for i, line in ipairs { 'task: "classify"', "task:  'classify' # a class", "{ task: classify }" } do
      local path = program.write(folder, ("quoted-%d.yaml"):format(i), line .. "\n")
      local out = works(recipe("config=" .. path, "--explain"))
      assert.matches("task +classify", out)
    end
    local broken = program.write(folder, "broken.yaml", "seed: 1\nrate: { peak: 1\ntask: classify\n")
    exits(2, "broken.yaml:3:", recipe("config=" .. broken))
  end)
end)

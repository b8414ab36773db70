-- A run: its files, messages, errors and exit codes.

local config = require("seqrun.config")
local json = require("seqrun.core.json")
local metrics = require("seqrun.history.metrics")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local folder, corpus = small.folder()
local first = folder .. "/first"

local function run(...) return program.run(small.words(corpus, ...)) end

local function holds(text, parts)
  for _, part in ipairs(parts) do assert.truthy(text:find(part, 1, true), part .. "\n" .. text) end
end

setup(function()
  assert.equal(0, (run("--out", first, "--max-steps", "6")))
end)

describe("a run", function()
  it("writes config, environment, log, metrics, events and a checkpoint", function()
    local names = table.concat(assert(sys.list(first)), " ")
    holds(names, {
      "config.yaml", "environment.json", "metrics.jsonl", "events.out.tfevents.", "run.log", "step-000000006",
    })
    local environment = json.decode(assert(sys.read_file(first .. "/environment.json")))
    assert.truthy(environment.build.git and environment.machine.cpu and environment.command:find("pretrain.lua"))
    local checkpoint = first .. "/step-000000006"
    for _, name in ipairs { "config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "MANIFEST" } do
      assert.is_true(sys.exists(checkpoint .. "/" .. name), name)
    end
  end)

  it("writes every field of a metrics line", function()
    local lines = assert(metrics.read(first))
    assert.equal(7, #lines)
    for i = 1, 6 do
      assert.equal(i, lines[i].step)
      for _, key in ipairs(metrics.TRAIN) do assert.is_not_nil(lines[i][key], key) end
      assert.is_true(lines[i].loss == lines[i].loss and lines[i].loss > 0)
      assert.is_true(lines[i].efficiency > 0.3 and lines[i].efficiency <= 1)
      local at = lines[i].sequences / 24 -- a step of the schedule is batch.sequences sequences
      assert.near(3e-3 * math.min(1, at / 3, (40 - at) / 37), lines[i].lr, 1e-9)
      assert.is_true(lines[i].grad_norm > 0 and lines[i].skipped == 0)
    end
    assert.is_true(math.abs(lines[3].loss - lines[3].mlm_loss - lines[3].nsp_loss) < 1e-5)
    local eval = lines[7]
    assert.equal("eval", eval.type)
    for _, key in ipairs { "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy", "unigram_loss" } do
      assert.equal("number", type(eval[key]), key)
    end
  end)

  it("computes the rate from the sequences so far, and runs as many updates as the schedule needs", function()
    for adjust, most in pairs { batch = 22, betas = 18 } do
      local out = folder .. "/rate-" .. adjust
      local words = { "batch.adjust=" .. adjust, "steps=none", "rate.total=20", "rate.warmup=2" }
      assert.equal(0, (run("--out", out, table.unpack(words))))
      local values = config.load({ schema = sr.run.schema(sr.tasks.pretraining), file = out .. "/config.yaml" }).values
      local rate, target, drawn = sr.run.schedule(values), values.batch.sequences, 0
      local lines = assert(metrics.read(out))
      for _, line in ipairs(lines) do
        if line.type == "train" then
          drawn = line.sequences
          assert.equal(rate(drawn / target), line.lr)
        end
      end
      assert.is_true(math.abs(drawn / target - 20) < 2, drawn / target) -- the number of sequences varies between epochs
      assert.is_true(lines[#lines].step <= most, lines[#lines].step)
    end
  end)

  it("can be repeated bit for bit from the config that it wrote", function()
    local again = folder .. "/again"
    works(program.run {
      "recipes/pretrain.lua", "config=" .. first .. "/config.yaml", "--out", again, "--max-steps", "6", "--quiet",
    })
    assert.same(small.weights(first, 6), small.weights(again, 6))
    assert.same(small.metrics(first), small.metrics(again))
    assert.equal(sys.read_file(first .. "/config.yaml"), sys.read_file(again .. "/config.yaml"))
  end)

  it("saves at intervals and at the end, and keeps the newest checkpoints", function()
    for keep, wanted in pairs { [2] = { 4, 5 }, [9] = { 2, 4, 5 } } do
      local out, steps = folder .. "/kept" .. keep, {}
      assert.equal(0, (run("--out", out, "--max-steps", "5", "save.every=2", "save.keep=" .. keep)))
      for i, one in ipairs(assert(require("seqrun.checkpoint").list(out))) do steps[i] = one.step end
      assert.same(wanted, steps)
    end
  end)

  it("writes a metrics line for the remaining steps at the end of its schedule", function()
    local out, steps = folder .. "/lines", {}
    assert.equal(0, (run("--out", out, "rate.total=12", "rate.from=7", "steps=5", "log.every=2")))
    for i, line in ipairs(small.metrics(out)) do steps[i] = line.step end
    assert.same({ 2, 4, 5 }, steps)
  end)

  it("gives the same results with and without prefetching", function()
    local out = folder .. "/ahead"
    assert.equal(0, (run("--out", out, "--max-steps", "6", "data.prefetch=0")))
    assert.same(small.metrics(first), small.metrics(out))
  end)

  it("ends with tokens per second, efficiency, a measured speed-up and both losses", function()
    local out = works(run("--out", folder .. "/summary", "--max-steps", "3"))
    holds(out, {
      "real tokens/s", "slot tokens/s", "of the slots are real",
      "times as fast as padded to the longest of each batch", "unigram model",
    })
  end)

  it("compares itself with the unigram model, if there is one", function()
    local baselines = { { loss = "mlm", metric = "unigram_loss", title = "unigram model" } }
    local function score(line)
      return require("seqrun.run.screen.summary").scores(line, { { name = "mlm" }, { name = "nsp" } }, baselines)
    end
    local below, above = { mlm_loss = 5, unigram_loss = 6.25 }, { mlm_loss = 7, unigram_loss = 6.25 }
    assert.same({ "mlm loss 5.000, unigram model 6.250: 1.250 nats below" }, score(below))
    assert.same({ "mlm loss 7.000, unigram model 6.250: 0.750 nats above" }, score(above))
    assert.same({ "mlm loss 7.000" }, score { mlm_loss = 7 })
    assert.same({ "nsp loss 0.500, accuracy 0.750" }, score { nsp_loss = 0.5, nsp_accuracy = 0.75 })
    local recipe, changed = assert(sys.read_file("recipes/pretrain.lua")):gsub("corpus = corpus, ", "")
    assert.equal(1, changed)
    local words = small.words(corpus, "config=recipes/pretrain.yaml", "--out", folder .. "/bare", "--max-steps", "2")
    words[1] = program.write(folder, "bare.lua", recipe)
    local out = works(program.run(words))
    assert.truthy(out:find("held%-out   mlm loss %d%.%d+, accuracy"), out)
    out = works(run("--out", folder .. "/none-held", "--max-steps", "2", "data.held=0"))
    assert.is_nil(out:find("held-out", 1, true))
  end)

  it("counts FLOP by the published formula, and reports the simpler one", function()
    local h, layers, vocab, squares = 64, 3, 3000, 512 ^ 2 + 100 ^ 2 + 7 ^ 2
    local bert = sr.nn.bert {
      hidden_size = h, intermediate_size = 4 * h, num_hidden_layers = layers, num_attention_heads = 1,
      vocab_size = vocab,
    }
    local batch = { layout = sr.layout { lens = { 512, 100, 7 } }, tokens = 619, targets = { mlm = { count = 93 } } }
    local wanted = 619 * 6 * 12 * layers * h * h + 12 * layers * h * squares + 93 * 6 * (h * h + h * vocab)
    assert.equal(wanted, bert:flops(batch))
    batch.targets.nsp = { count = 3 }
    assert.equal(wanted + 3 * 6 * (h * h + 2 * h), bert:flops(batch))
    local out = works(run("--out", folder .. "/mfu", "--max-steps", "2", "peak_flops=1e10"))
    assert.truthy(out:find("mfu        %d+%.%d%% of the peak\n"), out)
    local is_too_low = require("seqrun.run.measure.peak").is_too_low
    assert.same({ true, false, false, false },
      { is_too_low(nil, 1.2), is_too_low(nil, 0.9), is_too_low(nil, nil), is_too_low(1e9, 1.2) })
    assert.is_true(small.metrics(folder .. "/mfu")[1].mfu > 0)
  end)

  it("updates a progress line on a terminal, cut to its width, and leaves complete lines", function()
    if not os.execute("script -qec true /dev/null </dev/null >/dev/null 2>&1") then
      pending("no terminal can be made here")
      return
    end
    local words = small.words(corpus, "--out", folder .. "/terminal", "--max-steps", "40", "log.every=20")
    for i, word in ipairs(words) do words[i] = word ~= "--quiet" and "'" .. word .. "'" or "" end
    local script = program.write(folder, "terminal.sh", ("stty cols 40; NO_COLOR=1 %s %s"):format(program.path,
      table.concat(words, " ")))
    local typed = folder .. "/typescript"
    local ok = os.execute(("script -qec 'sh %s' %s </dev/null >/dev/null 2>&1"):format(script, typed))
    assert.is_true(ok)
    local text, drawn = assert(sys.read_file(typed)), 0
    for line in text:gmatch("\r(step [^\r\n\27]*)\27%[K") do
      drawn = drawn + 1
      assert.is_true(utf8.len(line) < 40, line)
    end
    assert.is_true(drawn >= 1)
    assert.truthy(text:find("eta", 1, true))
    assert.is_nil(text:find("\27%[%d"), "no colours")
    assert.is_nil(assert(sys.read_file(folder .. "/terminal/run.log")):find("[\27\r]"))
  end)

  it("plans without writing anything", function()
    local out = folder .. "/dry"
    local text = works(run("--out", out, "--dry-run"))
    holds(text, {
      "parameters", "packs of 48", "lower bound", "factor", "rate ", "memory", "time ", "nothing was written",
    })
    assert.is_nil(text:find("padded", 1, true))
    assert.truthy(select(2, run("--out", out, "--dry-run", "pack.arrange=padded")):find("padded: one sequence per row"))
    assert.is_false(sys.exists(out))
  end)

  it("counts the micro-batches of an update in its plan", function()
    local function plan_of(...)
      local _, text = run("--out", folder .. "/dry", "--dry-run", "batch.micro_packs=64", ...)
      return text:match("update  [^\n]*"), text:match("time  [^\n]*"), text:match("rows  [^\n]*")
    end
    local update, time = plan_of("batch.shares=3")
    assert.matches("in 3 micro%-batches;", update)
    assert.matches("%(3 micro%-batches of ", time)
    local rows
    update, time, rows = plan_of("batch.by=sequences", "batch.sequences=5", "pack.arrange=single")
    assert.matches("%(5%.0 sequences%) in 5 micro%-batches;", update)
    assert.matches("%(5 micro%-batches of ", time)
    assert.matches("single: one sequence per micro%-batch", rows)
  end)

  it("explains every key", function()
    local text = works(run("--explain"))
    assert.truthy(text:find("rate.peak%s+0.003%s+command line%s+peak learning rate"))
    assert.truthy(text:find("optimizer.betas%s+%[0.9, 0.98%]%s+recipes/pretrain.yaml:%d+"))
    assert.truthy(text:find("seed%s+42%s+default"))
  end)

  it("has a page of help", function()
    local text = works(run("--help"))
    holds(text, { "usage: seqrun recipes/pretrain.lua", "--max-steps N", "--explain lists the keys" })
  end)

  it("reports five config errors at once, with 2, and starts nothing", function()
    local out = folder .. "/mistakes"
    local code, _, err = run("--out", out, "sed=1", "rate.peak=high", "optimizer.nam=lamb", "mask.prob=2", "warmup=3")
    assert.equal(2, code)
    holds(err, {
      "did you mean 'seed'", "'high'", "did you mean 'name'", "at most 0.9", "exists under 'rate'", "5 errors",
    })
    assert.is_false(sys.exists(out))
  end)

  it("rejects a non-empty directory, an unknown option and an unavailable device", function()
    exits(2, "is not empty; resume with %-%-resume", run("--out", first))
    exits(2, "did you mean '%-%-max%-steps'%?", run("--max-step", "3"))
    assert.equal(2, (run("--max-steps", "none")))
    assert.equal(2, (run("--out", "")))
    assert.equal(4, (run("--out", folder .. "/cuda", "device=nothing")))
    assert.is_false(sys.exists(folder .. "/cuda"))
  end)

  it("exits with 3 on a data set that is missing, truncated or has a flipped bit", function()
    local out = folder .. "/bad"
    local words = function(path) return program.run(small.words(path, "--out", out, "--max-steps", "2")) end
    exits(3, "create it with `seqrun recipes/prepare%.lua out=", words(folder .. "/none.sqr"))
    local bytes = assert(sys.read_file(corpus))
    local flipped = bytes:sub(1, 200) .. string.char(bytes:byte(201) ~ 8) .. bytes:sub(202)
    for _, damaged in ipairs { bytes:sub(1, #bytes // 2), flipped, "" } do
      exits(3, "damaged%.sqr", words(program.write(folder, "damaged.sqr", damaged)))
      sys.remove(out)
    end
  end)

  it("does not write through symbolic links", function()
    local out, victim = folder .. "/planted", program.write(folder, "victim", "mine")
    for _, name in ipairs { "run.log", "metrics.jsonl", "lock", "config.yaml", "environment.json" } do
      sys.remove(out)
      assert(sys.make_dirs(out))
      os.execute(("ln -s %s %s/%s"):format(victim, out, name))
      local replaced = name == "config.yaml" or name == "environment.json"
      local words = { "--out", out, "--resume", "--max-steps", "1" }
      if name == "config.yaml" then words[#words + 1] = "config=recipes/pretrain.yaml" end
      local code = run(table.unpack(words))
      assert.equal("mine", sys.read_file(victim), name)
      assert.equal(name == "config.yaml" and 2 or replaced and 0 or 5, code, name)
    end
  end)

  it("exits with 5 if it cannot write", function()
    program.write(folder, "file", "x")
    assert.equal(5, (run("--out", folder .. "/file/x", "--max-steps", "2")))
  end)

  it("exits with 5 at the file size limit, and keeps earlier checkpoints", function()
    local out = folder .. "/full"
    assert.equal(0, (run("--out", out, "--max-steps", "2")))
    local words = small.words(corpus, "--out", out, "--resume", "--max-steps", "4")
    exits(5, "step 4 is not saved", program.run(words, { before = "ulimit -f 16;" }))
    assert.equal(2, (require("seqrun.checkpoint").verify(out .. "/step-000000002")))
    assert.equal(0, (run("--out", out, "--resume", "--max-steps", "4")))
  end)

  it("exits with 5 on a full disk, and keeps earlier checkpoints #slow", function()
    local disk = folder .. "/disk"
    assert(sys.make_dirs(disk))
    if not os.execute(("mount -t tmpfs -o size=400k none %s 2>/dev/null"):format(disk)) then
      pending("no mounts: a tmpfs cannot be mounted here")
      return
    end
    works(run("--out", disk .. "/run", "--max-steps", "2"))
    os.execute(("dd if=/dev/zero of=%s/filler bs=1k 2>/dev/null"):format(disk))
    local full, _, err = run("--out", disk .. "/run", "--resume", "--max-steps", "4")
    local step = require("seqrun.checkpoint").verify(disk .. "/run/step-000000002")
    os.execute("umount " .. disk)
    assert.equal(5, full)
    assert.truthy(#err > 0)
    assert.equal(2, step)
  end)

  it("locks its directory: a second run there is rejected with 5", function()
    local out = folder .. "/held"
    local words = small.words(corpus, "--out", out, "rate.total=100000")
    for i, word in ipairs(words) do words[i] = "'" .. word .. "'" end
    local script = ("%s %s >/dev/null 2>&1 & echo $! >%s/pid; wait $!"):format(program.path,
      table.concat(words, " "), folder)
    program.write(folder, "held.sh", script)
    os.execute(("bash %s/held.sh >/dev/null 2>&1 &"):format(folder))
    for _ = 1, 15000 do
      if sys.exists(out .. "/metrics.jsonl") then break end
      sys.sleep(0.02)
    end
    local code, _, err = run("--resume=" .. out, "rate.total=100000")
    os.execute(("kill -KILL $(cat %s/pid)"):format(folder))
    assert.equal(5, code)
    assert.truthy(err:find("held", 1, true))
  end)

  it("trains on fixed examples, and says what to do about overlong ones", function()
    local examples = {}
    for i = 1, 200 do
      local a = {}
      for j = 1, 5 + i % 60 do a[j] = 5 + i * j % 100 end
      examples[i] = { a = a }
    end
    local given = folder .. "/given.sqr"
    sr.must(sr.data.write { out = given, vocab = "tests/data/model/tiny/vocab.txt", examples = examples })
    local function go(...)
      sys.remove(folder .. "/given")
      return program.run(small.words(given, "--out", folder .. "/given", "--max-steps", "2", ...))
    end
    exits(2, "set data%.nsp=false", go())
    exits(3, "more than max_len 48; raise max_len, or set too_long: truncate", go("data.nsp=false"))
    assert.equal(0, (go("data.nsp=false", "data.too_long=truncate")))
    assert.equal(0, (go("data.nsp=false", "data.too_long=split")))
  end)

  it("completes on a data set so small that an update crosses epochs", function()
    local place = folder .. "/few"
    assert(sys.make_dirs(place))
    local text = program.write(place, "few.txt", "Hello world. This is a test.\nSecond line here.\n\nNew doc starts.\n")
    local few = place .. "/few.sqr"
    sr.must(sr.data.prepare { inputs = { text }, vocab = "tests/data/model/tiny/vocab.txt", out = few })
    for seed = 1, 4 do
      local words = small.words(few, "--out", place .. "/run" .. seed, "--max-steps", "2", "seed=" .. seed)
      works(program.run(words))
    end
  end)

  it("exits with 1 when gradients stay non-finite", function()
    local out = folder .. "/wild"
    exits(1, "finite", run("--out", out, "rate.peak=1e30", "rate.warmup=0", "optimizer.max_skipped=2"))
    local lines = small.metrics(out)
    assert.is_true(lines[#lines].skipped >= 1)
    assert.equal("nonfinite", small.metrics(out, "event")[1].alert)
  end)

  it("exits with 1 and saves nothing when the weights contain NaN", function()
    local out = folder .. "/beyond"
    local huge = { "rate.peak=1e10", "rate.warmup=0", "optimizer.decay=1e30" }
    exits(1, "held%-out mlm loss at step 2 is", run("--out", out, "--max-steps", "2", table.unpack(huge)))
    for _, name in ipairs(assert(sys.list(out))) do assert.is_nil(name:find("^step")) end
  end)

  it("starts from the weights, or weights and moments, of another run", function()
    local out = folder .. "/phase2"
    works(run("--out", out, "--max-steps", "2", "init.from=" .. first, "data.max_len=64"))
    local fresh, carried = small.metrics(first)[1].mlm_loss, small.metrics(out)[1].mlm_loss
    assert.is_true(carried < fresh - 0.01)
    local moments = { "--max-steps", "2", "init.from=" .. first, "init.carry=moments" }
    assert.equal(0, (run("--out", folder .. "/moments", table.unpack(moments))))
    assert.equal(0, (run("--out", folder .. "/weights", "--max-steps", "2", "init.from=" .. first)))
    assert.not_same(small.weights(folder .. "/weights", 2), small.weights(folder .. "/moments", 2))
    local _, err = exits(3, "", run("--out", folder .. "/nothing", "init.from=" .. folder .. "/nowhere"))
    assert.truthy(err:find("init.from: " .. folder .. "/nowhere: no such file", 1, true), err)
    assert.equal(2, (run("--out", folder .. "/other", "init.from=" .. first, "model.hidden_size=32")))
    assert.is_false(sys.exists(folder .. "/other"), "what does not fit must not be in the way of the next try")
    exits(2, "model.num_hidden_layers is 1, .* has 2; leave the key out",
      run("--out", folder .. "/fewer", "--max-steps", "1", "init.from=" .. first, "model.num_hidden_layers=1"))
  end)

  it("leaves the next-sentence head unchanged if there are no pairs", function()
    local out = folder .. "/alone"
    works(run("--out", out, "--max-steps", "3", "data.nsp=false", "optimizer.name=lamb"))
    local shape = assert(sr.checkpoint.config(out))
    local trained, fresh = sr.nn.bert(shape), sr.nn.bert(shape):initialise(42)
    assert(sr.checkpoint.load(out, { model = trained.params }))
    local function change(name)
      return (trained.params:value_of(name) - fresh.params:value_of(name)):abs():max():item()
    end
    assert.equal(0, change("bert.pooler.dense.weight"))
    assert.equal(0, change("cls.seq_relationship.weight"))
    assert.is_true(change("cls.predictions.transform.dense.weight") > 0)
    assert.equal(json.null, small.metrics(out)[1].nsp_loss)
  end)

  it("checks rules across keys, and shows the arithmetic", function()
    local code, _, err = run("rate.warmup=40", "data.max_len=65", "model.num_attention_heads=3", "optimizer.eps=0")
    assert.equal(2, code)
    holds(err, { "40 of 40 steps", "65 exceeds the 64 position embeddings",
      "hidden_size 16 is not a multiple of num_attention_heads 3", "eps must be positive" })
    _, err = exits(2, "", run("pack.solver=optimum"))
    holds(err, { "choose one of", "lpfhp" })
  end)

  it("prints plain lines at intervals without a terminal, or objects with --json-log", function()
    local words = small.words(corpus, "--out", folder .. "/plain", "--max-steps", "5", "log.seconds=0")
    for i, word in ipairs(words) do
      if word == "--quiet" then table.remove(words, i) break end
    end
    local _, _, err = program.run(words)
    assert.truthy(err:find("step 5/5  eta %d+ms  loss %d"))
    assert.is_nil(err:find("[\r\27]"))
    words = small.words(corpus, "--out", folder .. "/json", "--max-steps", "3", "log.seconds=0", "--json-log")
    for i, word in ipairs(words) do
      if word == "--quiet" then table.remove(words, i) break end
    end
    _, _, err = program.run(words)
    for line in err:gmatch("[^\n]+") do assert.equal("table", type(json.decode(line)), line) end
  end)

  it("uses constant memory over many steps", function()
    if sys.build().sanitizers then
      pending("sanitizers keep what is freed")
      return
    end
    local data = sr.must(sr.data.open(corpus))
    local loader = sr.must(sr.data.loader { data = data, max_len = 48, packs = 2, seed = 1, mask = { max = 8 } })
    local bert = sr.nn.bert {
      vocab_size = data:vocab_size(), hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2,
      intermediate_size = 32, max_position_embeddings = 64,
    }
    bert:initialise(1)
    local optimizer = sr.optim.adamw(bert.params, {})
    local function steps(count)
      for _ = 1, count do
        for batch in loader:next():batches() do
          local scope <close> = sr.scope()
          bert:losses(batch).total:backward()
        end
        optimizer:step { rate = 1e-3 }
      end
      collectgarbage()
      collectgarbage()
      return (sys.memory())
    end
    local before = steps(300) -- until pools and buffers reach their final size
    -- What leaks grows in every round; pages that the kernel took away come back in some.
    local least = math.huge
    for _ = 1, 4 do
      local after = steps(200)
      least, before = math.min(least, after - before), after
    end
    assert.is_true(least < 512 << 10, ("%d bytes more after each 200 steps"):format(least))
    loader:close()
  end)
end)

-- A run that is stopped and resumed equals one that never stopped, bit for bit.

local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local exits, works = program.exits, program.works

local STEPS = 17 -- about five per epoch

local folder, corpus = small.folder()
local straight = folder .. "/straight"

local function run(...) return program.all(small.words(corpus, ...)) end

---Starts a command in the background, sends a signal after a step was logged, waits.
local function interrupt_once(signal, out, ...)
  sys.remove(out)
  local words = small.words(corpus, "--out", out, ...)
  for i, word in ipairs(words) do words[i] = "'" .. word .. "'" end
  local script = ([[
    %s %s >/dev/null 2>%s.err & p=$!
    for i in $(seq 15000); do [ -s %s/metrics.jsonl ] && break; sleep 0.02; done
    kill -%s $p; wait $p]]):format(program.path, table.concat(words, " "), out, out, signal)
  local path = program.write(folder, "interrupt.sh", script)
  local _, _, code = os.execute("bash " .. path)
  return code, (sys.read_file(out .. ".err"))
end

---As above; repeats if the run ended before the signal.
local function interrupt(...)
  local code, err
  for _ = 1, 10 do
    code, err = interrupt_once(...)
    if code ~= 0 then break end
  end
  return code, err
end

---Replaces a value in a file.
local function edit(path, pattern, by)
  local text, count = assert(sys.read_file(path)):gsub(pattern, by)
  assert.equal(1, count, path .. " " .. pattern)
  assert(sys.write_file(path, text))
end

setup(function()
  assert.equal(0, (run("--out", straight, "--max-steps", tostring(STEPS))))
end)

local function check_same(out)
  assert.same(small.weights(straight, STEPS), small.weights(out, STEPS))
  assert.same(small.metrics(straight), small.metrics(out))
  assert.same(small.metrics(straight, "eval"), { small.metrics(out, "eval")[#small.metrics(out, "eval")] })
end

describe("a resumed run", function()
  it("crosses epochs and accumulates several micro-batches, so that these tests are meaningful", function()
    local state = require("seqrun.checkpoint").state(("%s/step-%09d"):format(straight, STEPS))
    assert.is_true(state.state.loaders.cursors.train.epoch >= 2)
    assert.is_true(state.state.loaders.cursors.train.packs >= 9)
  end)

  for _, stop in ipairs { 1, 5, 6, 12 } do
    it(("writes the same bits after a stop at step %d, on another number of threads"):format(stop), function()
      local out = ("%s/stop%d"):format(folder, stop)
      assert.equal(0, (run("--out", out, "--max-steps", tostring(stop), "--threads", "1")))
      assert.equal(0, (run("--resume=" .. out, "--max-steps", tostring(STEPS), "--threads", "3")))
      check_same(out)
    end)
  end

  ---Checks that a run of `steps` steps gives the same bits with and without a stop.
  local function survives(name, stop, steps, ...)
    local whole, cut = folder .. "/" .. name, folder .. "/" .. name .. ".cut"
    assert.equal(0, (run("--out", whole, "--max-steps", tostring(steps), ...)))
    assert.equal(0, (run("--out", cut, "--max-steps", tostring(stop), ...)))
    assert.equal(0, (run("--out", cut, "--resume", "--max-steps", tostring(steps), "--threads", "3", ...)))
    assert.same(small.weights(whole, steps), small.weights(cut, steps))
    assert.same(small.metrics(whole), small.metrics(cut))
  end

  it("is exact in a next phase, which started from another run's weights or moments", function()
    for _, carry in ipairs { "weights", "moments" } do
      survives("phase2." .. carry, 2, 4, "init.from=" .. straight, "init.carry=" .. carry, "data.max_len=64")
    end
  end)

  it("is exact with LAMB and raised betas, the sequence mean, padding and recomputed layers", function()
    survives("lamb", 3, 5, "optimizer.name=lamb", "batch.adjust=betas")
    survives("bf16", 3, 5, "precision=bf16")
    survives("sequence", 3, 5, "batch.loss=sequence", "mask.whole_word=true")
    survives("padded", 3, 5, "pack.arrange=padded")
    survives("recompute", 3, 5, "model.recompute=true")
  end)

  it("keeps the precision that auto took", function()
    local out = folder .. "/auto"
    assert.equal(0, (run("--out", out, "--max-steps", "1", "precision=auto")))
    local path = out .. "/config.yaml"
    local took = sys.read_file(path):match("\nprecision: (%S+)")
    assert.truthy(took == "f32" or took == "bf16", took)
    assert.equal(0, (run("--out", out, "--resume", "--max-steps", "2", "precision=auto")))
    local log = sys.read_file(out .. "/run.log")
    assert.equal(took, log:match("compute (%S+), %S+ instructions %(auto: as before the stop%)"), log)
    assert.equal(took, sys.read_file(path):match("\nprecision: (%S+)"))
  end)

  it("changes the rate on request only, from there on, and records it whenever it is resumed from before", function()
    local out = folder .. "/rate"
    assert.equal(0, (run("--out", out, "--max-steps", "3", "log.every=1")))
    local code, said = run("--out", out, "--resume", "--max-steps", "5", "rate.peak=1e-4")
    assert.equal(2, code)
    assert.matches("these keys may not change on resume\n  rate.peak: .*add %-%-new%-rate to change the rate from "
      .. "here on", said)
    said = exits(2, "", run("--out", out, "--resume", "--new-rate", "--max-steps", "5", "rate.peak=1e-4", "mask.max=3"))
    assert.is_nil(said:find("new-rate", 1, true))
    works(run("--out", out, "--resume", "--new-rate", "--max-steps", "5", "rate.peak=1e-4"))
    assert.matches("changed on resume: rate.peak: %S+, was", assert(sys.read_file(out .. "/run.log")))
    local before, after = small.metrics(out)[3].lr, small.metrics(out)[4].lr
    assert.is_true(after < before / 2, ("%g %g"):format(before, after))
    local function events() return small.metrics(out, "event") end
    assert.equal(1, #events())
    assert.same({ "schedule", 4, "0.0001" }, { events()[1].event, events()[1].step,
      events()[1].changed["rate.peak"].to })
    sys.remove(("%s/step-%09d"):format(out, 5))
    works(run("--out", out, "--resume", "--max-steps", "5", "rate.peak=1e-4")) -- from step 3
    assert.equal(1, #events())
    assert.equal(0, (run("--out", out, "--resume", "--max-steps", "6", "rate.peak=1e-4"))) -- from step 5, which has it
    assert.equal(1, #events())
    exits(2, "%-%-new%-rate needs %-%-resume", run("--out", folder .. "/none", "--new-rate", "--max-steps", "1"))
  end)

  it("can stop at every step", function()
    local out = folder .. "/every"
    assert.equal(0, (run("--out", out, "--max-steps", "1")))
    for step = 2, STEPS, 3 do
      assert.equal(0, (run("--out", out, "--resume", "--max-steps", tostring(step))))
    end
    assert.equal(0, (run("--out", out, "--resume", "--max-steps", tostring(STEPS))))
    assert.same(small.weights(straight, STEPS), small.weights(out, STEPS))
    assert.same(small.metrics(straight), small.metrics(out))
  end)

  it("writes the metrics lines of windows that the stop interrupted", function()
    local whole, cut = folder .. "/whole", folder .. "/cut"
    assert.equal(0, (run("--out", whole, "--max-steps", "12", "log.every=4")))
    assert.equal(0, (run("--out", cut, "--max-steps", "6", "log.every=4")))
    assert.equal(0, (run("--out", cut, "--resume", "--max-steps", "12", "log.every=4")))
    assert.equal(3, #small.metrics(whole))
    assert.same(small.metrics(whole), small.metrics(cut))
  end)

  for _, signal in ipairs { "INT", "TERM", "USR1" } do
    it(("exits with 75 on %s, and resumes to the same bits"):format(signal), function()
      local out = folder .. "/" .. signal
      local err = exits(75, "", interrupt(signal, out, "rate.total=40", "--max-steps", "17"))
      assert.truthy(err:find("stopped by signal " .. signal, 1, true))
      assert.truthy(err:find("resume with --resume=" .. out, 1, true))
      assert.equal(0, (run("--resume=" .. out, "--max-steps", tostring(STEPS))))
      check_same(out)
    end)
  end

  it("repeats an evaluation that was interrupted by the signal", function()
    local source = assert(sys.read_file("recipes/pretrain.lua"))
    local recipe, changed = source:gsub("\n%-%- loop[^\n]*\n", [[

local sys, losses = require("seqrun.core.sys"), bert.losses
function bert:losses(batch)
  if not self.training and run.step == tonumber(os.getenv("STOP_AT")) then
    os.execute("kill -TERM " .. sys.pid())
  end
  return losses(self, batch)
end
]])
    assert.equal(1, changed)
    recipe = program.write(folder, "signal.lua", recipe)
    local function go(stop_at, ...)
      local words = small.words(corpus, "config=recipes/pretrain.yaml", "eval.every=2", "eval.updates=0",
        "batch.micro_packs=1", "--max-steps", "5", ...)
      words[1] = recipe
      return program.run(words, { before = "STOP_AT=" .. stop_at })
    end
    local whole = folder .. "/evals"
    assert.equal(0, (go(0, "--out", whole)))
    assert.equal(3, #small.metrics(whole, "eval"))
    for _, stop_at in ipairs { 4, 5 } do
      local out = folder .. "/evals" .. stop_at
      exits(75, "", go(stop_at, "--out", out))
      assert.equal(stop_at == 4 and 1 or 2, #small.metrics(out, "eval"))
      assert.equal(0, (go(0, "--resume=" .. out)))
      assert.same(small.metrics(whole, "eval"), small.metrics(out, "eval"))
      assert.same(small.weights(whole, 5), small.weights(out, 5))
    end
  end)

  ---recipes/pretrain.lua with a line added before each micro-batch is counted.
  local function meddle(name, line)
    local source = assert(sys.read_file("recipes/pretrain.lua"))
    local before = function(tally) return line .. "\n" .. tally end
    local recipe, changed = source:gsub("    run:tally%(batch, losses%)\n", before)
    assert.equal(1, changed)
    return program.write(folder, name, 'local sys = require("seqrun.core.sys")\n' .. recipe)
  end

  it("exits at once on a second Ctrl-C, and continues when its terminal closes", function()
    -- in the background, since os.execute() ignores Ctrl-C while it waits
    local recipe = meddle("signals.lua", [[
    local signals = os.getenv("SIGNALS")
    if step == 8 and signals then
      for signal in signals:gmatch("%u+") do
        os.execute(("(sleep 0.02; kill -%s %d) >/dev/null 2>&1 &"):format(signal, sys.pid()))
        sys.sleep(20) -- ended by a signal that is handled
      end
    end]])
    local function go(signals, out)
      local words = small.words(corpus, "config=recipes/pretrain.yaml", "--max-steps", tostring(STEPS), "--resume",
        "--out", out, "save.every=5")
      words[1] = recipe
      return (program.run(words, { before = signals and "SIGNALS=" .. signals or nil }))
    end
    local out = folder .. "/twice"
    assert.equal(130, go("INT,INT", out))
    assert.is_false(sys.exists(("%s/step-%09d"):format(out, 7)))
    assert.equal(0, go(nil, out))
    check_same(out)
    assert.equal(0, go("HUP", folder .. "/hangup"))
    check_same(folder .. "/hangup")
  end)

  it("repeats an update that a signal interrupted", function()
    local recipe = meddle("long.lua", [[
    if step == tonumber(os.getenv("STOP_AT")) then os.execute("kill -TERM " .. sys.pid()) end]])
    for stop_at, saved in pairs { [1] = false, [8] = true } do
      local out = folder .. "/long" .. stop_at
      local words = small.words(corpus, "config=recipes/pretrain.yaml", "save.grace=0", "--max-steps", tostring(STEPS),
        "--resume", "--out", out)
      words[1] = recipe
      local _, err = exits(75, "", program.run(words, { before = "STOP_AT=" .. stop_at }))
      assert.truthy(err:find(("at step %d of"):format(stop_at - 1), 1, true), err)
      assert.equal(saved, sys.exists(("%s/step-%09d"):format(out, stop_at - 1)))
      assert.equal(0, (program.run(words, { before = "STOP_AT=0" })))
      check_same(out)
    end
  end)

  it("restores the values named by the recipe, and the elapsed time", function()
    local recipe = meddle("kept.lua", [[
    local kept = run:state { batches = 0 }
    kept.batches = kept.batches + 1]])
    local function go(out, steps)
      local words = small.words(corpus, "config=recipes/pretrain.yaml", "--resume", "--out", out, "--max-steps",
        tostring(steps))
      words[1] = recipe
      assert.equal(0, (program.run(words)))
      return assert(require("seqrun.checkpoint").state(("%s/step-%09d"):format(out, steps))).state.kept.batches
    end
    local out = folder .. "/kept"
    go(out, 4)
    assert.equal(go(folder .. "/kept.whole", 8), go(out, 8))
    local before = 0
    for _, line in ipairs(assert(require("seqrun.history.metrics").read(out))) do
      assert.is_true(line.type == "eval" or line.seconds > before)
      before = line.seconds
    end
  end)

  it("uses the saved plan of its epoch", function()
    local out = folder .. "/plan"
    local function plan_of(step)
      local text = assert(sys.read_file(("%s/step-%09d/trainer/plan.txt"):format(out, step)))
      return text:match("solver (%w+)"), text:match("lengths.*")
    end
    assert.equal(0, (run("--out", out, "--max-steps", "2", "pack.solver=spfhp")))
    local step = out .. "/step-000000002"
    -- as if another version had chosen another plan
    edit(step .. "/trainer/config.yaml", "solver: spfhp", "solver: lpfhp")
    small.sign(step)
    assert.equal(0, (run("--resume=" .. out, "--max-steps", "3", "pack.solver=lpfhp")))
    local _, first = plan_of(2)
    assert.same({ "spfhp", first }, { plan_of(3) })
    assert.equal(0, (run("--resume=" .. out, "--max-steps", "12", "pack.solver=lpfhp")))
    local solver, later = plan_of(12)
    assert.equal("lpfhp", solver)
    assert.not_equal(first, later)
  end)

  it("exits with 75 when the time budget is spent, and continues with a larger one", function()
    local out = folder .. "/budget"
    exits(75, "budget", run("--out", out, "--max-steps", tostring(STEPS), "budget=1e-3"))
    assert.equal(0, (run("--resume=" .. out, "--max-steps", tostring(STEPS), "budget=1h")))
    check_same(out)
  end)

  it("skips a damaged checkpoint with a warning, and removes metrics beyond the older one", function()
    local out = folder .. "/damaged"
    assert.equal(0, (run("--out", out, "--max-steps", "6")))
    assert.equal(0, (run("--out", out, "--resume", "--max-steps", "9")))
    local path = ("%s/step-%09d/model.safetensors"):format(out, 9)
    local bytes = assert(sys.read_file(path))
    assert(sys.write_file(path, bytes:sub(1, 5000) .. string.char(bytes:byte(5001) ~ 1) .. bytes:sub(5002)))
    local text = works(run("--resume=" .. out, "--max-steps", tostring(STEPS)))
    assert.equal(1, select(2, text:gsub("skipping step 9", "")))
    assert.truthy(table.concat(assert(sys.list(out)), " "):find("set-aside-step-000000009-", 1, true))
    assert.same(small.weights(straight, STEPS), small.weights(out, STEPS))
    assert.same(small.metrics(straight), small.metrics(out))
  end)

  it("that is complete is left unchanged", function()
    local out = folder .. "/done"
    assert.equal(0, (run("--out", out, "--max-steps", tostring(STEPS))))
    local text = works(run("--resume=" .. out, "--max-steps", tostring(STEPS)))
    assert.truthy(text:find("unigram model", 1, true))
    check_same(out)
    assert.equal(1, #small.metrics(out, "eval"))
  end)

  it("cannot change the keys that define the run", function()
    local text = exits(2, "rate%.peak: 1, was 0%.003",
      run("--resume=" .. straight, "--max-steps", "20", "rate.peak=1", "model.hidden_size=32"))
    assert.truthy(text:find("model.hidden_size: 32, was 16", 1, true))
  end)

  it("is that of its checkpoint, whatever became of its directory", function()
    local out, other = folder .. "/own", folder .. "/not-own"
    assert.equal(0, (run("--out", out, "--max-steps", "2")))
    local config = out .. "/config.yaml"
    local before = assert(sys.read_file(config))
    for key, values in pairs { seed = { "42", "43" }, micro_packs = { "%d+", "7" }, nsp = { "true", "false" } } do
      edit(config, key .. ": " .. values[1], key .. ": " .. values[2])
      exits(2, key .. ": %w+, was %w+ %([^\n]*/config.yaml:%d+%)",
        program.run { "recipes/pretrain.lua", "--resume=" .. out })
      assert(sys.write_file(config, before))
    end
    assert(os.remove(config))
    works(program.run { "recipes/pretrain.lua", "--resume=" .. out, "--max-steps", tostring(STEPS), "--threads", "1" })
    check_same(out)
    assert.equal(0, (run("--out", other, "--max-steps", "18", "rate.peak=1e-4")))
    assert(os.rename(other .. "/step-000000018", out .. "/step-000000018"))
    exits(3, "step%-000000018 is a checkpoint of another run; remove it from ", run("--resume=" .. out))
    exits(2, "was started by recipes/pretrain.lua; resume it with that recipe",
      program.run { "recipes/causal.lua", "--resume=" .. out })
  end)

  it("goes on in its own metrics, and in no others", function()
    local out = folder .. "/lines"
    local file, other = out .. "/metrics.jsonl", assert(sys.read_file(straight .. "/metrics.jsonl"))
    assert.equal(0, (run("--out", out, "--max-steps", "4")))
    local before = assert(sys.read_file(file))
    assert(os.rename(file, file .. ".away"))
    exits(3, "metrics.jsonl is gone; restore it, or start a new run from the weights with init%.from=",
      run("--resume=" .. out))
    assert(sys.write_file(file, other))
    exits(3, "metrics.jsonl is not that of this run, or was edited; restore it", run("--resume=" .. out))
    local late = '{"type":"event","event":"save","step":5,"seconds":1}\n' -- a resume cuts it off, as it does the rest
    assert(sys.write_file(file, before .. late:rep(3)))
    assert.equal(0, (run("--resume=" .. out, "--max-steps", tostring(STEPS))))
    check_same(out)
  end)

  it("goes on with its data set at another place, and says so", function()
    local out, moved = folder .. "/moved", folder .. "/moved.sqr"
    assert.equal(0, (run("--out", out, "--max-steps", "2")))
    assert(sys.write_file(moved, assert(sys.read_file(corpus, 1 << 30))))
    assert.equal(0, (run("--resume=" .. out, "--max-steps", tostring(STEPS), "data.file=" .. moved)))
    assert.truthy(assert(sys.read_file(out .. "/run.log")):find("changed on resume: data.file: " .. moved, 1, true))
    check_same(out)
  end)

  it("is rejected if the content of its data set has changed", function()
    local out, other = folder .. "/data", folder .. "/elsewhere"
    local copy = program.write(folder, "copy.sqr", assert(sys.read_file(corpus)))
    assert.equal(0, (program.run(small.words(copy, "--out", out, "--max-steps", "3"))))
    assert(sys.make_dirs(other))
    local function replace(documents)
      os.remove(other .. "/corpus.sqr")
      assert(sys.write_file(copy, assert(sys.read_file(small.corpus(other, documents)))))
      local code, _, err = program.run(small.words(copy, "--resume=" .. out, "--max-steps", "4"))
      return code, err
    end
    exits(3, "copy%.sqr has changed since the run started", replace(99))
    assert.equal(0, (replace(100))) -- the same text from another directory
  end)

  it("does not accept a checkpoint as a run directory", function()
    local step = ("%s/step-%09d"):format(straight, STEPS)
    local before = #assert(sys.list(step))
    for _, words in ipairs { { "--resume=" .. step }, { "--resume", "--out", step } } do
      exits(2, "is a checkpoint, not a run", run(table.unpack(words)))
    end
    assert.equal(before, #assert(sys.list(step)))
  end)

  it("warns that it is not bit-exact with another instruction set", function()
    if tensor.instructions() == "plain" then
      pending("no AVX2: there is one class only")
      return
    end
    local out = folder .. "/class"
    assert.equal(0, (run("--out", out, "--max-steps", "4")))
    local words = small.words(corpus, "--out", out, "--resume", "--max-steps", "5") -- quiet, but for warnings
    local _, err = works(program.run(words, { before = "SEQRUN_ISA=plain" }))
    assert.truthy(err:find("resuming with plain is not bit-exact", 1, true))
  end)

  it("keeps the instruction set that it began with, although the processor has a better one", function()
    local before, out = { before = "SEQRUN_ISA=plain" }, folder .. "/stored"
    assert.equal(0, (program.run(small.words(corpus, "--out", out .. "-straight", "--max-steps", "6"), before)))
    assert.equal(0, (program.run(small.words(corpus, "--out", out, "--max-steps", "4"), before)))
    local said, err = works(program.run(small.words(corpus, "--out", out, "--resume", "--max-steps", "6")))
    assert.is_nil((said .. err):find("warning", 1, true), said .. err)
    local log = sys.read_file(out .. "/run.log")
    assert.matches("compute f32, plain [^\n]*\n +not [^\n]+: instructions is plain in the run's config", log)
    local function weights(path)
      return sys.hash_file(path .. "/step-000000006/model.safetensors")
    end
    assert.equal(weights(out .. "-straight"), weights(out))
  end)

  it("leaves the next run of the process its own instruction set", function()
    if os.getenv("SEQRUN_ISA") or tensor.device() ~= "cpu" then return end
    local devices = require("seqrun.tensor.devices")
    local own = devices.instructions()
    devices.use_instructions("plain")
    devices.use_instructions("plain")
    assert.equal("plain", devices.instructions())
    devices.use_instructions("auto")
    assert.equal(own, devices.instructions())
    devices.use_instructions("auto")
    assert.equal(own, devices.instructions())
  end)

  it("needs only --resume, since the directory has its config", function()
    local out = folder .. "/words"
    assert.equal(0, (run("--out", out, "--max-steps", "4")))
    works(program.run { "recipes/pretrain.lua", "--resume=" .. out, "--max-steps", tostring(STEPS), "--quiet" })
    check_same(out)
  end)

  it("starts over if there is no checkpoint yet, and is rejected if the directory is missing", function()
    local out = folder .. "/fresh"
    assert.equal(0, (run("--out", out, "--resume", "--max-steps", tostring(STEPS))))
    check_same(out)
    assert.equal(2, (run("--resume=" .. folder .. "/nowhere")))
  end)
end)

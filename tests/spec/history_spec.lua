-- The reader of run directories: whole, damaged, very long and living ones.

local fails = require("tests.support.fails")
local history = require("seqrun.history.runs")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local folder, corpus = small.folder()

local function run(...) return program.run(small.words(corpus, ...)) end

---A run directory made by hand.
local function made(name, lines, ended)
  local dir = folder .. "/" .. name
  assert(sys.make_dirs(dir))
  program.write(dir, "metrics.jsonl", lines)
  if ended then program.write(dir, "ended.json", ended) end
  return dir
end

describe("the history of a run", function()
  it("has its config, environment, metrics, checkpoints and how it ended", function()
    local out = folder .. "/first"
    assert.equal(0, (run("--out", out, "--max-steps", "4", "save.every=2", "eval.every=2")))
    local found = assert(history.open(out .. "/"))
    assert.same({ out, "finished", 3e-3 }, { found.dir, found.state, found.config.rate.peak })
    assert.equal("[0.9, 0.98]", history.value(found.config, "optimizer.betas"))
    assert.equal("3e-03", ("%.0e"):format(history.value(found.config, "rate.peak")))
    assert.is_nil(history.value(found.config, "rate.peak.more"))
    assert.equal("seed", found.keys[2])
    assert.truthy(found.environment.machine.cpu)
    assert.same({ 4, 2, 4, 4, 0, 0 },
      { #found.train, #found.evals, found.step, found.lines, #found.events, found.damaged })
    assert.is_true(found.seconds > 0 and found.updated > 1e9)
    assert.same({ 2, 4 }, { found.checkpoints[1].step, found.checkpoints[2].step })
    assert.is_true(found.checkpoints[1].bytes > 1000)
    local points = history.points(found.train, "loss")
    assert.same({ 1, found.train[1].loss }, points[1])
    assert.same({}, history.points(found.train, "no_such_key"))
  end)

  it("distinguishes a stopped, a failed and a killed run from a living one", function()
    local out = folder .. "/stopped"
    assert.equal(75, (run("--out", out, "budget=1", "rate.total=1000000")))
    local found = assert(history.open(out))
    assert.equal("stopped", found.state)
    assert.truthy(found.reason:find("time budget", 1, true))
    local lock <close> = assert(train.run_dir(out))
    assert.equal("running", assert(history.open(out)).state)
    lock:close()
    assert.equal(0, (run("--out", out, "--resume", "budget=none", "rate.total=1000000", "--max-steps", "2")))
    assert.equal("finished", assert(history.open(out)).state)
    program.write(out, "ended.json", '{"state":"running"}\n') -- as after a kill, whatever an earlier session logged
    assert.equal("failed", assert(history.open(out)).state)
    os.remove(out .. "/ended.json")
    assert.equal("finished", assert(history.open(out)).state) -- as a run of an older version
    program.write(out, "run.log", (assert(sys.read_file(out .. "/run.log")):gsub("\n  saved .*", "\n")))
    assert.equal("failed", assert(history.open(out)).state)
    local broken = assert(sys.read_file("recipes/pretrain.lua")):gsub("run:log%(", "error('no luck') --")
    local words = small.words(corpus, "config=recipes/pretrain.yaml", "--out", folder .. "/broken")
    words[1] = program.write(folder, "broken.lua", broken)
    assert.equal(1, (program.run(words)))
    found = assert(history.open(folder .. "/broken"))
    assert.equal("failed", found.state)
    assert.truthy(found.reason:find("no luck", 1, true))
  end)

  it("reads only the newest lines if asked to", function()
    local lines = {}
    for i = 1, 1000 do lines[i] = ('{"type":"train","step":%d,"loss":2.5}\n'):format(i) end
    local dir = made("newest", table.concat(lines))
    local found = assert(history.open(dir, 400))
    assert.same({ 1000, 1000, 0 }, { found.step, found.train[#found.train].step, found.damaged })
    assert.is_true(#found.train >= 8 and #found.train <= 11)
    assert.equal(1000, #assert(history.open(dir, 1 << 20)).train)
  end)

  it("survives a half-written last line, other types of lines, NaN and a run without evaluations", function()
    local dir = made("odd", table.concat({
      '{"type":"train","step":1,"loss":2.5,"lr":0.1}', '{"type":"train","step":2,"loss":null,"nonfinite":["loss"]}',
      '{"type":"train","step":3,"loss":"x"}', '{"type":"event","step":3,"event":"rate"}', "[]", '{"step":"4"}',
      '{"type":"train","step":4,"loss":2,"seconds":1e300}', '{"type":"train","step":9223372036854775807}',
      '{"type":"train","step":5,"lo',
    }, "\n"), '{"state":"finished"')
    local found = assert(history.open(dir))
    assert.same({ 4, 0, 1, 4 }, { #found.train, #found.evals, #found.events, found.damaged })
    assert.same({ { 1, 2.5 }, { 2 }, { 4, 2 } }, history.points(found.train, "loss"))
    assert.equal("failed", found.state)
    assert.equal(0, found.seconds)
    assert.same({}, found.config)
  end)

  it("drops lines that a resume from an earlier step has made void", function()
    local dir = made("again", '{"type":"train","step":1}\n{"type":"train","step":5}\n{"type":"train","step":3}\n')
    assert.equal(2, #assert(history.open(dir)).train)
  end)

  it("thins very long metrics, and keeps spikes and both ends", function()
    local lines = {}
    for step = 1, 24000 do
      local loss = step == 13333 and 99 or step == 777 and -5 or 3 + math.sin(step / 100)
      lines[step] = ('{"type":"train","step":%d,"loss":%.4f,"grad_norm":%d}'):format(step, loss, step == 41 and 70 or 1)
    end
    local found = assert(history.open(made("long", table.concat(lines, "\n") .. "\n")))
    assert.equal(24000, found.lines)
    assert.is_true(#found.train <= 20000)
    assert.same({ 1, 24000 }, { found.train[1].step, found.train[#found.train].step })
    local most, least, norm = 0, 0, 0
    for _, row in ipairs(found.train) do
      most, least, norm = math.max(most, row.loss), math.min(least, row.loss), math.max(norm, row.grad_norm)
    end
    assert.same({ 99.0, -5.0, 70 }, { most, least, norm })
  end)

  it("thins evaluations and events too, and keeps the best and what differs", function()
    local rows, event = {}, '{"type":"event","event":"alert","step":%d}\n{"type":"verify","step":%d,"equal":%s}\n'
    for step = 1, 30000 do
      local line = '{"type":"eval","step":%d,"f1":%.4f,"label_loss":%.4f,"accuracy":0.5}\n'
      rows[#rows + 1] = line:format(step, step == 7777 and 0.99 or 0.5, step == 9999 and 0.01 or 1.0)
      rows[#rows + 1] = event:format(step, step, tostring(step ~= 12345))
    end
    local dir = made("many", table.concat(rows))
    local found = assert(history.open(dir))
    assert.is_true(#found.evals <= 20000 and #found.events <= 20000)
    assert.same({ 1, 30000 }, { found.evals[1].step, found.evals[#found.evals].step })
    local best, least, differs = 0, 1, 0
    for _, line in ipairs(found.evals) do best, least = math.max(best, line.f1), math.min(least, line.label_loss) end
    for _, one in ipairs(found.events) do differs = differs + (one.equal == false and 1 or 0) end
    assert.same({ 0.99, 0.01, 1 }, { best, least, differs })
  end)

  it("refuses what is not a run, and says what to give instead #slow", function()
    local function refused(path, part) fails.returning(nil, part, history.open(path)) end
    refused(folder .. "/none", "no such directory")
    refused(folder .. "/first/step-000000004", "give the directory of the run: " .. folder .. "/first")
    refused(folder, "contains runs: " .. folder .. "/again, ")
    refused(folder .. "/first/step-000000004/trainer", "not a run: it has no metrics.jsonl")
    assert.same({ folder .. "/first" }, history.find(folder .. "/first"))
    assert.is_true(#history.find(folder) >= 5)
  end)
end)

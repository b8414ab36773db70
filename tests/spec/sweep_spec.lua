-- Sweeps: the trials of settings, how the best is chosen, and the command on a very small model.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local results = require("seqrun.run.sweep.results")
local settings = require("seqrun.run.sweep.settings")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local exits, refuses, works = program.exits, program.refuses, program.works

local function names(trials)
  local list = {}
  for i, trial in ipairs(trials) do list[i] = trial.name end
  return list
end

describe("settings of a sweep", function()
  it("are all combinations of the keys with several values; others belong to all runs", function()
    local fixed, axes = settings.read { "a.b=1", "rate=1e-4,3e-4", "betas=[0.9,0.98],[0.9,0.999]", "l=[1,2]" }
    assert.same({ "a.b=1", "l=[1,2]" }, fixed)
    assert.same({
      "rate=1e-4,betas=[0.9,0.98]", "rate=1e-4,betas=[0.9,0.999]", "rate=3e-4,betas=[0.9,0.98]",
      "rate=3e-4,betas=[0.9,0.999]",
    }, names(settings.trials(axes, {})))
  end)

  it("are drawn with a seed, each once, from values and ranges", function()
    local _, axes = settings.read { "rate=1e-5..1e-3", "size=8..16", "name=a,b" }
    local some = settings.trials(axes, { random = 20, seed = 3 })
    assert.same(names(some), names(settings.trials(axes, { random = 20, seed = 3 })))
    assert.equal(20, #some)
    local low, high = 0, 0
    for _, trial in ipairs(some) do
      local rate, size = tonumber(trial.words[1]:match("=(.*)")), tonumber(trial.words[2]:match("=(.*)"))
      assert.is_true(rate >= 1e-5 and rate <= 1e-3 and size >= 8 and size <= 16)
      if rate < 1e-4 then low = low + 1 else high = high + 1 end
    end
    assert.is_true(low > 4 and high > 4) -- uniform in the logarithm
    local _, few = settings.read { "a=1,2" }
    assert.equal(2, #settings.trials(few, { random = 9 }))
  end)

  it("are refused with the way out", function()
    local function problem(...)
      local words = { ... }
      local _, message = pcall(function()
        local _, axes = settings.read(words)
        settings.trials(axes, {})
      end)
      return tostring(message)
    end
    assert.matches("no key has several values; give one", problem("a=1"))
    assert.matches("'a' is not key=value", problem("a"))
    assert.matches("set by %-%-seeds N", problem("seed=1,2"))
    assert.matches("draw values of it with %-%-random N", problem("a=1..2"))
    assert.matches("a is swept twice", problem("a=1,2", "a=3,4"))
    assert.matches("two trials would be in the directory a=1;", problem("a=1,1"))
  end)
end)

it("the best of a sweep has the best mean; the interval is Student's", function()
  local s = results.spread { 1, 2, 3, 4 } -- R: t.test(1:4)$conf.int is 0.445739 to 4.554261
  assert.near(2.5, s.mean, 1e-12)
  assert.near(1.290994, s.deviation, 1e-6)
  assert.near((4.554261 - 0.445739) / 2, s.half, 1e-3)
  assert.is_nil(results.spread({ 5 }).half)
  local rows = {
    { trial = { name = "a" }, mean = 0.8, half = 0.05, step = 9, state = "done" },
    { trial = { name = "b" }, step = 0, state = "failed" },
    { trial = { name = "c" }, mean = 0.9, half = 0.06, step = 9, state = "done" },
    { trial = { name = "d" }, mean = 0.99, half = 0.01, step = 3, state = "dropped" },
  }
  results.sort(rows, "f1")
  local order = {}
  for i, row in ipairs(rows) do order[i] = row.trial.name end
  assert.same({ "c", "a", "d", "b" }, order)
  local best, alike = results.best(rows)
  assert.same({ "c", 1 }, { best.trial.name, alike })
  results.sort(rows, "label_loss")
  assert.equal("a", results.best(rows).trial.name)
end)

it("the best of a sweep is not chosen on a test set", function()
  for _, name in ipairs { "test.tsv", "data/test.csv.gz", "x/my_test.jsonl", "test-matched.tsv", "TEST.tsv" } do
    assert.error_matches(function() results.refuse_test(name) end, "is a test set by its name")
  end
  for _, name in ipairs { "dev.tsv", "contest.tsv", "test/dev.tsv", "latest.tsv" } do results.refuse_test(name) end
end)

it("the budget of a sweep is of a clock that nobody sets", function()
  local again, sweep = require("seqrun.run.again"), require("seqrun.run.sweep")
  local code, time, now, runs = again.code, sys.time, sys.time(), 0
  local dir <close> = require("seqrun.base.scratch")()
  again.code = function(request)
    runs = runs + (request.explain and 0 or 1)
    return 0
  end
  sys.time = function()
    now = now + 1e6 -- somebody sets the clock of the day
    return now
  end
  local _, axes = settings.read { "a=1,2,3" }
  local good, rows, whole = pcall(function()
    return sweep.new {
      folder = dir.path .. "/out", file = "recipes/pretrain.lua", fixed = {}, trials = settings.trials(axes, {}),
      seeds = 2, rungs = {}, eta = 2, budget = 60, told = function() end,
    }:run()
  end)
  again.code, sys.time = code, time
  assert.is_true(good, tostring(rows))
  assert.same({ 6, true }, { runs, whole })
  assert.is_true(assert(json.decode(sys.read_file(dir.path .. "/out/sweep.json"))).seconds < 60)
end)

describe("seqrun sweep #slow", function()
  local dir, words
  setup(function()
    dir = program.folder()
    words = small.words(small.corpus(dir))
    words[#words] = nil -- --quiet
    table.insert(words, 1, "sweep")
  end)

  local function sweep(...)
    local list = table.move(words, 1, #words, 1, {})
    table.move({ ... }, 1, select("#", ...), #list + 1, list)
    return program.run(list)
  end

  for signal, to in pairs { INT = "-- -$p", TERM = "$p" } do -- Ctrl-C goes to all of the group
    it("stops at SIG" .. signal .. ", as does its run, and counts no trial as failed", function()
      local list, out = table.move(words, 1, #words, 1, {}), ("%s/%s"):format(dir, signal)
      for _, word in ipairs { "rate.total=100000000", "rate.peak=1e-3,1e-2", "attach=false", "--out", out } do
        list[#list + 1] = word
      end
      local shell = ("& p=$!; until ls %s/*/seed-1/metrics.jsonl || ! kill -0 $p; do sleep 0.05; done "
        .. ">/dev/null 2>&1; kill -s %s %s; wait $p"):format(out, signal, to)
      exits(75, "sweep: stopped in [^\n]*/seed%-1; repeat the command to continue",
        program.run(list, { before = "setsid env --default-signal=INT", shell = shell }))
      assert.is_nil(next(assert(json.decode(sys.read_file(out .. "/sweep.json"))).failed))
      local ended = assert(json.decode(sys.read_file(out .. "/rate.peak=1e-3/seed-1/ended.json")))
      assert.matches("stopped by signal " .. signal, ended.message)
    end)
  end

  it("runs trials over seeds, continues, and says why a trial failed", function()
    local out = dir .. "/out"
    local function run(...) return sweep("rate.peak=1e-3,1e-2,x", "--max-steps", "3", "--out", out, ...) end
    local code, told, err = run("--seeds", "2")
    assert.equal(0, code, err)
    assert.matches("^3 trials by mlm_loss %(smaller is better%), mean over 2 seeds, 95 %% interval of the mean\n", told)
    assert.matches("\n1e%-2 +%d%.%d+ +%d%.%d+ to %d%.%d+ +%- +%d%.%d+ +2 +3 ", told)
    assert.matches("\n1e%-3 +%d%.%d+ +%d%.%d+ to %d%.%d+ +%+%d%.%d+ ± %d%.%d+ +%d%.%d+ +2 +3 ", told) -- paired by seed
    assert.matches("\nx +%- .* failed\n", told)
    assert.matches("failed: rate.peak=x: seed 1: .*expected a number", told)
    assert.matches("\nbest: rate.peak=1e%-2 with mlm_loss %d", told)
    assert.matches("1 of 6  rate.peak=1e%-3  seed 1  mlm_loss", err)
    local picture = assert(sys.read_file(out .. "/sweep.svg"))
    local seeds = require("seqrun.draw.svg").colour(7)
    assert.truthy(picture:find('<circle class="fill ' .. seeds, 1, true))
    assert.is_nil(picture:find('<path class="' .. seeds, 1, true)) -- no line joins them

    local object
    code, told, err = run("--seeds", "2", "--json")
    assert.same({ 0, "" }, { code, err }) -- nothing was run again
    object = json.decode(told)
    assert.same({ "mlm_loss", true, "rate.peak=1e-2", 3 },
      { object.metric, object.complete, object.best, #object.trials })
    local line = small.metrics(out .. "/rate.peak=1e-2/seed-2", "eval")
    assert.equal(line[#line].mlm_loss, object.trials[1].values[2])

    told = works(run("--seeds", "2", "--format", "csv"))
    assert.matches("^rate.peak,mlm_loss,interval,less the first's,deviation,seeds,step,time,state\n1e%-2,%d", told)
    told, err = works(run("--seeds", "3", "--json")) -- only the third seed is new
    assert.equal(2, select(2, err:gsub("seed 3", "")))
    assert.is_nil(err:find("seed 1", 1, true))
    assert.equal(3, #json.decode(told).trials[1].values)

    refuses(2, "contains a sweep of other settings", sweep("rate.peak=1e-3,1e-2", "mask.max=4", "--out", out))
  end)

  it("starts nothing if all trials have a key that the recipe does not have", function()
    for _, slip in ipairs { { "rate.peek=1e-3,1e-2" }, { "rate.peak=1e-3,1e-2", "rate.peek=1" } } do
      local out = dir .. "/slip"
      table.move({ "--out", out }, 1, 2, #slip + 1, slip)
      local _, err = refuses(2, "^seqrun: command line: unknown key 'peek'; did you mean 'peak'%?\n",
        sweep(table.unpack(slip)))
      assert.is_nil(err:find("failed", 1, true))
      assert.is_false(sys.exists(out))
    end
  end)

  it("drops the worse trials at the steps of --halving", function()
    local told = works(sweep("rate.peak=1e-5,1e-4,1e-3,1e-2", "--halving", "2", "--eta", "2", "--max-steps", "4",
      "--out", dir .. "/halving", "--json"))
    local object, steps = json.decode(told), {}
    for _, trial in ipairs(object.trials) do steps[#steps + 1] = trial.state .. trial.step end
    assert.same({ "done4", "done4", "dropped2", "dropped2" }, steps)
    local means = object.trials
    assert.is_true(means[1].mean <= means[2].mean and means[3].mean <= means[4].mean)
  end)

  it("ends at its budget, and goes on with a larger one", function()
    local out = dir .. "/budget"
    local function run(budget)
      return sweep("rate.peak=1e-3,1e-2", "--max-steps", "2", "--out", out, "--json", "--budget", budget)
    end
    local told = exits(75, "", run("0.001"))
    assert.is_false(json.decode(told).complete)
    told = works(run("1h"))
    assert.is_true(json.decode(told).complete)
  end)

  it("goes on past runs that lack the metric by which the first is compared", function()
    works(program.run(small.words(dir .. "/corpus.sqr", "--max-steps", "1", "--out", dir .. "/base")))
    local csv = program.write(dir, "both.csv", "text,label\n" .. ("the cat,0\nthe dog,1\n"):rep(8))
    local told = works(program.run { "sweep", "recipes/finetune.lua", "task=classify,regress", "data.train=" .. csv,
      "data.held=0.5", "init.from=" .. dir .. "/base", "data.max_len=16", "epochs=1", "--seeds", "1", "--out",
      dir .. "/tasks" })
    assert.matches("\nfailed: task=regress: seed 1: its last evaluation has no f1\n", told)
  end)

  it("refuses a test set, a strange directory, and a recipe that is not there", function()
    refuses(2, "is a test set by its name", sweep("rate.peak=1,2", "data.dev=test.tsv", "--out", dir .. "/none"))
    refuses(2, "is not empty and not a sweep", sweep("rate.peak=1,2", "--out", dir))
    refuses(2, "none.lua: no such recipe", program.run { "sweep", "none.lua", "a=1,2" })
    refuses(2, "%-%-metric: the evaluation has no metric 'f2'; it has ",
      sweep("rate.peak=1e-3,1e-2", "--max-steps", "1", "--metric", "f2", "--out", dir .. "/metric"))
  end)
end)

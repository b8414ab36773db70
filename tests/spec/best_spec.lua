-- The best checkpoint, early stopping, and runs of several seeds.

local best = require("seqrun.run.evaluation.best")
local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local metrics = require("seqrun.history.metrics")
local program = require("tests.support.program")
local seeds = require("seqrun.run.seeds")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

local folder
before_each(function() folder = program.folder() end)

---Writes rows of a text and a label that row(i, words) gives.
local function rows_file(name, count, row)
  local rows = { "text,label" }
  for i = 1, count do rows[i + 1] = row(i, task_model.words()) end
  return program.write(folder, name, table.concat(rows, "\n") .. "\n")
end

---Runs the recipe from a small model.
local function finetune(task, file, ...)
  task_model.save(folder .. "/model", task_model.new("mlm"))
  return program.ok { "recipes/finetune.lua", "task=" .. task, "init.from=" .. folder .. "/model",
    "data.train=" .. file, "data.folder=" .. folder, "data.max_len=32", ... }
end

describe("the best checkpoint", function()
  local params

  before_each(function() params = sr.params.new({ { name = "w", shape = { 2 } } }):initialise(1) end)

  local function parts(step) return { step = step, model = params, files = { ["trainer/config.yaml"] = "x: 1\n" } } end

  it("is that of the largest metric, or of the smallest loss", function()
    local function steps(metric, values)
      local self, kept = best.new(folder .. "/" .. metric, metric), {}
      for step, value in ipairs(values) do
        if self:take({ [metric] = value }, parts(step)) then kept[#kept + 1] = step end
      end
      assert.same({ kept[#kept], values[kept[#kept]] }, { self.step, self.value })
      assert.matches(("step%%-0*%d$"):format(self.step), (sr.must(sr.checkpoint.latest(self.folder))))
      return kept
    end
    assert.same({ 1, 3, 4 }, steps("f1", { 0.5, 0.5, 0.6, 0.7, 0.1 }))
    assert.same({ 1, 2, 5 }, steps("label_loss", { 3, 2, 2, 4, 1 }))
  end)

  it("ends a run when it has not improved for some evaluations, also after a resume", function()
    local self = best.new(folder, "f1", 2)
    for step, value in ipairs { 0.5, 0.4 } do self:take({ f1 = value }, parts(step)) end
    assert.is_false(self:over())
    local again = best.new(folder, "f1", 2)
    again:restore(self:state())
    again:take({ f1 = 0.5 }, parts(3))
    assert.is_true(again:over())
    sys.remove(folder .. "/best")
    local lost = best.new(folder, "f1", 2)
    lost:restore(self:state())
    assert.is_string(lost:take({ f1 = 0.1 }, parts(3)))
  end)

  it("that could not be saved is none, and the next one takes its place", function()
    local self = best.new(folder, "f1", 2)
    local blocked = program.write(folder, "best", "")
    local path, message = self:take({ f1 = 0.9 }, parts(1))
    assert.same({ nil, "string", false, 0 }, { path, type(message), self:found(), self.worse })
    assert(os.remove(blocked))
    assert.is_string(self:take({ f1 = 0.5 }, parts(2)))
    assert.is_nil(self:take({ f1 = 0.4 }, parts(3)))
    assert.equal(2, self.step)
  end)

  it("leaves nothing of later steps, and nothing of a kill, when its run resumes", function()
    local self = best.new(folder, "f1")
    self:take({ f1 = 0.5 }, parts(1))
    local state = self:state()
    self:take({ f1 = 0.6 }, parts(2))
    for _, name in ipairs { "set-aside-step-000000009-0a0a0a0a", ".tmp-3-0a0a0a0a", ".trash-step-000000001-0a0a" } do
      sr.must(sys.make_dirs(folder .. "/best/" .. name .. "/trainer"))
    end
    best.new(folder, "f1"):restore(state)
    assert.same({ "step-000000001" }, sys.list(folder .. "/best"))
    best.new(folder, "f1"):restore { worse = 0 } -- before the first evaluation
    assert.same({}, sys.list(folder .. "/best"))
  end)

  it("of a run that was stopped and resumed is that of one that never stopped", function()
    local file = rows_file("all.csv", 60, function(i, words)
      return ("%s %s,%s"):format(words[i % 40 + 1], words[i % 7 + 1], i % 2 == 0 and "a" or "b")
    end)
    local function run(out, ...)
      finetune("classify", file, "data.held=0.3", "batch.sequences=8", "epochs=5", "rate.peak=2e-2",
        "save.best=label_loss", "eval.every=2", "eval.epochs=0", "--quiet", "--out", folder .. "/" .. out, ...)
    end
    ---The evaluations, and the best checkpoint with the sum of its weights.
    local function result(out)
      local losses = {}
      for _, line in ipairs(sr.must(metrics.read(folder .. "/" .. out))) do
        if line.type == "eval" then losses[#losses + 1] = ("%d %.9g"):format(line.step, line.label_loss) end
      end
      local kept = sr.must(sr.checkpoint.latest(folder .. "/" .. out .. "/best"))
      return { losses, kept:match("step%-%d+$"), sys.hash_file(kept .. "/model.safetensors") }
    end
    run("whole")
    run("parts", "--max-steps", "6")
    run("parts", "--max-steps", "12", "--resume")
    run("parts", "--resume")
    local wanted = result("whole")
    assert.is_true(#wanted[1] >= 10)
    assert.is_true(tonumber(wanted[2]:match("%d+")) <= 12) -- the best is from before the last stop
    assert.same(wanted, result("parts"))
  end)

  it("does not count an evaluation that only --max-steps asked for", function()
    local file = rows_file("all.csv", 60, function(i, words)
      return ("%s,%s"):format(words[i % 40 + 1], i % 2 == 0 and "a" or "b")
    end)
    local function run(out, ...)
      return finetune("classify", file, "data.held=0.3", "batch.sequences=8", "epochs=3", "rate.peak=2e-1",
        "save.best=label_loss", "eval.every=4", "eval.epochs=0", "eval.patience=2", "--out", folder .. "/" .. out, ...)
    end
    run("whole")
    assert.matches("held%-out +label loss", (run("parts", "--max-steps", "3"))) -- it is shown
    assert.is_nil(sr.checkpoint.latest(folder .. "/parts/best"))
    for _, step in ipairs { "5", "6", "7" } do run("parts", "--max-steps", step, "--resume") end
    run("parts", "--resume")
    local function last(out)
      local path = sr.must(sr.checkpoint.latest(folder .. "/" .. out))
      local best_path = sr.must(sr.checkpoint.latest(folder .. "/" .. out .. "/best"))
      local state = sr.must(sys.read_file(path .. "/trainer/state.json"))
      return { path:match("step%-%d+$"), sys.hash_file(path .. "/model.safetensors"), best_path:match("step%-%d+$"),
        sys.hash_file(best_path .. "/model.safetensors"), state:match('"best".-}') }
    end
    assert.same(last("whole"), last("parts"))
  end)

  it("ignores an evaluation that does not define the metric, such as a correlation of equal predictions", function()
    local self = best.new(folder, "pearson", 3)
    fails.returning(nil, "^pearson is undefined at step 1$",
      self:take({ spearman = 0.1 }, parts(1), { pearson = true }))
    assert.is_string(self:take({ pearson = 0.2 }, parts(2), {}))
    assert.is_nil((self:take({ pearson = 0 / 0 }, parts(3), {})))
    assert.same({ step = 2, value = 0.2, worse = 1 }, self:state())
  end)

  it("of equal predictions ends nothing: the run goes on", function()
    local file = rows_file("all.csv", 20, function(i, words) return ("%s,%d"):format(words[i], i % 3) end)
    local dev = rows_file("dev.csv", 6, function(i, words) return ("%s,%d"):format(words[1], i) end)
    local _, err = finetune("regress", file, "data.dev=" .. dev, "batch.sequences=8", "epochs=2", "save.best=pearson",
      "eval.every=2", "eval.metric=pearson", "eval.target=0.9", "--quiet", "--out", folder .. "/out")
    assert.matches("warning: no new best checkpoint: pearson is undefined at step 2", err)
    assert.is_string(sr.must(sr.checkpoint.latest(folder .. "/out")))
  end)

  it("needs a metric that the evaluation has", function()
    local self = best.new(folder, "f2")
    fails.raising("^save.best: the evaluation has no metric 'f2'; it has accuracy, f1$", self.take, self,
      { f1 = 0.5, accuracy = 1, type = "eval", step = 3 }, parts(1))
  end)
end)

describe("seeds", function()
  it("are reported by mean and deviation", function()
    local result = seeds.spreads { { f1 = 0.5, loss = 1, step = 9 }, { f1 = 0.7, step = 8 } }
    assert.near(0.6, result.f1.mean, 1e-12)
    assert.near(math.sqrt(0.02), result.f1.deviation, 1e-12)
    assert.same({ nil, nil }, { result.loss, result.step })
    assert.equal(0.0, seeds.spreads({ { f1 = 0.5 } }).f1.deviation)
  end)

  it("show scores first, losses last, no counters, and one name for an accuracy", function()
    local line = {
      type = "eval", step = 9, seconds = 3, sequences = 40, real_tokens = 999, masked = 7, flops = 1e9, accuracy = 0.9,
      label_accuracy = 0.9, label_loss = 0.3, f1 = 0.8, matthews = 0.7,
    }
    local spreads = seeds.spreads { line, line }
    assert.same({ "f1", "accuracy", "matthews", "label_loss" }, seeds.order(spreads))
    assert.same({ "accuracy", "f1", "matthews", "label_loss" }, seeds.order(spreads, "label_accuracy"))
    assert.same({ "mlm_loss", "mlm_accuracy" }, seeds.order(seeds.spreads { { mlm_loss = 2, mlm_accuracy = 0.4 } },
      "mlm_loss"))
    assert.is_nil(spreads.label_accuracy)
  end)

  it("are runs of their own, which stop early and keep their best checkpoint", function()
    local file = rows_file("all.csv", 24, function(i, words)
      return ("%s %s,%s"):format(words[i], words[i % 7 + 1], i % 2 == 0 and "a" or "b")
    end)
    local out = folder .. "/out"
    local function run()
      return finetune("classify", file, "data.dev=" .. file, "batch.sequences=12", "epochs=5", "rate.peak=1e-9",
        "seeds=[3,5]", "save.best=label_accuracy", "eval.patience=2", "--out", out, "--quiet")
    end
    local told, err = run()
    assert.equal("", (err:gsub("warning: 24 of 24 dev examples are in train too[^\n]*\n", "")))
    assert.matches("2 seeds: 3, 5\n +accuracy +%d%.%d+ %+%- ", told)
    local report = json.decode(sr.must(sys.read_file(out .. "/seeds.json")))
    assert.equal(2, #report.metrics.f1.values)
    for i, seed in ipairs { 3, 5 } do
      local own = ("%s/seed-%d"):format(out, seed)
      local last
      for _, one in ipairs(sr.must(metrics.read(own))) do last = one.type == "eval" and one or last end
      assert.equal(report.metrics.accuracy.values[i], last.accuracy)
      assert.equal(6, last.step) -- two updates an epoch: the best after the first, two more without improvement
      assert.matches("step%-000000002$", (sr.must(sr.checkpoint.latest(own .. "/best"))))
    end
    assert.equal(told:match("2 seeds.*"), (run():match("2 seeds.*")))
  end)
end)

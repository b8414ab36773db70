-- One edit of recipes/pretrain.lua each, as a researcher makes it by mistake: refused at its line, or said.

local program = require("tests.support.program")
local recipes = require("tests.support.recipes")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local folder, corpus = small.folder()
local number = 0

---Runs a copy of recipes/pretrain.lua in which one line is another.
local function run_edited(line, replacement, ...)
  local recipe = recipes.changed(assert(sys.read_file("recipes/pretrain.lua")), line, replacement)
  number = number + 1
  local out = ("%s/run-%d"):format(folder, number)
  local words = small.words(corpus, "config=recipes/pretrain.yaml", "--out", out, "--max-steps", "2", ...)
  words[1] = program.write(folder, ("edited-%d.lua"):format(number), recipe)
  return out, program.run(words)
end

local START = "local held = cfg.data.held > 0 and loader(\"held\") or nil\n"
local LOG = "  run:log(step, optimizer)"

describe("what a recipe sets", function()
  for _, case in ipairs {
    { "bert.trainning = false", "the model has no 'trainning' to set; did you mean 'training'%?" },
    { "bert.eval = true", "the model has no 'eval' to set; use training = false" },
    { "bert.encoder.freeze = 1", "the encoder has no 'freeze' to set; use encoder.frozen = n, before the optimizer" },
    { "bert.hidden_size = 8", "the model has no 'hidden_size' to set; it is a key of its config" },
    { "bert.encoder.frozzen = 1", "the encoder has no 'frozzen' to set; did you mean 'frozen'%?" },
    { "bert.heads[1].trianing = false", "the head 'mlm' has no 'trianing' to set; did you mean 'training'%?" },
    { "bert.initialise = 3", "the model: 'initialise' is a function, in whose place 3 was set" },
    { "bert.config.hidden_dropout_prob = 0", "the model: config.hidden_dropout_prob cannot be set here; it was read" },
    { "optimizer.options.decay = 0.5", "the optimizer: options.decay cannot be set here; it was read" },
    { "optimizer.rate = 1e-3", "the optimizer sets 'rate' itself, from what its functions are given" },
    { "train.options.max_len = 32", "the loader: options.max_len cannot be set here; it was read when" },
    { "optimizer.options = {}", "the optimizer sets 'options' itself, from what its functions are given" },
    { "train.options = {}", "the loader sets 'options' itself" },
    { "bert.heads = {}", "the model sets 'heads' itself" },
    { "bert.heads[2] = nil", "the model: heads.2 cannot be set here; give all to sr.nn.bert" },
    { LOG .. " optimizer.rate = 1", "the optimizer sets 'rate' itself", LOG, 44 },
    { LOG .. " run.total = 5", "the run sets 'total' itself", LOG, 44 },
    { "sr.optim.lr = 1", "sr.optim has no 'lr' to set" },
    { "sr.seed = 1", "sr has no 'seed' to set; use sr.manual_seed" },
    { "sr.device = 'cuda'", "sr: 'device' is a function, in whose place 'cuda' was set" },
    { "run.best = 0", "the run has no 'best' to set; keep a value of your own in a local variable" },
    { "cfg.data.max_len = 32", "config: data.max_len has been read before this line, .*: data.max_len=32" },
    { "cfg.optimizer.betas[1] = 0.5", "config: optimizer.betas has been read .*: optimizer.betas=%[0.5, 0.98%]" },
    { LOG .. " cfg.optimizer.betas[2] = 'x'", "config: optimizer.betas has been read before this line", LOG, 44 },
    { "cfg.log.evry = 1", "the config.log has no 'evry'; did you mean 'every'%?" },
    { "cfg.data = {}", "config: data has keys of its own, which are set one by one" },
    { "local lambda = lamda or 0", "the global 'lamda' was never set; did you mean 'lambda'%?; write _G.lamda" },
    { "run:start { heldout = held,", "run:start: unknown option 'heldout'; use corpus", "run:start {", 32 },
    { LOG .. " cfg.alert.run = 'true'", "config: alert.run has been read", LOG, 44 }, -- none is read any more
    { "local kept = run:state { best = {} }", "run:state: 'best' must be a number, a string, true or false" },
    { "local kept = run:state { best = 0 } kept.bets = 1", "run:state has no 'bets', .*; did you mean 'best'%?" },
    { "local kept = run:state { best = 0 } kept.best = bert.params:get 'bert.pooler.dense.bias'",
      "run:state: 'best' must be a number, .* keep tensor:item" },
  } do
    it(("is refused: %s"):format(case[1]), function()
      local _, code, _, err = run_edited(case[3] or START, case[3] and case[1] or START .. case[1] .. "\n")
      program.exits(1, ("edited%%-%%d+.lua:%d: "):format(case[4] or 31) .. case[2], code, "", err)
    end)
  end

  it("is taken where it has an effect, or is the recipe's own", function()
    local out, code, _, err = run_edited("local cfg = run.config", [[local cfg = run.config
      cfg.rate.warmup, cfg.optimizer.betas[1] = 2, 0.5
      cfg.optimizer.betas[2] = 0.75
      local kept = run:state { best = 0 }
      kept.best = kept.best + 1
      seen, unset = _G.seen, nil
      assert(seen == nil and unset == nil and not unpack)
      local new = sr.nn.bert
      function sr.nn.bert(options)
        local model = new(options)
        model.notes, model.encoder.frozen = { kept.best }, nil
        function model:loss_of(batch) return self:losses(batch).total end
        return model
      end]])
    program.works(code, "", err)
    assert.equal("", err)
    assert.matches("betas: %[0.5, 0.75%].*warmup: 2", sr.must(sys.read_file(out .. "/config.yaml")))
  end)
end)

describe("an evaluation", function()
  it("of what is trained on is refused", function()
    for _, held in ipairs { "train", 'loader("train")' } do
      local _, code, _, err = run_edited(START, "local held = " .. held .. "\n")
      program.exits(1, "edited%-%d+.lua:32: run:start: held draws the examples that are trained on", code, "", err)
    end
  end)

  it("of what is trained on, opened once more, is said", function()
    local _, code, _, err = run_edited(START, [[
local again = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local held = sr.must(sr.data.loader(task.loader_options(cfg, again, "train")))]] .. "\n")
    program.works(code, "", err)
    assert.matches("^warning: held draws the examples of .*corpus.sqr that are trained on: [^\n]*\n$", err)
  end)

  it("without the target of a head that is trained is refused", function()
    local _, code, _, err = run_edited(START, [[
local options = task.loader_options(cfg, corpus, "held")
options.targets = { "mlm" }
local held = sr.must(sr.data.loader(options))]] .. "\n")
    program.exits(1, "run:start: held has no target 'nsp', so the head that is trained on it", code, "", err)
  end)

  it("of all of a loader without an end is refused", function()
    for updates, wanted in pairs { ["eval.updates=0"] = 1, ["eval.updates=1"] = 0 } do
      local _, code, _, err = run_edited(START, [[
local options = task.loader_options(cfg, corpus, "held")
options.epochs = nil
local held = sr.must(sr.data.loader(options))]] .. "\n", updates)
      program.exits(wanted, wanted == 1 and "run:start: held has no end, and eval.updates=0" or "", code, "", err)
    end
  end)

  it("that held-out data waits for is missed, unless that is meant", function()
    local _, code, _, err = run_edited("held = held, ", "")
    program.works(code, "", err)
    assert.matches("%d+ documents of .* are neither trained on nor evaluated: .* held = false", err)
    assert.equal(1, select(2, err:gsub("warning", "")))
    _, code, _, err = run_edited("held = held, ", "held = false, ")
    program.works(code, "", err)
    assert.equal("", err)
  end)

  it("that the config asks for and the data set does not hold out is missed as well", function()
    local held = require("seqrun.run.checks.held")
    local function warning(kind, units, given)
      local data = { info = function() return { kind = kind, path = "x.sqr", held = { units = units } } end }
      return held.warning { config = { data = { held = 0.1 } }, loader = { data = data }, held = given }
    end
    assert.matches("data.held is 0.1, but the data set was opened without it", warning("text", 0))
    assert.matches("^3 examples of x.sqr", warning("examples", 3))
    assert.is_nil(warning("examples", 0) or warning("text", 0, false) or warning("text", 3, false))
  end)

  it("names classes as the data does", function()
    local held = require("seqrun.run.checks.held")
    local function start(labels, column)
      local data = {
        info = function() return { digest = "d", path = "both.sqr" } end,
        meta = function() return { ["labels.kind"] = '["fact","polite"]' } end,
      }
      held.check {
        model = { heads = { { name = "label", labels = labels } } },
        loader = { data = data, options = { targets = { { name = "label", column = column } } } },
      }
    end
    start({ "fact", "polite" }, "kind")
    start({ "claim", "nice" }, "kind")
    start({ "polite", "fact" }, "other")
    assert.error_matches(function() start({ "polite", "fact" }, "kind") end,
      "'polite' is class 0 of the head 'label' and class 1 in both.sqr, .* labels = { 'fact', 'polite' }")
  end)
end)

describe("a recipe", function()
  local LOSS = "losses.total:backward()"

  ---The losses of two runs, of which one stopped and was resumed.
  local function losses_of(...)
    local metrics, lines = require("seqrun.history.metrics"), {}
    for i, out in ipairs { ... } do
      lines[i] = {}
      for _, line in ipairs(sr.must(metrics.read(out))) do
        if line.type == "train" then lines[i][line.step] = line.loss end
      end
    end
    return table.unpack(lines)
  end

  it("that draws random numbers repeats them: again, after a stop, and where a step is verified", function()
    local edit = {
      "optimizer:step { rate =", "local factor = math.random() + sr.rand(1):item() print('drawn', factor)\n"
        .. "optimizer:step { rate = factor *",
    }
    local whole, code, said, err = run_edited(edit[1], edit[2], "--max-steps", "4")
    program.works(code, said, err)
    local stopped, _, first = run_edited(edit[1], edit[2], "--max-steps", "2", "verify.every=1")
    local recipe = ("%s/edited-%d.lua"):format(folder, number)
    local second, more = program.works(program.run { recipe, "--resume=" .. stopped, "--max-steps", "4" })
    assert.is_nil(more:find("differs", 1, true))
    local a, b = losses_of(whole, stopped)
    assert.same(a, b)
    assert.equal(4, #a)
    local seen = {}
    for text in said:gmatch("drawn[^\n]*") do seen[text] = true end
    for text in (first .. second):gmatch("drawn[^\n]*") do assert.is_true(seen[text]) end
    local _, _, other = run_edited(edit[1], edit[2], "seed=7")
    assert.is_nil(seen[other:match("drawn[^\n]*")])
  end)

  it("that draws them for each micro-batch draws the same where a step is verified", function()
    local _, code, said, err = run_edited(LOSS, ";(losses.total * (1 + math.random())):backward()", "verify.every=1")
    program.works(code, said, err)
  end)

  it("is known with the files that it loads, also in its loop, which a resume and repro compare", function()
    local own = program.write(folder, "own_loss.lua", "return function(loss) return loss * 2 end")
    program.write(folder, "beside.lua", "return function(losses, own) return dofile(own)(losses.total) end")
    local out, code, _, err = run_edited(LOSS, ("require 'beside'(losses, %q):backward()"):format(own))
    program.works(code, "", err)
    local recipe = ("%s/edited-%d.lua"):format(folder, number)
    local function check() return program.run { "repro", out, "--check" } end
    local shown = program.works(check())
    assert.matches("file " .. own .. " +%x+ +equal", shown)
    assert.matches("beside.lua +%x+ +equal", shown)
    program.write(folder, "own_loss.lua", "return function(loss) return loss * 3 end")
    assert.matches("file " .. own .. " +%x+ +%x+ +differs", (program.exits(1, "", check())))
    for step = 3, 4 do
      local _, warned = program.works(program.run { recipe, "--resume=" .. out, "--max-steps", tostring(step) })
      assert.equal(step == 3, warned:find(own .. " has been edited since this run was started", 1, true) ~= nil)
    end
    assert.matches("step 3 +" .. own, (program.exits(1, "", check())))
  end)
end)

-- Loops of recipes with one mistake each: what can never be meant is refused at the recipe's line, what may be meant is
-- a warning, and sound loops are silent.

local program = require("tests.support.program")
local recipes = require("tests.support.recipes")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local RECIPE = recipes.text.loop
local LOOP = RECIPE:match("for step.*$")
local STEP = "optimizer:step { rate = rate(update.counters), clip = 1 }\n"
local BODY = RECIPE:match("    local losses.-losses%)\n")

local folder, corpus = small.folder()

---Replaces texts that are there once, as { old, new, old, new }.
local function edited(edits) return recipes.changed(RECIPE, table.unpack(edits)) end

---Trains three steps in this process: the error, if there is one, and the warnings.
local function trained(edits, ...)
  local words = small.words(corpus, "--out", folder .. "/run", "--force", "--max-steps", "3", "attach=false",
    "log.every=3", ...)
  words[1] = program.write(folder, "own.lua", edited(edits))
  words[0] = table.remove(words, 1)
  local screen, warnings = require("seqrun.run.screen"), {}
  local environment = setmetatable({ arg = words, warnings = warnings, screen = screen }, { __index = _G })
  local hook = "run.screen.warn = function(_, ...) warnings[#warnings + 1] = string.format(...) end\nrun.screen.say = "
    .. "function() end\nrun.screen.summary = run.screen.say\nrun:start"
  local text = edited(edits):gsub("run:start", function() return (hook:gsub("\n", " ")) end, 1)
  local good, problem = pcall(assert(load(text, "@own.lua", "t", environment)))
  return not good and tostring(problem) or nil, warnings
end

---The number of the line that contains a text, for patterns.
local function line_of(edits, text)
  local before = edited(edits):match("^(.-)" .. text:gsub("%p", "%%%0"))
  return "own.lua:" .. select(2, before:gsub("\n", "")) + 1 .. ": "
end

---An edited loop is refused at the line of a text, and the message contains all these.
local function refused(edits, line, ...)
  local problem, warnings = trained(edits)
  assert.is_string(problem, "not refused")
  assert.equal(line_of(edits, line), problem:sub(1, #line_of(edits, line)), problem)
  for _, part in ipairs { ... } do assert.is_truthy(problem:find(part, 1, true), problem) end
  assert.same({}, warnings)
end

---An edited loop trains, with one warning that contains all these; without any, none.
local function warns(edits, ...)
  local problem, warnings = trained(edits)
  assert.is_nil(problem)
  assert.equal(select("#", ...) > 0 and 1 or 0, #warnings, table.concat(warnings, "\n"))
  for _, part in ipairs { ... } do assert.is_truthy(warnings[1]:find(part, 1, true), warnings[1]) end
end

it("metrics or a log that are moved away in a run are one warning", function()
  for _, name in ipairs { "metrics.jsonl", "run.log" } do
    local away = "  if step == 1 then os.rename(run.folder .. '/NAME', run.folder .. '/away') end\n  run:log("
    away = away:gsub("NAME", name)
    local problem, warnings = trained({ "  run:log(", away }, "save.every=1")
    assert.is_nil(problem)
    assert.equal(1, #warnings)
    assert.matches(name .. " was removed or replaced while it was written, so its lines are lost", warnings[1])
  end
end)

describe("a step", function()
  it("needs a backward pass that reached its parameters", function()
    refused({ "    losses.total:backward()\n", "" }, "optimizer:step", "no backward pass has reached its parameters")
    refused({ "for step,", "bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(2) for step," },
      "optimizer:step", "those made at own.lua:8", "have reached those made at own.lua:12", "use one model")
  end)

  it("is the only one of its update", function()
    refused({ STEP, STEP .. "  optimizer:step { rate = 0 } --2\n" }, "optimizer:step { rate = 0 } --2",
      "step 1 was made already (own.lua:19)")
    refused({ STEP, STEP .. "  local other = sr.optim.adamw(bert.params)\n  other:step { rate = 0 }\n" },
      "other:step", "another optimizer's step has cleared the gradients (own.lua:19)")
    local both = STEP:gsub("clip", "zero_grad = false, clip") .. "  sr.optim.adamw(bert.params):step { rate = 0 }\n"
    warns { STEP, both }
  end)

  it("and zero_grad() are refused inside the loop over micro-batches, and zero_grad() before a step", function()
    local where = "for batch in"
    refused({ "  end\n  " .. STEP, "  " .. STEP .. "  end\n" }, where, "optimizer:step was called inside the loop",
      "(own.lua:18)", "behind the loop")
    refused({ "    losses.total", "    bert.params:zero_grad()\n    losses.total" }, where,
      "params:zero_grad() was called inside the loop", "(own.lua:16)", "leave it out")
    refused({ STEP, "bert.params:zero_grad()\n  " .. STEP }, "optimizer:step", "zero_grad() has dropped", "own.lua:19")
    warns { "  for batch", "  bert.params:zero_grad()\n  for batch" }
  end)

  it("that finds the gradients of the one before is warned of, unless they are meant", function()
    local keeps = STEP:gsub("clip", "zero_grad = false, clip")
    warns({ STEP, keeps }, "step 2: the gradients of the step before are still there", 'zero_grad = "keep"')
    warns { STEP, (keeps:gsub("false", '"keep"')) }
    warns { STEP, keeps .. "  bert.params:zero_grad()\n" }
  end)

  it("that is left out is warned of, unless it is meant", function()
    local now = "if step ~= 2 then " .. STEP:gsub("\n", "") .. " end\n"
    warns({ STEP, now }, "step 2: the loop has not called optimizer:step", "update:skip()")
    warns { STEP, "if step == 2 then update:skip() end " .. now }
  end)
end)

describe("a loop over micro-batches", function()
  it("is warned of where some are in no backward pass, unless they are skipped", function()
    warns({ BODY, BODY .. "    break\n" }, "step 1: 4 of 5 micro-batches took part in no backward pass",
      "left before its end", "update:skip(batch)", "update:skip()")
    warns({ "    losses.total:backward()\n", "    last = losses.total\n", "local scope <close> = sr.scope()", "",
      STEP, "last:backward()\n  " .. STEP, "for batch", "local last for batch" }, "4 of 5 micro-batches took part")
    local some = "    if batch.number ~= 2 then\n" .. BODY .. "    end\n"
    warns({ BODY, some }, "1 of 5 micro-batches took part in no backward pass, so")
    warns { BODY, some:gsub("end\n", "else update:skip(batch) end\n") .. "" }
    warns { BODY, BODY .. "    update:skip() break\n" }
  end)

  it("is warned of where some that were trained on are not tallied", function()
    warns({ "    run:tally", "    if batch.number > 1 then run:tally", "losses)\n  end", "losses) end\n  end" },
      "step 1: 1 of 5 micro-batches were trained on, but not passed to run:tally")
    warns({ "    run:tally(batch, losses)\n", "" }, "the loop does not call run:tally(batch, losses)")
  end)

  it("is refused where they are those of another update", function()
    refused({ "update:batches()", "train:next():batches()" }, "run:tally", "not of the update that run:steps has given",
      "step 1", "for batch in update:batches() do")
    refused({ "losses(batch)", "losses(update:batch(1))" }, "run:tally", "those of micro-batch 1, but the batch is")
    refused({ "losses)\n  end", "losses)\n run:tally(batch, losses) end" }, "losses) end", "1 of step 1 was tallied")
    refused({ "for step,", "train:next() for step," }, "train:next() for", "next() or seek() of the run's loader")
    for _, call in ipairs { "next()", "seek(update.from)" } do
      refused({ "  run:log", "  train:" .. call .. "\n  run:log" }, "for step,", "next() or seek() of the run's loader")
    end
  end)

  it("is silent where it takes them by number, tallies before backward, or makes two passes for one", function()
    warns {}
    warns { "for batch in update:batches() do", "for i = 1, update.count do local batch = update:batch(i)" }
    warns { "    losses.total:backward()\n    run:tally(batch, losses)\n",
      "    run:tally(batch, losses)\n    losses.total:backward()\n" }
    warns { "losses.total:backward()", "losses.mlm.total:backward { retain = true } losses.nsp.total:backward()" }
    local checked, warnings = trained({}, "verify.every=1")
    assert.same({ nil, {} }, { checked, warnings })
  end)

  it("that never calls run:log is warned of, unless it is meant", function()
    warns({ "  run:log(step, optimizer)\n", "" }, "has not called run:log(step, optimizer) in 3 steps",
      "run:log(false)")
    warns { "run:log(step, optimizer)", "run:log(false)" }
    refused({ "run:log(step,", "run:log(step - 1," }, "run:log", "this is step 1, not 0; pass the step")
    refused({ "run:log(step, optimizer)", "run:log()" }, "run:log", "this is step 1, not nil")
  end)
end)

describe("a model", function()
  it("that has no values yet is refused by run:start, unless they are loaded or set", function()
    refused({ ":initialise(cfg.seed)", "" }, "run:start", "the parameters have no values yet, all are zero: bert.",
      "model:initialise(cfg.seed)")
    local one = "bert.params:set('bert.pooler.dense.weight', 1) run:start"
    refused({ ":initialise(cfg.seed)", "", "run:start", one }, one, "all are zero: bert.embeddings.word_embeddings.",
      "model:initialise(cfg.seed)")
    local all = "for _, name in ipairs(bert.params:names()) do bert.params:set(name, 0) end run:start"
    warns { ":initialise(cfg.seed)", "", "run:start", all }
  end)

  it("is neither initialised nor frozen after run:start", function()
    refused({ "for step,", "bert:initialise(1)\nfor step," }, "bert:initialise(1)", "initialise before run:start")
    refused({ "for step,", "bert.encoder.frozen = 1\nfor step," }, "for step,", "encoder.frozen is 1, but was nil")
  end)

  it("is started once, with true or false", function()
    local again = "run:start { loader = train, model = bert, optimizer = optimizer }"
    refused({ "for step,", again .. "\nfor step," }, again, "run:start was called already")
    refused({ "for step,", "bert.training = 0\nfor step," }, "for step,", "model.training is 0, which Lua takes")
  end)

  it("whose training is off is warned of; evaluating() puts it back", function()
    warns({ "for step,", "bert.training = false for step," }, "step 1: model.training is false", "model:evaluating()")
    local own = "if step == 1 then local quiet <close> = bert:evaluating() assert(not bert.training)\n"
      .. "local total = bert:losses(held:next():batch(1)).total assert(not pcall(total.backward, total)) end run:log"
    warns { "run:log", own }
    local model = sr.nn.model { { { name = "w", shape = { 1 } } } }
    local guard = model:evaluating()
    assert.is_false(model.training)
    guard:close()
    assert.is_true(model.training)
    model.training = false
    guard:close()
    assert.is_false(model.training)
  end)
end)

describe("a recipe that leaves run:steps", function()
  local function run(edits, out, ...)
    local words = small.words(corpus, "--out", out, "rate.total=8", ...)
    words[1] = program.write(folder, "left.lua", edited(edits))
    return program.run(words)
  end

  it("is saved, says so, and resumes with the bits of a run that went on #slow", function()
    local straight = folder .. "/straight"
    program.works(run({}, straight))
    local last = select(2, sr.checkpoint.latest(straight)) -- 8 or 9: at the end of the schedule
    for name, edits in pairs {
      after = { "  run:log(step, optimizer)\n", "  run:log(step, optimizer)\n  if step == 4 then break end\n" },
      before = { STEP, "if step == 5 and not run.request.resume then break end\n  " .. STEP },
    } do
      local out = folder .. "/" .. name
      program.works(run(edits, out))
      local log = sr.must(sys.read_file(out .. "/run.log"))
      assert.is_truthy(log:find("has left run:steps at step 4 of 9; resume with --resume=" .. out, 1, true), log)
      assert.is_true(sys.is_dir(out .. "/step-000000004"))
      assert.matches('"state":"stopped"', sr.must(sys.read_file(out .. "/ended.json")))
      program.works(run({}, out, "--resume"))
      assert.same(small.weights(straight, last), small.weights(out, last))
    end
  end)

  it("before its first step has nothing to save; an error is not saved #slow", function()
    local log, out = "  run:log(step, optimizer)\n", folder .. "/error"
    program.exits(1, "left.lua:%d+: own", run({ log, log .. "  if step == 3 then error 'own' end\n" }, out))
    assert.is_false(sys.exists(out .. "/step-000000003"))
    program.works(run({ STEP, "do break end\n  " .. STEP }, folder .. "/nothing"))
    assert.matches("left run:steps at step 0 of 9; there is nothing to save",
      sr.must(sys.read_file(folder .. "/nothing/run.log")))
  end)

  it("goes on in a second loop with the update that was left", function()
    warns {}
    local straight = small.weights(folder .. "/run", 3)
    warns { LOOP, LOOP:gsub("  optimizer:step", "  if step == 2 then break end\n  optimizer:step") .. LOOP }
    assert.same(straight, small.weights(folder .. "/run", 3))
  end)
end)

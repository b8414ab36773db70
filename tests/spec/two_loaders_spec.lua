-- A run that trains on one loader after another: counters and the schedule go on, and a resume in either stage
-- writes the bits of a run that never stopped.

local program = require("tests.support.program")
local small = require("tests.support.small")
local checkpoint = require("seqrun.checkpoint")

local exits, works = program.exits, program.works

local FIRST, STEPS = 6, 13

local RECIPE = [[
local sr = require "seqrun"
local task = sr.tasks.pretraining
local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local function loader(max_len, name)
  local options = task.loader_options(cfg, corpus, "train", run:saved_plan(name))
  options.max_len = max_len
  return sr.must(sr.data.loader(options))
end
local short, long = loader(24, "short"), loader(48, "long")
local bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)
local optimizer = sr.optim.adamw(bert.params, task.optimizer_options(cfg, bert, long))
local rate = sr.run.schedule(cfg)
local loaders = { short = short, long = long }
run:start { corpus = corpus, loaders = loaders, loader = long, model = bert, optimizer = optimizer }

local function train(loader, upto)
  for step, update in run:steps(loader, upto) do
    for batch in update:batches() do
      local scope <close> = sr.scope()
      local losses = bert:losses(batch)
      losses.total:backward()
      run:tally(batch, losses)
    end
    assert(update.schedule_step == update.counters.schedule_step and update.counters.step == step)
    optimizer:step { rate = rate(update.counters), clip = 1 }
    run:log(step, optimizer)
  end
end
train(short, %d)
train(long)
]]

local folder, corpus = small.folder()
local straight = folder .. "/straight"

local function run(...)
  local words = small.words(corpus, ...)
  words[1] = folder .. "/two.lua"
  return program.all(words)
end

local function state_at(out, step) return assert(checkpoint.state(("%s/step-%09d"):format(out, step))).state.loaders end

setup(function()
  program.write(folder, "two.lua", RECIPE:format(FIRST))
  works(run("--out", straight, "--max-steps", tostring(STEPS)))
end)

describe("a run on two loaders", function()
  for _, stop in ipairs { 1, FIRST - 1, FIRST, FIRST + 1, FIRST + 4 } do
    it(("resumes exactly from a stop at step %d"):format(stop), function()
      local out = ("%s/stop%d"):format(folder, stop)
      assert.equal(0, (run("--out", out, "--max-steps", tostring(stop))))
      assert.equal(0, (run("--resume=" .. out, "--max-steps", tostring(STEPS), "--threads", "2")))
      assert.same(small.weights(straight, STEPS), small.weights(out, STEPS))
      assert.same(small.metrics(straight), small.metrics(out))
      assert.same(state_at(straight, STEPS), state_at(out, STEPS))
    end)
  end

  it("keeps the cursor of each, and totals of both", function()
    local state = state_at(straight, STEPS)
    local short, long = state.cursors.short, state.cursors.long
    assert.same({ FIRST, STEPS - FIRST }, { short.update, long.update })
    for key, total in pairs(state.totals) do
      assert.is_true(total > 0)
      if short[key] then assert.equal(short[key] + long[key], total) end
    end
    local last = small.metrics(straight)[STEPS]
    for _, key in ipairs { "sequences", "raw_tokens", "real_tokens", "masked_tokens" } do
      assert.equal(state.totals[key], last[key], key)
    end
  end)

  it("continues the schedule where the first loader ended", function()
    local lines = small.metrics(straight)
    local before, after = lines[FIRST].lr, lines[FIRST + 1].lr
    assert.is_true(before < 3e-3 and after < before and after > 0.9 * before)
  end)

  it("rejects a loader that was not passed to run:start, and a resume without one that it had", function()
    local text = RECIPE:format(FIRST)
    program.write(folder, "two.lua", (text:gsub("train%(long%)", "train(loader(48))")))
    exits(1, "this loader was not passed to run:start, which has long, short",
      run("--out", folder .. "/other", "--max-steps", "8"))
    local one = text:gsub("loaders = loaders, ", ""):gsub("train%(short.-\n", "")
    program.write(folder, "two.lua", one)
    exits(2, "trained on a loader named '%w+', but the recipe passes only train to run:start",
      run("--resume=" .. straight, "--max-steps", tostring(STEPS + 1)))
    program.write(folder, "two.lua", text)
  end)
end)

-- checked_run.lua - a run in this process whose steps are checked (verify.every), and whose loop can be disturbed.

local difference = require("seqrun.run.verify.difference")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local checked = {}

---@class tests.Computation
---@field step integer
---@field number integer of the computation of this step, from 1
---@field model seqrun.Bert
---@field optimizer seqrun.Optimizer

---Trains a very small model.
---@param folder string has the corpus or gets one, and gets the run
---@param words string[] further settings
---@param hooks { start?: fun(c: tests.Computation), gradient?: fun(c: tests.Computation),
---  done?: fun(c: tests.Computation), warn?: fun(text: string), between?: fun(c: tests.Computation) } start: before the
---  micro-batches; gradient: before the optimizer's step; done: after it; between: after a step, before the next
---@return boolean good
---@return any problem
function checked.train(folder, words, hooks)
  local corpus = folder .. "/corpus.sqr"
  if not sys.exists(corpus) then small.corpus(folder, 20) end
  local all = small.words(corpus, "--out", folder .. "/run", "attach=false", "data.held=0",
    "batch.sequences=6", "batch.micro_packs=1", "data.max_len=24", "eval.updates=0", "rate.total=100000000",
    "rate.peak=1e-4", "rate.warmup=1", "model.num_hidden_layers=1", "pack.solver=none", table.unpack(words))
  all[0] = table.remove(all, 1)
  local task, c = sr.tasks.pretraining, { number = 0 }
  local function call(name, ...)
    if hooks[name] then hooks[name](...) end
  end
  return pcall(function()
    local run <close> = sr.run.open { recipe = all, task = task }
    local cfg = run.config
    local text = sr.must(sr.data.open(cfg.data.file, { held = 0 }))
    local loader = sr.must(sr.data.loader(task.loader_options(cfg, text, "train")))
    local model = sr.nn.bert(task.model_options(cfg, text)):initialise(cfg.seed)
    local optimizer = sr.optim[cfg.optimizer.name](model.params, task.optimizer_options(cfg, model, loader))
    local rate = sr.run.schedule(cfg)
    run:start { corpus = text, loader = loader, model = model, optimizer = optimizer, rate = rate }
    run.screen.warn = function(_, format, ...) call("warn", format:format(...)) end
    run.screen.say = function() end
    run.screen.summary = run.screen.say
    c.model, c.optimizer = model, optimizer
    local due = run.saves.due
    run.saves.due = function(...)
      call("between", c)
      return due(...)
    end
    for step, update in run:steps(loader) do
      c.number = step == c.step and c.number + 1 or 1
      c.step = step
      call("start", c)
      for batch in update:batches() do
        local scope <close> = sr.scope()
        local losses = model:losses(batch)
        losses.total:backward()
        run:tally(batch, losses)
      end
      call("gradient", c)
      optimizer:step { rate = rate(update.counters), clip = cfg.optimizer.clip }
      run:log(step, optimizer)
      call("done", c)
    end
  end)
end

---States of differences are not written to disk from now on; returns what undoes this.
function checked.save_nothing()
  local save = difference.save
  difference.save = function() return "" end
  return function() difference.save = save end
end

checked.folder = program.folder

return checked

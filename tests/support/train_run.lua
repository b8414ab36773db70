-- train_run.lua - a small training run that saves often and goes on from its newest checkpoint; the
-- victim of random kills.
--
--     build/seqrun tests/support/train_run.lua DIR STEPS
--
-- The data of a step is a function of its number.  Prints nothing; metrics.jsonl and the checkpoints are
-- what it leaves.

local checkpoint = require("seqrun.checkpoint")
local metrics = require("seqrun.metrics")
local sr = require("seqrun")

local dir, steps = arg[1], tonumber(arg[2])

local lock = sr.must(checkpoint.lock(dir))
local params = sr.params.new {
  { name = "hidden.weight", shape = { 24, 12 }, std = 0.3 },
  { name = "hidden.bias", shape = { 24 }, init = "zeros", group = "no_decay" },
  { name = "out.weight", shape = { 4, 24 }, std = 0.3 },
}
params:initialise(1)
local opt = sr.optim.lamb(params, { betas = { 0.9, 0.99 } })
local rate = sr.schedule.poly { peak = 0.05, warmup = 5, total = steps + 10 }

local at, total = 0, 0.0
if checkpoint.latest(dir) then
  local loaded = sr.must(checkpoint.load(dir, { model = params, opt = opt, carry = "resume" }))
  at, total = loaded.step, loaded.state.total
  sr.must(checkpoint.set_aside(dir, at))
end
local log = sr.must(metrics.open(dir, { step = at }))
local saver = checkpoint.saver(dir)

for step = at + 1, steps do
  local scope <close> = sr.scope()
  local x = sr.randn({ 32, 12 }, { seed = 3, uid = step })
  local labels = sr.tensor((function()
    local list = {}
    for i, row in ipairs(x:totable()) do list[i] = (row[1] > 0 and 1 or 0) + (row[2] > 0 and 2 or 0) end
    return list
  end)(), { dtype = "i32" })
  local hidden = sr.ops.linear(x, params:get("hidden.weight"), params:get("hidden.bias"), { act = "gelu" })
  local logits = sr.ops.linear(hidden, params:get("out.weight"))
  local loss = sr.ops.cross_entropy(logits, labels, sr.full({ 32 }, 1 / 32))
  loss:backward()
  local result = opt:step { rate = rate(step), clip = 1 }
  total = total + loss:item()
  log:write { step = step, loss = loss:item(), grad_norm = result.norm, lr = rate(step) }
  if step % 3 == 0 or step == steps then
    log:sync()
    sr.must(saver:save { step = step, model = params, opt = opt, state = { total = total } })
  end
end
log:close()
lock:close()

-- averaging.lua - when the moving average of the weights begins, and that evaluations may use it.

local counters = require("seqrun.schedule.counters")

local averaging = {}

---Before an update: whether it moves the average.
---@param cfg table
---@param optimizer table
---@param at seqrun.Counters
function averaging.begin(cfg, optimizer, at)
  local o = cfg.optimizer
  if not o or not o.average_from or o.average_from == 0 or not optimizer.set_averaging then return end
  local now = counters.read(at, cfg.rate.by or "step")
  optimizer:set_averaging(now ~= nil and now > o.average_from)
end

---For an evaluation: with eval.average the model has the averaged weights until the result is closed.
---@param cfg table
---@param optimizer table
---@param screen seqrun.Screen
---@return table? # to be closed
function averaging.of_evaluation(cfg, optimizer, screen)
  if not cfg.eval.average or not optimizer.use_average then return nil end
  local weights = optimizer:use_average()
  if not weights.given then screen:say("the average of the weights has not begun; the weights are evaluated") end
  return weights
end

return averaging

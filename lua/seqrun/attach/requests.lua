-- requests.lua - the functions of an attached prompt that ask the run to do something before its next step.

local check = require("seqrun.base.check")
local status = require("seqrun.attach.status")

local MOST = 100 -- as a factor on the rate; more is a slip

local function check_factor(what, factor)
  if type(factor) ~= "number" or not (factor >= 0 and factor <= MOST) then
    check.fail("%s: the rate can be scaled by 0 to %d, got %s", what, MOST, check.show(factor))
  end
end

---@param run seqrun.Run
---@param asked table takes what is asked: factor, save, evaluate, stop
---@param print fun(text: string)
---@return table<string, function>
return function(run, asked, print)
  local requests = {}

  ---Prints the state of the run.
  function requests.status() print(status.text(run)) end

  ---Scales the schedule of the learning rate from the next step on.
  ---@param factor number 1 is the schedule as it was given
  function requests.scale_rate(factor)
    if not run.optimizer.scale_rate then check.fail("scale_rate: the optimizer of this run has no scale_rate()") end
    check_factor("scale_rate", factor)
    asked.factor = factor
  end

  ---Scales the schedule so that the rate of the last step would have been `rate`.
  ---@param rate number
  function requests.set_rate(rate)
    local last, factor = run.optimizer.rate, run.optimizer.factor or 1
    if not run.optimizer.scale_rate then check.fail("set_rate: the optimizer of this run has no scale_rate()") end
    if type(rate) ~= "number" then
      check.fail("set_rate: expected a rate, such as 1e-4, got %s", check.show(rate))
    end
    if not last or last == 0 or factor == 0 then
      check.fail("set_rate: the rate of the last step is unknown or 0; use scale_rate(FACTOR)")
    end
    check_factor("set_rate", rate / (last / factor))
    asked.factor = rate / (last / factor)
  end

  ---Writes a checkpoint of this step.
  function requests.save() asked.save = true end

  ---Evaluates on the held-out data.
  function requests.evaluate()
    if not run:can_evaluate() then check.fail("evaluate: this run has no held-out data") end
    asked.evaluate = true
  end

  ---Saves and stops the run, which can be resumed.
  function requests.stop() asked.stop = true end

  return requests
end

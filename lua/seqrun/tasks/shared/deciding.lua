-- deciding.lua - the keys `decide`: a temperature and thresholds that an evaluation fits for the head of a task.

local c = require("seqrun.config")
local decisions = require("seqrun.scores.decisions")
local failure = require("seqrun.base.failure")
local labels = require("seqrun.data.readers.labels")

local deciding = {}

deciding.key = { "decide", c.map {
  { "threshold", c.string { optional = true, doc = "fit in each evaluation, of two classes for the second one, of "
    .. "multilabel for each label: f1, the threshold on its probability with the best F1; precision:0.9, the least one "
    .. "that reaches this precision; none: one half" } },
  { "temperature", c.boolean { default = false, doc = "fit in each evaluation the temperature that divides the logits: "
    .. "the one with the least negative log-likelihood, so that probabilities are those of being right" } },
} }

deciding.rules = {
  {
    keys = { "decide.threshold" },
    check = function(rule)
      if not rule or select(2, decisions.wanted(rule)) then return nil end
      return ("decide.threshold is '%s'; give f1, or a precision above 0 to reach, such as precision:0.9"):format(rule)
    end,
  },
  {
    keys = { "decide.threshold", "decide.temperature", "eval.average" },
    check = function(rule, temperature, average)
      if not average or not rule and not temperature then return nil end
      return "decide.* is fitted to the weights that are evaluated, but with eval.average a checkpoint has others; "
        .. "export the average (seqrun export --average) and fit it with seqrun eval DIR FILE --fit"
    end,
  },
}

---Lets a head fit what the keys ask for, in the evaluations from now on; refuses a task that has none of it.
---@param group { threshold?: string, temperature: boolean }
---@param head seqrun.TaskHead
---@param task seqrun.FinetuningTask
function deciding.set(group, head, task)
  if not group.threshold and not group.temperature then return end
  local kind = not (head.predict and head.score) and task.scores.decides
  local key = group.threshold and "threshold" or "temperature"
  if not kind then
    failure.raise("config", "decide.%s is for classify, pair and multilabel; task=%s predicts no probabilities of "
      .. "labels, so leave it out", key, task.name)
  end
  if group.threshold and kind == "classes" and head.outputs ~= 2 then
    failure.raise("config", "decide.threshold: of %d classes (%s) the most probable one is predicted, which needs no "
      .. "threshold; leave it out (decide.temperature=true is possible), or train task=multilabel", head.outputs,
      labels.list(labels.names(head.labels, head.outputs)))
  end
  head.deciding = { threshold = group.threshold, temperature = group.temperature }
end

return deciding

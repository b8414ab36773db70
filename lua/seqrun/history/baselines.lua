-- baselines.lua - the score of a run less that of a baseline at equal effective tokens, equal raw tokens and equal
-- steps.  What a curriculum or token dropping gains depends on which of them is held equal.

local baselines = {}

---Title and counter of each.
baselines.KINDS = {
  { "equal effective tokens", "effective_tokens" }, { "equal raw tokens", "raw_tokens" }, { "equal steps", "step" },
}

local CLOSE = 0.005 -- counters of two runs are rarely the same number

---A metric at x, on the line between the evaluations before and after; nil outside of them.
local function at(evals, metric, counter, x)
  local x0, y0
  for _, line in ipairs(evals) do
    local x1, y1 = line[counter], line[metric]
    if type(x1) == "number" and type(y1) == "number" then
      if math.abs(x1 - x) <= CLOSE * x then return y1 end
      if x1 > x then return x0 and y0 + (y1 - y0) * (x - x0) / (x1 - x0) end
      x0, y0 = x1, y1
    end
  end
end

local function last_of(evals, counter)
  local x = (evals[#evals] or {})[counter]
  return type(x) == "number" and x or nil
end

---Differences at the end of the run or of the baseline, whichever has less of the counter.
---@param past seqrun.History
---@param baseline seqrun.History
---@param metric string of evaluations
---@return table<string, number> differences by counter, those that are known
function baselines.beside(past, baseline, metric)
  local found = {}
  for _, kind in ipairs(baselines.KINDS) do
    local counter = kind[2]
    local ours, theirs = last_of(past.evals, counter), last_of(baseline.evals, counter)
    local x = ours and theirs and math.min(ours, theirs)
    local y, other = x and at(past.evals, metric, counter, x), x and at(baseline.evals, metric, counter, x)
    if y and other then found[counter] = y - other end
  end
  return found
end

return baselines

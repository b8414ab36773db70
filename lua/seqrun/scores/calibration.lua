-- calibration.lua - whether probabilities mean what they say: of predictions made with 0.8, 80 % should be right.
--
-- Source: Guo et al. 2017, arXiv:1706.04599.

local check = require("seqrun.base.check")

local MOST = 10000 -- bins

---Expected calibration error: the mean distance between confidence and accuracy over bins of confidence.
---@param confidence number[] probability of each predicted class
---@param correct boolean[]
---@param bins? integer of equal width, 10
---@return { error: number, bins: table[] } bins: { low, high, count, confidence, accuracy }
return function(confidence, correct, bins)
  check.value("scores.calibration: confidence", confidence, "table")
  check.value("scores.calibration: correct", correct, "table")
  if #confidence ~= #correct then
    check.fail("scores.calibration: %d probabilities, but %d outcomes", #confidence, #correct)
  end
  check.list("scores.calibration", confidence, "number")
  bins = check.integer("scores.calibration: bins", bins == nil and 10 or bins, 1, MOST)
  local list = {}
  for b = 1, bins do list[b] = { low = (b - 1) / bins, high = b / bins, count = 0, confidence = 0, accuracy = 0 } end
  for i = 1, #confidence do
    if confidence[i] ~= confidence[i] then check.fail("scores.calibration: probability %d is NaN", i) end
    local bin = list[math.max(1, math.min(bins, math.ceil(confidence[i] * bins)))]
    bin.count, bin.confidence = bin.count + 1, bin.confidence + confidence[i]
    bin.accuracy = bin.accuracy + (correct[i] and 1 or 0)
  end
  local sum = 0
  for _, bin in ipairs(list) do
    sum = sum + math.abs(bin.confidence - bin.accuracy)
    if bin.count > 0 then bin.confidence, bin.accuracy = bin.confidence / bin.count, bin.accuracy / bin.count end
  end
  return { error = #confidence > 0 and sum / #confidence or 0.0, bins = list }
end

-- decisions.lua - from logits to labels: the temperature and the thresholds of a head, and how they are fitted.
--
-- Both are fitted on labelled items that the weights were not trained on, and kept with the weights.
--
-- Source: Guo et al. 2017, arXiv:1706.04599 (one temperature, where the negative log-likelihood is least).

local calibration = require("seqrun.scores.calibration")
local check = require("seqrun.base.check")
local counted = require("seqrun.base.format").counted
local decided = require("seqrun.checkpoint.decided")
local decode = require("seqrun.scores.decode")
local shown = require("seqrun.base.one_line")
local sweep = require("seqrun.scores.sweep")

local decisions = {}

---What is to be fitted: the keys `decide` of a config.
---@class seqrun.Deciding
---@field threshold? string
---@field temperature boolean

---Positive items below which a threshold is not to be trusted.
local FEW = 10

-- ---- using them -----------------------------------------------------------------------------------

---The probabilities of logits: of classes, or where `each` is true, of each label for itself.
---@param logits number[]
---@param decide? seqrun.Decide
---@param each? boolean
---@return number[]
function decisions.probabilities(logits, decide, each)
  local temperature, scaled = decide and decide.temperature or 1, {}
  for k, x in ipairs(logits) do scaled[k] = each and decode.sigmoid(x / temperature) or x / temperature end
  return each and scaled or decode.softmax(scaled)
end

---The class, from 1.
---@param p number[]
---@param decide? seqrun.Decide
---@return integer
function decisions.class(p, decide)
  local thresholds = decide and decide.thresholds
  if thresholds then return p[2] >= thresholds[1] and 2 or 1 end
  return decode.argmax(p)
end

---Whether a label is predicted.
---@param p number[]
---@param k integer
---@param decide? seqrun.Decide
---@return boolean
function decisions.has(p, k, decide)
  local thresholds = decide and decide.thresholds
  return p[k] >= (thresholds and thresholds[k] or 0.5)
end

---How far probabilities are right, and with a temperature also how far those without it were: `without`.
---@param plain (number|false)[] without temperature; false, or {}, where there is none
function decisions.calibration(p, correct, plain)
  local result = calibration(p, correct)
  result.without = plain[1] and calibration(plain, correct).error or nil
  return result
end

-- ---- windows of a document ------------------------------------------------------------------------

local function log_softmax(logits)
  local p, list = decode.softmax(logits), {}
  local best = decode.argmax(logits)
  local norm = logits[best] - math.log(p[best])
  for k, x in ipairs(logits) do list[k] = x - norm end
  return list
end

---The logits of a document: the mean, or the maximum, of the log-probabilities of its windows (of labels, of their
---log-odds), or those of the first.
---@param list { output: number[] }[] in their order
---@param rule? "mean"|"max"|"first"
---@param each? boolean
---@return number[]
function decisions.pooled(list, rule, each)
  if #list == 1 or rule == "first" then return list[1].output end
  local all = {}
  for _, one in ipairs(list) do
    for k, x in ipairs(each and one.output or log_softmax(one.output)) do
      if rule == "max" then all[k] = math.max(all[k] or x, x) else all[k] = (all[k] or 0) + x / #list end
    end
  end
  return all
end

---Makes one item of the windows of each document.
---@param items table[] uid, logits, source
---@param rule? "mean"|"max"|"first"
---@param each? boolean
function decisions.join(items, rule, each)
  if not (items[1] and items[1].source) then return end
  table.sort(items, function(a, b) return a.uid < b.uid end)
  local documents, last = {}, nil
  for i, item in ipairs(items) do
    if not last or last.source ~= item.source then
      last, item.windows = item, {}
      documents[#documents + 1] = item
    end
    table.insert(last.windows, { output = item.logits })
    items[i] = nil
  end
  for i, item in ipairs(documents) do items[i], item.logits = item, decisions.pooled(item.windows, rule, each) end
end

-- ---- temperature ----------------------------------------------------------------------------------

---Slope and curvature of the negative log-likelihood of an item over 1 / temperature.
local function slope_of_class(logits, gold, beta)
  local most, sum, mean, square = -math.huge, 0, 0, 0
  for _, x in ipairs(logits) do most = math.max(most, x) end
  for _, x in ipairs(logits) do
    local e = math.exp(beta * (x - most))
    sum, mean, square = sum + e, mean + e * x, square + e * x * x
  end
  mean, square = mean / sum, square / sum
  return mean - logits[gold + 1], math.max(0, square - mean * mean)
end

---The same of an item with labels.
local function slope_of_labels(logits, gold, beta)
  local slope, curvature = 0, 0
  for k, x in ipairs(logits) do
    local p = decode.sigmoid(beta * x)
    slope, curvature = slope + x * (p - gold[k]), curvature + x * x * p * (1 - p)
  end
  return slope, curvature
end

local HOTTEST = 100 -- beyond this temperature, or below its inverse, there is no minimum to speak of

---The temperature with the least negative log-likelihood, by Newton's method inside a bracket: over 1 / temperature
---it is convex.  nil where it has no minimum: all items are right, or the model knows nothing.
---@param items { logits: number[], gold: integer|integer[] }[]
---@param each? boolean
---@return number|nil
function decisions.temperature(items, each)
  local slope_of = each and slope_of_labels or slope_of_class
  local function slope(beta)
    local sum, curvature = 0, 0
    for _, item in ipairs(items) do
      local first, second = slope_of(item.logits, item.gold, beta)
      sum, curvature = sum + first, curvature + second
    end
    return sum, curvature
  end
  local low, high, beta = 1 / HOTTEST, HOTTEST, 1.0
  if slope(low) >= 0 or slope(high) <= 0 then return nil end
  for _ = 1, 100 do
    local first, second = slope(beta)
    if first > 0 then high = beta else low = beta end
    local following = beta - first / second
    if not (following > low and following < high) then following = math.sqrt(low * high) end
    if math.abs(following - beta) <= 1e-12 * beta then break end
    beta = following
  end
  return 1 / beta
end

-- ---- thresholds -----------------------------------------------------------------------------------

---The precision that a rule wants; nil for the best F1.
---@param rule string "f1", or "precision:0.9"
---@return number|nil
---@return boolean known
function decisions.wanted(rule)
  local wanted = tonumber(rule:match("^precision:(%d*%.?%d+)$"))
  return wanted, rule == "f1" or wanted ~= nil and wanted > 0 and wanted <= 1
end

---The threshold with the best F1 (of equal ones the largest), or the least one that reaches a precision.
---@param gold integer[] 1 for positive items, else 0
---@param p number[]
---@param rule string "f1", or "precision:0.9"
---@return number|nil threshold nil where none reaches the precision, or no item is positive
---@return number reached the F1, or the precision; without a threshold the best precision that one reaches
---@return integer positives items
function decisions.threshold(gold, p, rule)
  local wanted, known = decisions.wanted(check.value("scores.threshold: rule", rule, "string"))
  if not known then check.fail("scores.threshold: the rule is '%s'; give f1 or precision:0.9", rule) end
  local step, positives = sweep.steps("scores.threshold", gold, p)
  local best, reached, threshold = nil, 0, nil
  for here, predicted, hits in step do
    if best and not threshold then
      local middle = (best + here) / 2
      threshold = middle > here and middle or best
    end
    local value = wanted and hits / predicted or 2 * hits / (predicted + positives)
    if wanted and value >= wanted or not wanted and value > reached then
      best, reached, threshold = here, value, nil
    elseif wanted and not best then
      reached = math.max(reached, value)
    end
  end
  return best and (threshold or best / 2), reached, positives
end

-- ---- fitting --------------------------------------------------------------------------------------

---For label k, of all items: 1 where they have it, else 0, and its probability.
---@return integer[] gold
---@return number[] p
function decisions.column(items, k, each)
  local gold, p = {}, {}
  for i, item in ipairs(items) do
    gold[i], p[i] = each and item.gold[k] or item.gold == k - 1 and 1 or 0, item.all[k]
  end
  return gold, p
end

---Fits a threshold for label k; says why there is none, or why it is not to be trusted.
local function fit_one(items, k, name, rule, each, found)
  local gold, p = decisions.column(items, k, each)
  local threshold, reached, positives = decisions.threshold(gold, p, rule)
  local function warn(format, ...) table.insert(found.warnings, format:format(...)) end
  if positives == 0 or positives == #items then
    local which = positives == 0 and "no" or "every"
    threshold = nil
    warn("%s item is '%s', so its threshold stays 0.5", which, name)
    found.problem = not each and ("%s item is '%s', so there is no threshold to fit"):format(which, name)
      or found.problem
  elseif not threshold then
    found.problem = ("no threshold of '%s' reaches %s; the best precision is %.3f"):format(name, rule, reached)
    warn("%s, so it stays 0.5", found.problem)
  elseif positives < FEW then
    warn("only %d of %s %s '%s', too few to trust its threshold", positives, counted(#items, "item"),
      positives == 1 and "is" or "are", name)
  end
  return threshold or 0.5
end

---Fits what a head is to be decided by, on the items of an evaluation.
---@param items table[] logits, gold
---@param head seqrun.TaskHead
---@param deciding seqrun.Deciding
---@param each? boolean
---@return seqrun.Decide
---@return { warnings: string[], problem?: string } found problem: a precision that is not reached
function decisions.fit(items, head, deciding, each)
  local decide, found = { items = #items, rule = deciding.threshold }, { warnings = {} }
  if deciding.temperature then
    decide.temperature = decisions.temperature(items, each)
    if not decide.temperature then
      found.warnings[1] = "no temperature fits best, as all items are right or none is better than chance; it stays 1"
    end
  end
  if not deciding.threshold then return decide, found end
  for _, item in ipairs(items) do item.all = decisions.probabilities(item.logits, decide, each) end
  local names = decode.names(head)
  decide.thresholds = {}
  for k = each and 1 or 2, head.outputs do
    local list = decide.thresholds
    list[#list + 1] = fit_one(items, k, shown(names[k]), deciding.threshold, each, found)
  end
  return decide, found
end

---What a head is decided by, in words; nil if nothing was fitted.
---@param head seqrun.TaskHead
---@return string|nil
function decisions.text(head) return decided.text(head.decide, decode.names(head)) end

return decisions

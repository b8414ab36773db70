-- answers.lua - exact match and F1 of answers to questions, as the official SQuAD 2.0 script computes them.
--
-- Source: Rajpurkar et al. 2018, arXiv:1806.03822.

local check = require("seqrun.base.check")
local normal = require("seqrun.core.text").answer

local answers = {}

local function words_of(text)
  local list = {}
  for word in text:gmatch("[^ ]+") do list[#list + 1] = word end
  return list
end

---F1 of the words of two normal forms; if one has none, both must.
local function word_f1(a, b)
  local ours, theirs = words_of(a), words_of(b)
  if #ours == 0 or #theirs == 0 then return #ours == #theirs and 1.0 or 0.0 end
  local counts, same = {}, 0
  for _, word in ipairs(theirs) do counts[word] = (counts[word] or 0) + 1 end
  for _, word in ipairs(ours) do
    if (counts[word] or 0) > 0 then same, counts[word] = same + 1, counts[word] - 1 end
  end
  local precision, recall = same / #ours, same / #theirs
  return same > 0 and 2 * precision * recall / (precision + recall) or 0.0
end

---Accepted answers in normal form; answers without words do not count, and a question without answers expects none.
local function accepted(gold)
  local list = {}
  for _, answer in ipairs(gold) do
    local text = normal(answer)
    if text ~= "" then list[#list + 1] = text end
  end
  return #list > 0 and list or { "" }
end

---Checks lists of answers and of accepted answers; one of each for each question.
local function check_texts(what, guesses, gold)
  check.list(what .. ": answers", check.value(what .. ": answers", guesses, "table"), "string")
  check.value(what .. ": accepted answers", gold, "table")
  if #guesses ~= #gold then check.fail("%s: %d questions, but %d answers", what, #gold, #guesses) end
  if #gold == 0 then check.fail("%s: no questions to score", what) end
  for i = 1, #gold do check.list(what, check.value(what .. ": accepted answers", gold[i], "table"), "string") end
end

---Exact match and F1 of one answer, the best over the accepted ones.
---@param guess string "" if the question is held to be unanswerable
---@param gold string[] accepted answers; {} if there is none
---@return number exact 0 or 1
---@return number f1
function answers.score(guess, gold)
  check.value("scores.answer: the answer", guess, "string")
  check.list("scores.answer", check.value("scores.answer: accepted answers", gold, "table"), "string")
  local ours, exact, f1 = normal(guess), 0.0, 0.0
  for _, theirs in ipairs(accepted(gold)) do
    exact, f1 = math.max(exact, ours == theirs and 1.0 or 0.0), math.max(f1, word_f1(ours, theirs))
  end
  return exact, f1
end

local function mean(sums) return sums.count > 0 and { exact_match = sums.exact / sums.count, f1 = sums.f1 / sums.count,
  count = sums.count } or nil end

---Mean exact match and F1 over questions, from 0 to 1 (the official script prints percent).
---@param guesses string[]
---@param gold string[][]
---@return { exact_match: number, f1: number, count: integer, answerable?: table, unanswerable?: table }
function answers.squad(guesses, gold)
  check_texts("scores.squad", guesses, gold)
  local sums = {}
  for _, part in ipairs { "all", "answerable", "unanswerable" } do sums[part] = { exact = 0, f1 = 0, count = 0 } end
  for i = 1, #gold do
    local exact, f1 = answers.score(guesses[i], gold[i])
    local part = accepted(gold[i])[1] == "" and "unanswerable" or "answerable"
    for _, name in ipairs { "all", part } do
      local s = sums[name]
      s.exact, s.f1, s.count = s.exact + exact, s.f1 + f1, s.count + 1
    end
  end
  local result = mean(sums.all)
  result.answerable, result.unanswerable = mean(sums.answerable), mean(sums.unanswerable)
  return result
end

-- ---- the null threshold --------------------------------------------------------------------------

---The largest sum of scores over thresholds: questions whose odds exceed the threshold are not answered.
---@param order integer[] questions by their odds
---@param odds number[]
---@param gain number[] what answering each question adds to the sum
---@param none number sum if nothing is answered
local function best_cut(order, odds, gain, none)
  local sum, best, threshold = none, none, odds[order[1]] - 1
  for i, question in ipairs(order) do
    sum = sum + gain[question]
    local next_odds = odds[order[i + 1]]
    if sum > best and next_odds ~= odds[question] then best, threshold = sum, odds[question] end
  end
  return best, threshold
end

---The thresholds on the odds against an answer with which exact match and F1 are best, as the official script finds
---them.  Odds are the null score minus that of the best span.
---@param guesses string[] the best span of each question
---@param gold string[][]
---@param odds number[]
---@return { exact_match: number, exact_threshold: number, f1: number, f1_threshold: number }
function answers.best_threshold(guesses, gold, odds)
  check_texts("scores.best_threshold", guesses, gold)
  check.list("scores.best_threshold: odds", check.value("scores.best_threshold: odds", odds, "table"), "number")
  if #odds ~= #gold then check.fail("scores.best_threshold: %d questions, but %d odds", #gold, #odds) end
  local order, exact, f1, none = {}, {}, {}, 0
  for i = 1, #gold do
    order[i] = i
    local nothing = accepted(gold[i])[1] == "" and 1 or 0
    exact[i], f1[i] = answers.score(guesses[i], gold[i])
    exact[i], f1[i], none = exact[i] - nothing, f1[i] - nothing, none + nothing
  end
  table.sort(order, function(a, b)
    if odds[a] ~= odds[b] then return odds[a] < odds[b] end
    return a < b
  end)
  local best_exact, exact_threshold = best_cut(order, odds, exact, none)
  local best_f1, f1_threshold = best_cut(order, odds, f1, none)
  return {
    exact_match = best_exact / #gold, exact_threshold = exact_threshold, f1 = best_f1 / #gold,
    f1_threshold = f1_threshold,
  }
end

return answers

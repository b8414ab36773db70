-- scores.lua - exact match and F1 of the best span over the windows of each context.
--
-- Columns of the data set: `source` (the question), `chars` (bytes of each token in the context), `text` (the context)
-- and `answers` (a JSON list).  If a question of the data set has no answer, a prediction may be empty as well.

local decode = require("seqrun.scores.decode")
local failure = require("seqrun.base.failure")
local frames = require("seqrun.text.frames")
local items = require("seqrun.data.items")
local json = require("seqrun.core.json")
local metrics = require("seqrun.scores")
local sorted = require("seqrun.base.sorted")
local window_of = require("seqrun.tasks.squad.window")

local scores = { shown = { "exact_match", "f1" }, percent = true }

---Tokens of an answer, at most.
local LONGEST = 30

local function column(loader, name, example) return failure.must(loader.data:column(name, example)) end

---The best span of a window as bytes of its context, with its score.
local function best_of(logits, window)
  local span = decode.span(logits[1], logits[2], window.allowed, LONGEST)
  return span and window.place(span)
end

function scores.take(found, head, hidden, target, batch, loader)
  local uids, frame = items.uids(target, batch), frames.of(loader.data:tokenizer())
  for i, logits in ipairs(items.logits(head, hidden, target, batch)) do
    local origin = loader:origin(uids[i])
    local question = found[origin.source] or { example = origin.example, uid = uids[i], null = math.huge }
    found[origin.source] = question
    local span = best_of(logits, window_of(frame, column(loader, "chars", origin.example)))
    question.null = math.min(question.null, logits[1][1] + logits[2][1])
    if span and (not question.best or span.score > question.best.score) then
      span.example, question.best = origin.example, span
    end
  end
end

---The text of the best span.
local function span_of(question, loader)
  local best = question.best
  return best and column(loader, "text", best.example):sub(best.first + 1, best.last) or ""
end

---The odds where no span is possible.
local NO_SPAN = 1e9

---How much the null score exceeds that of the best span.
local function odds_of(question) return question.best and question.null - question.best.score or NO_SPAN end

---Questions in the order of their numbers; the keys of `found` become 1, 2, ...
local function in_order(found)
  local numbers, list = sorted(found), {}
  for i, number in ipairs(numbers) do list[i] = found[number] end
  for _, number in ipairs(numbers) do found[number] = nil end
  return table.move(list, 1, #list, 1, found)
end

function scores.score(found, _, loader)
  local gold, guess, spans, odds, may_be_empty = {}, {}, {}, {}, false
  for i, question in ipairs(in_order(found)) do
    gold[i] = json.decode(column(loader, "answers", question.example))
    may_be_empty = may_be_empty or #gold[i] == 0
  end
  for i, question in ipairs(found) do
    spans[i], odds[i] = span_of(question, loader), odds_of(question)
    guess[i] = may_be_empty and odds[i] > 0 and "" or spans[i]
    local exact, f1 = metrics.answer(guess[i], gold[i])
    question.gold, question.guess, question.wrong, question.error = gold[i], guess[i], exact < 1, 1 - f1
  end
  local result = metrics.squad(guess, gold)
  result.best = may_be_empty and metrics.best_threshold(spans, gold, odds) or nil
  return { exact_match = result.exact_match, f1 = result.f1 }, { answers = result }
end

return scores

-- prediction.lua - {"answer": "in 1815", "score": 9.1, "null_score": 2.3, "first": 10, "last": 17}
--
-- A context longer than the model is read in windows that start `stride` tokens after each other.  The answer is the
-- span with the largest sum of logits over all windows; it is empty if the null score, of [CLS], exceeds that by
-- `null_threshold`.  first and last count code points of the context from 0, last excluded.

local decode = require("seqrun.scores.decode")
local frames = require("seqrun.text.frames")
local json = require("seqrun.core.json")

local prediction = {
  input = { keys = { "question", "context" } }, reads = "spans", fields = true, submission = "answers",
}

---Tokens of a question, at most.
local QUESTION = 64

---Each window has room for a token of the context, and begins after the one before it.
function prediction.sequences(item, t)
  local question = t.tokenizer.core:ids(item.question)
  local frame = frames.of(t.tokenizer.core)
  local both = frame:room(t.max_len, true)
  for i = #question, math.min(QUESTION, t.max_len // 2, both - 1) + 1, -1 do question[i] = nil end
  local context, places = t.tokenizer.core:ids(item.context, true)
  item.places = places
  local room, before = both - #question, frame:lead(true) + #question + frame:middle()
  local step = math.min(t.stride or 128, room)
  local list, first = {}, 1
  repeat
    local last = math.min(#context, first + room - 1)
    list[#list + 1] = { a = question, b = table.move(context, first, last, 1, {}), offset = first - 1, before = before }
    first = first + step
  until last >= #context
  return list
end

---Logits of start and end for each sequence.
function prediction.outputs(values) return values end

---The spans of all windows, as tokens of the context, and the smallest null score, also as two logits.
---@param of fun(first: number[], last: number[], allowed: fun(i: integer): boolean): table[] spans of a window
local function spans_of(item, of)
  local spans, null, nothing = {}, nil, nil
  for _, sequence in ipairs(item.sequences) do
    local first, last = sequence.output[1], sequence.output[2]
    local from = sequence.before -- tokens before the context
    local function in_context(i) return i > from and i <= from + #sequence.b end
    for _, span in ipairs(of(first, last, in_context)) do
      span.logits = { first[span.first], last[span.last] }
      span.first, span.last = span.first + sequence.offset - from, span.last + sequence.offset - from
      spans[#spans + 1] = span
    end
    if not null or first[1] + last[1] < null then null, nothing = first[1] + last[1], { first[1], last[1] } end
  end
  return spans, null, nothing
end

---The best span over all windows, and the smallest null score.
local function best_of(item, longest)
  local spans, null = spans_of(item, function(first, last, allowed)
    return { decode.span(first, last, allowed, longest) }
  end)
  local best
  for _, span in ipairs(spans) do
    if not best or span.score > best.score then best = span end
  end
  return best, null
end

---The bytes of a text between two code points, from 0, the last excluded.
local function cut(text, first, last)
  return text:sub(utf8.offset(text, first + 1), utf8.offset(text, last + 1) - 1)
end

local function by_score(a, b)
  if a.score ~= b.score then return a.score > b.score end
  if a.first ~= b.first then return a.first < b.first end
  return a.last < b.last
end

---The best answers, each once, and no answer among them; probabilities are among those that are listed.
local function list_of(item, t)
  local spans, null, nothing = spans_of(item, function(first, last, allowed)
    return decode.spans(first, last, allowed, t.longest_answer or 30)
  end)
  spans[#spans + 1] = { first = 0, last = 0, score = null, logits = nothing }
  table.sort(spans, by_score)
  local list, scores, seen = json.array {}, {}, {}
  for _, span in ipairs(spans) do
    local first = span.first > 0 and item.places[span.first][1] or nil
    local last = first and item.places[span.last][2]
    local answer = first and cut(item.context, first, last) or ""
    if #list < t.nbest and not seen[answer] then
      seen[answer] = true
      list[#list + 1] = {
        answer = answer, score = decode.round(span.score), first = first, last = last,
        start_logit = decode.round(span.logits[1]), end_logit = decode.round(span.logits[2]),
      }
      scores[#list] = span.score
    end
  end
  for i, p in ipairs(decode.softmax(scores)) do list[i].probability = decode.round(p) end
  return list
end

function prediction.result(item, t)
  local best, null = best_of(item, t.longest_answer or 30)
  local nbest = t.nbest and list_of(item, t) or nil
  if not best then return { answer = "", null_score = decode.round(null), nbest = nbest } end
  local first, last = item.places[best.first][1], item.places[best.last][2]
  local empty = null - best.score > (t.null_threshold or 0)
  return {
    answer = empty and "" or cut(item.context, first, last), score = decode.round(best.score),
    null_score = decode.round(null), first = not empty and first or nil, last = not empty and last or nil,
    nbest = nbest,
  }
end

return prediction

-- prediction.lua - {"answer": "in 1815", "score": 9.1, "null_score": 2.3, "first": 10, "last": 17}
--
-- A context longer than the model is read in windows that start `stride` tokens after each other.  The answer is the
-- span with the largest sum of logits over all windows; it is empty if the null score, of [CLS], exceeds that by
-- `null_threshold`.  first and last count code points of the context from 0, last excluded.

local decode = require("seqrun.scores.decode")
local frames = require("seqrun.text.frames")
local json = require("seqrun.core.json")
local window_of = require("seqrun.tasks.squad.window")

local prediction = {
  input = { keys = { "question", "context" } }, reads = "spans", fields = true, submission = "answers",
  roles = { text = "question" },
}

---Logits of start and end for each sequence.
function prediction.outputs(values) return values end

---The spans of all windows, as bytes of the context, and the smallest null score, also as two logits.
---@param of fun(first: number[], last: number[], allowed: fun(i: integer): boolean): table[] spans of a window
local function spans_of(item, t, of)
  local spans, null, nothing, frame = {}, nil, nil, frames.of(t.tokenizer.core)
  for _, sequence in ipairs(item.sequences) do
    local first, last = sequence.output[1], sequence.output[2]
    local window = window_of(frame, sequence.chars)
    for _, span in ipairs(of(first, last, window.allowed)) do
      span.logits = { first[span.first], last[span.last] }
      spans[#spans + 1] = window.place(span)
    end
    if not null or first[1] + last[1] < null then null, nothing = first[1] + last[1], { first[1], last[1] } end
  end
  return spans, null, nothing
end

---The best span over all windows, and the smallest null score.
local function best_of(item, t)
  local spans, null = spans_of(item, t, function(first, last, allowed)
    return { decode.span(first, last, allowed, t.longest_answer or 30) }
  end)
  local best
  for _, span in ipairs(spans) do
    if not best or span.score > best.score then best = span end
  end
  return best, null
end

---A span of bytes of the context: its text, and its code points from 0, the last excluded.
local function cut(context, span)
  local first = utf8.len(context, 1, span.first) or 0
  local text = context:sub(span.first + 1, span.last)
  return text, first, first + utf8.len(text)
end

local function by_score(a, b)
  if a.score ~= b.score then return a.score > b.score end
  if a.first ~= b.first then return a.first < b.first end
  return a.last < b.last
end

---The best answers, each once, and no answer among them; probabilities are among those that are listed.
local function list_of(item, t)
  local spans, null, nothing = spans_of(item, t, function(first, last, allowed)
    return decode.spans(first, last, allowed, t.longest_answer or 30)
  end)
  spans[#spans + 1] = { first = -1, last = -1, score = null, logits = nothing }
  table.sort(spans, by_score)
  local list, scores, seen = json.array {}, {}, {}
  for _, span in ipairs(spans) do
    local answer, first, last = "", nil, nil
    if span.first >= 0 then answer, first, last = cut(item.context, span) end
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
  local best, null = best_of(item, t)
  local nbest = t.nbest and list_of(item, t) or nil
  if not best then return { answer = "", null_score = decode.round(null), nbest = nbest } end
  local answer, first, last = cut(item.context, best)
  local empty = null - best.score > (t.null_threshold or 0)
  return {
    answer = empty and "" or answer, score = decode.round(best.score), null_score = decode.round(null),
    first = not empty and first or nil, last = not empty and last or nil, nbest = nbest,
  }
end

return prediction

-- squad.lua - {"answer": "in 1815", "score": 9.1, "null_score": 2.3, "first": 10, "last": 17}
--
-- A context longer than the model is read in windows that start `stride` tokens after each other.  The answer is the
-- span with the largest sum of logits over all windows; it is empty if the null score, of [CLS], exceeds that by
-- `null_threshold`.  first and last count code points of the context from 0, last excluded.

local decode = require("seqrun.predict.decode")

local squad = { input = { keys = { "question", "context" } }, reads = "spans" }

---Tokens of a question, at most.
local QUESTION = 64

function squad.sequences(item, t)
  local question = t.tokenizer.core:ids(item.question)
  for i = #question, math.min(QUESTION, t.max_len // 2) + 1, -1 do question[i] = nil end
  local context, places = t.tokenizer.core:ids(item.context, true)
  item.places = places
  local room = t.max_len - #question - 3
  local step = math.min(t.stride or 128, room)
  local list, first = {}, 1
  repeat
    local last = math.min(#context, first + room - 1)
    list[#list + 1] = { a = question, b = table.move(context, first, last, 1, {}), offset = first - 1 }
    first = first + step
  until last >= #context
  return list
end

---Logits of start and end for each sequence.
function squad.outputs(values) return values end

---The best span over all windows, and the smallest null score.
local function best_of(item, longest)
  local best, null
  for _, sequence in ipairs(item.sequences) do
    local first, last = sequence.output[1], sequence.output[2]
    local from = #sequence.a + 2
    local function in_context(i) return i > from and i <= from + #sequence.b end
    local span = decode.span(first, last, in_context, longest)
    if span and (not best or span.score > best.score) then
      local shift = sequence.offset - from
      best = { first = span.first + shift, last = span.last + shift, score = span.score }
    end
    null = math.min(null or math.huge, first[1] + last[1])
  end
  return best, null
end

---The bytes of a text between two code points, from 0, the last excluded.
local function cut(text, first, last)
  return text:sub(utf8.offset(text, first + 1), utf8.offset(text, last + 1) - 1)
end

function squad.result(item, t)
  local best, null = best_of(item, t.longest_answer or 30)
  if not best then return { answer = "", null_score = decode.round(null) } end
  local first, last = item.places[best.first][1], item.places[best.last][2]
  local empty = null - best.score > (t.null_threshold or 0)
  return {
    answer = empty and "" or cut(item.context, first, last), score = decode.round(best.score),
    null_score = decode.round(null), first = not empty and first or nil, last = not empty and last or nil,
  }
end

return squad

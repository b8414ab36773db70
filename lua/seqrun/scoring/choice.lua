-- choice.lua - multiple choice: the share of questions whose right choice has the largest score.

local decode = require("seqrun.scoring.decode")
local items = require("seqrun.data.items")

local choice = { shown = { "accuracy" } }

---The questions of a batch by number: rows of their choices, and scores.
local function questions_of(head, hidden, target, batch)
  local group, questions = batch.targets.group, {}
  local values, numbers = items.logits(head, hidden, target, batch), group.labels:totable()
  for i, row in ipairs(group.rows:totable()) do
    local question = questions[numbers[i]] or { rows = {}, scores = {} }
    questions[numbers[i]] = question
    table.insert(question.rows, row)
    table.insert(question.scores, values[i])
  end
  return questions
end

function choice.take(found, head, hidden, target, batch)
  if target.count == 0 then return end
  local uids, right = items.uids(target, batch), {}
  for i, row in ipairs(target.rows:totable()) do right[row] = uids[i] end
  for _, question in pairs(questions_of(head, hidden, target, batch)) do
    local p = decode.softmax(question.scores)
    local guess, gold = decode.argmax(p), nil
    for i, row in ipairs(question.rows) do gold = right[row] and i or gold end
    if gold then
      found[#found + 1] = {
        uid = right[question.rows[gold]], gold = gold - 1, guess = guess - 1, p = p[guess], p_gold = p[gold],
        wrong = guess ~= gold,
      }
    end
  end
end

function choice.score(found)
  local hits = 0
  for _, item in ipairs(found) do hits = hits + (item.wrong and 0 or 1) end
  return { accuracy = hits / #found }, {}
end

return choice

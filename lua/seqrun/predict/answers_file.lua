-- answers_file.lua - answers as the official SQuAD scripts read them, JSON objects by the ids of questions: the
-- answers, and in the same directory null_odds.json (null score less the best score, their --na-prob-file) and, if
-- the best answers are listed, nbest_predictions.json.

local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

local AnswersFile = {}
AnswersFile.__index = AnswersFile

---The rank of a question without any span: it has no answer, whatever the threshold.
local NO_SPAN = 1e9

---@param path string written when all answers are there
---@return table? file
---@return string? message
---@return string? code
local function open(path)
  local folder = path:match("^(.*/)") or ""
  local self = { files = {
    { path = path, lines = {} }, { path = folder .. "null_odds.json", lines = {} },
    { path = folder .. "nbest_predictions.json", lines = {} },
  } }
  for _, file in ipairs(self.files) do
    local writable, message, code = sys.check_writable(file.path)
    if not writable then return nil, message, code end
  end
  return setmetatable(self, AnswersFile)
end

local function add(file, id, value)
  file.lines[#file.lines + 1] = ("%s: %s"):format(json.encode(id), json.encode(value))
end

---The best answers in the words of those scripts.
local function best_of(list)
  local out = json.array {}
  for i, one in ipairs(list) do
    out[i] = {
      text = one.answer, probability = one.probability, start_logit = one.start_logit, end_logit = one.end_logit,
    }
  end
  return out
end

---@param result table of a predictor
---@param item table
function AnswersFile:add(result, item)
  if result.error then return end
  local id = item.id or tostring(item.line)
  add(self.files[1], id, result.answer)
  add(self.files[2], id, result.score and result.null_score - result.score or NO_SPAN)
  if result.nbest then add(self.files[3], id, best_of(result.nbest)) end
end

function AnswersFile:commit()
  for i, file in ipairs(self.files) do
    if i < 3 or #file.lines > 0 then
      local done, message, code = sys.write_file(file.path, "{\n" .. table.concat(file.lines, ",\n") .. "\n}\n")
      if not done then return nil, message, code end
    end
  end
  return true
end

function AnswersFile:close() self.files = nil end

AnswersFile.__close = AnswersFile.close

return { open = open }

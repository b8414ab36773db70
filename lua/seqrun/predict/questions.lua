-- questions.lua - the questions of SQuAD files as items; answers in the files are not read.

local failure = require("seqrun.base.failure")
local packed = require("seqrun.base.packed")
local squad = require("seqrun.tasks.squad.reader")

local questions = {}

---Whether a file is named as a SQuAD file.
---@param path? string
---@return boolean
function questions.is(path) return path ~= nil and packed.bare(path):lower():find("%.json$") ~= nil end

---@param files string[]
---@return (fun(): table?)? next
---@return string? message
---@return string? code
---@return table? articles to close
function questions.open(files)
  local articles = squad.open { files = files }
  return function()
    local record, message, code = articles:next()
    if message then failure.raise(code, "%s", message) end
    if not record then return nil end
    return {
      question = record.text, context = record.context, id = record.id, line = record.line, file = record.file,
      wrong = squad.problem(record),
    }
  end, nil, nil, articles
end

return questions

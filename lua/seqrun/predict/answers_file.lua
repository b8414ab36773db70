-- answers_file.lua - answers as the official SQuAD scripts read them: a JSON object of answers by the ids of questions.

local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

local AnswersFile = {}
AnswersFile.__index = AnswersFile

---@param path string written when all answers are there
---@return table? file
---@return string? message
---@return string? code
local function open(path)
  local writable, message, code = sys.check_writable(path)
  if not writable then return nil, message, code end
  return setmetatable({ path = path, lines = {} }, AnswersFile)
end

---@param result table of a predictor
---@param item table
function AnswersFile:add(result, item)
  if result.error then return end
  local id = item.id or tostring(item.line)
  self.lines[#self.lines + 1] = ("%s: %s"):format(json.encode(id), json.encode(result.answer))
end

function AnswersFile:commit()
  return sys.write_file(self.path, "{\n" .. table.concat(self.lines, ",\n") .. "\n}\n")
end

function AnswersFile:close() self.lines = nil end

AnswersFile.__close = AnswersFile.close

return { open = open }

-- submission.lua - predictions as a GLUE submission: a header, then index and prediction, separated by a tab.
--
-- The index is the id of the row, or its number from 0.

local sys = require("seqrun.core.sys")

local Submission = {}
Submission.__index = Submission

---@param path string written when all predictions are there
---@return table? submission
---@return string? message
---@return string? code
local function open(path)
  local writable, message, code = sys.check_writable(path)
  if not writable then return nil, message, code end
  return setmetatable({ path = path, lines = { "index\tprediction" } }, Submission)
end

---The prediction itself.
local function shown(result)
  local value = result.label or result.value or result.choice
  if math.type(value) == "float" then return ("%.3f"):format(value) end
  return tostring(value)
end

---@param result table of a predictor
---@param item table
function Submission:add(result, item)
  if result.error then return end
  self.lines[#self.lines + 1] = ("%s\t%s"):format(item.id or #self.lines - 1, shown(result))
end

function Submission:commit()
  return sys.write_file(self.path, table.concat(self.lines, "\n") .. "\n")
end

function Submission:close() self.lines = nil end

Submission.__close = Submission.close

return { open = open }

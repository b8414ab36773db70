-- predicted.lua - what predict says of a file of texts with labels, and the scores of that.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local scores = require("seqrun").scores

local function sorted(labels)
  if type(labels) ~= "table" then return labels end
  table.sort(labels)
  return table.concat(labels, ",")
end

---Its lines, what it told beside them, and their accuracy; of the labels yes and no also F1, the probabilities of
---"yes", and ROC-AUC.
---@param path string
---@param file string JSON lines
return function(path, file)
  local said, p, yes, labels, guesses, right = {}, {}, {}, {}, {}, 0
  local out, told = program.ok { "predict", path, file }
  for line in out:gmatch("[^\n]+") do said[#said + 1] = json.decode(line) end
  for line in io.lines(file) do labels[#labels + 1] = json.decode(line).label end
  for i, one in ipairs(said) do
    right = right + (sorted(one.label or one.labels) == sorted(labels[i]) and 1 or 0)
    p[i], guesses[i], yes[i] = one.probabilities.yes, one.label == "yes" and 1 or 0, labels[i] == "yes" and 1 or 0
  end
  local found = { said = said, told = told, accuracy = right / #said, p = p }
  if #p > 0 then found.f1, found.roc_auc = scores.f1(yes, guesses), scores.roc_auc(yes, p) end
  return found
end

-- ranked.lua - ROC-AUC, average precision and curves of what a head says of each label, against all others.

local decisions = require("seqrun.scores.decisions")
local decode = require("seqrun.scores.decode")
local sweep = require("seqrun.scores.sweep")

local ranked = { MOST = 100 } -- labels: each is sorted for itself

local CURVES, POINTS = 8, 100 -- curves that are kept for reports

---The mean of what is defined; nil if nothing is.
local function mean_of(list, key)
  local sum, count = 0, 0
  for _, one in ipairs(list) do
    if one[key] then sum, count = sum + one[key], count + 1 end
  end
  return count > 0 and sum / count or nil
end

---Adds roc_auc and average_precision to the metrics of items: of the second of two classes, else the means over the
---labels for which they are defined.
---@param result table<string, number>
---@param items table[] gold, all
---@param head seqrun.TaskHead
---@param each? boolean an item may have several labels
---@return table[]|nil # { name, positives, roc_auc?, average_precision?, points? } by label
function ranked.add(result, items, head, each)
  if head.outputs > ranked.MOST then return nil end
  local list, names, single = {}, decode.names(head), not each and head.outputs == 2
  for k = single and 2 or 1, head.outputs do
    local gold, p = decisions.column(items, k, each)
    local one = sweep.all("scores.ranked", gold, p, #list < CURVES and POINTS or nil)
    one.name, list[#list + 1] = names[k], one
  end
  result.roc_auc, result.average_precision = mean_of(list, "roc_auc"), mean_of(list, "average_precision")
  for _, item in ipairs(items) do item.all = nil end
  return list
end

return ranked

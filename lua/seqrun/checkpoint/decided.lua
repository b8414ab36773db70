-- decided.lua - the temperature and the thresholds that belong to the weights of a directory, by head: those that its
-- run has fitted, in config.json under seqrun_decide, or those that `seqrun eval --fit` has written since, in
-- decide.json, which the manifest of a checkpoint does not list.

local failure = require("seqrun.base.failure")
local json_file = require("seqrun.base.json_file")
local counted = require("seqrun.base.format").counted
local pretty = require("seqrun.base.pretty_json")
local shown = require("seqrun.base.one_line")
local sys = require("seqrun.core.sys")

local decided = {}

local FILE = "/decide.json"

---@class seqrun.Decide
---@field temperature? number logits are divided by it
---@field thresholds? number[] the least probability of each label that is predicted; of two classes, of the second
---@field rule? string how they were chosen: "f1", "precision:0.9"
---@field items integer on how many items

local function is_number(x, least, most) return type(x) == "number" and x >= least and x <= most end

---What is wrong with an entry; nil if nothing is.
local function fault(one)
  if type(one) ~= "table" then return "is not an object" end
  if math.type(one.items) ~= "integer" then return "does not say on how many items it was fitted" end
  if type(one.rule or "") ~= "string" then return "has a rule that is not text" end
  if one.temperature ~= nil and not is_number(one.temperature, 1e-6, 1e6) then return "has no valid temperature" end
  if one.thresholds == nil then return nil end
  if type(one.thresholds) ~= "table" or #one.thresholds == 0 then return "has thresholds that are not a list" end
  for _, x in ipairs(one.thresholds) do
    if not is_number(x, 0, 1) then return "has a threshold that is not from 0 to 1" end
  end
end

---@param folder string
---@param config table of config.json
---@return table<string, seqrun.Decide> # by the name of a head
function decided.read(folder, config)
  local written = sys.exists(folder .. FILE)
  local list = config.seqrun_decide or {}
  if written then list = json_file.read(folder .. FILE) or 0 end
  local path = folder .. (written and FILE or "/config.json: seqrun_decide")
  for name, one in pairs(type(list) == "table" and list or { decide = 0 }) do
    local why = fault(one)
    if why then failure.raise("data", "%s: '%s' %s; correct it, or remove it and fit again", path, name, why) end
  end
  return list
end

---Writes what was fitted for a head beside its weights.
---@param facts seqrun.Pretrained
---@param name string of the head
---@param decide seqrun.Decide
---@return string path
function decided.write(facts, name, decide)
  facts.decide[name] = decide
  failure.must(sys.write_file(facts.path .. FILE, pretty.encode(facts.decide)))
  return facts.path .. FILE
end

---Labels named in one line.
local NAMED = 6

---"'yes' from a probability of 0.312 (best f1, fitted on 872 items)"; nil if nothing was fitted.
---@param decide? seqrun.Decide
---@param names string[] of the classes or labels
---@return string|nil
function decided.text(decide, names)
  if not decide then return nil end
  local parts, thresholds = {}, decide.thresholds or {}
  if decide.temperature then parts[1] = ("temperature %.3f"):format(decide.temperature) end
  for i = 1, math.min(#thresholds, NAMED) do
    local name = shown(names[#thresholds == 1 and #names or i])
    parts[#parts + 1] = ("'%s' from a probability of %.3f"):format(name, thresholds[i])
  end
  if #thresholds > NAMED then parts[#parts + 1] = ("%d more labels"):format(#thresholds - NAMED) end
  if #parts == 0 then return nil end
  return ("%s (%sfitted on %s)"):format(table.concat(parts, ", "), decide.rule and decide.rule .. ", " or "",
    counted(decide.items, "item"))
end

return decided

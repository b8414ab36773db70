-- names.lua - whose tensor is this?  Names in checkpoints of other programs, and what became of them.

local names = {}

---Why a tensor of a file is of no use here; patterns of its canonical name.
local IGNORED = {
  { "%.position_ids$", "positions are counted, not stored" },
  { "^cls%.predictions%.decoder%.weight$", "tied to the word embeddings" },
  { "^cls%.predictions%.decoder%.bias$", "tied to cls.predictions.bias" },
}

local HEADS = { "^bert%.", "^cls%.", "^classifier%.", "^qa_outputs%." }

local function has_head(name)
  for _, head in ipairs(HEADS) do
    if name:find(head) then return true end
  end
  return false
end

---The name that Hugging Face's BertForPreTraining uses: without `module.`, with `bert.`, and with
---weight and bias where old files say gamma and beta.
---@param name string
---@return string
function names.canonical(name)
  name = name:gsub("^module%.", "")
  name = name:gsub("%.gamma$", ".weight"):gsub("%.beta$", ".bias")
  if not has_head(name) then name = "bert." .. name end
  return name
end

---What makes a reason for a tensor that is missing or left over.
---@param name string canonical
---@return string|nil
function names.why_ignored(name)
  for _, rule in ipairs(IGNORED) do
    if name:find(rule[1]) then return rule[2] end
  end
end

---@class seqrun.LoadReport
---@field loaded { name: string, from: string, note?: string }[]
---@field missing { name: string, reason: string }[] in the model, not in the file; reason: what they hold now
---@field ignored { name: string, reason: string, known: boolean }[] in the file, not in the model; known: of no loss
local Report = {}
Report.__index = Report

---@return seqrun.LoadReport
function names.report()
  return setmetatable({ loaded = {}, missing = {}, ignored = {} }, Report)
end

---The part of a name that groups lines: the layer, or the head.
local function module_of(name)
  return name:match("^(bert%.encoder%.layer%.)%d+") and "bert.encoder.layer.*" or name:match("^(%w+%.[%w_]+)") or name
end

local function add_lines(lines, title, list, reason_of)
  local groups, order = {}, {}
  for _, item in ipairs(list) do
    local key = module_of(item.name) .. "\0" .. (reason_of(item) or "")
    if not groups[key] then
      groups[key] = { module = module_of(item.name), reason = reason_of(item), count = 0 }
      order[#order + 1] = key
    end
    groups[key].count = groups[key].count + 1
  end
  for _, key in ipairs(order) do
    local g = groups[key]
    lines[#lines + 1] = ("%-12s %4d  %-34s %s"):format(title, g.count, g.module, g.reason or ""):gsub("%s+$", "")
  end
end

---One table, a line for each module and reason.
function Report:__tostring()
  local lines = {}
  add_lines(lines, "loaded", self.loaded, function(item) return item.note end)
  add_lines(lines, "missing", self.missing, function(item) return item.reason end)
  add_lines(lines, "ignored", self.ignored, function(item) return item.reason end)
  return table.concat(lines, "\n")
end

return names

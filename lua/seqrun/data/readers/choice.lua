-- choice.lua - multiple choice: an example for each choice of a question; those of a question follow each other.

local labels = require("seqrun.data.readers.labels")
local shown = require("seqrun.base.one_line")

local Choice = {}
Choice.__index = Choice

local COLUMNS = {
  label = { type = "i32" }, answer = { type = "i32" }, group = { type = "i32" }, choice = { type = "i32" },
}

---@param job seqrun.readers.Job
local function new(job)
  return setmetatable({ job = job, map = job.labels, columns = COLUMNS, groups = 0, labelled = "label" }, Choice)
end

---Choices of a question; files with a column for each choice have equally many.
local function count_of(record) return type(record.choices) == "table" and #record.choices or 0 end

function Choice:survey(record)
  self.counted = self.counted or labels.survey()
  local name = labels.clean(record.label)
  if name then self.counted:add(name, record) end
  self.counted.rows = self.counted.rows + 1
  self.most = math.max(self.most or 0, count_of(record))
end

---"0", "1", ... if labels are positions from 0, of which some may not be right in any question.
local function positions(names, count)
  local first = false
  for _, name in ipairs(names) do
    local x = name:find("^%d+$") and math.tointeger(tonumber(name))
    if not x or x >= count then return nil end
    first = first or x == 0
  end
  local all = {}
  for i = 1, first and count or 0 do all[i] = tostring(i - 1) end
  return first and labels.map(all) or nil
end

---The map of labels: positions, or every choice is right at least once, or they are named by `labels`.
function Choice:surveyed()
  local names = self.counted and self.counted.names or {}
  if #names == 0 then return nil, "no row has a label; set columns.label" end
  local map, message = self.counted:map(self.job.options.columns.header)
  if not map then return nil, message end
  self.map = positions(names, self.most) or map
  if #self.map.names ~= self.most then
    return nil, ("%d different labels (%s) for %d choices; set data.labels to those of all choices, in order"):format(
      #names, labels.list(map.names), self.most)
  end
  return true
end

local function right_of(self, record)
  local name = labels.clean(record.label)
  if not name then
    if self.job.unlabelled then return -100 end
    return nil, "unlabelled", "the label is empty"
  end
  local id = self.map.ids[name]
  if id and id < #record.choices then return id end
  if id then
    return nil, "unknown", ("the label is '%s', but there are %d choices"):format(shown(name), #record.choices)
  end
  return nil, "unknown", ("unknown label '%s'; the labels are %s"):format(shown(name), labels.list(self.map.names))
end

---The texts of a choice: A is the text, and the start of the choice if there is one; B the choice.
local function texts(record, choice)
  local stem = record.pair
  return { text = record.text, pair = stem and stem ~= "" and stem .. " " .. choice or choice }
end

function Choice:make(record)
  local count, most = count_of(record), self.map and #self.map.names or math.huge
  if count < 2 or count > most then
    return nil, "ragged", ("%d choices instead of 2%s; set columns.choices"):format(count,
      most < math.huge and most > 2 and (" to %d"):format(most) or "")
  end
  local right, kind, why = right_of(self, record)
  if not right then return nil, kind, why end
  local list = {}
  for i, choice in ipairs(record.choices) do
    local one = texts(record, choice)
    one.line, one.file, one.file_index, one.id = record.line, record.file, record.file_index, record.id
    list[i], kind, why = self.job:example(one)
    if not list[i] then return nil, kind, why end
    list[i].label, list[i].group, list[i].choice = right, self.groups, i - 1
    list[i].answer = right == i - 1 and 1 or -100
  end
  self.groups = self.groups + 1
  return list
end

return new

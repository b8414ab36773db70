-- problems.lua - rows that cannot be used: counted by kind, and reported together.

local text = require("seqrun.base.format")

---What rows of each kind are called in a report, in the order in which it has them.
local KINDS = {
  { "ragged", "rows with another number of columns" },
  { "header", "headers among the rows" },
  { "unreadable", "rows that cannot be read" },
  { "missing", "rows without a column" },
  { "type", "values of another type" },
  { "empty", "empty texts" },
  { "unlabelled", "rows without a label" },
  { "unknown", "unknown labels" },
  { "number", "values that are not numbers" },
  { "duplicate", "duplicate ids" },
  { "mismatch", "answers that are not in their context" },
  { "contradiction", "choices that are equal to the right one" },
}

---@class seqrun.readers.Problems
---@field total integer
---@field counts table<string, integer> by kind
local Problems = {}
Problems.__index = Problems

---@param policy "error"|"skip"
---@return seqrun.readers.Problems
local function new(policy)
  return setmetatable({ policy = policy, total = 0, counts = {}, first = {} }, Problems)
end

---Notes that a row cannot be used.
---@param kind string
---@param place string FILE:LINE
---@param format string what is wrong
function Problems:add(kind, place, format, ...)
  self.total = self.total + 1
  self.counts[kind] = (self.counts[kind] or 0) + 1
  if not self.first[kind] then
    self.first[kind] = ("%s: %s"):format(place, select("#", ...) > 0 and format:format(...) or format)
    self.earliest = self.earliest or self.first[kind]
  end
end

---"3 unknown labels, 1 empty text" of the kinds but for the first problem itself.
local function others(self)
  local list = {}
  for _, one in ipairs(KINDS) do
    local kind, name = table.unpack(one)
    local count = (self.counts[kind] or 0) - (self.first[kind] == self.earliest and 1 or 0)
    if count > 0 then list[#list + 1] = ("%s: %s"):format(name, text.commas(count)) end
  end
  return table.concat(list, ", ")
end

---Whether the problems end the work: all of them under "error", too many under "skip".
---@param kept integer rows that can be used
---@return string? message nil to continue
function Problems:verdict(kept)
  if self.total == 0 then return nil end
  local rest = others(self)
  local more = rest ~= "" and (" (and more: %s)"):format(rest) or ""
  if self.policy == "error" then
    return ("%s%s; correct the file, or set data.bad=skip to leave such rows out"):format(self.earliest, more)
  end
  if self.total <= kept then return nil end
  return ("%s%s; %s rows are bad and %s good, so the file probably does not match data.* and columns.*"):format(
    self.earliest, more, text.commas(self.total), text.commas(kept))
end

---One line for each kind of row that was left out.
---@return string[]
function Problems:notes()
  local lines = {}
  for _, one in ipairs(KINDS) do
    local kind, name = table.unpack(one)
    if self.counts[kind] then
      lines[#lines + 1] = ("left out %s: %s, the first at %s"):format(name, text.commas(self.counts[kind]),
        self.first[kind])
    end
  end
  return lines
end

return { new = new }

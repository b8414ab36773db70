-- witness.lua - compares the lines of metrics that a run writes with those of an earlier one, as they come.

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local metrics = require("seqrun.history.metrics")
local sorted = require("seqrun.base.sorted")

local witness = {}

---@class seqrun.Witness
---@field lines table<string, table<integer, table>> recorded lines by type and step
---@field last integer the last step that is compared
---@field compared integer lines
---@field reached integer the last step that was seen
---@field difference? { step: integer, type: string, field: string, was: any, now: any }
local Witness = {}
Witness.__index = Witness

local open

---Makes the next run of this process one whose lines are compared.
---@param lines table[] of metrics.jsonl
---@param last integer
---@return seqrun.Witness
function witness.open(lines, last)
  local self = setmetatable({ lines = {}, last = last, compared = 0, reached = 0 }, Witness)
  for _, line in ipairs(lines) do
    if line.type ~= "event" and math.type(line.step) == "integer" and line.step <= last then
      self.lines[line.type] = self.lines[line.type] or {}
      self.lines[line.type][line.step] = line
    end
  end
  open = self
  return self
end

---@return seqrun.Witness|nil
function witness.current() return open end

function witness.close() open = nil end

---A number that JSON cannot have is null in a file.
local function plain(value)
  local is_finite = type(value) ~= "number" or value == value and math.abs(value) < math.huge
  return value ~= json.null and is_finite and value or nil
end

---Fields that depend on the clock or say how a value was written.
local OTHERS = { nonfinite = true, type = true }

---The first field, by name, that differs.
local function difference_of(was, now)
  for _, key in ipairs(sorted(was)) do
    local a, b = plain(was[key]), plain(now[key])
    if not metrics.CLOCK[key] and not OTHERS[key] and type(a) ~= "table" and a ~= b then return key, a, b end
  end
end

---Takes a line that is being written; ends the run at a difference.
---@param line table
function Witness:take(line)
  local kind, step = line.type or "train", line.step
  local was = self.lines[kind] and self.lines[kind][step]
  self.reached = math.max(self.reached, step or 0)
  if not was then return end
  local field, a, b = difference_of(was, line)
  self.compared = self.compared + 1
  if not field then return end
  self.difference = { step = step, type = kind, field = field, was = a, now = b }
  failure.raise("ok", "")
end

return witness

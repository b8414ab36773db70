-- records.lua - the lines of metrics and the events that a run writes.

local metrics = require("seqrun.history.metrics")
local failure = require("seqrun.base.failure")
local silent = require("seqrun.run.ranks").silent
local core = require("seqrun.core.train")
local witness = require("seqrun.run.repro.witness")

---@class seqrun.Records
---@field metrics seqrun.Metrics
---@field screen seqrun.Screen
---@field losing boolean the last line could not be written
---@field lost? boolean they could not be synced
---@field witness? seqrun.Witness compares the lines with those of an earlier run
local Records = {}
Records.__index = Records

---Every line has all losses of the model; a rank that does not lead writes none.
---@param t { folder: string, step: integer, losses: string[], baselines: string[], screen: seqrun.Screen,
---  leads: boolean } baselines: metrics of them
---@return seqrun.Records
local function open(t)
  if not t.leads then return silent end
  local train, eval = {}, {}
  for _, name in ipairs(t.losses) do table.move({ name .. "_loss", name .. "_accuracy" }, 1, 2, #train + 1, train) end
  table.move(train, 1, #train, 1, eval)
  table.move(t.baselines, 1, #t.baselines, #eval + 1, eval)
  local opened = failure.must(metrics.open(t.folder, { step = t.step, train = train, eval = eval }))
  return setmetatable({
    metrics = opened, screen = t.screen, losing = false, witness = witness.current(),
  }, Records)
end

---Writes a line; a full disk causes one warning, not the end of the run.
---@param line table
function Records:write(line)
  if self.witness then self.witness:take(line) end
  local ok, message = self.metrics:write(line)
  if not ok and not self.losing then self.screen:warn("%s; metrics are lost until then", message) end
  self.losing = not ok
end

---Writes an event that applies from a step on.
---@param event string
---@param at { step: integer, seconds: number }
---@param fields? table
function Records:event(event, at, fields)
  fields = fields or {}
  fields.type, fields.event, fields.step, fields.seconds = "event", event, at.step, at.seconds
  self.metrics:write(fields)
end

---Writes a text, for TensorBoard.
---@param tag string
---@param words string
function Records:text(tag, words) self.metrics:text(tag, words) end

---Events of later steps, which a resume has removed.
---@return table[]|nil
function Records:undone() return self.metrics.undone end

---An alarm that writes to the metrics; it is closed before them.
---@return seqrun.core.Alarm|nil
---@return string? message
function Records:alarm() return core.alarm(self.metrics.file) end

---What metrics.jsonl has up to a step, for the checkpoint.
---@param step integer
---@return table|nil
function Records:mark(step) return self.metrics:mark(step) end

---Makes what was written survive a power cut; a file that somebody removed or replaced is a warning, once.
function Records:sync()
  local ok, message = self.metrics:sync()
  if not ok and not self.lost then
    self.screen:warn("%s, so its lines are lost; put it back where it was", message)
  end
  self.lost = not ok
end

function Records:close() self.metrics:close() end

return { open = open }

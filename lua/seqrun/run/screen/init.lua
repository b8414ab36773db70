-- screen - what a run says: its plan, the lines while it trains, its summary.  The lines are those of progress.lua.

local plan = require("seqrun.run.screen.plan")
local progress = require("seqrun.run.screen.progress")
local rehearsal = require("seqrun.run.screen.rehearsal")
local summary = require("seqrun.run.screen.summary")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

---@class seqrun.Screen: seqrun.Progress
---@field plan? seqrun.Planned
---@field first? table cursor of the first update
---@field why table<string, string> reasons of what was `auto`, by name
---@field rehearsed boolean
local Screen = setmetatable({}, { __index = progress })
Screen.__index = Screen

---@param options { quiet?: boolean, json_log?: boolean, every: integer, seconds: number }
---@return seqrun.Screen
local function new(options)
  local self = setmetatable(progress.new(options), Screen)
  self.why, self.rehearsed = {}, false
  return self
end

---Why `auto` became what it is.
---@param precision? string
---@param micro? string
function Screen:because(precision, micro) self.why = { precision = precision, micro = micro } end

---Takes what the run is about to do.
---@param planned seqrun.Planned without the reasons
---@param first table cursor of the first update
function Screen:start(planned, first)
  planned.why_precision, planned.why_micro = self.why.precision, self.why.micro
  self.plan, self.first = planned, first
end

---The first lines of the log.
---@param peak? number FLOP/s of a rank
function Screen:headline(peak)
  self.plan.peak = peak
  self:say("%s", plan.headline(self.plan))
end

---Prints the notes about the data, by default with `say`; warnings in separate lines.
---@param method? "say"|"tell"
function Screen:notes(method)
  for _, note in ipairs(self.plan.notes or {}) do
    local warning = note:match("^warning: (.*)$")
    if warning then self:warn("%s", warning) else self[method or "say"](self, "  data    %s", note) end
  end
end

---The lines of a dry run, with what was measured.
local function tell_plan(self, checks, micros, rests, rows, whole)
  local _, peak = sys.memory()
  self:tell("%s", plan.headline(self.plan))
  self:notes("tell")
  for _, line in ipairs(plan.schedules(self.plan)) do self:tell("%s", line) end
  self:tell("  memory  %s; peak memory of the process %s", checks:memory_text(rows), text.bytes(peak))
  local words, seconds = plan.time(self.plan, micros, rests)
  if rows then words = ("%s; measured on %d of the %d rows of a micro-batch"):format(words, rows, whole) end
  self:tell("  time    %s", words)
  if seconds then checks:duration(seconds) end
  self:tell("  out     %s; nothing was written", self.plan.folder)
end

---Replaces the loop in a dry run: runs a few micro-batches and prints the estimates.  Only the first loop is rehearsed.
---@param t { loader: seqrun.Loader, next: (fun(): seqrun.Update?), begin: fun(update: seqrun.Update),
---  checks: seqrun.Checks }
---@return fun(): integer?, seqrun.Update?
function Screen:rehearse(t)
  if self.rehearsed then return function() end end
  self.rehearsed = true
  t.update, t.model = t.next(), self.plan.model
  return rehearsal(t, function(...) tell_plan(self, t.checks, ...) end)
end

---The last lines of a run.
---@param t { step: integer, seconds: number, done: table, evaluations: seqrun.Evaluations }
function Screen:summary(t)
  t.screen, t.first = self, self.first
  summary.tell(setmetatable(t, { __index = self.plan }))
end

return { new = new }

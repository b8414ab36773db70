-- changes.lua - what attached prompts ask of a run, done on all ranks between two steps, and recorded.
--
-- A change of the rate is part of every later checkpoint, so a resume continues with it.  Each change is an event in
-- metrics.jsonl with the first step that it applies to: a resume from an earlier checkpoint removes and undoes it.

local failure = require("seqrun.base.failure")
local hook = require("seqrun.base.hook")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

---Opens the server of attached prompts, a layer above runs.
---@type fun(run: seqrun.Run): table?, string?
local listen = hook "listen"

---@class seqrun.Changes
---@field folder string of the run
---@field params seqrun.Params
---@field optimizer table
---@field ranks seqrun.RunRanks
---@field screen seqrun.Screen
---@field saves seqrun.Saves
---@field records seqrun.Records
---@field evaluate fun(): string|nil the scores; nil if it was interrupted
---@field save fun(needed: boolean): string?, string?
---@field seconds fun(): number of the run
---@field scaled? { factor: number, step: integer } the last change of the rate
---@field attached? table the server of the prompts
local Changes = {}
Changes.__index = Changes

---@param t { folder: string, params: seqrun.Params, optimizer: table, ranks: seqrun.RunRanks, screen: seqrun.Screen,
---  saves: seqrun.Saves, records: seqrun.Records, evaluate: function, save: function, seconds: function,
---  scaled?: { factor: number, step: integer } } scaled: of the checkpoint
---@return seqrun.Changes
local function new(t) return setmetatable(t, Changes) end

---Plain values for a checkpoint.
function Changes:state() return self.scaled end

---Writes an event that applies from the step after `step` on.
local function record(self, step, event, fields)
  self.records:event(event, { step = step + 1, seconds = self.seconds() }, fields)
end

local DO = {}

function DO.factor(self, step, factor)
  self.optimizer:scale_rate(factor)
  self.scaled = { factor = factor, step = step + 1 }
  self.saves:forget()
  record(self, step, "rate", { factor = factor })
  local note = ("from step %d on, the rate is that of the schedule times %g"):format(step + 1, factor)
  self.screen:say("%s (attached prompt)", note)
  if factor == 0 then note = note .. ": nothing is trained until scale_rate(1)" end
  return note
end

---The weights were written to on rank 0.
function DO.weights(self, step)
  self.ranks:broadcast_values(self.params)
  self.params:zero_grad()
  self.params:refresh()
  self.saves:forget()
  record(self, step, "weights")
  self.screen:warn("an attached prompt has changed the weights at step %d", step)
  return "the weights were changed; metrics.jsonl records it"
end

function DO.evaluate(self) return self.evaluate() or "the evaluation was interrupted" end

function DO.save(self, step)
  local saved = self.saves:step() == step
  local path, message = self.save(false)
  if self.saves:is_writing() then path, message = self.saves:join() end
  record(self, step, "save")
  if saved then return ("step %d is saved already"):format(step) end
  return path and "saved " .. path or message or "not saved"
end

function DO.stop(self, step, _, last)
  record(self, step, "stop")
  return ("stopping at step %s"):format(text.step(step, last))
end

---In this order.
local ORDER = { "weights", "factor", "evaluate", "save", "stop" }

---Calls a method of the server; an error there ends the attached prompts, not the run.
local function guarded(self, method, ...)
  if not self.attached then return nil end
  local done, result = pcall(self.attached[method], self.attached, ...)
  if done then return result end
  self.screen:warn("attached prompts have failed and are closed: %s", tostring(result))
  pcall(self.attached.close, self.attached, "the run has closed its prompts")
  self.attached = nil
end

---Answers the attached prompts and does what they ask; all ranks call it.
---@param step integer
---@param last integer
---@param total integer
function Changes:serve(step, last, total)
  local asked = self.ranks:first_says(function() return guarded(self, "evaluate") or {} end)
  local notes = {}
  for _, name in ipairs(ORDER) do
    if asked[name] ~= nil then notes[name] = DO[name](self, step, asked[name], last) end
  end
  guarded(self, "answer", notes)
  if not asked.stop then return end
  if step > 0 then self.save(true) end
  failure.raise("stopped", "stopped by an attached prompt at step %s; resume with --resume=%s", text.step(step, total),
    text.shell(self.folder))
end

---Continues with the change of the rate that the checkpoint has, and says which changes were made after it.
---@param step integer
function Changes:resume(step)
  local scaled = self.scaled
  if scaled then
    self.optimizer:scale_rate(scaled.factor)
    self.screen:say("the rate is that of the schedule times %g, as an attached prompt set it at step %d",
      scaled.factor, scaled.step)
    if scaled.step > step then record(self, step, "rate", { factor = scaled.factor }) end
  end
  for _, event in ipairs(self.ranks.leads and self.records:undone() or {}) do
    local kept = scaled and event.event == "rate" and event.step == scaled.step
    if not kept and (event.event == "rate" or event.event == "weights") then
      self.screen:warn("an attached prompt changed the %s at step %d, after this checkpoint: that is undone",
        event.event, event.step)
    end
  end
end

---Listens for prompts.
---@param run seqrun.Run that they look at
function Changes:listen(run)
  if not self.ranks.leads then return end
  local server, message = listen(run)
  self.attached = server
  if message then self.screen:warn("seqrun attach will not work: %s", message) end
end

---Stops listening.
---@param step integer
---@param last integer
---@param problem any what ended the run; nil if nothing did
function Changes:leave(step, last, problem)
  if not self.attached then return end
  local why = problem ~= nil and tostring(problem):match("[^\n]*")
    or ("%s has ended at step %s"):format(self.folder, text.step(step, last))
  guarded(self, "close", why)
  self.attached = nil
end

---Whether prompts are to be answered between these steps; looks at the socket, which takes about a microsecond.
---@return boolean
function Changes:asked() return self.attached ~= nil and not sys.caught() and guarded(self, "look") or false end

return { new = new }

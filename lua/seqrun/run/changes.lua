-- changes.lua - what attached prompts ask of a run, done on all ranks between two steps, and recorded.
--
-- A change of the rate is part of every later checkpoint, so a resume continues with it.  Each change is an event in
-- metrics.jsonl with the first step that it applies to: a resume from an earlier checkpoint removes and undoes it.

local failure = require("seqrun.base.failure")
local listener = require("seqrun.run.listener")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local changes = {}

---A checkpoint of this step that exists already is no longer that of this run.
local function forget_saved(run) run.saver.step = nil end

---Writes an event: a line of metrics that applies from the next step on.
local function record(run, event, fields)
  fields = fields or {}
  fields.type, fields.event, fields.step, fields.seconds = "event", event, run.step + 1, run:seconds()
  run.metrics:write(fields)
end

local DO = {}

function DO.factor(run, factor)
  run.optimizer:scale_rate(factor)
  run.scaled = { factor = factor, step = run.step + 1 }
  forget_saved(run)
  record(run, "rate", { factor = factor })
  local note = ("from step %d on, the rate is that of the schedule times %g"):format(run.step + 1, factor)
  run.progress:say("%s (attached prompt)", note)
  if factor == 0 then note = note .. ": nothing is trained until scale_rate(1)" end
  return note
end

---The weights were written to on rank 0.
function DO.weights(run)
  local params, world = run.model.params, run.ranks.world
  for _, name in ipairs(world and run.ranks:several() and params:names() or {}) do
    world:broadcast(params:master(name))
    world:wait()
  end
  params:zero_grad()
  params:refresh()
  forget_saved(run)
  record(run, "weights")
  run.progress:warn("an attached prompt has changed the weights at step %d", run.step)
  return "the weights were changed; metrics.jsonl records it"
end

function DO.evaluate(run)
  run:evaluate()
  local result = run.result
  if not result or result.step ~= run.step then return "the evaluation was interrupted" end
  return table.concat(require("seqrun.run.screen.summary").scores(result.line, result.order, run.baselines), "; ")
end

function DO.save(run)
  local saved = run.saver.step == run.step
  local path, message = run:save(false)
  record(run, "save")
  if saved then return ("step %d is saved already"):format(run.step) end
  return path and "saved " .. path or message or "not saved"
end

function DO.stop(run)
  record(run, "stop")
  return ("stopping at step %s"):format(text.step(run.step, run.last))
end

---In this order.
local ORDER = { "weights", "factor", "evaluate", "save", "stop" }

---Calls a method of the server; an error there ends the attached prompts, not the run.
local function guarded(run, method, ...)
  if not run.attached then return nil end
  local done, result = pcall(run.attached[method], run.attached, ...)
  if done then return result end
  run.progress:warn("attached prompts have failed and are closed: %s", tostring(result))
  pcall(run.attached.close, run.attached, "the run has closed its prompts")
  run.attached = nil
end

---Answers the attached prompts and does what they ask; all ranks call it.
---@param run seqrun.Run
function changes.serve(run)
  local asked = run.ranks:first_says(function() return guarded(run, "evaluate") or {} end)
  local notes = {}
  for _, name in ipairs(ORDER) do
    if asked[name] ~= nil then notes[name] = DO[name](run, asked[name]) end
  end
  guarded(run, "answer", notes)
  if not asked.stop then return end
  if run.step > 0 then run:save(true) end
  failure.raise("stopped", "stopped by an attached prompt at step %s; resume with --resume=%s",
    text.step(run.step, run.total), text.shell(run.folder))
end

---Continues with the change of the rate that the checkpoint has, and says which changes were made after it.
---@param run seqrun.Run
function changes.resume(run)
  local scaled = run.scaled
  if scaled then
    run.optimizer:scale_rate(scaled.factor)
    run.progress:say("the rate is that of the schedule times %g, as an attached prompt set it at step %d",
      scaled.factor, scaled.step)
    if scaled.step > run.step then record(run, "rate", { factor = scaled.factor }) end
  end
  for _, event in ipairs(run.ranks.leads and run.metrics.undone or {}) do
    local kept = scaled and event.event == "rate" and event.step == scaled.step
    if not kept and (event.event == "rate" or event.event == "weights") then
      run.progress:warn("an attached prompt changed the %s at step %d, after this checkpoint: that is undone",
        event.event, event.step)
    end
  end
end

---Listens for prompts, unless `attach` is false.
---@param run seqrun.Run
function changes.listen(run)
  if not run.ranks.leads or run.config.attach == false or not listener.open then return end
  local server, message = listener.open(run)
  run.attached = server
  if not server then run.progress:warn("seqrun attach will not work: %s", message) end
end

---Stops listening.
---@param run seqrun.Run
---@param problem any what ended the run; nil if nothing did
function changes.leave(run, problem)
  if not run.attached then return end
  local why = problem ~= nil and tostring(problem):match("[^\n]*")
    or ("%s has ended at step %s"):format(run.folder, text.step(run.step, run.total or run.step))
  guarded(run, "close", why)
  run.attached = nil
end

---Whether prompts are to be answered between these steps; looks at the socket, which takes about a microsecond.
---@param run seqrun.Run
---@return boolean
function changes.asked(run)
  return run.attached ~= nil and not sys.caught() and guarded(run, "look") or false
end

return changes

-- status.lua - a run in a few lines, and what can be asked at its prompt.

local text = require("seqrun.base.format")

local status = {}

local function metrics_text(line)
  local parts = {}
  for _, shown in ipairs { { "loss", "%.4f" }, { "lr", "%.3g" }, { "grad_norm", "%.3g" } } do
    if type(line[shown[1]]) == "number" then parts[#parts + 1] = shown[1] .. " " .. shown[2]:format(line[shown[1]]) end
  end
  if line.real_tokens_per_s then parts[#parts + 1] = text.count(line.real_tokens_per_s) .. " real tokens/s" end
  return table.concat(parts, ", ")
end

---@param run seqrun.Run
---@return string
function status.text(run)
  local lines = { ("%s: step %s, %s"):format(run.folder, text.step(run.step, run.last), text.duration(run:seconds())) }
  local line, scored, step, scores = run:last_line(), run:evaluation()
  if line then lines[2] = ("  step %d: %s"):format(line.step, metrics_text(line)) end
  if scored then lines[#lines + 1] = ("  held-out, step %d: %s"):format(step, table.concat(scores, "; ")) end
  local left = run:seconds_left()
  if left and run.last < text.UNLIMITED then lines[#lines + 1] = "  eta " .. text.duration(left) end
  local factor = run.optimizer.factor
  if factor and factor ~= 1 then lines[#lines + 1] = ("  the rate is scaled by %g"):format(factor) end
  local saved = run:saved_step()
  lines[#lines + 1] = saved and ("  newest checkpoint: step %d"):format(saved) or "  no checkpoint yet"
  return table.concat(lines, "\n")
end

status.HELP = [[
This prompt is inside a run; each line is evaluated between two steps, while the run waits.

  status()            step, loss, rate, time left, newest checkpoint
  step, last, loss    numbers; `metrics` is the latest line of metrics.jsonl, `scores` the latest evaluation
  config, model, run  a copy of the config; the model: model.params:get "NAME"; run.dir, run.totals
  rate, schedule      the rate of the last step; the schedule: plot(schedule)
  plot(run.dir)       the loss so far; plot(run.dir, { key = "lr" })

  scale_rate(0.5)     scales the schedule of the rate from the next step on; scale_rate(1) undoes it
  set_rate(1e-4)      the same, for a rate of about this now
  save()              writes a checkpoint of this step
  evaluate()          evaluates on the held-out data
  stop()              saves and stops the run, which can be resumed

Changes are recorded in metrics.jsonl and in checkpoints. Names that you set stay in this session. help(x) explains a
function or a part of the library. Ctrl-C ends an expression, Ctrl-D detaches; the run continues.]]

return status

-- alerts.lua - reports problems of a run as they occur: a line, an event in metrics.jsonl, a command of
-- the user's, and with alert.stop the end of the run.
--
--     nonfinite  the loss or a gradient was NaN or infinite: the update was skipped
--     gradient   the norm of the gradient is far above those of the last steps
--     loss       the loss is far above that of the last lines, or above the first: a rate that is too high
--     data       a step waits long for its data
--     step       a step lasts far longer than those before: the device or the machine hangs
--     ranks      the same of several ranks, one of which may hang
--     disk       little room is left where the run is
--     dropped    the capacity of experts drops many of the choices of tokens
--     rate       the learning rate has been 0 for more steps than the last ones of a schedule may have it
--
-- Gradients are looked at after each step on the CPU; elsewhere, where this would make the device wait, when a line of
-- metrics is written.  A thread reports steps that do not end, while they last (core/store/alarm.h).

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local median = require("seqrun.base.median")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

---@class seqrun.Alerts
---@field options table `alert` of the config
---@field folder string
---@field screen seqrun.Screen
---@field records seqrun.Records
---@field each_step boolean
---@field norms number[] of the last steps
---@field losses number[] of the last lines
---@field first? number loss of the first line
---@field told table<string, integer> step of the last alert of a kind
---@field idle integer steps in a row with a rate of 0
---@field looked number when the disk was looked at
---@field alarm? seqrun.core.Alarm
---@field waits? string what the alarm is armed for: "data", "step" or "ranks"
---@field several boolean whether there are other ranks
---@field times number[] seconds of the last steps
---@field began? number when the step began that is under way
local Alerts = {}
Alerts.__index = Alerts

---Steps whose norms are kept, and of how many at least something is said; the same of lines of losses.
local NORMS, FEWEST_NORMS, LOSSES, FEWEST_LOSSES = 64, 32, 20, 4

---Steps with a rate of 0 at the end of a schedule, due to rounding: this many, or a twentieth of the run.
local FEWEST_IDLE = 10

---Steps before an alert of a kind is repeated, and seconds between two looks at the disk.
local QUIET, DISK_SECONDS = 100, 60

---Steps whose times are kept, of how many at least something is said, and how many times the longest of them is too
---long.
local TIMES, FEWEST_TIMES, TOO_LONG = 16, 3, 10

---@param t { options: table, folder: string, screen: seqrun.Screen, records: seqrun.Records, each_step: boolean,
---  several?: boolean }
---@return seqrun.Alerts
local function new(t)
  local self = setmetatable({
    options = t.options, folder = t.folder, screen = t.screen, records = t.records, each_step = t.each_step,
    several = t.several or false, norms = {}, losses = {}, told = {}, times = {}, looked = -math.huge, idle = 0,
  }, Alerts)
  local message
  if t.options.stall > 0 then self.alarm, message = t.records:alarm() end
  if message then t.screen:warn("alerts of hanging steps are not available: %s", message) end
  return self
end

---How much lines usually differ from the one before: a trend changes it little.
local function usual_change(values)
  local changes = {}
  for i = 2, #values do changes[i - 1] = math.abs(values[i] - values[i - 1]) end
  return median(changes)
end

---The last `count` of some values.
local function last_of(values, count) return table.move(values, math.max(1, #values - count + 1), #values, 1, {}) end

local function push(list, value, most)
  list[#list + 1] = value
  if #list > most then table.remove(list, 1) end
end

---The user's command, beside the training, with what happened in its environment.
local function command_of(self, kind, step, message)
  local words = {}
  for name, value in pairs { ALERT = kind, STEP = ("%d"):format(step), MESSAGE = message, RUN = self.folder } do
    words[#words + 1] = ("SEQRUN_%s=%s"):format(name, text.shell(value))
  end
  table.sort(words)
  local command = text.shell(self.options.run)
  return ("%s sh -c %s </dev/null >/dev/null 2>&1 &"):format(table.concat(words, " "), command)
end

local function is_recent(self, kind, step)
  local last = self.told[kind]
  return last and step - last < QUIET
end

---Reports a problem, unless the same was reported a few steps before.
---@param kind string
---@param at { step: integer, seconds: number }
---@param format string
function Alerts:tell(kind, at, format, ...)
  if is_recent(self, kind, at.step) then return end
  self.told[kind] = at.step
  local message = format:format(...)
  self.screen:warn("alert: %s: step %d: %s", kind, at.step, message)
  self.records:event("alert", at, { alert = kind, message = message })
  if self.options.run then os.execute(command_of(self, kind, at.step, message)) end
  if self.options.stop then
    failure.raise("numeric", "stopped by alert.stop: %s: step %d: %s", kind, at.step, message)
  end
end

-- ---- what does not end -----------------------------------------------------------------------------

local function arm(self, kind, at, seconds, message)
  self.alarm:disarm()
  self.waits = kind
  if is_recent(self, kind, at.step) then return end
  local event = { type = "event", event = "alert", step = at.step, seconds = at.seconds + seconds, alert = kind,
    message = message }
  self.alarm:arm(seconds, ("alert: %s: step %d: %s"):format(kind, at.step, message), json.encode(event) .. "\n",
    self.options.run and command_of(self, kind, at.step, message) or nil)
end

---The wait has ended: if the alarm has fired, nothing more is reported, and with alert.stop the run ends.
local function disarm(self, at)
  local kind = self.waits
  self.waits = nil
  if not kind or not self.alarm:disarm() then return end
  self.told[kind] = at.step
  if self.options.stop then failure.raise("numeric", "stopped by alert.stop: %s: step %d", kind, at.step) end
end

---A step begins to wait for its data.
---@param at { step: integer, seconds: number }
function Alerts:wait_for_data(at)
  if not self.alarm then return end
  local stall = self.options.stall
  arm(self, "data", at, stall, ("it has waited %s for its data, and still waits"):format(text.duration(stall)))
end

---Its data are there, and it is computed.
---@param at { step: integer, seconds: number }
function Alerts:compute(at)
  if not self.alarm then return end
  disarm(self, at)
  self.began = sys.now()
  if #self.times < FEWEST_TIMES then return end
  local longest = math.max(table.unpack(self.times))
  local limit = math.max(self.options.stall, TOO_LONG * longest)
  local format = "still running after %s, and earlier ones took at most %s: %s hangs or is very slow"
  arm(self, self.several and "ranks" or "step", at, limit, format:format(text.duration(limit), text.duration(longest),
    self.several and "a rank" or "the device or the machine"))
end

---There are no more data, and no step.
---@param at { step: integer, seconds: number }
function Alerts:rest(at)
  if self.alarm then disarm(self, at) end
end

---It has ended.
local function end_step(self, at)
  if not self.alarm then return end
  if self.began then push(self.times, sys.now() - self.began, TIMES) end
  self.began = nil
  disarm(self, at)
end

---No step is under way any more.
function Alerts:close()
  if self.alarm then self.alarm:close() end
  self.alarm = nil
end

local function look_at_norm(self, at, result)
  if not result.applied then
    self:tell("nonfinite", at, "the loss or a gradient is NaN or infinite, so the update was skipped")
    return
  end
  local spike, middle = self.options.spike, #self.norms >= FEWEST_NORMS and median(self.norms)
  if spike > 0 and middle and result.norm > spike * middle then
    self:tell("gradient", at, "the norm of the gradient is %.4g, %.1f times the median of the last %d steps",
      result.norm, result.norm / middle, #self.norms)
  end
  push(self.norms, result.norm, NORMS)
end

---After a step.
---@param at { step: integer, seconds: number }
---@param result seqrun.StepResult
---@param waited number seconds for its data
---@param more boolean whether steps are left
function Alerts:step(at, result, waited, more)
  end_step(self, at)
  if self.each_step then look_at_norm(self, at, result) end
  local stall = self.options.stall
  if stall > 0 and waited > stall then
    self:tell("data", at, "waited %s for its data", text.duration(waited))
  end
  self.idle = result.rate == 0 and self.idle + 1 or 0
  if more and self.idle > math.max(FEWEST_IDLE, at.step // 20) then
    self:tell("rate", at, "the learning rate has been 0 for %d steps, which changed nothing; see rate.total", self.idle)
  end
end

local function look_at_loss(self, at, loss)
  self.first = self.first or loss
  if self.options.spike > 0 and #self.losses >= FEWEST_LOSSES then
    local middle = median(last_of(self.losses, FEWEST_LOSSES + 1))
    local limit = middle + math.max(self.options.spike * usual_change(self.losses), 0.25 * self.first)
    if loss > 1.5 * self.first then
      self:tell("loss", at, "the loss is %.4g, above the %.4g of the beginning; rate.peak may be too high", loss,
        self.first)
    elseif loss > limit then
      self:tell("loss", at, "the loss is %.4g, and was %.4g in the lines before", loss, middle)
    end
  end
  push(self.losses, loss, LOSSES)
end

local function look_at_dropped(self, at, share)
  if not share or share <= (self.options.dropped or 1) then return end
  self:tell("dropped", at, "%.1f %% of the choices of experts were dropped, which were full (alert.dropped: %g %%); "
    .. "raise model.experts_capacity or model.experts_balance, or set experts_capacity=0", 100 * share,
    100 * self.options.dropped)
end

local function look_at_disk(self, at)
  if self.options.disk == 0 or at.seconds - self.looked < DISK_SECONDS then return end
  self.looked = at.seconds
  local free = sys.free_space(self.folder)
  if free and free < self.options.disk then
    self:tell("disk", at, "%s are left for %s; a checkpoint that finds no room is not written", text.bytes(free),
      self.folder)
  end
end

---After a line of metrics.
---@param at { step: integer, seconds: number }
---@param line table
---@param result seqrun.StepResult
function Alerts:line(at, line, result)
  if not self.each_step then look_at_norm(self, at, result) end
  local loss = line.loss
  if type(loss) == "number" and loss == loss and loss < math.huge then look_at_loss(self, at, loss) end
  look_at_dropped(self, at, line.experts_dropped)
  look_at_disk(self, at)
end

return { new = new }

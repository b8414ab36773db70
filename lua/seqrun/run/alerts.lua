-- alerts.lua - what goes wrong while a run trains, told as it happens: a line, an event in metrics.jsonl, a command of
-- the user's, and with alert.stop the end of the run.
--
--     nonfinite  the loss or a gradient was NaN or infinite: the update was skipped
--     gradient   the norm of the gradient is far above those of the last steps
--     loss       the loss is far above that of the last lines, or above the first: a rate that is too high
--     data       a step waited long for its data
--     disk       little room is left where the run is
--     rate       the learning rate has been 0 for more steps than the last ones of a schedule may have it
--
-- Gradients are looked at after each step on the CPU; elsewhere, where this would make the device wait, when a line of
-- metrics is written.

local failure = require("seqrun.base.failure")
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
local Alerts = {}
Alerts.__index = Alerts

---Steps whose norms are kept, and of how many at least something is said; the same of lines of losses.
local NORMS, FEWEST_NORMS, LOSSES, FEWEST_LOSSES = 64, 32, 20, 4

---Steps with a rate of 0 at the end of a schedule, which are its rounding: so many, or a twentieth of the run.
local FEWEST_IDLE = 10

---Steps before an alert of a kind is repeated, and seconds between two looks at the disk.
local QUIET, DISK_SECONDS = 100, 60

---@param t { options: table, folder: string, screen: seqrun.Screen, records: seqrun.Records, each_step: boolean }
---@return seqrun.Alerts
local function new(t)
  return setmetatable({
    options = t.options, folder = t.folder, screen = t.screen, records = t.records, each_step = t.each_step,
    norms = {}, losses = {}, told = {}, looked = -math.huge, idle = 0,
  }, Alerts)
end

local function median(values)
  local sorted = table.move(values, 1, #values, 1, {})
  table.sort(sorted)
  return sorted[(#sorted + 1) // 2]
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
local function run_command(self, kind, step, message)
  local words = {}
  for name, value in pairs { ALERT = kind, STEP = ("%d"):format(step), MESSAGE = message, RUN = self.folder } do
    words[#words + 1] = ("SEQRUN_%s=%s"):format(name, text.shell(value))
  end
  table.sort(words)
  local command = text.shell(self.options.run)
  os.execute(("%s sh -c %s </dev/null >/dev/null 2>&1 &"):format(table.concat(words, " "), command))
end

---Tells of something, unless the same was told a few steps before.
---@param kind string
---@param at { step: integer, seconds: number }
---@param format string
function Alerts:tell(kind, at, format, ...)
  local last = self.told[kind]
  if last and at.step - last < QUIET then return end
  self.told[kind] = at.step
  local message = format:format(...)
  self.screen:warn("alert: %s: step %d: %s", kind, at.step, message)
  self.records:event("alert", at, { alert = kind, message = message })
  if self.options.run then run_command(self, kind, at.step, message) end
  if self.options.stop then
    failure.raise("numeric", "stopped by alert.stop: %s: step %d: %s", kind, at.step, message)
  end
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
  look_at_disk(self, at)
end

return { new = new }

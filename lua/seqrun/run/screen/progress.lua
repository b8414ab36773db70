-- progress.lua - progress output of a run: lines at intervals, and a status line on a terminal; lines also go to
-- run.log.

local ansi = require("seqrun.draw.ansi")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local median = require("seqrun.base.median")
local printable = require("seqrun.base.printable")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

---@class seqrun.Progress
local Progress = {}
Progress.__index = Progress

---Number of recent step times that the ETA is based on.
local RECENT = 25

---Intervals between lines that stay grow by this factor, up to MOST_SECONDS.
local GROWTH, MOST_SECONDS = 1.25, 600

---@param options { quiet?: boolean, json_log?: boolean, every: integer, seconds: number }
---@return seqrun.Progress
function Progress.new(options)
  return setmetatable({
    quiet = options.quiet, json_log = options.json_log, every = options.every, line = live.new(options.json_log),
    interval = options.seconds, recent = {}, last_time = -math.huge, last_step = -math.huge, latest = {},
  }, Progress)
end

---Also writes everything to this file.
---@param file seqrun.core.Append
function Progress:log_to(file)
  self.file = file
end

local function to_file(self, line)
  if self.file then self.file:write(line .. "\n") end -- a full disk only loses lines of the log
end

---Makes run.log survive a power cut; one that somebody removed or replaced is a warning, once.
function Progress:sync()
  local ok, message = not self.file, nil
  if self.file then ok, message = self.file:sync() end
  if not ok and not self.lost then self:warn("%s, so its lines are lost; put it back where it was", message) end
  self.lost = not ok
end

local function to_stderr(self, line)
  self.line:print(self.json_log and json.encode { message = line } or line)
end

---A line that stays: on stderr, and in run.log.
function Progress:say(format, ...)
  local line = printable(select("#", ...) > 0 and format:format(...) or format)
  to_file(self, line)
  if not self.quiet then to_stderr(self, line) end
end

---A line that is printed even with --quiet.
function Progress:warn(format, ...)
  local line = "warning: " .. printable(format:format(...))
  to_file(self, line)
  to_stderr(self, line)
end

---A result: on stdout, and in run.log.
function Progress:tell(format, ...)
  local line = printable(select("#", ...) > 0 and format:format(...) or format)
  self.line:wipe()
  to_file(self, line)
  io.stdout:write(live.fit_output(line), "\n")
  io.stdout:flush()
end

---Writes to run.log only.
function Progress:record(line)
  to_file(self, line)
end

---Notes how long a step took.
function Progress:note(seconds)
  local recent = self.recent
  recent[#recent + 1] = seconds
  if #recent > RECENT then table.remove(recent, 1) end
end

---Estimated seconds of `steps` further steps, from the median of the recent ones; nil at first.
function Progress:estimate(steps)
  if #self.recent == 0 then return nil end
  return median(self.recent) * steps
end

local function maybe(list, format, value)
  if value then list[#list + 1] = format:format(value) end
end

---The losses of a line, in their order.
local function maybe_losses(parts, line, order)
  for _, shown in ipairs(order or {}) do
    maybe(parts, shown.name .. " %.3f", line[shown.name .. "_loss"])
    maybe(parts, "acc %.3f", line[shown.name .. "_accuracy"])
    for _, metric in ipairs(shown.metrics) do maybe(parts, metric .. " %.3f", line[metric]) end
  end
end

---A step and the latest metrics as text.
local function sentence(step, last, eta, line, order)
  local endless = last >= text.UNLIMITED
  local parts = { endless and ("step %d"):format(step) or ("step %d/%d"):format(step, last) }
  maybe(parts, "eta %s", not endless and eta and text.duration(eta))
  maybe(parts, "loss %.3f", line.loss)
  maybe_losses(parts, line, order)
  maybe(parts, "lr %.2e", line.lr)
  maybe(parts, "norm %.2f", line.grad_norm)
  maybe(parts, "real %s tok/s", line.real_tokens_per_s and text.count(line.real_tokens_per_s))
  maybe(parts, "slots %s", line.slot_tokens_per_s and text.count(line.slot_tokens_per_s))
  maybe(parts, "eff %s", line.efficiency and text.percent(line.efficiency))
  maybe(parts, "mfu %s", line.mfu and text.percent(line.mfu))
  maybe(parts, "skipped %d", line.skipped and line.skipped > 0 and line.skipped or nil)
  return table.concat(parts, "  ")
end

local function estimate_of_end(self, step, last) return self:estimate(math.max(0, last - step)) end

-- ---- the status line -----------------------------------------------------------------------------

local STEADY = 2e-3 -- relative change of the loss that counts as none
local MEMORY = 0.8  -- of the mean that the loss is compared with

---Notes where the loss is going.
local function follow(self, loss)
  if type(loss) ~= "number" or loss ~= loss then return end
  local mean = self.mean_loss
  if mean then
    local change = (loss - mean) / math.max(1e-9, math.abs(mean))
    self.trend = math.abs(change) < STEADY and "→" or change < 0 and "↓" or "↑"
  end
  self.mean_loss = mean and MEMORY * mean + (1 - MEMORY) * loss or loss
end

---What the status line has, by importance.
local function parts_of(self, step, last, line)
  local endless = last >= text.UNLIMITED
  local parts = { { text = endless and ("step %d"):format(step) or ("step %d/%d"):format(step, last), rank = 1 } }
  local function add(rank, format, value)
    if value then parts[#parts + 1] = { text = format:format(value), rank = rank } end
  end
  if not endless then parts[2] = { bar = step / math.max(1, last), rank = 4 } end
  add(2, "loss %.3f" .. (self.trend and " " .. self.trend or ""), line.loss)
  add(5, "lr %.2e", line.lr)
  add(6, "%s tok/s", line.real_tokens_per_s and text.count(line.real_tokens_per_s))
  local left = not endless and estimate_of_end(self, step, last)
  add(3, "eta %s", left and text.duration(left))
  add(7, "skipped %d", line.skipped and line.skipped > 0 and line.skipped or nil)
  return parts
end

local COLOURS = { ["↓"] = 3, ["↑"] = 2 }

local function draw(self, step, last)
  local shown = live.fit(parts_of(self, step, last, self.latest), self.line:width())
  local colour = ansi.colours(2) and COLOURS[self.trend]
  self.line:draw(shown, colour and shown:gsub(self.trend, function(arrow) return ansi.paint(arrow, colour) end) or nil)
  self.drawn = { step, last }
end

---Draws the status line again if the terminal has another width; steps with many micro-batches are long.
function Progress:fit()
  if self.drawn and self.line:resized() then draw(self, self.drawn[1], self.drawn[2]) end
end

---Updates the status line at steps without a line of metrics.
function Progress:tick(step, last)
  if not self.quiet and self.line:due() then draw(self, step, last) end
end

---Whether a line of metrics is to stay.
local function stays(self, step, last)
  if step == last then return true end
  return sys.now() - self.last_time >= self.interval and step - self.last_step >= self.every
end

---Shows a line of metrics: as a line that stays, also in run.log, at growing intervals of at least `every` steps; on a
---terminal always as the status line.
---@param line table
---@param last integer
---@param order seqrun.Shown[] of its losses
function Progress:show(line, last, order)
  local step = line.step
  self.latest = line
  follow(self, line.loss)
  if stays(self, step, last) then
    if self.last_step > 0 then
      self.interval = math.min(self.interval * GROWTH, math.max(self.interval, MOST_SECONDS))
    end
    self.last_time, self.last_step = sys.now(), step
    local shown = sentence(step, last, estimate_of_end(self, step, last), line, order)
    to_file(self, shown)
    if not self.quiet then self.line:print(self.json_log and json.encode(line) or shown) end
  end
  if not self.quiet and self.line.terminal and step < last then draw(self, step, last) end
end

---Progress of work between two steps: nothing in its first second, then on the status line, or as lines.
---@param title string
---@param total? number
---@param unit? string
---@return seqrun.Work
function Progress:work(title, total, unit)
  return live.work(title, {
    line = self.line, total = total, unit = unit, quiet = self.quiet,
    print = function(words)
      to_file(self, words)
      to_stderr(self, words)
    end,
  })
end

---Says on the status line what is being done.
---@param words string
function Progress:busy(words)
  self.drawn = nil
  if not self.quiet then self.line:draw(live.cut(words, self.line:width())) end
end

---A checkpoint is being written: on the status line, and as a line where the one before took more than a second.
---@param step integer
function Progress:saving(step)
  local words = ("saving step %d"):format(step)
  self.saving_at = sys.now()
  self:busy(words)
  if self.saves_slowly and not self.quiet and not self.line.terminal then to_stderr(self, words) end
end

---It has been written.
function Progress:saved()
  self.saves_slowly = sys.now() - self.saving_at > 1
  self.line:wipe()
end

---Clears the status line and closes the log.
function Progress:close()
  self.line:wipe()
  if self.file then self.file:close() end
  self.file = nil
end

return Progress

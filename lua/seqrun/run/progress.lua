-- progress.lua - progress output of a run: lines at intervals, and a status line on a terminal; lines also go to
-- run.log.

local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")
local text = require("seqrun.run.text")

local Progress = {}
Progress.__index = Progress

---Number of recent step times that the ETA is based on.
local RECENT = 25

---@param options { quiet?: boolean, json_log?: boolean, every: integer, seconds: number }
local function new(options)
  local terminal = sys.is_terminal(2) and not options.json_log and os.getenv("TERM") ~= "dumb"
  return setmetatable({
    quiet = options.quiet, json_log = options.json_log, terminal = terminal, every = options.every,
    seconds = options.seconds, recent = {}, last_time = -math.huge, last_step = -math.huge,
    drawn_at = -math.huge, latest = {},
  }, Progress)
end

---Also writes everything to this file.
---@param file seqrun.core.Append
function Progress:log_to(file)
  self.file = file
end

local function wipe(self)
  if self.drawn then io.stderr:write("\r\27[K") end
  self.drawn = false
end

local function to_file(self, line)
  if self.file then self.file:write(line .. "\n") end -- a full disk only loses lines of the log
end

local function to_stderr(self, line)
  if self.json_log then line = json.encode { message = line } end
  io.stderr:write(line, "\n")
end

---A line that stays: on stderr, and in run.log.
function Progress:say(format, ...)
  local line = select("#", ...) > 0 and format:format(...) or format
  wipe(self)
  to_file(self, line)
  if not self.quiet then to_stderr(self, line) end
end

---A line that is printed even with --quiet.
function Progress:warn(format, ...)
  local line = "warning: " .. format:format(...)
  wipe(self)
  to_file(self, line)
  to_stderr(self, line)
end

---A result: on stdout, and in run.log.
function Progress:tell(format, ...)
  local line = select("#", ...) > 0 and format:format(...) or format
  wipe(self)
  to_file(self, line)
  io.stdout:write(line, "\n")
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
  local sorted = table.move(self.recent, 1, #self.recent, 1, {})
  table.sort(sorted)
  return sorted[(#sorted + 1) // 2] * steps
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

local function draw(self, shown)
  local width = math.max(20, sys.columns(2) - 1)
  io.stderr:write("\r\27[K", shown:sub(1, width))
  self.drawn, self.drawn_at = true, sys.now()
end

local function estimate_of_end(self, step, last) return self:estimate(math.max(0, last - step)) end

---Seconds between redraws of the status line.
local REDRAW = 0.2

---Updates the status line at steps without a line of metrics.
function Progress:tick(step, last)
  if not self.terminal or self.quiet or sys.now() - self.drawn_at < REDRAW then return end
  draw(self, sentence(step, last, estimate_of_end(self, step, last), self.latest, self.order))
end

---Shows a line of metrics: as a permanent line, also in run.log, at most every `seconds` and every `every` steps;
---on a terminal always as the status line.
---@param line table
---@param last integer
---@param order seqrun.Shown[] of its losses
function Progress:show(line, last, order)
  local shown = sentence(line.step, last, estimate_of_end(self, line.step, last), line, order)
  self.latest, self.order = line, order
  local due = sys.now() - self.last_time >= self.seconds and line.step - self.last_step >= self.every
  if due or line.step == last then
    self.last_time, self.last_step = sys.now(), line.step
    wipe(self)
    to_file(self, shown)
    if not self.quiet then io.stderr:write(self.json_log and json.encode(line) or shown, "\n") end
  elseif self.terminal and not self.quiet then
    draw(self, shown)
  end
end

---Clears the status line and closes the log.
function Progress:close()
  wipe(self)
  if self.file then self.file:close() end
  self.file = nil
end

return { new = new }

-- summary.lua - the last lines of a run, with the measured speed-up over padding.

local is_too_low = require("seqrun.run.measure.peak").is_too_low
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")

local summary = {}

---Longer comparisons are left to recipes/bench/step.lua.
local MOST_SECONDS = 60

---Seconds of forward and backward over some micro-batches.
local function time_of(model, batches)
  local seconds = 0
  for _, make in ipairs(batches) do
    local scope <close> = tensor.scope()
    local batch = make()
    tensor.synchronize()
    local began = sys.now()
    model:losses(batch).total:backward()
    tensor.synchronize()
    seconds = seconds + sys.now() - began
  end
  return seconds
end

---The sequences of the first micro-batch of the run: uids and epoch.  With a small data set it may span several
---epochs, the later ones with more examples than the first.
local function some_sequences(self)
  self.loader:seek(self.first_cursor)
  local scope <close> = tensor.scope()
  local batch = self.loader:next():batch(1)
  local uids, examples = {}, self.loader:examples(batch.epoch)
  for _, uid in ipairs(batch.layout:uids()) do
    if uid < examples then uids[#uids + 1] = uid end
  end
  return uids, batch.epoch
end

---The same sequences in two arrangements, in micro-batches of about the same number of rows.
local function arrangements(self)
  local uids, epoch = some_sequences(self)
  local loader, packed, padded = self.loader, {}, {}
  local rows = self.loader:summary().micro_packs
  packed[1] = function() return loader:batch_of(uids, { arrange = "packed", epoch = epoch }) end
  for first = 1, #uids, rows do
    local part = table.move(uids, first, math.min(#uids, first + rows - 1), 1, {})
    padded[#padded + 1] = function() return loader:batch_of(part, { arrange = "padded", epoch = epoch }) end
  end
  return packed, padded, #uids
end

---Times packed and padded alternately, three times each, and keeps the best.
local function speed_up(self)
  if self.ranks:several() then return "not measured on several ranks" end
  local estimate = (self.progress:estimate(1) or 0) * (1 + self.loader:summary().factor) * 3
  if estimate > MOST_SECONDS then
    return ("not measured: it would take %s; see recipes/bench/step.lua"):format(text.duration(estimate))
  end
  self.progress:busy("comparing with padded batches")
  local packed, padded, count = arrangements(self)
  local best = { math.huge, math.huge }
  for _ = 1, 3 do
    if sys.caught() then return "not measured: interrupted by a signal" end
    best[1] = math.min(best[1], time_of(self.model, packed))
    best[2] = math.min(best[2], time_of(self.model, padded))
  end
  self.model.params:zero_grad()
  return ("%.2f times as fast as padded: %d sequences in %s packed, %s padded"):format(best[2] / best[1], count,
    text.duration(best[1]), text.duration(best[2]))
end

---Compares a loss with its baseline: ", unigram model 6.250: 1.250 nats below".
local function compared(line, name, baselines)
  for _, baseline in ipairs(baselines) do
    local value = baseline.loss == name and line[baseline.metric]
    if value then
      local nats = value - line[name .. "_loss"]
      return (", %s %.3f: %.3f nats %s"):format(baseline.title, value, math.abs(nats), nats >= 0 and "below" or "above")
    end
  end
  return ""
end

---The metrics of what a head predicts: ", f1 0.812, matthews 0.604".
local function scored(line, shown)
  local parts = {}
  for _, name in ipairs(shown.scores or {}) do
    local value = line[(shown.prefix or "") .. name]
    local twice = name == "accuracy" and line[shown.name .. "_accuracy"]
    if value and not twice then
      local format = shown.percent and ", %s %.2f %%" or ", %s %.3f"
      parts[#parts + 1] = format:format(name:gsub("_", " "), shown.percent and 100 * value or value)
    end
  end
  return table.concat(parts)
end

---The losses on held-out data, each with the baseline on the same items.
---@param line table of metrics
---@param order seqrun.Shown[]
---@param baselines seqrun.Baseline[]
---@return string[] # one text per loss
function summary.scores(line, order, baselines)
  local lines = {}
  for _, shown in ipairs(order) do
    local loss, accuracy = line[shown.name .. "_loss"], line[shown.name .. "_accuracy"]
    if loss then
      local score = ("%s loss %.3f%s"):format(shown.name, loss, compared(line, shown.name, baselines))
      if accuracy then score = score .. (", accuracy %.3f"):format(accuracy) end
      lines[#lines + 1] = score .. scored(line, shown)
    end
  end
  return lines
end

---Model FLOP utilisation of this session, by both formulas.
---@param flops number as counted by model:flops
---@param simple number 6 x parameters x real tokens
---@param available number peak x seconds
function summary.mfu(flops, simple, available)
  return ("%s of the peak (6 x parameters x tokens: %s)"):format(text.percent(flops / available),
    text.percent(simple / available))
end

---@param self seqrun.Run
function summary.tell(self)
  local say = function(...) self.progress:tell(...) end
  local w, seconds = self.window, math.max(1e-9, self.train_seconds)
  say("%s: %s, %s, %s in total", self.folder, text.counted(self.step, "step"), text.counted(w.sequences, "sequence"),
    text.duration(self:seconds()))
  if self.train_seconds > 0 then
    say("  speed      %s real tokens/s, %s slot tokens/s while training",
      text.count((w.tokens - self.tokens_before) / seconds), text.count((w.slots - self.slots_before) / seconds))
  end
  local peak = self.peak
  if peak and self.model.flops and self.train_seconds > 0 then
    local simple = 6 * self.model.params:count() * (w.tokens - self.tokens_before)
    local available = peak * self.ranks.size * seconds
    if not is_too_low(self, self.work / available) then
      say("  mfu        %s", summary.mfu(self.work, simple, available))
    end
  end
  local _, most = sys.memory()
  say("  memory     %s at most, of the process", text.bytes(most))
  if w.slots > 0 then say("  packing    %s of the slots are real tokens", text.percent(w.tokens / w.slots)) end
  if self.config.pack.arrange == "packed" then say("  packed     %s", speed_up(self)) end
  local result = self.result
  for _, score in ipairs(result and summary.scores(result.line, result.order, self.baselines) or {}) do
    say("  held-out   %s", score)
  end
  if self.scoring then say("%s", require("seqrun.scores.report").text(self.scoring, 3)) end
  say("  saved      %s", self.folder)
  if self.best and self.best.step then say("  best       %s", tostring(self.best)) end
  say("  report     seqrun report %s", text.shell(self.folder))
end

return summary

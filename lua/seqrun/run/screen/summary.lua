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
local function some_sequences(t)
  t.loader:seek(t.first)
  local scope <close> = tensor.scope()
  local batch = t.loader:next():batch(1)
  local uids, examples = {}, t.loader:examples(batch.epoch)
  for _, uid in ipairs(batch.layout:uids()) do
    if uid < examples then uids[#uids + 1] = uid end
  end
  return uids, batch.epoch
end

---The same sequences in two arrangements, in micro-batches of about the same number of rows, or as usual: padded to the
---longest of each.
local function arrangements(t)
  local uids, epoch = some_sequences(t)
  local loader, packed, padded = t.loader, {}, {}
  local rows = t.loader:summary().micro_packs
  packed[1] = function() return loader:batch_of(uids, { arrange = "packed", epoch = epoch }) end
  for first = 1, #uids, rows do
    local part = table.move(uids, first, math.min(#uids, first + rows - 1), 1, {})
    padded[#padded + 1] = function() return loader:batch_of(part, { arrange = "longest", epoch = epoch }) end
  end
  return packed, padded, #uids
end

---Times packed and padded alternately, three times each, and keeps the best.
local function speed_up(t)
  if t.ranks:several() then return "not measured on several ranks" end
  local estimate = (t.screen:estimate(1) or 0) * (1 + t.loader:summary().factor) * 3
  if estimate > MOST_SECONDS then
    return ("not measured: it would take %s; see recipes/bench/step.lua"):format(text.duration(estimate))
  end
  t.screen:busy("comparing with padded batches")
  local packed, padded, count = arrangements(t)
  local best = { math.huge, math.huge }
  for _ = 1, 3 do
    if sys.caught() then return "not measured: interrupted by a signal" end
    best[1] = math.min(best[1], time_of(t.model, packed))
    best[2] = math.min(best[2], time_of(t.model, padded))
  end
  t.model.params:zero_grad()
  local words = "%.2f times as fast as padded to the longest of each batch: %d sequences in %s packed, %s padded"
  return words:format(best[2] / best[1], count, text.duration(best[1]), text.duration(best[2]))
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
    if value then
      local format = shown.percent and ", %s %.2f %%" or ", %s %.3f"
      parts[#parts + 1] = format:format(name:gsub("_", " "), shown.percent and 100 * value or value)
    end
  end
  return table.concat(parts)
end

---The loss of each source of the data, and their mean by weight: " (news 3.210, wiki 2.950; weighted 3.145)".
local function of_sources(line, shown)
  local parts = {}
  for _, name in ipairs(shown.sources or {}) do
    local loss = line[("%s_%s_loss"):format(name, shown.name)]
    parts[#parts + 1] = loss and ("%s %.3f"):format(name, loss)
  end
  local weighted = line[("weighted_%s_loss"):format(shown.name)]
  return #parts > 0 and (" (%s%s)"):format(table.concat(parts, ", "),
    weighted and ("; weighted %.3f"):format(weighted) or "") or ""
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
      local score = ("%s loss %.3f%s%s"):format(shown.name, loss, of_sources(line, shown),
        compared(line, shown.name, baselines))
      local perplexity = line[shown.name .. "_perplexity"]
      if perplexity then score = score .. (", perplexity %.2f"):format(perplexity) end
      local again = line[(shown.prefix or "") .. "accuracy"] -- of what is predicted, which may be other than argmax
      if accuracy and not (again and shown.scores) then score = score .. (", accuracy %.3f"):format(accuracy) end
      lines[#lines + 1] = score .. scored(line, shown)
    elseif next(shown.scores or {}) then -- scores of items that have no loss
      lines[#lines + 1] = shown.name .. scored(line, shown):gsub("^,", "")
    end
  end
  return lines
end

---The last lines of a run.
---@param t { screen: seqrun.Screen, folder: string, step: integer, seconds: number, done: table, model: table,
---  loader: seqrun.Loader, first: table, ranks: seqrun.RunRanks, config: table, evaluations: seqrun.Evaluations }
---  seconds: of the whole run; done: what seqrun.Meter counted; first: cursor of the first update
function summary.tell(t)
  local say = function(...) t.screen:tell(...) end
  local done, folder = t.done, t.folder
  say("%s: %s, %s, %s in total", folder, text.counted(t.step, "step"), text.counted(done.sequences, "sequence"),
    text.duration(t.seconds))
  if done.seconds > 0 then
    say("  speed      %s real tokens/s, %s slot tokens/s while training", text.count(done.new_tokens / done.seconds),
      text.count(done.new_slots / done.seconds))
  end
  if done.available and done.seconds > 0 and not is_too_low(t.config.peak_flops, done.flops / done.available) then
    say("  mfu        %s of the peak", text.percent(done.flops / done.available))
    t.screen:record(("  6N mfu     %s of the peak, by 6 x parameters x tokens"):format(
      text.percent(6 * t.model.params:count() * done.new_tokens / done.available)))
  end
  local _, most = sys.memory()
  say("  memory     %s at most, of the process", text.bytes(most))
  if done.slots > 0 then say("  packing    %s of the slots are real tokens", text.percent(done.tokens / done.slots)) end
  if t.config.pack.arrange == "packed" then say("  packed     %s", speed_up(t)) end
  for _, score in ipairs(t.evaluations.before or {}) do say("  before     %s", score) end
  for _, score in ipairs(t.evaluations:texts()) do say("  held-out   %s", score) end
  local scoring, best = t.evaluations:predictions(), t.evaluations:best_text()
  local details = scoring and require("seqrun.scores.report").text(scoring, 3) or ""
  if details ~= "" then say("%s", details) end
  say("  saved      %s", folder)
  if best then say("  best       %s", best) end
  say("  report     seqrun report %s", text.shell(folder))
end

return summary

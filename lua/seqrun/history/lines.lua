-- lines.lua - the lines of metrics.jsonl as training, evaluations and events: all of them, the newest, or those that
-- were appended since the last look.
--
-- Nothing is believed: damaged lines are counted and skipped, and very long metrics are thinned while they are read, so
-- that their memory is bounded.

local json = require("seqrun.core.json")
local line_file = require("seqrun.base.line_file")
local metrics = require("seqrun.history.metrics")

local lines = {}

---Lines of a kind beyond which they are thinned: of a group, those with an extreme value and the first that has NaN
---survive, so spikes and the best stay.
local MOST, GROUP = 20000, 8

---Metrics of evaluations whose extremes survive, at most.
local METRICS = 16

---What no counter and no time exceeds; FLOP are more.
lines.LARGEST = 1 << 53
local MOST_WORK = 1e30

---@param value any
---@return number|nil
function lines.numeric(value) return type(value) == "number" and value or nil end

local numeric = lines.numeric

---What lines of training are kept by.
local TRAIN = { "loss", "grad_norm" }

---Marks in `kept` the positions with the least and the largest value of a key.
local function mark_extremes(kept, rows, first, last, key)
  local low, high
  for i = first, last do
    local value = numeric(rows[i][key])
    if value and (not low or value < rows[low][key]) then low = i end
    if value and (not high or value > rows[high][key]) then high = i end
  end
  if low then kept[low], kept[high] = true, true end
end

---Of each group the lines with the extremes of some keys: at most 2 of a key, and one that has NaN.
local function thinned(rows, keys, group)
  local list = {}
  for first = 1, #rows, group do
    local last, kept = math.min(#rows, first + group - 1), {}
    for _, key in ipairs(keys) do mark_extremes(kept, rows, first, last, key) end
    local broken = false
    for i = first, last do
      if kept[i] or i == 1 or i == #rows or rows[i].nonfinite and not broken then list[#list + 1] = rows[i] end
      broken = broken or rows[i].nonfinite ~= nil
    end
  end
  return list
end

---The numbers of a line of evaluation, by name.
local function metrics_of(line)
  local keys = {}
  for key, value in pairs(line) do
    if numeric(value) and not metrics.TOTALS[key] and not metrics.CLOCK[key] then keys[#keys + 1] = key end
  end
  table.sort(keys)
  return table.move(keys, 1, METRICS, 1, {})
end

---What events have in common that say the same.
local function kind_of(event)
  return ("%s %s %s %s"):format(event.type, tostring(event.event), tostring(event.key), tostring(event.equal))
end

---Of each group the first event of a kind; if these are still too many, the newer half.
local function thinned_events(events)
  local list = {}
  for first = 1, #events, GROUP do
    local seen = {}
    for i = first, math.min(#events, first + GROUP - 1) do
      local kind = kind_of(events[i])
      if not seen[kind] then list[#list + 1] = events[i] end
      seen[kind] = true
    end
  end
  if #list <= MOST * 3 // 4 then return list end
  return table.move(list, #list - MOST // 2, #list, 1, {})
end

---Adds a line; a resume from an earlier step makes later ones void.
local function add(rows, line)
  while #rows > 0 and rows[#rows].step >= line.step do rows[#rows] = nil end
  rows[#rows + 1] = line
end

---Removes counters that no run writes: text, negative numbers.
local function remove_strange(line)
  for key in pairs(metrics.TOTALS) do
    local value = line[key]
    if key ~= "type" and value ~= nil and not (numeric(value) and value >= 0 and value < MOST_WORK) then
      line[key] = nil
    end
  end
end

---@class seqrun.RunLines
---@field train table[] lines of training, by step
---@field evals table[] lines of evaluations, by step
---@field events table[] lines of any other type
---@field lines integer of training, also those that were thinned out
---@field damaged integer unreadable lines
---@field followed? { at: integer, before: string } of follow(): where it has read to, and what is before it

---@return seqrun.RunLines
function lines.new() return { train = {}, evals = {}, events = {}, lines = 0, damaged = 0 } end

---Takes a line of the file.
---@param self seqrun.RunLines
---@param text string
local function take(self, text)
  local line = json.decode(text)
  local valid = type(line) == "table" and math.type(line.step) == "integer" and line.step >= 0
    and line.step < lines.LARGEST
  if not valid or type(line.type) ~= "string" then
    self.damaged = self.damaged + 1
    return
  end
  remove_strange(line)
  if line.type == "train" then
    self.lines = self.lines + 1
    add(self.train, line)
    if #self.train > MOST then self.train = thinned(self.train, TRAIN, GROUP) end
  elseif line.type == "eval" then
    add(self.evals, line)
    if #self.evals > MOST then
      local keys = metrics_of(line)
      self.evals = thinned(self.evals, keys, 4 * #keys + GROUP)
    end
  else
    self.events[#self.events + 1] = line
    if #self.events > MOST then self.events = thinned_events(self.events) end
  end
end

---Reads the lines of a file.
---@param self seqrun.RunLines
---@param path string
---@param newest? integer reads only about the last `newest` bytes
function lines.read(self, path, newest)
  local file <close> = line_file.open(path)
  if not file then return end
  local at = newest and line_file.near_end(file, path:match("[^/]*$"), newest) or 0
  if at > 0 then line_file.of(file, path)() end -- the rest of a line
  for text in line_file.of(file, path:match("[^/]*$")) do take(self, text) end
end

-- ---- a file that grows -------------------------------------------------------------------------------

---Bytes before the last position that must be the same, or the file was rewritten; bytes read at a time.
local SAME, PIECE = 256, 1 << 20

---Takes what was appended since the last call; a file that a resume has cut is read from its beginning.
---@param self seqrun.RunLines
---@param path string
---@return boolean changed
function lines.follow(self, path)
  local file <close> = line_file.open(path, path)
  if not file then return false end
  local size = line_file.seek(file, path, "end", 0)
  local from = self.followed or { at = 0, before = "" }
  line_file.seek(file, path, "set", from.at - #from.before)
  if size < from.at or #from.before > 0 and line_file.read(file, path, #from.before) ~= from.before then
    for key, value in pairs(lines.new()) do self[key] = value end
    from = { at = 0, before = "" }
    line_file.seek(file, path, "set", 0)
  end
  local changed, rest = false, ""
  while true do
    local piece = line_file.read(file, path, PIECE)
    if not piece then break end
    local whole = rest .. piece
    local stop = 0
    for text, after in whole:gmatch("([^\n]*\n)()") do
      take(self, text)
      stop, changed = after - 1, true
    end
    local done = whole:sub(1, stop)
    from.at, from.before = from.at + stop, (from.before .. done):sub(-SAME)
    rest = whole:sub(stop + 1)
  end
  self.followed = from
  return changed
end

return lines

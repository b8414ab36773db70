-- log.lua - the result log of MLPerf: a line for each event of a run, in the form that its checkers read.
--
--     :::MLLOG {"namespace": "", "time_ms": 1763805600000, "event_type": "INTERVAL_START", "key": "run_start",
--               "value": null, "metadata": {"file": "mlperf.lua", "lineno": 37}}          (one line)
--
-- Positions in the training (epoch_num) are numbers of samples, as usual for BERT.  The time of a run is that of
-- run_stop less that of run_start.

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

---@class seqrun.Mllog
---@field samples integer sequences trained on
---@field every integer samples between evaluations
local Log = {}
Log.__index = Log

local FORMAT = ':::MLLOG {"namespace": "", "time_ms": %d, "event_type": "%s", "key": "%s", "value": %s, '
  .. '"metadata": %s}\n'

---The recipe's line that is running, or this file's.
local function place()
  for level = 3, 12 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    local own = info.source:find("/lua/seqrun/", 1, true) or info.source:find("mlperf/%l+%.lua$")
    if info.currentline > 0 and not own then
      return info.source:match("[^/@]*$"), info.currentline
    end
  end
  return "mlperf.lua", 0
end

---@param time number seconds since 1970
local function line_of(time, kind, key, value, metadata)
  local file, line = place()
  local all = { file = file, lineno = line }
  for name, field in pairs(metadata or {}) do all[name] = field end
  local text = value == nil and "null" or json.encode(value)
  return FORMAT:format(math.floor(time * 1000), kind, key, text, json.encode(all))
end

---Adds an event; before start() it is kept.
local function add(self, kind, key, value, metadata)
  local line = line_of(sys.time(), kind, key, value, metadata)
  if not self.file then
    self.kept[#self.kept + 1] = line
    return
  end
  failure.must(self.file:write(line))
end

---@param key string
---@param value any
---@param metadata? table
function Log:event(key, value, metadata) add(self, "POINT_IN_TIME", key, value, metadata) end

---The interval `name`_start to `name`_stop.
local function begin(self, name, metadata) add(self, "INTERVAL_START", name .. "_start", nil, metadata) end
local function finish(self, name, metadata) add(self, "INTERVAL_END", name .. "_stop", nil, metadata) end

local function begin_block(self)
  self.block, self.block_began = self.samples, sys.now()
  begin(self, "block", { first_epoch_num = self.samples, epoch_count = self.every, samples_count = self.samples })
end

---Ends a block and reports its sequences per second.
local function end_block(self)
  if not self.block then return end
  local seconds = sys.now() - self.block_began
  finish(self, "block", { first_epoch_num = self.block, epoch_count = self.every, samples_count = self.samples })
  if self.samples > self.block and seconds > 0 then
    self:event("tracked_stats", { throughput = (self.samples - self.block) / seconds }, { step = self.samples })
  end
  self.block = nil
end

-- ---- resuming --------------------------------------------------------------------------------

---Keys of lines that are dropped from the end, since a resume repeats them.
local REPEATED = { block_start = true, block_stop = true, tracked_stats = true, eval_start = true }

---The lines of an interrupted log up to a number of samples.
local function lines_until(text, samples)
  local lines = {}
  for line in text:gmatch("[^\n]*\n") do
    local event = json.decode(line:match("^:::MLLOG (.*)\n$") or "")
    if not event or event.key == "run_stop" or (event.metadata.epoch_num or 0) > samples then break end
    lines[#lines + 1] = { key = event.key, text = line }
  end
  while #lines > 0 and REPEATED[lines[#lines].key] do lines[#lines] = nil end
  for i, line in ipairs(lines) do lines[i] = line.text end
  return lines
end

---Opens the log of a run that is resumed; false if it has none yet.
local function continue(self, path)
  local text = self.samples > 0 and failure.there(sys.read_file(path, 1 << 28))
  local lines = text and lines_until(text, self.samples) or {}
  if #lines == 0 then return false end
  self.file = failure.must(train.append(path, #table.concat(lines)))
  return true
end

-- ---- a run -----------------------------------------------------------------------------------

---Begins the run after all else is ready: writes what was kept, then init_stop, run_start and the first block.
---@param path string
---@param options { samples: integer, every: integer } samples trained on before a resume; between evaluations
function Log:start(path, options)
  self.samples, self.every = options.samples, options.every
  if not continue(self, path) then
    finish(self, "init")
    begin(self, "run")
    self.file = failure.must(train.append(path, 0))
    for _, line in ipairs(self.kept) do failure.must(self.file:write(line)) end
  end
  self.running = true
  begin_block(self)
end

---For run:start { watch = log }.
function Log:evaluating(samples)
  if not self.running then return end
  self.samples = samples
  end_block(self)
  begin(self, "eval", { epoch_num = samples, samples_count = samples })
end

---Takes the accuracy of an evaluation; the run ends if it is reached.
---@param accuracy number
---@param reached boolean
function Log:evaluated(accuracy, reached)
  if not self.running then return end
  local at = { epoch_num = self.samples, samples_count = self.samples }
  self:event("eval_accuracy", accuracy, at)
  finish(self, "eval", at)
  if reached then self:stop("success") else begin_block(self) end
end

---@param status "success"|"aborted"
function Log:stop(status)
  if not self.running then return end
  self.running = false
  end_block(self)
  finish(self, "run", { status = status, epoch_num = self.samples, samples_count = self.samples })
  failure.must(self.file:sync())
end

---An unfinished run was aborted.
function Log:close()
  self:stop("aborted")
  if self.file then self.file:close() end
  self.file, self.kept = nil, {}
end

Log.__close = Log.close

---A log whose initialization begins now.
---@return seqrun.Mllog
local function new()
  local self = setmetatable({ kept = {}, samples = 0, every = 0 }, Log)
  begin(self, "init")
  return self
end

return { new = new }

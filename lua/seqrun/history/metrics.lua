-- metrics.lua - the metrics of a run: metrics.jsonl, and the same as TensorBoard event files.
--
-- One JSON object per line, written whole or not at all.  Non-finite numbers become null, and `nonfinite` lists
-- their names.  A resume at step n removes the lines of later steps, and starts a new event file that makes
-- TensorBoard discard them too.

local json = require("seqrun.core.json")
local line_file = require("seqrun.base.line_file")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local metrics = {}

---Fields that every line of type "train" has, for any model; nil becomes null.
metrics.TRAIN = {
  "step", "loss", "lr", "grad_norm", "sequences", "raw_tokens", "real_tokens", "masked_tokens",
  "layer_tokens", "effective_tokens", "flops",
  "slot_tokens", "efficiency", "imbalance", "real_tokens_per_s", "slot_tokens_per_s", "mfu", "data_wait_ms", "cpu_ms",
  "skipped", "seconds",
}

---Fields that depend on how fast the machine is, beside how far the training is.
metrics.CLOCK = {
  seconds = true, data_wait_ms = true, cpu_ms = true, real_tokens_per_s = true, slot_tokens_per_s = true, mfu = true,
  energy_j = true,
}

---Fields that every line of type "eval" has.
metrics.EVAL = { "step" }

---Totals and names, which are not plotted.
metrics.TOTALS = {
  step = true, type = true, seconds = true, sequences = true, raw_tokens = true, real_tokens = true,
  masked_tokens = true, words = true, slot_tokens = true, layer_tokens = true, effective_tokens = true, flops = true,
}

---The length of a file that continues after step `most`: up to the last complete line before the first one of a
---later step.  Lines that are not JSON (after a power cut) are skipped.
---@return integer bytes
---@return table|nil last the last object kept
---@return table[]? undone events of later steps
local function end_of(path, most)
  local file <close> = line_file.open(path)
  if not file then return 0 end
  local at, kept, last, undone, over = 0, 0, nil, {}, false
  for line in line_file.of(file, path) do
    at = at + #line
    local value = line:sub(-1) == "\n" and json.decode(line)
    if type(value) == "table" then
      over = over or math.type(value.step) == "integer" and value.step > most
      if not over then kept, last = at, value end
      if over and value.type == "event" then undone[#undone + 1] = value end
    end
  end
  return kept, last, undone
end

---@class seqrun.Metrics
---@field late? { step: integer, at: integer } the highest step of a line, and where the first such line begins
---@field last table|nil the last line that a resume kept
---@field undone table[]|nil events of later steps, which a resume removed
local Metrics = {}
Metrics.__index = Metrics

---Opens the metrics of a run.
---@param dir string the run directory
---@param options? { step?: integer, tensorboard?: boolean, train?: string[], eval?: string[] } step: the run
---  continues after this step (0: starts); train, eval: further fields of every line of that type
---@return seqrun.Metrics|nil
---@return string? message
---@return string? code
function metrics.open(dir, options)
  options = options or {}
  local step = options.step or 0
  local path = dir .. "/metrics.jsonl"
  local bytes, last, undone = end_of(path, step)
  local file, message, code = train.append(path, bytes)
  if not file then return nil, message, code end
  local self = setmetatable({ file = file, last = last, undone = undone, path = path, fields = {
    train = { metrics.TRAIN, options.train or {} }, eval = { metrics.EVAL, options.eval or {} },
  } }, Metrics)
  if options.tensorboard ~= false then
    self.events, message, code = train.events(dir, sys.time(), step > 0 and step + 1 or -1)
    if not self.events then return nil, message, code end
  end
  return self
end

local function is_finite(x) return x == x and x ~= math.huge and x ~= -math.huge end

---The line to write: all required fields, and the names of non-finite numbers.
local function completed(line, fields)
  local whole, nonfinite = { type = line.type or "train" }, {}
  for key, value in pairs(line) do
    whole[key] = value
    if math.type(value) == "float" and not is_finite(value) then nonfinite[#nonfinite + 1] = key end
  end
  for _, keys in ipairs(fields[whole.type] or {}) do
    for _, key in ipairs(keys) do
      if whole[key] == nil then whole[key] = json.null end
    end
  end
  table.sort(nonfinite)
  if #nonfinite > 0 then whole.nonfinite = nonfinite end
  return whole
end

local function scalars_of(line)
  local scalars, any = {}, false
  for key, value in pairs(line) do
    if type(value) == "number" and not metrics.TOTALS[key] then
      scalars[(line.type or "train") .. "/" .. key], any = value, true
    end
  end
  return any and scalars
end

---The lines up to a step as a resume from it keeps them: see line_file.mark().
---@param step integer
---@return { bytes: integer, hash: string }|nil
function Metrics:mark(step)
  local late = self.late
  return line_file.mark(self.path, late and late.step > step and late.at or self.file:size())
end

---Appends a line; a full disk is a warning, never the end of a run.
---@param line table `type` ("train" by default, "eval" or "event") and its fields
---@return true|nil
---@return string? message
---@return string? code
function Metrics:write(line)
  if line.step and line.step > (self.late or line).step or not self.late then
    self.late = { step = line.step or 0, at = self.file:size() }
  end
  local ok, message, code = self.file:write(json.encode(completed(line, self.fields)) .. "\n")
  local scalars = self.events and line.step and line.type ~= "event" and scalars_of(line)
  if scalars then
    local also, why, kind = self.events:scalars(sys.time(), line.step, scalars)
    if ok and not also then return nil, why, kind end
  end
  return ok, message, code
end

---A text for TensorBoard: the config, the environment.
---@param tag string
---@param text string
---@return true|nil
---@return string? message
---@return string? code
function Metrics:text(tag, text)
  if not self.events then return true end
  return self.events:text(sys.time(), 0, tag, text)
end

---Syncs the file to disk; called before a checkpoint is saved.
---@return true|nil
---@return string? message
---@return string? code
function Metrics:sync() return self.file:sync() end

function Metrics:close()
  self.file:close()
  if self.events then self.events:close() end
end
Metrics.__close = Metrics.close

---The readable lines of a metrics file, and the number of damaged ones.
---@param path string a file, or a run directory
---@return table[]|nil
---@return integer|string damaged lines, or the message
---@return string? code
function metrics.read(path)
  if sys.is_dir(path) then path = path .. "/metrics.jsonl" end
  local file <close>, message, number = io.open(path, "rb")
  if not file then return nil, message, number == line_file.ENOENT and "missing" or "storage" end
  local list, damaged = {}, 0
  for line in line_file.of(file, path) do
    local value = json.decode(line)
    if type(value) == "table" then list[#list + 1] = value else damaged = damaged + 1 end
  end
  return list, damaged
end

return metrics

-- overview.lua - a run in a few figures: its state, its last losses, its speed.

local runs = require("seqrun.history.runs")
local sys = require("seqrun.core.sys")

local overview = {}

---@class seqrun.RunOverview
---@field path string
---@field state "running"|"finished"|"stopped"|"failed"|"unreadable"
---@field reason? string why it stopped or failed, or cannot be read
---@field step integer
---@field steps? integer that it was to make, as far as it said
---@field loss? number of the last line of training
---@field held? { name: string, value: number, accuracy?: number } of the last evaluation: a loss, or a task's metric
---@field real_tokens_per_s? number median of the lines of training
---@field efficiency? number of the last line: real tokens / slots
---@field sequences? integer so far
---@field real_tokens? integer so far
---@field seconds number of training, in all sessions
---@field age? number seconds since its last line
---@field checkpoint? integer step of the newest one
---@field bytes integer of all its checkpoints

---The middle value of a metric in some lines.
---@param rows table[]
---@param key string
---@return number|nil
function overview.median(rows, key)
  local values = {}
  for _, row in ipairs(rows) do
    if type(row[key]) == "number" then values[#values + 1] = row[key] end
  end
  table.sort(values)
  return values[(#values + 1) // 2]
end

---Metrics of tasks that say most, and then losses.
local METRICS = {
  "f1", "matthews", "exact_match", "pearson", "accuracy", "mlm_loss", "label_loss", "loss",
}

---The figure of an evaluation that says most: what the run keeps its best weights by, or the first known one.
---@param line table
---@param best? string save.best of its config
---@return { name: string, value: number, accuracy?: number }|nil # accuracy: beside an F1 of classes
function overview.headline(line, best)
  for _, name in ipairs { best or "none", table.unpack(METRICS) } do
    if type(line[name]) == "number" then
      local beside = name == "f1" and line.f1_macro and type(line.accuracy) == "number" and line.accuracy or nil
      return { name = name, value = line[name], accuracy = beside }
    end
  end
  local others = {}
  for name, value in pairs(line) do
    if name:find("_loss$") and type(value) == "number" then others[#others + 1] = name end
  end
  table.sort(others)
  return others[1] and { name = others[1], value = line[others[1]] } or nil
end

---Whether a smaller value of a metric is better: of losses.
---@param metric string
---@return boolean
function overview.smaller_is_better(metric) return metric:find("loss$") ~= nil end

---Of a run that cannot be read.
---@param dir string
---@param reason string
---@return seqrun.RunOverview
function overview.unreadable(dir, reason)
  return { path = dir, state = "unreadable", reason = reason, step = 0, seconds = 0, bytes = 0 }
end

---@param past seqrun.History
---@return seqrun.RunOverview
function overview.of(past)
  local last, scored = past.train[#past.train] or {}, past.evals[#past.evals] or {}
  local self = {
    path = past.dir, state = past.state, reason = past.reason, step = past.step, steps = past.steps,
    loss = type(last.loss) == "number" and last.loss or nil,
    efficiency = type(last.efficiency) == "number" and last.efficiency or nil,
    held = overview.headline(scored, runs.value(past.config, "save.best")),
    real_tokens_per_s = overview.median(past.train, "real_tokens_per_s"), seconds = past.seconds,
    sequences = last.sequences, real_tokens = last.real_tokens, bytes = 0,
    age = past.updated and math.max(0, sys.time() - past.updated) or nil,
  }
  for _, saved in ipairs(past.checkpoints) do
    self.bytes = self.bytes + saved.bytes
    if not saved.best then self.checkpoint = math.max(self.checkpoint or 0, saved.step) end
  end
  if self.steps and self.steps < self.step then self.steps = nil end
  return self
end

return overview

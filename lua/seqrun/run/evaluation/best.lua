-- best.lua - keeps the best checkpoint by a metric of the evaluations, in RUN/best, and when it stops improving.

local checkpoint = require("seqrun.checkpoint")
local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")
local overview = require("seqrun.history.overview")
local sys = require("seqrun.core.sys")

---@class seqrun.Best
---@field metric string
---@field step? integer of the best evaluation
---@field value? number
---@field worse integer evaluations since then
local Best = {}
Best.__index = Best

---@param folder string of the run
---@param metric string larger is better, except of losses
---@param patience? integer
---@param leads? boolean false: another rank saves
---@return seqrun.Best
local function new(folder, metric, patience, leads)
  return setmetatable({
    folder = folder .. "/best", metric = metric, patience = patience, worse = 0, leads = leads ~= false,
  }, Best)
end

local COUNTERS = { step = true, seconds = true, masked = true }
for _, name in ipairs(require("seqrun.run.loaders").TOTALS) do COUNTERS[name] = true end

---Names of the metrics of a line.
local function metrics_of(line)
  local names = {}
  for name, value in pairs(line) do
    if type(value) == "number" and not COUNTERS[name] then names[#names + 1] = name end
  end
  table.sort(names)
  return table.concat(names, ", ")
end

---A metric of an evaluation; nil if it is undefined there; raises if there is none of this name.
---@param line table
---@param metric string
---@param key string of the config that names it
---@param undefined? table<string, true> metrics that these predictions do not define
---@return number|nil
local function value_of(line, metric, key, undefined)
  local value = line[metric]
  if value ~= value or not value and undefined and undefined[metric] then return nil end
  if not value then
    failure.raise("config", "%s: the evaluation has no metric '%s'; it has %s", key, metric, metrics_of(line))
  end
  return value
end

local function is_better(self, value)
  if not self.value then return true end
  if overview.smaller_is_better(self.metric) then return value < self.value end
  return value > self.value
end

---Takes an evaluation, and saves the model if it is the best so far.  One that could not be saved is not the best: a
---later one, even if worse, takes the place of the last that is there.
---@param line table of metrics
---@param parts seqrun.Saved
---@param undefined? table<string, true> metrics that these predictions do not define: no improvement
---@return string|nil path of a new checkpoint
---@return string? message if it could not be saved
function Best:take(line, parts, undefined)
  local value = value_of(line, self.metric, "save.best", undefined)
  if not value or not is_better(self, value) then
    self.worse = self.worse + 1
    return nil, not value and ("%s is undefined at step %d"):format(self.metric, parts.step) or nil
  end
  self.worse = 0
  if not self.leads then return nil end
  parts.opt, parts.files, parts.state = nil, { ["trainer/config.yaml"] = parts.files["trainer/config.yaml"] }, {}
  local made, why = sys.make_dirs(self.folder)
  if not made then return nil, why end
  local path, message = checkpoint.save(self.folder, parts, { keep = 2 })
  if path then self.step, self.value = parts.step, value else os.remove(self.folder) end -- if nothing is in it
  return path, message
end

---Whether the metric has not improved for `patience` evaluations.
function Best:over() return self.patience ~= nil and self.worse >= self.patience end

---"mlm_loss has not improved in 3 evaluations".
---@return string
function Best:standstill()
  return ("%s has not improved in %s"):format(self.metric, counted(self.worse, "evaluation"))
end

---Whether there is a best evaluation yet.
---@return boolean
function Best:found() return self.step ~= nil end

---Plain values for `restore`.
function Best:state() return { step = self.step, value = self.value, worse = self.worse } end

---Takes over a state.
---@param state table
function Best:set(state) self.step, self.value, self.worse = state.step, state.value, state.worse end

---Removes what a kill has left, and the best checkpoints after a step: the run will make them again.
local function clean(self, step)
  if not sys.is_dir(self.folder) then return end
  failure.must(checkpoint.set_aside(self.folder, step))
  for _, name in ipairs(failure.must(sys.list(self.folder))) do
    if name:find("^set%-aside%-") or name:find("^%.t%a+%-") then sys.remove(self.folder .. "/" .. name) end
  end
end

---Continues from a state, unless its checkpoint is gone: then the next evaluation is the best.
---@return table # the state after it
function Best:restore(state)
  clean(self, state.step or 0)
  if not state.step then return self:state() end
  for _, item in ipairs(failure.there(checkpoint.list(self.folder)) or {}) do
    if item.step == state.step then self:set(state) end
  end
  return self:state()
end

function Best:__tostring() return ("%s (step %d, %s %.4g)"):format(self.folder, self.step, self.metric, self.value) end

return { new = new, value = value_of }

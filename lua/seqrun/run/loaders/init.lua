-- loaders.lua - the loaders of a run by name: the cursor of each, and the counters of all.
--
-- A recipe passes one loader, or several ({ short = a, long = b }) and trains on them in sequence.  Cursors are
-- kept by name; counters and the schedule continue from one loader to the next.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")

---What schedules are functions of: totals including this update, over all loaders of the run.
---@class seqrun.Counters
---@field step number updates
---@field schedule_step number the step for schedules: see seqrun.Update.schedule_step
---@field sequences integer
---@field raw_tokens integer before stages truncate sequences
---@field real_tokens integer
---@field masked_tokens integer
---@field words integer as white space separates them; 0 where the data set has not counted them
---@field layer_tokens integer tokens that the layers have processed, summed over layers; of the micro-batches so far
---@field effective_tokens number layer_tokens divided by the number of layers
---@field flops number model FLOP of these
---@field seconds number seconds of the run when the update was drawn

---Totals that an update adds to when it is drawn, and those that its micro-batches add to when they are trained on.
local DRAWN = { "sequences", "raw_tokens", "real_tokens", "masked_tokens", "words" }
local WORK = { "layer_tokens", "effective_tokens", "flops" }

local TOTALS = table.move(WORK, 1, #WORK, #DRAWN + 1, table.move(DRAWN, 1, #DRAWN, 1, {}))

---@class seqrun.RunLoaders
local Loaders = {}
Loaders.__index = Loaders

---The state of a loader before its first update.
local function start(loader) return { loader = loader, cursor = loader:cursor(), schedule_step = 0 } end

---@param parts { loader?: seqrun.Loader, loaders?: table<string, seqrun.Loader> }
local function new(parts)
  local self = setmetatable({ names = {}, by_name = {}, totals = {} }, Loaders)
  for name, loader in pairs(parts.loaders or { train = parts.loader }) do
    self.names[#self.names + 1] = name
    self.by_name[name] = start(loader)
  end
  table.sort(self.names)
  for _, key in ipairs(TOTALS) do self.totals[key] = 0 end
  return self
end

---The first by name.
---@return seqrun.Loader
function Loaders:first() return self.by_name[self.names[1]].loader end

---@return boolean
function Loaders:several() return #self.names > 1 end

---The name under which run:start was given this loader.
function Loaders:name_of(loader)
  for _, name in ipairs(self.names) do
    if self.by_name[name].loader == loader then return name end
  end
  check.fail("run:steps: this loader was not passed to run:start, which has %s; pass it as in loaders = "
    .. "{ short = a, long = b }", table.concat(self.names, ", "))
end

---The increment of a total by an update.
local function drawn(update, key)
  local from, upto = update.from, update.upto
  if from and upto and from[key] and upto[key] then return upto[key] - from[key] end
  local own = { sequences = update.sequences, masked_tokens = update.masked or 0, words = update.words or 0 }
  return own[key] or update.tokens or 0
end

---The counters with this update, and its `schedule_step` over all loaders.
local function count(self, name, update, step, seconds)
  local counters = { step = step, seconds = seconds, schedule_step = update.schedule_step or update.index + 1 }
  for _, other in ipairs(self.names) do
    if other ~= name then counters.schedule_step = counters.schedule_step + self.by_name[other].schedule_step end
  end
  for _, key in ipairs(DRAWN) do counters[key] = self.totals[key] + drawn(update, key) end
  for _, key in ipairs(WORK) do counters[key] = self.totals[key] end
  return counters
end

---The next update of a loader, with the counters of the run; nil at the end of its data.
---@param name string
---@param step integer its number in the run
---@param seconds number of the run
function Loaders:next(name, step, seconds)
  local at = self.by_name[name]
  local update = at.loader:next()
  if not update then return nil end
  local from, before = update.from, at.upto or at.cursor
  if from and (from.update ~= before.update or from.sequences ~= before.sequences) then
    check.fail("run:steps: the recipe has called next() or seek() of the run's loader, so this is another update than "
      .. "the next; open a loader of your own for other uses")
  end
  local own = update.schedule_step or step
  update.counters = count(self, name, update, step, seconds)
  update.schedule_step = update.counters.schedule_step
  self.drawn = { name = name, schedule_step = own, counters = update.counters, upto = update.upto }
  return update
end

---A micro-batch of the update that was drawn has been processed.
---@param layer_tokens integer
---@param layers integer
---@param flops number
function Loaders:worked(layer_tokens, layers, flops)
  local counters = self.drawn.counters
  counters.layer_tokens, counters.flops = counters.layer_tokens + layer_tokens, counters.flops + flops
  counters.effective_tokens = counters.layer_tokens / layers
end

---The update that was drawn has been trained on: the cursor moves past it.
function Loaders:advance()
  local at = self.by_name[self.drawn.name]
  at.cursor, at.schedule_step, at.upto = at.loader:cursor(), self.drawn.schedule_step, self.drawn.upto
  for _, key in ipairs(TOTALS) do self.totals[key] = self.drawn.counters[key] end
  self.drawn = nil
end

---The update that was drawn is not trained on: the next one is the same.
function Loaders:drop()
  local at = self.by_name[self.drawn.name]
  at.loader:seek(at.cursor)
  self.drawn = nil
end

---Plain values for `restore`.
function Loaders:state()
  local totals = {}
  for key, value in pairs(self.totals) do totals[key] = value end
  if self.words_lost then totals.words = nil end
  local state = { totals = totals, cursors = {}, schedule_steps = {} }
  for _, name in ipairs(self.names) do
    state.cursors[name], state.schedule_steps[name] = self.by_name[name].cursor, self.by_name[name].schedule_step
  end
  return state
end

---Restores the state of a checkpoint.  A loader that is not in it begins at its start.
function Loaders:restore(state)
  for name, cursor in pairs(state.cursors) do
    local at = self.by_name[name]
    if not at then
      failure.raise("config", "the run was trained on a loader named '%s', but the recipe passes only %s to "
        .. "run:start; add it to resume", name, table.concat(self.names, ", "))
    end
    at.cursor, at.schedule_step, at.upto = cursor, state.schedule_steps[name], nil
    at.loader:seek(cursor)
  end
  for _, key in ipairs(TOTALS) do self.totals[key] = state.totals[key] or 0 end
  self.words_lost = state.totals.words == nil
end

---Whether the number of words is known: false after a resume from a checkpoint of a version that did not count them.
---@return boolean
function Loaders:knows_words() return not self.words_lost end

---One of the totals of the updates that have been trained on.
---@param key string
---@return number
function Loaders:total(key) return self.totals[key] end

---Totals of the updates that have been trained on; words only where a data set has counted them.
---@return table<string, number>
function Loaders:counts()
  local counts = {}
  for _, key in ipairs(TOTALS) do counts[key] = self.totals[key] end
  local latest = self.drawn and self.drawn.counters or counts
  if latest.words == 0 or self.words_lost then counts.words = nil end
  return counts
end

---Steps of the schedule that the updates were that have been trained on.
---@return number
function Loaders:schedule_step()
  local sum = 0
  for _, at in pairs(self.by_name) do sum = sum + at.schedule_step end
  return sum
end

---Whether all data sets have counted their words.
---@return boolean
function Loaders:have_words()
  for _, at in pairs(self.by_name) do
    local data = at.loader.data
    if not (data and data:info().train.words) then return false end
  end
  return true
end

---The plans of all loaders, as files of a checkpoint: plan.txt, or plan-NAME.txt if there are several.
---@return table<string, string>
function Loaders:plans()
  local files = {}
  for _, name in ipairs(self.names) do
    local at = self.by_name[name]
    local text = at.loader:plan_text(at.cursor.epoch)
    files[self:several() and ("trainer/plan-%s.txt"):format(name) or "trainer/plan.txt"] = text
  end
  return files
end

return { new = new, TOTALS = TOTALS }

-- curriculum - which examples an update may have, how long they are, and how many.
--
--     local curriculum = sr.curriculum {
--       sequences = 256,
--       length = sr.schedule.new { kind = "length", min = 64, max = 128, total = 1000, quantum = 8 },
--       metrics = { rarity = { metric = "novels.rarity.metric", schedule =
--         sr.schedule.new { kind = "percentile", min = 5, max = 100, total = 1000, quantum = 1 } } },
--     }
--     local loader = sr.must(sr.data.loader { data = corpus, max_len = 128, order = curriculum })
--     print(curriculum:explain(1))
--
-- Examples that all metrics have unlocked are drawn with equal chance; see core/loader/sampler.h.  Longer ones are
-- truncated, or cut into pieces, before they are arranged and masked; see core/loader/window.h.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local merged = require("seqrun.base.merged")
local new_metric = require("seqrun.curriculum.metric")

---@class seqrun.CurriculumOptions
---@field sequences? integer|seqrun.Schedule|seqrun.ValueSchedule examples of an update, or
---@field tokens? integer|seqrun.Schedule|seqrun.ValueSchedule tokens of an update on average, after cutting
---@field length? integer|seqrun.Schedule|seqrun.ValueSchedule maximum length of a sequence
---@field mask? number|seqrun.Schedule|seqrun.ValueSchedule fraction of masked tokens, at most mask.prob of the loader
---@field cut? "truncate"|"pieces" what happens to longer ones: truncate keeps [SEP] at the end and shortens the longer
---segment; pieces makes several sequences of single segments
---@field metrics? table<string, seqrun.CurriculumMetric>
---@field order? "easy"|"reversed"|"random"|"competence" easy: lowest values first; reversed and random are controls
---with the same pace: highest values first, or a random order; competence: lowest first, as competence.lua paces it
---@field examples? "same"|"fresh" over text, same (default): every epoch has the sentence pairs of the first, with new
---masks; fresh: every epoch draws new pairs, and metrics are computed again for them
---@field window? integer updates that are arranged together; by default as many as have 32,768 tokens, at most 16
---@field counters? fun(): table more counters for schedules, such as seconds and effective_tokens

local OPTIONS = {
  sequences = true, tokens = true, length = true, cut = true, metrics = true, order = true, window = true,
  counters = true, examples = true, mask = true,
}

---Tokens of a window, so that rounding rows of its batches up to tiles costs little; and its most updates.
local WINDOW_TOKENS, WINDOW_UPDATES = 32768, 16

local LEAST = 5 -- [CLS] and [SEP] of a pair, and a token of each

---@class seqrun.Curriculum: seqrun.CurriculumOptions
local Curriculum = {}
Curriculum.__index = Curriculum
Curriculum.__name = "seqrun.Curriculum"

---Options that may be schedules.
Curriculum.schedules = { "length", "sequences", "tokens", "mask" }

---The value of a schedule, function or number for these counters.
local function value_of(name, schedule, counters)
  if math.type(schedule) then return schedule end
  local stateful = type(schedule) == "table" and schedule.advance
  local ok, value = pcall(stateful or schedule, stateful and schedule or counters, counters)
  if not ok then
    error(failure.of(value) or ("curriculum.%s: step %d: %s"):format(name, counters.step, tostring(value)), 0)
  end
  if math.type(value) == nil or value ~= value then
    failure.raise("config", "curriculum.%s: the schedule returned %s at step %d; it must be a number", name,
      check.show(value), counters.step)
  end
  return value
end

local function check_schedule(name, x)
  if x ~= nil and not math.type(x) and not check.is_callable(x) then
    check.fail("curriculum.%s must be a number, a schedule or a function of the counters, got %s", name, check.show(x))
  end
end

---@param t seqrun.CurriculumOptions
---@return seqrun.Curriculum
local function new(t)
  check.options("curriculum", t, OPTIONS)
  local self = setmetatable(merged(t), Curriculum)
  if (t.sequences == nil) == (t.tokens == nil) then
    check.fail("curriculum: give either sequences or tokens, the size of an update")
  end
  for _, key in ipairs(Curriculum.schedules) do check_schedule(key, t[key]) end
  self.cut = check.choice("curriculum.cut", t.cut or "truncate", { "truncate", "pieces" })
  self.order = check.choice("curriculum.order", t.order or "easy", { "easy", "reversed", "random", "competence" })
  self.examples = check.choice("curriculum.examples", t.examples or "same", { "same", "fresh" })
  if t.window then check.integer("curriculum.window", t.window, 1, 4096) end
  self.metrics, self.names = {}, {}
  for name, metric in pairs(t.metrics or {}) do
    self.metrics[name] = new_metric(name, metric, self.order)
    check_schedule(name, metric.schedule)
    self.names[#self.names + 1] = name
  end
  table.sort(self.names)
  return self
end

---The bounds of a schedule that says them.
local function bounds(schedule)
  if math.type(schedule) then return schedule, schedule end
  return type(schedule) == "table" and schedule.min or nil, type(schedule) == "table" and schedule.max or nil
end

local function check_length(self, loader)
  local max_len = loader.options.max_len or 128
  local low, high = bounds(self.length)
  if low and low < LEAST then
    failure.raise("config", "curriculum.length: min is %g; a sequence needs at least %d tokens", low, LEAST)
  end
  if high and high > max_len then
    failure.raise("config", "curriculum.length: max is %g, but sequences have at most %d tokens; raise data.max_len",
      high, max_len)
  end
  local pairs_drawn = loader.options.nsp
  if pairs_drawn == nil then pairs_drawn = loader.data:info().kind == "text" end
  if self.cut == "pieces" and pairs_drawn then
    failure.raise("config", "curriculum.cut: pieces are of single segments, but pairs are drawn; use truncate, or nsp: "
      .. "false")
  end
end

---The first update must find enough: an example does not come twice in an update.
local function check_first(self)
  local totals = { update = 0, sequences = 0, raw_tokens = 0, real_tokens = 0 }
  totals.epoch, totals.epoch_update, totals.drawn = self.first, 0, 0
  local window = self:decide(totals)
  self:restore(self.initial)
  return window
end

---Opens metrics and a sampler for the examples of an epoch.
local function open(self, epoch)
  if self.epoch == epoch then return end
  local objects, reversed = {}, {}
  for i, name in ipairs(self.names) do
    self.metrics[name]:bind(self.loader, epoch)
    objects[i], reversed[i] = self.metrics[name]:core(), self.order == "reversed"
  end
  local before = self.sampler
  self.sampler = failure.must(self.loader.core:sampler(objects, reversed, epoch))
  self.epoch = epoch
  if before then before:close() end -- windows have their own draws
end

local function check_fresh(self, loader)
  if self.examples == "same" then return end
  if loader.data:info().kind ~= "text" then
    failure.raise("config", "curriculum.examples: fresh draws new sentence pairs from text, but %s has fixed examples; "
      .. "leave it out", loader.data:info().path)
  end
  for _, name in ipairs(self.names) do self.metrics[name]:check_fresh() end
end

---Opens metrics for the examples of a loader.  The loader calls it.
---@param loader seqrun.Loader
function Curriculum:bind(loader)
  check_length(self, loader)
  check_fresh(self, loader)
  self.max_len = loader.options.max_len or 128
  self.loader, self.epoch, self.first = loader, nil, loader.options.epoch or 0
  open(self, self.first)
  self.initial = self:state()
  self.start = check_first(self)
  self.start.tokens = self.sampler:tokens(self.start.max_len, self.start.pieces) / self.start.unlocked
end

---What an update of the start has: sequences, and packs that their tokens would fill.
---@return { sequences: integer, packs: integer }
function Curriculum:first_update()
  local each = self.start.each
  return { sequences = each, packs = math.max(1, math.ceil(each * self.start.tokens / self.max_len)) }
end

---A sampler of an epoch that has unlocked these prefixes.
---@param prefixes integer[]
---@param epoch? integer the first by default
function Curriculum:unlock(prefixes, epoch)
  open(self, epoch or self.first)
  failure.must(self.sampler:unlock(prefixes))
  return self.sampler
end

---The counters that schedules see for the update after these totals.
local function counters_of(self, totals)
  local counters = self.counters and self.counters() or {}
  local step = totals.update + 1
  local own = { step = step, schedule_step = step, sequences = totals.sequences, raw_tokens = totals.raw_tokens,
    real_tokens = totals.real_tokens }
  return setmetatable(own, { __index = counters })
end

---The maximum length, 0 if nothing is cut.
local function length_at(self, counters)
  if not self.length then return 0 end
  local length = math.floor(value_of("length", self.length, counters))
  if length < LEAST then
    failure.raise("config", "curriculum.length: the length of step %d is %d; a sequence needs at least %d tokens",
      counters.step, length, LEAST)
  end
  return length < self.max_len and length or 0
end

---Whether each metric alone unlocks n examples.
local function each_unlocks(prefixes, n)
  for _, prefix in ipairs(prefixes) do
    if prefix < n then return false end
  end
  return #prefixes > 1
end

---What would unlock enough.
local function way_out(self, n, prefixes)
  if each_unlocks(prefixes, n) then
    return "each alone unlocks enough, but an update takes only what all have unlocked; raise min, or lower "
      .. "batch.sequences"
  end
  local list = {}
  for i, name in ipairs(self.names) do list[i] = ("curriculum.%s: %s"):format(name, self.metrics[name]:way_out(n)) end
  return #list > 0 and table.concat(list, "; ")
    or "lower curriculum.sequences (in a run batch.sequences, batch.ramp or batch.tokens)"
end

---How many examples an update has.
local function each_of(self, counters, window)
  local unlocked, each = window.unlocked
  if self.sequences then
    each = math.floor(value_of("sequences", self.sequences, counters))
  else
    local all = self.sampler:tokens(window.max_len, window.pieces)
    each = all > 0 and math.floor(value_of("tokens", self.tokens, counters) * unlocked / all + 0.5) or 1
  end
  each = math.max(1, each)
  if each <= unlocked then return each end
  local found = {}
  for i, name in ipairs(self.names) do found[i] = ("%s %g"):format(name, window.difficulties[name]) end
  failure.raise("config", "curriculum: step %d unlocks %d of %d examples%s, fewer than the %d of an update; %s",
    counters.step, unlocked, self.sampler:examples(), #found > 0 and (" (%s)"):format(table.concat(found, ", ")) or "",
    each, way_out(self, each, window.prefixes))
end

---How many updates are arranged together.
local function updates_of(self, window)
  local wanted = self.window
  if not wanted then
    local tokens = window.each * self.sampler:tokens(window.max_len, window.pieces) / window.unlocked
    wanted = math.max(1, math.min(WINDOW_UPDATES, math.ceil(WINDOW_TOKENS / tokens)))
  end
  if self.examples == "fresh" then
    wanted = math.max(1, math.min(wanted, (self.sampler:examples() - window.drawn) // window.each))
  end
  return math.min(wanted, self.sampler:run(window.update - window.epoch_update, window.each))
end

---The window after these totals, from the examples of their epoch.
local function window_of(self, totals)
  local counters = counters_of(self, totals)
  local window = merged({ from = 0, difficulties = {}, prefixes = {}, pieces = self.cut == "pieces" }, totals)
  open(self, window.epoch)
  for i, name in ipairs(self.names) do
    local metric = self.metrics[name]
    window.difficulties[name] = value_of(name, metric.schedule, counters)
    window.prefixes[i] = metric:prefix(window.difficulties[name])
  end
  window.max_len = length_at(self, counters)
  window.mask = self.mask and value_of("mask", self.mask, counters)
  window.unlocked = self:unlock(window.prefixes, window.epoch):unlocked()
  window.each = each_of(self, counters, window)
  return window
end

---The same totals at the beginning of the next epoch.
local function next_epoch(totals)
  return merged(totals, { epoch = totals.epoch + 1, epoch_update = totals.update, drawn = 0 })
end

---Decides the window after these totals.
---@param totals table
---@return seqrun.Window
function Curriculum:decide(totals)
  local window = window_of(self, totals)
  local over = window.drawn > 0 and window.drawn + window.each > self.sampler:examples()
  if self.examples == "fresh" and over then window = window_of(self, next_epoch(totals)) end
  window.updates = updates_of(self, window)
  return window
end

---The schedules with a state, by name.
local function stateful(self)
  local list = {}
  for _, key in ipairs(Curriculum.schedules) do list[key] = self[key] end
  for name, metric in pairs(self.metrics) do list["metric " .. name] = metric.schedule end
  for name, schedule in pairs(list) do
    if type(schedule) ~= "table" or not schedule.state then list[name] = nil end
  end
  return list
end

---The state of all schedules, as plain values.
---@return table<string, table>
function Curriculum:state()
  local state = {}
  for name, schedule in pairs(stateful(self)) do state[name] = schedule:state() end
  return state
end

---@param state table<string, table>
function Curriculum:restore(state)
  for name, schedule in pairs(stateful(self)) do
    if state[name] then schedule:restore(state[name]) end
  end
end

---What the update of a step has, if every update before it had as many: difficulties, how many examples each metric
---unlocks and all of them, length and size.
---@param step integer from 1
---@return seqrun.CurriculumStep
function Curriculum:explain(step)
  if not self.sampler then check.fail("curriculum:explain: open a loader with this curriculum first") end
  return require("seqrun.curriculum.explain")(self, check.integer("curriculum:explain: step", step, 1))
end

return new

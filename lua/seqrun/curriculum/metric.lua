-- metric.lua - how many examples a metric's difficulty unlocks, from the first of its order on.

local check = require("seqrun.base.check")
local competence = require("seqrun.curriculum.competence")
local failure = require("seqrun.base.failure")
local measured = require("seqrun.curriculum.measured")
local Of = require("seqrun.data.metric")

---@class seqrun.CurriculumMetric
---@field metric? string|seqrun.Metric|number[]|fun(uid: integer, tokens: integer, epoch: integer): number a metric
---file or object, a list of values by uid + 1, or a function; nothing only if the order is random.  A missing file
---is made if that is quick (measured.lua); "rarity" without a path is beside the data set
---@field schedule number|seqrun.Schedule|seqrun.ValueSchedule its difficulty
---@field kind? "value"|"percentile"|"fraction" value: examples of at most this value; percentile (default): this many
---of `max` equal parts of the order; fraction: this part of it
---@field max? integer of percentiles, 100

local OPTIONS = { metric = true, schedule = true, kind = true, max = true }

local Metric = {}
Metric.__index = Metric

---@param name string
---@param t seqrun.CurriculumMetric
---@param order "easy"|"reversed"|"random"|"competence"
local function new(name, t, order)
  local what = "curriculum." .. name
  check.options(what, t, OPTIONS)
  if t.schedule == nil then check.fail("%s: schedule is missing", what) end
  if t.metric == nil and order ~= "random" then check.fail("%s: metric is missing; seqrun analyze writes one", what) end
  local self = { name = name, what = what, source = t.metric, schedule = t.schedule, order = order }
  self.kind = check.choice(what .. ": kind", t.kind or "percentile", { "value", "percentile", "fraction" })
  if t.max and self.kind ~= "percentile" then
    check.fail("%s: max is of percentiles, but kind is %s", what, self.kind)
  end
  if self.kind == "value" and t.metric == nil then check.fail("%s: kind value needs a metric", what) end
  if self.kind == "percentile" then self.max = check.integer(what .. ": max", t.max or 100, 1) end
  if order == "competence" then self.schedule = competence(what, t.schedule) end
  return setmetatable(self, Metric)
end

---The values of a Lua function.
local function values_of(self, loader, epoch)
  local values = {}
  for i, tokens in ipairs(loader:lengths(epoch)) do
    local value = self.source(i - 1, tokens, epoch)
    if math.type(value) == nil or value ~= value then
      failure.raise("data", "%s: the metric of uid %d is %s; it must be a number", self.what, i - 1, check.show(value))
    end
    values[i] = value
  end
  return values
end

local function open(self, loader, epoch)
  local source = self.source
  if type(source) == "function" then source = values_of(self, loader, epoch) end
  if type(source) == "string" then source = measured.first(loader, self.name, source) end
  if getmetatable(source) ~= Of then source = Of.new(source) end
  if source.about.accumulated then
    failure.raise("data", "%s is accumulated over all sequences; a curriculum needs a value for each", source:name())
  end
  if epoch == (loader.options.epoch or 0) or type(self.source) == "function" then return source:check(loader, epoch) end
  return measured.again(loader, source, epoch)
end

---Opens it for the examples of an epoch.
function Metric:bind(loader, epoch)
  if self.source ~= nil then
    local ok, problem = pcall(open, self, loader, epoch)
    if not ok then
      failure.raise(type(problem) == "table" and problem.code or "data", "%s: %s", self.what, tostring(problem))
    end
    self.opened = problem
  end
  self.count = loader:examples(epoch)
  if self.kind == "percentile" and self.count < self.max then
    failure.raise("config", "%s: %d examples are fewer than %d percentiles; lower max, or use kind fraction",
      self.what, self.count, self.max)
  end
end

---Refuses a metric that cannot be computed again for the examples of another epoch.
function Metric:check_fresh()
  local source = self.source
  if source == nil or type(source) == "function" then return end
  local name = type(source) == "string" and measured.name_of(self.name, source)
    or getmetatable(source) == Of and source:name()
  if name and measured.is_quick(name) then return end
  failure.raise("config", "%s: examples are drawn again in each epoch, but this metric belongs to those of one; use "
    .. "%s, or a function of (uid, tokens, epoch), or set curriculum.examples: same", self.what,
    table.concat(measured.QUICK, ", "))
end

---What a sampler takes; false is a random order.
function Metric:core() return self.order ~= "random" and self.opened.core or false end

---The number of examples that a difficulty unlocks.
---@param difficulty number
---@return integer
function Metric:prefix(difficulty)
  if self.kind == "value" then return self.opened:upto(difficulty) end
  local most = self.kind == "percentile" and self.max or 1
  if difficulty >= most then return self.count end
  local each = self.kind == "percentile" and self.count // self.max or self.count
  return math.max(0, math.floor(each * difficulty))
end

---What would unlock at least n examples.
---@param n integer
---@return string
function Metric:way_out(n)
  if self.kind ~= "value" then
    local most = self.kind == "percentile" and self.max or 1
    return ("%s %g is the lowest that unlocks %d"):format(self.kind, self.kind == "percentile"
      and math.min(most, math.ceil(n / (self.count // self.max))) or n / self.count, n)
  end
  if n > self.count then return ("the data set has only %d examples"):format(self.count) end
  return ("values begin at %g, and %g is the lowest that unlocks %d"):format(self.opened:least(),
    failure.must(self.opened.core:at(n - 1)), n)
end

return new

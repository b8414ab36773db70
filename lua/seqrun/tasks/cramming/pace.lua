-- pace.lua - how many sequences each update of a run has, and what its rate is: functions of its number alone.
--
-- The published recipe lets batch and rate follow the clock.  An update takes as long as it has sequences, so time is
-- counted in sequences here, and a resume is exact:
--
--   p         sequences of the updates before, over those of the whole run: 0 to 1
--   batch     `full` p / ramp, rounded up to a multiple of `unit`, until it is `full` at p = ramp
--   rate      peak min(START + p (1 - START) / TURN, (1 - p) / (1 - TURN)), which is peak at p = TURN
--
-- Source: Geiping and Goldstein 2022, "Cramming: Training a Language Model on a Single GPU in One Day",
-- arXiv:2212.14034.

local START, TURN = 0.25, 0.75

---@class seqrun.Pace
---@field sizes integer[] sequences of each update, from 1
---@field before integer[] those of the updates before it
---@field total integer sequences of all updates
---@field peak number
local Pace = {}
Pace.__index = Pace

---Sequences of an update at p.
local function size_at(p, t)
  if t.ramp == 0 or p >= t.ramp then return t.full end
  return math.max(t.unit, math.min(t.full, math.ceil(t.full * p / t.ramp / t.unit) * t.unit))
end

---Updates in which a budget is spent, of which each takes `cost(size)`; at most `most`.
local function updates_of(budget, cost, t, most)
  local spent, count = 0, 0
  while spent < budget and count < most do
    spent = spent + cost(size_at(spent / budget, t))
    count = count + 1
  end
  return count
end

local function itself(size) return size end

---The fewest sequences with which a run has this many updates.
local function sequences_of(updates, t)
  local low, high = 1, updates * t.full
  while low < high do
    local middle = (low + high) // 2
    if updates_of(middle, itself, t, updates) >= updates then high = middle else low = middle + 1 end
  end
  return low
end

---The pace of a number of updates.
---@param updates integer
---@param t { full: integer, unit: integer, ramp: number, peak: number } unit: of the smallest update
---@return seqrun.Pace
function Pace.new(updates, t)
  local self, sum, budget = setmetatable({ sizes = {}, before = {}, peak = t.peak }, Pace), 0, sequences_of(updates, t)
  for i = 1, updates do
    self.sizes[i], self.before[i] = size_at(sum / budget, t), sum
    sum = sum + self.sizes[i]
  end
  self.total = sum
  return self
end

---The most updates that fit into a time, at least 1.
---@param seconds number
---@param speed { sequence: number, update: number } seconds of each
---@param t { full: integer, unit: integer, ramp: number }
---@return integer
function Pace.fit(seconds, speed, t)
  local function cost(size) return size * speed.sequence + speed.update end
  return math.max(1, updates_of(seconds, cost, t, math.huge))
end

---Seconds of all updates.
---@param speed { sequence: number, update: number }
---@return number
function Pace:seconds(speed) return self.total * speed.sequence + #self.sizes * speed.update end

---The rate of an update, by its number or by the counters of the run.
---@param at number|seqrun.Counters
---@return number
function Pace:rate(at)
  local step = math.floor(type(at) == "table" and at.step or at)
  local p = (self.before[step] or self.total) / self.total
  return self.peak * math.min(START + p * (1 - START) / TURN, (1 - p) / (1 - TURN))
end

return Pace

-- verify - steps that are computed twice and compared to the bit, against silent corruption (key verify.every).
--
-- A checked step is two iterations of the recipe's loop with the same update.  The state before it is copied; after the
-- first computation the copy and the state change places, so that the second begins where the first did, with
-- other threads and with the shares of the update in the other order.  Nothing of this changes a bit.

local difference = require("seqrun.run.verify.difference")
local failure = require("seqrun.base.failure")
local hashes = require("seqrun.run.verify.hashes")
local merged = require("seqrun.base.merged")
local playback = require("seqrun.run.verify.playback")
local sys = require("seqrun.core.sys")
local randomness = require("seqrun.tensor.randomness")
local tensor = require("seqrun.tensor")
local train = require("seqrun.core.train")

---@class seqrun.Verify
---@field options { every: integer, action: "stop"|"retry"|"continue" }
---@field optimizer seqrun.Optimizer
---@field ranks seqrun.RunRanks
---@field screen seqrun.Screen
---@field records seqrun.Records
---@field folder string
---@field playing? seqrun.Playback recorded steps are compared instead
---@field twin? seqrun.core.Twin
---@field before? seqrun.core.Twin verify.action=retry: the state before the step
---@field rest? table<string, string> hashes of the state after the last step
---@field current? table the step that is being checked
local Verify = {}
Verify.__index = Verify

---@param t { options: table, optimizer: table, ranks: seqrun.RunRanks, screen: seqrun.Screen, folder: string }
---@return seqrun.Verify
local function new(t)
  local self = setmetatable(t, Verify)
  self.playing = playback.current()
  if (t.options.every > 0 or self.playing) and not t.optimizer.observe then
    failure.raise("config", "verify.every: the optimizer is not one of sr.optim, so its state cannot be copied; set "
      .. "verify.every=0")
  end
  return self
end

---Whether a step is checked.
---@param step integer
---@return boolean
function Verify:due(step)
  if self.playing then return self.playing.wanted[step] == true end
  return self.options.every > 0 and step % self.options.every == 0
end

-- ---- what a computation finds ------------------------------------------------------------------

---Notes hashes of gradients from now on: of each share of this rank where there are several, and of their sum.
local function observe(self, noted)
  local optimizer, several = self.optimizer, self.ranks:several()
  optimizer:observe(function(what)
    if what == "sum" then
      noted.gradient = hashes.chunks(optimizer, "gradient")
    elseif several then
      noted.shares[#noted.shares + 1] = train.state_hashes(optimizer.core, "gradient")
    end
  end)
end

---Begins a computation of the current step.
local function begin_computation(self)
  local now = self.current
  now.noted = { losses = {}, shares = {}, gradient = "" }
  observe(self, now.noted)
end

---A micro-batch of a checked step.
---@param batch seqrun.Batch
---@param losses seqrun.Losses
function Verify:tally(batch, losses)
  local now = self.current
  if now and losses.total then now.noted.losses[batch.number] = losses.total:detach():item() end
end

---Whether the step is being computed once more, so that nothing of it is to be counted.
---@return boolean
function Verify:is_again() return self.current ~= nil and self.current.number > 1 end

-- ---- threads ---------------------------------------------------------------------------------

---One thread more than before, so that work is divided otherwise.
local function divide_otherwise(self)
  if tensor.device() ~= "cpu" then return end
  local threads = tensor.threads()
  self.current.threads = self.current.threads or threads
  tensor.use(tensor.device(), { threads = math.min(1024, threads + 1) })
end

local function divide_as_before(self)
  local threads = self.current.threads
  if threads then tensor.use(tensor.device(), { threads = threads }) end
end

-- ---- differences -----------------------------------------------------------------------------

---Saves the state and its twin for inspection; where that fails, a warning says so.
local function save_states(self, step)
  local done, problem = pcall(function()
    difference.save(self.folder, step, "second", self.optimizer, self.ranks)
    self.twin:swap()
    local saved, message = pcall(difference.save, self.folder, step, "first", self.optimizer, self.ranks)
    self.twin:swap()
    if not saved then error(message, 0) end
  end)
  if not done then self.screen:warn("the states of step %d could not be saved: %s", step, tostring(problem)) end
end

---Writes the line of a difference and says it.
local function tell(self, step, found)
  local text = difference.text(found, step)
  self.screen:warn("%s; the memory, processor or device may be faulty", text)
  self.records:write {
    type = "verify", step = step, equal = false, what = found.what, tensor = found.tensor, rank = found.rank,
    element = found.element, elements = found.elements, at_rest = found.at_rest,
  }
  return text
end

local function stop(self, step, text)
  self.records:sync()
  failure.raise("device", "%s; step %d is not saved; its states are in %s/differences; resume from the checkpoint "
    .. "before, on another machine if this one is in doubt", text, step, self.folder)
end

---Compares the state with that after the last step.
local function check_rest(self, step)
  local before = self.rest
  self.rest = nil
  if not before then return end
  local found = difference.at_rest(self.optimizer, self.ranks, before, hashes.state(self.optimizer))
  if not found then return end
  local text = tell(self, step, found)
  if self.options.action == "continue" then return end
  pcall(difference.save, self.folder, step - 1, "at-rest", self.optimizer, self.ranks)
  stop(self, step, text) -- there is no copy of what was
end

-- ---- the loop --------------------------------------------------------------------------------

---A twin of the state.
local function new_twin(self)
  local twin, message = train.twin(self.optimizer.core)
  if not twin then failure.raise("memory", "verify.every: no room for a copy of the state: %s", message) end
  return twin
end

---An update begins, whose step may be a checked one.
---@param step integer
---@param update seqrun.Update
function Verify:begin(step, update)
  if not self:due(step) then return end
  check_rest(self, step)
  self.optimizer:read_results()
  update.late = self.ranks:several() -- gradients are sent when all are there, so that each rank's can be noted
  self.current = {
    step = step, update = update, number = 1, counters = merged(update.counters), began = sys.now(),
    computations = {}, random = randomness.state(),
  }
  begin_computation(self)
  if self.playing then return end
  self.twin = self.twin or new_twin(self)
  self.twin:take()
  if self.options.action ~= "retry" then return end
  self.before = self.before or new_twin(self)
  self.before:take()
end

---Goes back to before the step: the state and `twin` change places.
local function go_back(self, twin)
  local now, last = self.current, randomness.state()
  now.draws = now.draws or last.lua ~= now.random.lua or last.draws ~= now.random.draws -- by the recipe, in this order
  twin:swap()
  randomness.restore(now.random)
  self.optimizer.serial = self.optimizer.serial - 1
  for key in pairs(now.update.counters or {}) do now.update.counters[key] = now.counters[key] end
  now.number = now.number + 1
  now.update.again, now.update.backwards = true, now.number == 2 and not self.ranks:several() and not now.draws
  divide_otherwise(self)
  begin_computation(self)
  return now.update
end

---The line of metrics of what was computed last.
local function line_of(self, noted)
  local state = hashes.state(self.optimizer)
  noted.state, noted.losses = state, hashes.losses(self.ranks, noted.losses)
  local line = hashes.line(self.optimizer, self.ranks, noted)
  line.step = self.current.step
  return line, state
end

---The step has been checked.
local function leave(self)
  divide_as_before(self)
  self.optimizer:observe(nil)
  self.current.update.again = nil
  self.current = nil
end

---Two computations are equal.
local function settle(self, noted, how)
  local line, state = line_of(self, noted)
  local now = self.current
  line.equal, line.seconds, line.retried = true, sys.now() - now.began, how
  leave(self)
  self.records:write(line)
  self.rest = self:due(now.step + 1) and state or nil
end

---Judges the second computation.
---@return seqrun.Update|nil to be computed a third time
local function judge(self)
  local now = self.current
  local a, b = now.computations[1], now.computations[2]
  local found = difference.of_steps(self.optimizer, self.ranks, self.twin, a, b)
  if not found then return settle(self, b) end
  save_states(self, now.step)
  local text = tell(self, now.step, found)
  if self.options.action == "continue" then return leave(self) end
  if self.options.action == "retry" then return go_back(self, self.before) end
  leave(self)
  stop(self, now.step, text)
end

---Judges the third computation: the one of the two before that it equals was right.  The twin has the first, `before`
---the second.
local function judge_third(self)
  local now, third = self.current, self.current.computations[3]
  for i, twin in ipairs { self.twin, self.before } do
    if not difference.of_steps(self.optimizer, self.ranks, twin, now.computations[i], third) then
      self.screen:warn("step %d: the third computation equals the %s; training continues with it", now.step,
        i == 1 and "first" or "second")
      return settle(self, third, i)
    end
  end
  leave(self)
  stop(self, now.step, ("step %d computed three times differs each time"):format(now.step))
end

---The loop's body has computed the current step: the update to compute it with once more; nil if it is done.
---@return seqrun.Update|nil
function Verify:again()
  local now = self.current
  if not now then return nil end
  self.optimizer:read_results()
  now.computations[now.number] = now.noted
  if self.playing then
    local line = line_of(self, now.noted)
    leave(self)
    self.playing:take(line, self.optimizer.params)
    return nil
  end
  if now.number == 1 then
    if not self.ranks:several() and sys.caught() then return leave(self) end -- a signal: the check is given up
    return go_back(self, self.twin)
  end
  if now.number == 2 then return judge(self) end
  return judge_third(self)
end

---A step has been done: notes its state if the next step is a checked one.
---@param step integer
function Verify:ended(step)
  if self.playing or self.rest or not self:due(step + 1) then return end
  self.rest = hashes.state(self.optimizer)
end

---The state was changed between steps, as by an attached prompt.
function Verify:forget() self.rest = nil end

return { new = new }

-- loop.lua - what the loop of a recipe did in an update: which micro-batches it was given, which took part in a
-- backward pass and were tallied, and its step.
--
-- What can never be meant is an error at the recipe's line; what may be meant is a warning, once a run, that names the
-- call which says so.  Nothing here reads a tensor: a backward pass shows in the version of the gradients.

local check = require("seqrun.base.check")
local shares = require("seqrun.data.loader.shares")
local sys = require("seqrun.core.sys")
local training = require("seqrun.tensor.training")

---@class seqrun.LoopBook
---@field model table
---@field optimizer table
---@field screen seqrun.Screen
---@field every integer log.every
---@field frozen? integer of the encoder at run:start
---@field steps integer updates of this process
---@field warned table<string, boolean>
---@field logged? boolean the recipe calls run:log
---@field tallies? boolean the recipe calls run:tally
---@field update? seqrun.Update the one under way; with the fields that `begin` sets
local Book = {}
Book.__index = Book

local function frozen_of(model) return type(model.encoder) == "table" and model.encoder.frozen or nil end

---@param t { model: table, optimizer: table, screen: seqrun.Screen, every: integer }
---@return seqrun.LoopBook
local function new(t)
  local self = setmetatable(t, Book)
  self.frozen, self.steps, self.warned = frozen_of(t.model), 0, {}
  t.model.params.book = self
  return self
end

---The run is closed.
function Book:close()
  if self.model.params.book == self then self.model.params.book = nil end
end

local function warn(self, kind, format, ...)
  if self.warned[kind] then return end
  self.warned[kind] = true
  self.screen:warn(format, ...)
end

---The line of the recipe that has called the library: "base.lua:12".
local function place() return (sys.where():gsub(": $", "")) end

---What is set at run:start and stays so, and what is set for an evaluation.
local function check_model(self, step)
  local frozen = frozen_of(self.model)
  if frozen ~= self.frozen then
    check.fail("run:steps: encoder.frozen is %s, but was %s at run:start; the optimizer's groups are those of then, so "
      .. "weight decay would move frozen layers: set encoder.frozen before the optimizer's options", tostring(frozen),
      tostring(self.frozen))
  end
  if self.model.training == 0 then check.fail("run:steps: model.training is 0, which Lua takes for true; set false") end
  if self.model.training == false then
    warn(self, "training", "step %d: model.training is false, so training has no dropout; set it to true, and evaluate "
      .. "with `local quiet <close> = model:evaluating()`; keys such as model.hidden_dropout_prob=0 say that no "
      .. "dropout is meant", step)
  end
end

-- ---- micro-batches -----------------------------------------------------------------------------

---An update begins, or is computed once more.
---@param update seqrun.Update
---@param step integer
function Book:begin(update, step)
  check_model(self, step)
  self.model.params:look()
  self.update, update.book, self.step = update, self, step
  self.stores, self.serial, self.steppers = {}, self.optimizer.serial, {}
  self.given, self.order, self.trained, self.tallied, self.skipped = {}, {}, {}, {}, {}
  self.latest, self.rest = nil, nil
end

---Gradients that are new are those of the latest micro-batch.
---@param list? seqrun.Params[] the stores of the loop, in addition to that of the model
function Book:note(list)
  local found = self.model.params:look()
  for _, params in ipairs(list or self.stores) do found = params:look() or found end
  if found and self.latest then self.trained[self.latest] = true end
end

local function give(self, number)
  self.latest = number
  if not self.given[number] then self.order[#self.order + 1] = number end
  self.given[number] = true
end

---The loop over update:batches() gets a micro-batch; nil: it has had all.
---@param batch? seqrun.Batch
---@param list seqrun.Params[]
function Book:give(batch, list)
  self.stores = list
  if batch then give(self, batch.number) else self.rest = "given" end
end

---What skip() says.
---@param batch? seqrun.Batch
function Book:skip(batch)
  if batch then self.skipped[batch.number] = true else self.rest = "skipped" end
end

---The losses of a micro-batch are passed to run:tally.
---@param batch seqrun.Batch
---@param losses seqrun.Losses
function Book:tally(batch, losses)
  local update, core, of = self.update, type(batch) == "table" and rawget(batch, "core"), losses[0] or batch
  if not update or not core or not update.core then return end
  if core ~= update.core then
    check.fail("run:tally: this micro-batch is not of the update that run:steps has given for step %d; train on the "
      .. "batches of that one, `for batch in update:batches() do`, and draw nothing from the run's loader", self.step)
  end
  if of.core == core and of.number ~= batch.number then
    check.fail("run:tally: the losses are those of micro-batch %d, but the batch is number %d; call model:losses(batch)"
      .. " with the one that the loop over update:batches() gives", of.number, batch.number)
  end
  if self.tallied[batch.number] then
    check.fail("run:tally: micro-batch %d of step %d was tallied already, and counts once", batch.number, self.step)
  end
  if not self.given[batch.number] then give(self, batch.number) end -- update:batch(i)
  self:note()
  self.tallied[batch.number], self.tallies = true, true
end

-- ---- the step ----------------------------------------------------------------------------------

---The place where another store was made that has got gradients; nil if there is none.
local function other_store(own)
  for _, params in ipairs(training.live_stores()) do
    if params ~= own then params:look() end
    if params ~= own and params.reached then return (params.made:gsub(": $", "")) end
  end
end

---Fails without a gradient to work with.
local function check_reached(self, params)
  if params.reached then return end
  local several = self.update.ranks ~= nil -- then this rank may have no micro-batch, or have skipped its own
  if several and (self.rest == "given" and #self.order == 0 or self.rest == "skipped" or next(self.skipped)) then
    return
  end
  local _, first = next(self.steppers)
  local made, other = (params.made:gsub(": $", "")), other_store(params)
  local why = "no backward pass has reached its parameters in this update; call losses.total:backward() for each "
    .. "micro-batch"
  if params.cleared then
    why = ("zero_grad() has dropped the gradients of this update (%s); leave it out, since a step clears them"):format(
      params.cleared:gsub(": $", ""))
  elseif first then
    why = ("another optimizer's step has cleared the gradients (%s); give that one zero_grad = false"):format(first)
  elseif other then
    why = ("no gradient has reached its parameters, those made at %s; the backward passes have reached those made at "
      .. "%s: use one model in run:start, in the optimizer and in the loop"):format(made, other)
  end
  check.fail("optimizer:step: %s", why)
end

---The optimizer is about to make its step.
---@param optimizer seqrun.Optimizer
function Book:check_step(optimizer)
  if not self.update then return end
  self:note()
  local first, params = self.steppers[optimizer], optimizer.params
  if first then
    check.fail("optimizer:step: step %d was made already (%s), and an update has one step; call it once, behind the "
      .. "loop over update:batches()", self.step, first)
  end
  check_reached(self, params)
  if params.kept and not next(self.steppers) then
    warn(self, "kept", "step %d: the gradients of the step before are still there, as zero_grad = false has left them, "
      .. "and count once more; leave it out, since micro-batches of an update add up without it, or call "
      .. "params:zero_grad(); zero_grad = \"keep\" says that it is meant", self.step)
  end
  self.steppers[optimizer] = place()
end

---Whether the update that is under way has had its step.
---@return boolean
function Book:has_stepped() return self.optimizer.serial == nil or self.optimizer.serial ~= self.serial end

---Warns of micro-batches that the loop has left out.
local function check_batches(self, update)
  local lost, silent = 0, 0
  for _, number in ipairs(self.order) do
    local meant = self.skipped[number]
    if not meant and not self.trained[number] then lost = lost + 1 end
    if not meant and self.trained[number] and not self.tallied[number] then silent = silent + 1 end
  end
  local left = self.rest and 0 or #shares.numbers(update) - #self.order
  local all = #self.order + left
  if lost + left > 0 then
    warn(self, "batches", "step %d: %d of %d micro-batches took part in no backward pass%s, so the update lacks their "
      .. "gradients; call losses.total:backward() for each, inside the loop over update:batches(); "
      .. "update:skip(batch), and update:skip() for those that remain, say that it is meant", self.step, lost + left,
      all, left > 0 and " (the loop was left before its end)" or "")
  elseif silent > 0 and self.tallies then
    warn(self, "tallies", "step %d: %d of %d micro-batches were trained on, but not passed to run:tally, so the "
      .. "metrics lack their losses; update:skip(batch) says that it is meant", self.step, silent, all)
  end
end

---The update that is under way has ended.
---@param last integer step of the run
function Book:leave(last)
  local update = self.update
  if not update then return end
  self.update, update.book = nil, nil
  self.steps = self.steps + 1
  if next(self.steppers) then check_batches(self, update) end
  if not self:has_stepped() and self.rest ~= "skipped" then
    warn(self, "step", "step %d: the loop has not called optimizer:step, so nothing was trained, and the gradients are "
      .. "added to the next update's; batch.sequences is the size of an update, and micro-batches add up without more; "
      .. "update:skip() says that it is meant", self.step)
  end
  if not self.logged and (self.steps >= self.every or self.step >= last) then
    warn(self, "log", "the loop has not called run:log(step, optimizer) in %d steps, so there are no metrics, and "
      .. "nobody is told of losses that are NaN; call it after optimizer:step; run:log(false) says that it is meant",
      self.steps)
  end
end

return { new = new }

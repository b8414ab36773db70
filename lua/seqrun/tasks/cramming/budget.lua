-- budget.lua - a time becomes a number of updates: how long a sequence and an update take is measured before the run.

local config = require("seqrun.config")
local failure = require("seqrun.base.failure")
local median = require("seqrun.base.median")
local optim = require("seqrun.optim")
local Pace = require("seqrun.tasks.cramming.pace")
local parts = require("seqrun.tasks.shared.parts")
local data = require("seqrun.data")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local budget = {}

---Micro-batches that are timed, after the first, unless they take too long.
local TIMES, SECONDS = 8, 10

---Share of the time that is left to evaluation, checkpoints and what else the machine does.
local RESERVE = 0.05

---Seconds of a call, with all that the device has still to do.
local function timed(fn)
  tensor.synchronize()
  local began = sys.now()
  fn()
  tensor.synchronize()
  return sys.now() - began
end

---Seconds of the forward and backward pass of a sequence, in a micro-batch of this many packs.
local function of_sequence(model, loader, packs)
  local count, list, began, uids = loader:examples(), {}, sys.now(), {}
  local each = math.min(count, math.max(1, math.floor(packs * loader:plan().factor)))
  for i = 1, each do uids[i] = (i - 1) * count // each end -- short ones and long ones
  for i = 0, TIMES do
    local update = loader:update_of(uids)
    local seconds = timed(function()
      for batch in update:batches() do
        local scope <close> = tensor.scope()
        model:losses(batch).total:backward()
      end
    end)
    if i > 0 then list[#list + 1] = seconds / each end
    if i > 0 and sys.now() - began > SECONDS then break end
  end
  return median(list)
end

---Seconds of a step of the optimizer, which changes no weight: its rate is 0.
local function of_step(cfg, model)
  local options = parts.plain_optimizer_options(cfg)
  options.world, options.shard, options.average = nil, nil, nil
  local optimizer, list = optim[cfg.optimizer.name](model.params, options), {}
  for i = 0, 3 do
    local seconds = timed(function() optimizer:step { rate = 0, clip = cfg.optimizer.clip } end)
    if i > 0 then list[i] = seconds end
  end
  return median(list)
end

---How long things take on this machine, with this many ranks.
---@param cfg table
---@param model seqrun.Bert its weights are drawn again by the caller
---@param options table of a loader of the training part
---@param ranks integer
---@return { sequence: number, update: number }
function budget.measure(cfg, model, options, ranks)
  local own = {}
  for key, value in pairs(options) do own[key] = value end
  own.prefetch, own.rank, own.ranks, own.plan = 0, nil, nil, nil
  own.by, own.sequences = "sequences", cfg.batch.micro_packs
  local loader <close> = failure.must(data.loader(own))
  local speed = { sequence = of_sequence(model, loader, cfg.batch.micro_packs) / ranks, update = of_step(cfg, model) }
  model.params:zero_grad()
  return speed
end

---The updates of the run that is resumed; nil without any.
---@param run seqrun.Run
---@return integer?
function budget.saved(run)
  local path = run.folder .. "/config.yaml"
  if not run.request.resume or not sys.exists(path) then return nil end
  local before = failure.valid(config.load { schema = run.loaded.schema, file = path })
  return before and before.values.rate.total
end

---The updates that fit into a number of hours.
---@param hours number
---@param speed { sequence: number, update: number }
---@param t { full: integer, unit: integer, ramp: number }
---@return integer
function budget.updates(hours, speed, t)
  local seconds = hours * 3600 * (1 - RESERVE)
  local first = t.unit * speed.sequence + speed.update
  if seconds < 10 * first then
    failure.raise("config", "cramming.hours=%g is %.3g seconds, and the smallest update takes %.3g: fewer than 10 "
      .. "updates are of no use; give more time, or a smaller model", hours, hours * 3600, first)
  end
  return Pace.fit(seconds, speed, t)
end

return budget

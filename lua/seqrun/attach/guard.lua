-- guard.lua - what an expression of an attached prompt must leave as it was, and whether it changed the weights.

local core = require("seqrun.core.tensor")
local ops = require("seqrun.core.ops")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local Guard = {}
Guard.__index = Guard

---Versions of what the optimizer and the ops read; every write changes them.
local function versions(model)
  local name = model.params.names and model.params:names()[1] -- all parameters are in one store
  if not name then return "" end
  local leaf = model.params:get(name)
  local gradient = leaf:grad()
  return ("%d %d %d"):format(model.params:master(name):version(), leaf:version(), gradient and gradient:version() or 0)
end

---Takes note of the state of a run, and begins not to record gradients; `columns` is the width of the prompt.
---@param run seqrun.Run
---@param random integer[] random state of the session: seed, draws
---@param columns integer
---@return table
function Guard.enter(run, random, columns)
  local self = setmetatable({
    recording = core.recording(), model = run.model, training = run.model.training, device = tensor.device(),
    threads = tensor.threads(), versions = versions(run.model), session = random, seed = 0, draws = 0, left = false,
  }, Guard)
  -- from here on nothing can fail
  self.seed, self.draws = ops.random_state(random[1], random[2])
  core.set_recording(false)
  sys.assume_columns(columns)
  return self
end

---Restores it, once.
---@return boolean # whether the weights or their gradients were written to
function Guard:leave()
  if self.left then return false end
  self.left = true
  sys.assume_columns()
  self.session[1], self.session[2] = ops.random_state(self.seed, self.draws)
  core.set_recording(self.recording)
  self.model.training = self.training
  if tensor.device() ~= self.device or tensor.threads() ~= self.threads then
    tensor.use(self.device, { threads = self.threads })
  end
  return versions(self.model) ~= self.versions
end

Guard.__close = Guard.leave

return Guard

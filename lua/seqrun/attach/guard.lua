-- guard.lua - what an expression of an attached prompt must leave as it was, and whether it changed the weights.

local core = require("seqrun.core.tensor")
local ops = require("seqrun.core.ops")
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

---Takes note of the state of a run, and begins not to record gradients.
---@param run seqrun.Run
---@param random integer[] random state of the session: seed, draws
---@return table
function Guard.enter(run, random)
  return setmetatable({
    recording = core.set_recording(false), model = run.model, training = run.model.training,
    device = tensor.device(), threads = tensor.threads(),
    versions = versions(run.model), random = table.pack(ops.random_state(random[1], random[2])),
  }, Guard)
end

---Restores it.  Not left to __close handlers, which an interrupt may interrupt.
---@param random integer[] takes the random state of the session
---@return boolean # whether the weights or their gradients were written to
function Guard:leave(random)
  random[1], random[2] = ops.random_state(self.random[1], self.random[2])
  core.set_recording(self.recording)
  self.model.training = self.training
  if tensor.device() ~= self.device or tensor.threads() ~= self.threads then
    tensor.use(self.device, { threads = self.threads })
  end
  return versions(self.model) ~= self.versions
end

return Guard

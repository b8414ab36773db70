-- model.lua - a model of parts with one parameter store, for sr.optim, sr.run and checkpoints.
--
--     local model = sr.nn.model { generator, discriminator, { { name = "score.weight", shape = { 1, 64 } } } }
--     function model:losses(batch) ... end
--
-- A part has `specs` and may have flops(batch); a plain list of specs is a part as well.  The store is in
-- the order of the parts.

local check = require("seqrun.base.check")
local counted = require("seqrun.base.format").counted
local params = require("seqrun.tensor.params")
local tensor = require("seqrun.tensor")
local training = require("seqrun.tensor.training")

---@class seqrun.Model
---@field params seqrun.Params
---@field parts table[]
---@field training boolean dropout is applied only while this is true
---@field recompute boolean recompute the activations of each layer in the backward pass
local Model = {}
Model.__index = Model
require("seqrun.base.strict").seal(Model, "the model", { "params", "parts", "training", "recompute" }, true)

---@param parts table[]
---@param options? { precision?: "f32"|"bf16", rename?: fun(name: string): string } precision: of sr.params.new; rename:
---  names of tensors in files to those of parameters
---@return seqrun.Model
function Model.new(parts, options)
  if type(parts) ~= "table" or #parts == 0 then
    check.fail("nn.model: expected a list of parts, such as { sr.nn.encoder(config), "
      .. "{ { name = 'w', shape = { 9 } } } }")
  end
  local all, seen = {}, {}
  for i, part in ipairs(parts) do
    local specs = part.specs or part
    if type(part) ~= "table" or type(specs) ~= "table" or part.specs == nil and #part == 0 then
      check.fail("nn.model: part %d has no specs; expected an encoder, a head or { { name =, shape = } }", i)
    end
    if rawget(part, "model") then check.fail("nn.model: part %d already belongs to another model", i) end
    for _, spec in ipairs(specs) do -- parts may share one
      if not seen[spec] then all[#all + 1], seen[spec] = spec, true end
    end
  end
  local self = setmetatable({ parts = parts, training = true, recompute = false }, Model)
  self.params = params.new(all, options and { precision = options.precision })
  self.params.rename = options and options.rename
  for _, part in ipairs(parts) do
    if part.specs then part.model, part.params = self, self.params end
  end
  return self
end

---Writes the initial values, a function of the seed and each parameter's name.
---@param seed integer
---@return seqrun.Model
function Model:initialise(seed)
  local run = training.current()
  if run then run.before_weights(self) end
  self.params:initialise(seed)
  for _, part in ipairs(self.parts) do
    if part.initialised then part:initialised() end
  end
  return self
end

---For an evaluation of one's own, no dropout and no gradients while it is open: `local quiet <close> =
---model:evaluating()`.
---@return { close: fun(self) }
function Model:evaluating()
  local before, no_grad = self.training, tensor.no_grad()
  self.training = false
  local function close()
    if not no_grad.closed then self.training = before end
    no_grad:close()
  end
  return setmetatable({ close = close }, { __close = close })
end

---FLOP of forward and backward of a batch, for MFU.
---@param batch seqrun.Batch
---@return number
function Model:flops(batch)
  local sum = 0
  for _, part in ipairs(self.parts) do
    if part.flops then sum = sum + part:flops(batch) end
  end
  return sum
end

---Baselines of its losses: the losses of trivial predictors on the same labels.
---@param corpus seqrun.Corpus
---@return seqrun.Baseline[]
function Model:baselines(corpus)
  local list = {}
  for _, part in ipairs(self.parts) do
    if part.baseline then list[#list + 1] = part:baseline(corpus) end
  end
  return list
end

---@class seqrun.Baseline
---@field loss string the loss to compare with
---@field metric string its key in metrics
---@field title string "unigram model"
---@field score fun(batch: seqrun.Batch): number?, integer? sum over labels and their number; nil without labels

function Model:__tostring()
  return ("model of %s, %d parameters"):format(counted(#self.parts, "part"), self.params:count())
end

return Model

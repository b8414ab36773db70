-- task.lua - what the heads of fine-tuning tasks share: options, a linear layer with dropout before it, names.
--
--     sr.nn.bert { heads = { sr.nn.heads.classify { labels = { "no", "yes" } } } }
--
-- Names and shapes of parameters are those of Transformers' task models.

local check = require("seqrun.base.check")
local ops = require("seqrun.tensor.ops")
local part = require("seqrun.nn.model.part")
local specs = require("seqrun.nn.model.specs")

local task = {}

---@class seqrun.HeadOptions
---@field labels? string[] names of the classes, in the order of their ids, from 0
---@field outputs? integer number of classes or values, where there are no names
---@field name? string of its target and its loss; each kind has a default
---@field prefix? string of parameter names, for a second head of the same kind; default ""
---@field dropout? number before the linear layer; default classifier_dropout or hidden_dropout_prob of the config

---@class seqrun.TaskHead: seqrun.Head
---@field kind string name of its task
---@field labels? string[]
---@field outputs integer
---@field prefix string
---@field architecture string the class of Transformers with this head
---@field problem_type? string of Transformers
---@field number? integer position among the heads of a model, which gives each its own dropout
---@field logits fun(self: table, hidden: seqrun.States, target: seqrun.Target, batch: seqrun.Batch): seqrun.Tensor

local OPTIONS = { labels = true, outputs = true, name = true, prefix = true, dropout = true }

---Number of outputs: fixed by the kind, as many as there are labels, or given.
local function outputs_of(kind, options)
  local what = "nn.heads." .. kind.kind
  if kind.outputs then return kind.outputs end
  local count = options.labels and #options.labels or options.outputs or kind.default_outputs
  if math.type(count) ~= "integer" or count < 1 then
    check.fail("%s: give labels = { names } or outputs = the number of %s", what, kind.counts)
  end
  if options.labels and options.outputs and options.outputs ~= count then
    check.fail("%s: %d labels, but outputs = %s; leave out outputs", what, count, tostring(options.outputs))
  end
  if kind.fewest and count < kind.fewest then
    check.fail("%s: %d %s; expected at least %d", what, count, kind.counts, kind.fewest)
  end
  return count
end

---@param encoder seqrun.Encoder
---@param given? number
local function dropout_of(encoder, given)
  local own = encoder.config.classifier_dropout
  return given or type(own) == "number" and own or encoder.config.hidden_dropout_prob
end

local function make(Class, kind, options, encoder)
  local prefix = options.prefix or ""
  local self = {
    name = options.name or kind.name, encoder = encoder, prefix = prefix, labels = options.labels,
    outputs = outputs_of(kind, options), layer = prefix .. kind.layer,
    dropout = kind.dropout ~= false and dropout_of(encoder, options.dropout) or 0,
  }
  local list, add = specs.new(encoder.config.initializer_range)
  add.linear(self.layer, self.outputs, encoder.config.hidden_size)
  self.specs = list
  return setmetatable(self, Class)
end

---What `heads` of sr.nn.bert takes: called with the encoder, it makes the head.
local Maker = {}
Maker.__index = Maker
function Maker:__call(encoder) return make(self.class, self.kind, self.options, encoder) end

---A class of heads.
---
---  kind, name         of the task, and of its target by default
---  layer              name of the linear layer
---  pooler             it reads the pooled state of [CLS]
---  outputs            their number, if it is fixed; else `counts` says what they are, `fewest` how many at least
---  architecture, problem_type  of Transformers
---  loss, logits, flops_of, predict, ...   methods that replace those below
---@param kind table
---@return table class with `new(options)`, the constructor
function task.class(kind)
  local Class = part.class()
  for key, value in pairs(task.methods) do Class[key] = value end
  for key, value in pairs(kind) do
    if type(value) == "function" then Class[key] = value end
  end
  Class.kind, Class.pooler, Class.counts = kind.kind, kind.pooler, kind.counts
  Class.architecture, Class.problem_type = kind.architecture, kind.problem_type

  ---A head of a task, for the option `heads` of sr.nn.bert; it reads the target of its name.
  ---@param options? seqrun.HeadOptions
  ---@return table # makes the head, when the encoder is there
  function Class.new(options)
    options = check.options("nn.heads." .. kind.kind, options or {}, OPTIONS)
    outputs_of(kind, options)
    return setmetatable({ class = Class, kind = kind, options = options, pooler = kind.pooler }, Maker)
  end
  return Class
end

task.methods = {}

---The linear layer over the pooled state or the rows of a target, with dropout while training.
---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Tensor # (M, outputs)
function task.methods:project(hidden, target)
  local x = self.pooler and hidden:pooled(target) or hidden:rows(target)
  if self.training and self.dropout > 0 then
    x = hidden:drop(x, target, { p = self.dropout, site = "head", layer = self.number })
  end
  return self:linear(x, self.layer)
end

---Logits in the dtype of losses.
---@return seqrun.Tensor
function task.methods:real_logits(hidden, target, batch)
  return self:logits(hidden, target, batch):to(target.weights:dtype())
end

task.methods.logits = task.methods.project

---Mean cross entropy over the items of the update.
---@param hidden seqrun.States
---@param target seqrun.Target
---@param batch seqrun.Batch
---@return seqrun.Loss
function task.methods:loss(hidden, target, batch)
  local total, items, correct = ops.cross_entropy(self:logits(hidden, target, batch), target.labels, target.weights)
  return { total = total, items = items, correct = correct }
end

---@param count integer rows
---@return number
function task.methods:flops_of(_, count)
  local h = self.encoder.config.hidden_size
  return 6 * ((self.pooler and h * h or 0) + self.outputs * h) * count
end

return task

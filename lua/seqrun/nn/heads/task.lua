-- task.lua - what the heads of fine-tuning tasks share: options, a linear layer with dropout before it, names.
--
--     sr.nn.bert { heads = { sr.nn.heads.classify { labels = { "no", "yes" } } } }
--
-- Names and shapes of parameters are those of Transformers' task models; the layers before the last one are the
-- family's.

local check = require("seqrun.base.check")
local costs = require("seqrun.nn.heads.costs")
local crf = require("seqrun.nn.heads.crf")
local merged = require("seqrun.base.merged")
local ops = require("seqrun.tensor.ops")
local part = require("seqrun.nn.model.part")
local specs = require("seqrun.nn.model.specs")
local transform = require("seqrun.nn.heads.transform")

local task = {}

---@class seqrun.HeadOptions
---@field labels? string[] names of the classes, in the order of their ids, from 0
---@field outputs? integer number of classes or values, where there are no names
---@field name? string of its target and its loss; each kind has a default
---@field prefix? string of parameter names, for a second head of the same kind; default ""
---@field dropout? number before the linear layer; default classifier_dropout or hidden_dropout_prob of the config
---@field scheme? string of tokens: of its tags, "iob2", "iobes", "bilou", "bmes" or "none"; default: as the labels show
---@field crf? boolean of tokens: with a linear-chain CRF over the words of a sentence

---@class seqrun.TaskHead: seqrun.Head
---@field kind string name of its task
---@field labels? string[]
---@field outputs integer
---@field prefix string
---@field architecture string the class of Transformers with this head
---@field problem_type? string of Transformers
---@field costs? seqrun.ClassCosts of training, where they are not the plain ones
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

---What a family has between the encoder's output and the last layer of a head.
---@class seqrun.HeadPlace
---@field pooler? boolean the pooled first token, rather than the first token
---@field pool? "mean"|"late" of sequences: the mean of the hidden states, or of what the last layer says of each token
---@field dense? string a transform before the last layer: nn/heads/transform.lua
---@field drop_before? number dropout before the transform
---@field drop? number dropout before the last layer
---@field layer string name of the last layer
---@field std? number of its initial weights

---By what a head reads: `sequence`, `choice`, `tokens`, `spans`; where a family lacks one, there is no such class of
---Transformers.
---@class seqrun.FamilyHeads
---@field mlm? seqrun.MaskedLMNames
---@field nsp? string name of the layer
---@field causal? seqrun.MaskedLMNames
---@field replaced? seqrun.HeadPlace
---@field sequence seqrun.HeadPlace
---@field choice? seqrun.HeadPlace
---@field tokens seqrun.HeadPlace
---@field spans? seqrun.HeadPlace

---The place of a head in a family: as in its class of Transformers, or, without one, as in such a class.
---@param heads seqrun.FamilyHeads
---@param kind table
---@return seqrun.HeadPlace
---@return boolean theirs whether there is such a class
local function place_of(heads, kind)
  local wanted = kind.place or (kind.pooler and "sequence" or "tokens")
  if heads[wanted] then return heads[wanted], true end
  return wanted == "choice" and heads.sequence or { layer = "qa_outputs" }, false
end

local function make(Class, kind, options, encoder)
  local prefix, family = options.prefix or "", encoder.family
  if family.causal then
    check.fail("nn.heads.%s: the family %s is causal: its tokens see those before them only; choose a bidirectional "
      .. "one, such as bert", kind.kind, family.name)
  end
  local place, theirs = place_of(encoder.heads, kind)
  local self = {
    name = options.name or kind.name, encoder = encoder, prefix = prefix, labels = options.labels, place = place,
    outputs = outputs_of(kind, options), layer = prefix .. (kind.layer or place.layer),
    pooler = place.pooler or false,
    dropout = kind.dropout ~= false and (options.dropout or place.drop) or 0,
    architecture = theirs and kind.architecture and family.class .. "For" .. kind.architecture or nil,
  }
  for name in pairs(kind.kept or {}) do self[name] = options[name] end
  local list, add = specs.new(encoder.design.std)
  if place.dense then transform.add(list, encoder, place, prefix, encoder.design.hidden) end
  add.linear(self.layer, self.outputs, encoder.design.hidden, true, place.std)
  if self.crf then
    crf.add(add, prefix, self.outputs)
    self.loss = crf.loss
  end
  self.specs, encoder.whole = list, encoder.whole or place.pool ~= nil
  return setmetatable(self, Class)
end

---What `heads` of sr.nn.bert takes: called with the encoder, it makes the head.
local Maker = {}
Maker.__index = Maker
function Maker:__call(encoder) return make(self.class, self.kind, self.options, encoder) end

---Whether it reads the pooled state.
---@param heads seqrun.FamilyHeads
---@return boolean
function Maker:wants_pooler(heads) return place_of(heads, self.kind).pooler or false end

---A class of heads.
---
---  kind, name         of the task, and of its target by default
---  place              what it reads: "sequence", "choice", "tokens" or "spans"; the family knows what comes before
---  layer              name of the last layer, if it is another than the family's
---  pooler             without `place`: it reads sequences, not tokens
---  kept               further options of `new`, which become fields and are kept in config.json: { NAME = what older
---                     checkpoints mean, a text or boolean }
---  outputs            their number, if it is fixed; else `counts` says what they are, `fewest` how many at least
---  architecture, problem_type  of Transformers; "TokenClassification" means BertForTokenClassification, ...
---  loss, logits, flops_of, predict, ...   methods that replace those below
---@param kind table
---@return table class with `new(options)`, the constructor
function task.class(kind)
  local Class = part.class()
  for key, value in pairs(task.methods) do Class[key] = value end
  for key, value in pairs(kind) do
    if type(value) == "function" then Class[key] = value end
  end
  Class.kind, Class.counts, Class.problem_type, Class.kept = kind.kind, kind.counts, kind.problem_type, kind.kept

  ---A head of a task, for the option `heads` of sr.nn.bert; it reads the target of its name.
  ---@param options? seqrun.HeadOptions
  ---@return table # makes the head, when the encoder is there
  function Class.new(options)
    options = check.options("nn.heads." .. kind.kind, options or {}, merged(OPTIONS, kind.kept))
    outputs_of(kind, options)
    return setmetatable({ class = Class, kind = kind, options = options }, Maker)
  end
  return Class
end

---Added to the number of a head in the keys of its first dropout: numbers of heads are smaller.
local FIRST = 2048

task.methods = {}

---Dropout at one of the two places of a head, while training.
local function drop(self, x, hidden, target, p, first)
  if not self.training or (p or 0) == 0 then return x end
  return hidden:drop(x, target, { p = p, site = "head", layer = self.number + (first and FIRST or 0) })
end

---The last layer over rows of hidden states, with what the family has before it.
---@param x seqrun.Tensor (M, H) rows of hidden.x, or all
---@param hidden seqrun.States
---@param target? seqrun.Target whose rows they are
---@return seqrun.Tensor # (M, outputs)
function task.methods:over(x, hidden, target)
  local place = self.place
  if place.dense then
    x = transform.apply(self.encoder, drop(self, x, hidden, target, place.drop_before, true), place, self.prefix)
  end
  return self:linear(drop(self, x, hidden, target, self.dropout), self.layer)
end

---The same for the rows of a target, or the sequences that they begin.
---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Tensor # (M, outputs)
function task.methods:project(hidden, target)
  local pool = self.place.pool
  if pool == "late" then return hidden:mean(self:over(hidden.x, hidden), target) end
  if pool == "mean" then return self:over(hidden:mean(hidden.x, target), hidden, target) end
  return self:over(self.pooler and hidden:pooled(target) or hidden:rows(target), hidden, target)
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
  if self.costs and self.training then return costs.loss(self:logits(hidden, target, batch), target, self.costs) end
  local total, items, correct = ops.cross_entropy(self:logits(hidden, target, batch), target.labels, target.weights)
  return { total = total, items = items, correct = correct }
end

---@param count integer rows
---@return number
function task.methods:flops_of(_, count)
  local h = self.encoder.design.hidden
  return 6 * (((self.pooler or self.place.dense) and h * h or 0) + self.outputs * h) * count
end

return task

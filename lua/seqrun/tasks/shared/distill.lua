-- distill.lua - staged distillation: a student, such as one with fewer layers and no experts, learns the predictions
-- of a teacher beside the masked tokens, and in the last stage the masked tokens alone.
--
--     seqrun recipes/pretrain.lua distill.from=runs/experts/step-000001000 model.num_hidden_layers=2
--
-- The loss is tau^2 KL(teacher || student) of the distributions over the vocabulary at each masked token, both at the
-- temperature tau.
--
-- Source: Hinton et al. 2015, arXiv:1503.02531; stages, Rajbhandari et al. 2022, arXiv:2201.05596.

local c = require("seqrun.config")
local checkpoint = require("seqrun.checkpoint")
local failure = require("seqrun.base.failure")
local ops = require("seqrun.tensor.ops")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local distill = {}

---Rows of a chunk whose logits exist together, of both models.
local ROWS = 512

distill.key = { "distill", c.map {
  { "from", c.path { optional = true,
    doc = "checkpoint whose predictions of masked tokens the model learns; none: no distillation" } },
  { "weight", c.number { default = 1, min = 0, doc = "factor of the distillation loss; masked LM has 1" } },
  { "temperature", c.number { default = 1, min = 0.01, doc = "divisor of the logits of both models" } },
  { "upto", c.number { default = 0.8, min = 0,
    doc = "last step with the teacher, or value of the counter rate.by; up to 1: a fraction of the run" } },
} }

---Its rule for config.load.
distill.rule = {
  keys = { "distill.from", "distill.upto", "distill.weight" },
  check = function(from, upto, weight)
    if not from or upto > 0 and weight > 0 then return nil end
    return ("distill.%s is 0, so the teacher would have no effect; leave out distill.from, or raise it"):format(
      upto > 0 and "weight" or "upto")
  end,
}

---@class seqrun.Teacher
---@field model? seqrun.Bert nil while it has no part
---@field load fun(): seqrun.Bert
---@field student seqrun.Bert
---@field weight number
---@field temperature number
---@field upto number last step, or value of the counter
---@field by string
---@field active boolean
local Teacher = {}
Teacher.__index = Teacher

local function refuse(text, ...) failure.raise("config", "distill.from: " .. text, ...) end

---Fails unless the teacher reads what the student reads, and predicts the same tokens.
local function check_fit(cfg, facts, student, corpus)
  if not student.head or not student:head("mlm") then
    refuse("the model has no masked-LM head, which learns from the teacher")
  end
  if not facts.family_heads.mlm or facts.kind then refuse("%s has no masked-LM head to learn from", facts.path) end
  local theirs, message, code = checkpoint.vocabulary.read(facts.path)
  if message then failure.raise(code, "distill.from: %s", message) end
  local difference = theirs and checkpoint.vocabulary.difference(theirs, corpus:tokenizer())
  if difference then
    refuse("the tokenizer of %s differs from that of the data set %s (%s); a teacher must have that of its student",
      facts.path, corpus:info().path, difference)
  end
  if facts.design.vocabulary ~= student.design.vocabulary then
    refuse("%s has %d tokens, the model %d", facts.path, facts.design.vocabulary, student.design.vocabulary)
  end
  if facts.design.longest < cfg.data.max_len then
    refuse("%s reads at most %d tokens, but data.max_len is %d", facts.path, facts.design.longest, cfg.data.max_len)
  end
end

---The teacher of a config; nil if it has none.
---@param cfg table
---@param student seqrun.Bert
---@param corpus seqrun.Corpus
---@param steps? number of the run, or the end of its counter rate.by, of which distill.upto of at most 1 is a fraction
---@return seqrun.Teacher|nil
function distill.new(cfg, student, corpus, steps)
  local group = cfg.distill
  if not group or not group.from then return nil end
  local facts, message, code = checkpoint.pretrained(group.from)
  if not facts then failure.raise(code, "distill.from: %s", message) end
  if sys.real_path(facts.path) ~= sys.real_path(group.from) then
    refuse("%s is a run, whose newest checkpoint may be another one when this run is resumed; name the checkpoint, "
      .. "as in distill.from=%s", group.from, facts.path)
  end
  check_fit(cfg, facts, student, corpus)
  if group.upto <= 1 and not steps then
    failure.raise("config", "distill.upto is %g, a fraction of the run, but its steps are not known; give steps",
      group.upto)
  end
  local function load()
    local model, problem, kind = require("seqrun.checkpoint.bert")(group.from, {
      heads = { "mlm" }, precision = cfg.precision,
    })
    if not model then failure.raise(kind, "distill.from: %s", problem) end
    local lost = kind.missing
    if #lost > 0 then
      refuse("%s has no tensor '%s'%s; a teacher needs its masked-LM head", facts.path, lost[1].name,
        #lost > 1 and (" and %d others"):format(#lost - 1) or "")
    end
    model.training = false
    return model
  end
  local self = setmetatable({
    model = load(), load = load, student = student, weight = group.weight, temperature = group.temperature,
    upto = group.upto <= 1 and group.upto * steps or group.upto, active = true,
    by = (cfg.rate or {}).by or "step",
  }, Teacher)
  student.encoder.teacher = self
  return self
end

---Whether the teacher has a part in this update; its memory is free from the first one without it.
---@param update seqrun.Update
function Teacher:before(update)
  self.active = update.counters[self.by] <= self.upto
  if self.active == (self.model ~= nil) then return end
  self.model = self.active and self.load() or nil
  collectgarbage()
end

---What the teacher's decoder reads at the masked tokens.
local function taught(self, batch)
  local quiet <close> = tensor.no_grad()
  local head, target = self.model:head("mlm"), batch.targets.mlm
  return head:transform(self.model.encoder:states(batch):rows(target)):detach()
end

---KL(teacher || student) of some rows: the weighted sum, and each row's.
local function divergence(self, head, rows, theirs, weights)
  local tau, real = self.temperature, weights:dtype()
  local function log_p(logits) return (logits:to(real) / tau):log_softmax(2) end
  local wanted
  do
    local quiet <close> = tensor.no_grad()
    wanted = log_p(self.model:head("mlm"):decode(theirs)):detach()
  end
  local each = (wanted:exp() * (wanted - log_p(head:decode(rows)))):sum(2)
  return (each * weights):sum() * (tau * tau), each:detach()
end

---The distillation loss of a micro-batch, in chunks whose logits are computed again in the backward pass.
local function loss_of(self, head, x, theirs, target)
  local total, items = nil, {}
  for first = 1, x:size(1), ROWS do
    local count = math.min(ROWS, x:size(1) - first + 1)
    local weights, own = target.weights:narrow(1, first, count), theirs:narrow(1, first, count)
    local sum, each = ops.recompute(function(rows) return divergence(self, head, rows, own, weights) end,
      x:narrow(1, first, count))
    total, items[#items + 1] = total and total + sum or sum, each
  end
  return { total = total, items = tensor.cat(items), count = x:size(1), factor = self.weight }
end

---The losses of the student, with that of the distillation while the teacher is active.
---@param batch seqrun.Batch
---@return seqrun.Losses
function Teacher:losses(batch)
  local target = batch.targets.mlm
  if not self.active or not target or target.rows:size(1) == 0 then return self.student:losses(batch) end
  local theirs, added = taught(self, batch), nil -- before the student, whose encoding the batch is to remember
  local all = self.student:losses(batch, function(head, hidden, own)
    if head.name == "mlm" then added = loss_of(self, head, head:transform(hidden:rows(own)), theirs, own) end
  end)
  all:add("distill", added)
  return all
end

return distill

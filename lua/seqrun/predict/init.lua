-- predict - labels items with the head of a model, in their order.
--
--     local label = sr.must(sr.predict.open("runs/classify"))
--     for result in label:each { { text = "a fine day" } } do print(result.label, result.probability) end

local batches = require("seqrun.predict.batches")
local check = require("seqrun.base.check")
local kinds = require("seqrun.base.kinds")
local opening = require("seqrun.predict.opening")
local pretrained = require("seqrun.checkpoint.bert")
local run_config = require("seqrun.predict.run_config")
local stream = require("seqrun.predict.stream")
local texts = require("seqrun.predict.texts")

local predict = {}

---@class seqrun.Predictor
---@field model seqrun.Bert
---@field head seqrun.TaskHead
---@field counts table `cut`: items that were truncated
local Predictor = {}
Predictor.__index = Predictor
require("seqrun.base.strict").seal(Predictor, "the predictor", {
  "model", "head", "kind", "counts", "tokenizer", "max_len", "rows", "stride", "null_threshold", "longest_answer",
  "nbest",
})

local OPTIONS = {
  tokenizer = true, max_len = true, head = true, rows = true, stride = true, null_threshold = true,
  longest_answer = true, nbest = true,
}
local OPEN_OPTIONS = { precision = true, average = true }
for key in pairs(OPTIONS) do OPEN_OPTIONS[key] = true end

---Checks the options of the function `what`.
local function check_options(what, t, known)
  check.options(what, t, known)
  local function integer(key, least, most)
    if t[key] ~= nil then check.integer(("%s: %s"):format(what, key), t[key], least, most) end
  end
  integer("max_len", opening.LEAST, opening.MOST)
  for _, key in ipairs { "rows", "stride", "longest_answer", "nbest" } do integer(key, 1) end
  local threshold = t.null_threshold
  if threshold ~= nil and (math.type(threshold) == nil or threshold ~= threshold) then
    check.fail("%s: null_threshold must be a number, got %s", what, check.show(threshold))
  end
  for key, kind in pairs { head = "string", average = "boolean" } do
    if t[key] ~= nil then check.value(("%s: %s"):format(what, key), t[key], kind) end
  end
end

---A predictor of a model.
---
---  rows            tokens of a batch, 2048
---  stride, null_threshold, longest_answer   of question answering: 128, 0 and 30
---  nbest           of question answering: number of answers to list, with their probabilities
---@param model seqrun.Bert
---@param t { tokenizer: seqrun.text.Tokenizer, max_len: integer, head?: string, rows?: integer,
---  stride?: integer, null_threshold?: number, longest_answer?: integer, nbest?: integer }
---  head: by name; default the first that has a task
---@return seqrun.Predictor
function predict.new(model, t)
  check_options("predict.new", t, OPTIONS)
  local positions = model.design.longest
  if t.max_len and t.max_len > positions then
    check.fail("predict.new: the model has %d position embeddings, fewer than max_len %d", positions, t.max_len)
  end
  local self = setmetatable({ model = model, counts = {} }, Predictor)
  for key, value in pairs(t) do self[key] = value end
  self.head = nil
  for _, head in ipairs(model.heads) do
    if kinds.get(head.kind) and (not t.head or head.name == t.head) then self.head = self.head or head end
  end
  if not self.head then check.fail("predict.new: the model has no head that predicts; it needs one of sr.nn.heads") end
  self.kind = kinds.get(self.head.kind).prediction
  model.training = false
  return self
end

---Opens a run, a checkpoint or a Hugging Face directory.
---@param path string
---@param options? table of predict.new; and precision, and average: with the moving average of the weights
---@return seqrun.Predictor|nil
---@return string? message
---@return string? code
function predict.open(path, options)
  check_options("predict.open", options or {}, OPEN_OPTIONS)
  local own = {}
  for key, value in pairs(options or {}) do own[key] = value end
  local precision, average = own.precision, own.average
  own.precision, own.average = nil, nil
  if precision ~= nil then check.choice("predict.open: precision", precision, { "f32", "bf16" }) end
  local model, facts, report = pretrained(path, { precision = precision, average = average })
  if not model then return nil, facts, report end
  if not facts.kind then return nil, ("%s: has no task head; fine-tune it first"):format(path), "data" end
  local problem = opening.incomplete(facts, report)
  if problem then return nil, problem, "data" end
  local message, code
  own.max_len, message, code = opening.max_len(facts, own.max_len, run_config.max_len(facts))
  if not own.max_len then return nil, message, code end
  if not own.tokenizer then own.tokenizer, message, code = opening.tokenizer(facts) end
  if not own.tokenizer then return nil, message, code end
  return predict.new(model, own)
end

---The logits of a batch as nested lists, in the order of its sequences.
local function logits_of(self, batch)
  local target = batches.target(batch, self.kind.reads)
  batch.targets[self.head.name], batch.targets.group = target, target
  local hidden = self.model.encoder:states(batch)
  return self.head:logits(hidden, target, batch):to("f32"):totable()
end

---What is predicted for each item, in their order: the result, and the item.  Items have `text` (and `pair`), `words`,
---`question` and `context`, or `text` and `choices`, as the head needs.
---@param items table[]|fun(): table?
---@return fun(): table?, table?
function Predictor:each(items)
  local kind = self.kind
  local frame = texts.framing(self.tokenizer, self.max_len, self.counts)
  local next_done = stream {
    items = kind.input and require("seqrun.predict.items")("predict", items, kind.input) or items,
    tokenizer = self.tokenizer.core, rows = self.rows or 2048,
    sequences = function(item)
      if item.wrong then return {} end
      return kind.sequences and kind.sequences(item, self) or frame(item)
    end,
    compute = function(batch)
      local values = logits_of(self, batch)
      return kind.outputs and kind.outputs(values, batch) or values
    end,
  }
  return function()
    local item = next_done()
    if not item then return nil end
    return item.wrong and { error = item.wrong } or kind.result(item, self), item
  end
end

---The result for one item.
---@param item table|string an item, or its text
---@return table
function Predictor:one(item) return (self:each { item }()) end

return predict

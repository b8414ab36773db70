-- predict - labels items with the head of a model, in their order.
--
--     local label = sr.must(sr.predict.open("runs/classify"))
--     for result in label:each { { text = "a fine day" } } do print(result.label, result.probability) end

local batches = require("seqrun.predict.batches")
local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local frames = require("seqrun.text.frames")
local kinds = require("seqrun.base.kinds")
local opening = require("seqrun.predict.opening")
local pretrained = require("seqrun.checkpoint.bert")
local readers = require("seqrun.data.readers")
local run_config = require("seqrun.predict.run_config")
local schemes = require("seqrun.scores.schemes")
local stream = require("seqrun.predict.stream")
local tables = require("seqrun.predict.tables")
local truncate = require("seqrun.data.truncate")

local predict = {}

---@class seqrun.Predictor
---@field model seqrun.Bert
---@field head seqrun.TaskHead
---@field counts table `cut`: items that were truncated
local Predictor = {}
Predictor.__index = Predictor
require("seqrun.base.strict").seal(Predictor, "the predictor", {
  "model", "head", "kind", "counts", "tokenizer", "max_len", "rows", "stride", "query", "null_threshold",
  "longest_answer", "nbest", "split", "decode", "chain", "windows", "too_long",
})

local OPTIONS = {
  tokenizer = true, max_len = opening.OPTIONS.max_len, head = "string", rows = { 1 }, stride = { 1 },
  query = { 1 }, null_threshold = true, longest_answer = { 1 }, nbest = { 1 },
  split = { "bert", "white" }, decode = { "valid", "greedy", table.unpack(schemes.NAMES) },
  windows = { "mean", "max", "first" },
  too_long = { "truncate", "error", "windows" },
}
local OPEN_OPTIONS = opening.with {}
for key, wanted in pairs(OPTIONS) do OPEN_OPTIONS[key] = wanted end

---Checks the options of the function `what`.
local function checked(what, given, known)
  local t = check.typed(what, given, known)
  local threshold = t.null_threshold
  if threshold ~= nil and (math.type(threshold) == nil or threshold ~= threshold) then
    check.fail("%s: null_threshold must be a number, got %s", what, check.show(threshold))
  end
  return t
end

---A predictor of a model.
---
---  rows            tokens of a batch, 2048
---  stride, query, null_threshold, longest_answer   of question answering: 128, 64, 0 and 30
---  too_long        of words: "windows" that overlap and start at most `stride` tokens after each other, or apart
---  split           of words in a text: "bert", at white space and punctuation, or "white"
---  windows         of classify and multilabel: how the windows of a longer text count together; nil: it is truncated
---  decode          of words: "valid" tags, "greedy" or the name of their scheme; default: as the model was trained
---  nbest           of question answering: number of answers to list, with their probabilities
---@param model seqrun.Bert
---@param t { tokenizer: seqrun.text.Tokenizer, max_len: integer, head?: string, rows?: integer,
---  stride?: integer, query?: integer, null_threshold?: number, longest_answer?: integer, nbest?: integer,
---  split?: "bert"|"white", decode?: string, windows?: "mean"|"max"|"first", too_long?: string } head: by name; default
---  the first that has a task
---@return seqrun.Predictor
function predict.new(model, t)
  checked("predict.new", t, OPTIONS)
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
  if self.kind.chain then self.chain = self.kind.chain(self.head, t.decode) end
  model.training = false
  return self
end

---Refuses options that the task of a model does not use.
local function check_used(options, kind, windows)
  local reader = kind.reader
  local used = { nbest = reader.windows, windows = reader.documents, stride = reader.windows or reader.cuts or windows }
  for _, key in ipairs { "nbest", "windows", "stride" } do
    if options[key] ~= nil and not used[key] then
      failure.raise("config", "predict.open: %s is for %s, but the model is for task=%s; leave it out", key,
        key == "windows" and "task=classify and multilabel" or "question answering (task=squad)", kind.name)
    end
  end
end

local function open(path, options)
  local own = {}
  for key, value in pairs(options) do own[key] = value end
  own.precision, own.average, own.parse_specials = nil, nil, nil
  local model, facts, report = failure.must(pretrained(path, {
    precision = options.precision, average = options.average,
  }))
  if not facts.kind then failure.raise("data", "%s: has no task head; fine-tune it first", path) end
  opening.check_whole(facts, report)
  local usual = run_config.reading(facts)
  own.max_len = opening.max_len(facts, own.max_len, usual.max_len)
  for _, key in ipairs { "stride", "query", "windows", "too_long" } do own[key] = own[key] or usual[key] end
  check_used(options, kinds.get(facts.kind), own.windows)
  own.tokenizer = own.tokenizer or opening.tokenizer(facts, options)
  return predict.new(model, own)
end

---Opens a run, a checkpoint or a Hugging Face directory.
---@param path string
---@param options? table of predict.new; and precision, and average: with the moving average of the weights
---@return seqrun.Predictor|nil
---@return string? message
---@return string? code
function predict.open(path, options)
  check.value("predict.open: path", path, "string")
  return failure.returned(open, path, checked("predict.open", options, OPEN_OPTIONS))
end

---The logits of a batch as nested lists, in the order of its sequences.
local function logits_of(self, batch)
  local target = batches.target(batch, self.kind.reads)
  batch.targets[self.head.name], batch.targets.group = target, target
  local hidden = self.model.encoder:states(batch)
  return self.head:logits(hidden, target, batch):to("f32"):totable()
end

---An item as the record of a file: the reader calls a question `text`.
local function record_of(item, kind)
  local record, roles = { line = item.line or 1, file_index = 1, id = item.id }, kind.roles or {}
  for _, role in ipairs(tables.ROLES) do record[role] = item[roles[role] or role] end
  return record
end

---What makes the sequences of an item: the reader of the task, as in training and evaluation.
local function builder(self)
  local kind, tokenizer = self.kind, self.tokenizer.core
  local frame = frames.of(tokenizer)
  local build = readers.builder(kinds.get(self.head.kind).reader, {
    tokenizer = tokenizer, max_len = self.max_len, stride = self.stride, windows = self.windows,
    too_long = self.too_long or "windows",
    prompts = { default = self.head.prompt },
    query = math.min(self.query or 64, self.max_len // 2, frame:room(self.max_len, true) - 1),
  })
  return function(item)
    if item.wrong then return {} end
    if kind.sequences then return kind.sequences(item, self) end -- a task of one's own
    if kind.prepare then kind.prepare(item, self) end
    local made, _, why = build(record_of(item, kind))
    item.wrong = not made and why or nil
    if not made then return {} end
    local list, cut = made.a and { made } or made, false
    for _, one in ipairs(list) do cut = truncate(one.a, one.b, frame:room(self.max_len, one.b)) or cut end
    if cut then self.counts.cut = (self.counts.cut or 0) + 1 end
    return list
  end
end

---What is predicted for each item, in their order: the result, and the item.  Items have `text` (and `pair`), `words`,
---`question` and `context`, or `text` and `choices`, as the head needs.
---@param items table[]|fun(): table?
---@return fun(): table?, table?
function Predictor:each(items)
  local kind = self.kind
  local next_done = stream {
    items = kind.input and require("seqrun.predict.items")("predict", items, kind.input) or items,
    tokenizer = self.tokenizer.core, rows = self.rows or 2048,
    sequences = builder(self),
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
function Predictor:one(item, ...)
  if select("#", ...) > 0 then check.fail("predictor:one: expected one item, such as { text = , pair = }") end
  return (self:each { item }())
end

return predict

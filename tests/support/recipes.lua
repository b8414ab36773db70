-- recipes.lua - short recipes, and one plausible mistake at a time in them.

local sys = require("seqrun.core.sys")

local recipes = {}

---A text with parts replaced, each of which it has: from, to, from, to ...
local function changed(text, ...)
  for i = 1, select("#", ...), 2 do
    local from, to = select(i, ...)
    local first, last = text:find(from, 1, true)
    assert(first, from)
    text = text:sub(1, first - 1) .. to .. text:sub(last + 1)
  end
  return text
end

---A recipe that ships, in the words of the edits.
local function shipped(name, ...) return changed(assert(sys.read_file("recipes/" .. name .. ".lua")), ...) end

local LOOP = [[
run:start { corpus = corpus, loader = train, held = held, model = bert, optimizer = optimizer, rate = rate }
for step, update in run:steps(train) do
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = bert:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(update.counters), clip = 1 }
  run:log(step, optimizer)
end
]]

local BEGIN = [[
local sr = require "seqrun"
local task = sr.tasks.pretraining
local run <close> = sr.run.open { recipe = arg, task = task }
local cfg = run.config
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
]]

local TUNE = shipped("finetune", "local dev", "local held", "local model", "local bert", "(model.params",
  "(bert.params", "cfg, model)", "cfg, bert)", "held = dev,", "held = held,", "model = model,", "model = bert,",
  "cfg, model)", "cfg, bert)", "run:losses", "bert:losses", "clip = cfg.optimizer.clip", "clip = 1")

---The recipes, as text.
recipes.text = {
  tune = TUNE,
  own = shipped("finetune_own", "head = {\n", [[head = {
    score = function(_, predictions, labels)
      local sum = 0
      for i, label in ipairs(labels) do sum = sum + math.abs(label[1] - predictions[i][1]) end
      return { distance = sum / #labels }
    end,
]], "return {\n        total", "return { total", 'assert(loadfile((arg[0]:gsub("[^/]*$", "finetune.lua"))))(task)\n',
    (TUNE:match("local run <close>.*$"):gsub("name = name", "name = 'own'"))),
  loop = BEGIN .. [[
local train = sr.must(sr.data.loader(task.loader_options(cfg, corpus, "train", run:saved_plan())))
local held = sr.must(sr.data.loader(task.loader_options(cfg, corpus, "held")))
local bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)
local optimizer = sr.optim[cfg.optimizer.name](bert.params, task.optimizer_options(cfg, bert, train))
local rate = sr.run.schedule(cfg)
]] .. LOOP,
  head = BEGIN .. [[
local own = {}
local function share(update)
  local made = {}
  for i = 1, update.count do
    made[i] = { labels = {} }
    for k, length in ipairs(update:batch(i).layout:lengths()) do made[i].labels[k] = length / cfg.data.max_len end
  end
  return made
end
local function loader(part)
  local options = task.loader_options(cfg, corpus, part, run:saved_plan())
  options.targets = { "mlm", "nsp", { name = "share", reads = "sequences", type = "f32", make = share } }
  return sr.must(sr.data.loader(options))
end
local function head(encoder)
  local specs, add = sr.nn.specs(0.02)
  add.linear("share", 1, encoder.config.hidden_size)
  local self = { name = "share", specs = specs, pooler = true }
  function self:loss(hidden, target)
    local weight, bias = self.params:get "share.weight", self.params:get "share.bias"
    local guess = sr.ops.linear(hidden:pooled(target), weight, bias):reshape(-1)
    local items = (guess - target.labels:reshape(-1)):square()
    return { total = (items * target.weights):sum(), items = items:detach(), factor = 0.1 }
  end
  return self
end
local train, held = loader "train", loader "held"
local options = task.model_options(cfg, corpus)
options.heads = { "mlm", "nsp", head }
local bert = sr.nn.bert(options):initialise(cfg.seed)
local settings = sr.run.optimizer_options(cfg, train)
local optimizer = sr.optim[cfg.optimizer.name](bert.params, settings)
local rate = sr.run.schedule(cfg)
]] .. LOOP,
}

local ALL, HEAD, OWN, BOTH = { "loop", "head", "tune", "own" }, { "head" }, { "own" }, { "loop", "head" }
local LOSSES_OWN = { "head", "own" }

---Replaces text, before a line adds text, and so on.
local function edit(name, of, from, to) return { name = name, of = of, from = from, to = to } end
local function without(name, of, line) return edit(name, of, line .. "\n", "") end
local function after(name, of, line, more) return edit(name, of, line .. "\n", line .. "\n" .. more .. "\n") end
local function before(name, line) return edit(name, ALL, "run:start {", line .. "\nrun:start {") end

local BACKWARD, TALLY = "    losses.total:backward()", "    run:tally(batch, losses)"
local LOG, STEPS = "  run:log(step, optimizer)", "for step, update in run:steps(train) do"
local STEP = "  optimizer:step { rate = rate(update.counters), clip = 1 }"
local LOSSES, BATCHES = "    local losses = bert:losses(batch)", "  for batch in update:batches() do"
local GUESS, TOTAL, ITEMS = ":reshape(-1)\n", "(items * target.weights):sum()", "items = items:detach()"
local SCORE = "return { distance ="

---@type { name: string, of: string[], from: string, to: string }[]
recipes.edits = {
  -- the loop
  without("no backward", ALL, BACKWARD), without("no tally", ALL, TALLY), without("no log", ALL, LOG),
  without("no step", ALL, STEP),
  edit("backward after the loop", ALL, BACKWARD .. "\n" .. TALLY .. "\n  end\n",
    TALLY .. "\n    last = losses\n  end\n  last.total:backward()\n"),
  edit("zero_grad = false", ALL, "clip = 1 }", "clip = 1, zero_grad = false }"),
  after("zero_grad before each backward", ALL, LOSSES, "    bert.params:zero_grad()"),
  after("zero_grad after backward", ALL, BACKWARD, "    bert.params:zero_grad()"),
  after("two steps", ALL, STEP, STEP), edit("a step a batch", ALL, TALLY .. "\n  end\n" .. STEP, TALLY .. "\n" .. STEP
    .. "\n  end"),
  after("break after a batch", ALL, TALLY, "    break"),
  edit("some batches left out", ALL, BACKWARD .. "\n" .. TALLY, "    if batch.number ~= 2 then\n" .. BACKWARD .. "\n"
    .. TALLY .. "\n    end"),
  edit("pcall around a batch", ALL, BACKWARD, "    pcall(function() error 'no' losses.total:backward() end)"),
  edit("batches of the next update", ALL, BATCHES, "  for batch in train:next():batches() do"),
  after("break at a step", ALL, LOG, "  if step == 3 then break end"),
  edit("backward by chance", ALL, BACKWARD, "    if math.random() < 0.5 then losses.total:backward() end"),
  edit("backward of one loss", BOTH, "losses.total:backward()", "losses.mlm.total:backward()"),
  edit("a mean over micro-batches", ALL, "losses.total:backward()", "(losses.total / update.count):backward()"),
  edit("a penalty in each micro-batch", ALL, "losses.total:backward()",
    "(losses.total + bert.params:get(bert.params:names()[1]):square():sum() * 1e-2):backward()"),
  before("a penalty on activations", [[local losses_of = bert.losses
function bert:losses(batch, see)
  local x = self:encode(batch)
  return losses_of(self, batch, see):add("quiet", { total = x:square():mean() * 0.1, count = batch.sequences })
end]]), after("a factor after add", ALL, LOSSES, "    losses[1].factor = 0.1"),
  edit("NaN", ALL, "losses.total:backward()", "(losses.total + (losses.total - losses.total):log()):backward()"),
  edit("a rate of nothing", BOTH, "rate(update.counters)", "rate(step // 1000)"),
  edit("a rate of a counter", ALL, "rate(update.counters)", "rate(update.counter)"),
  edit("the loss of another batch", ALL, "bert:losses(batch)", "bert:losses(update:batch(1))"),
  edit("losses of a number", ALL, "losses.total:backward()", "losses.total:item():backward()"),
  edit("the step before", ALL, "run:log(step,", "run:log(step - 1,"),
  edit("backward twice", ALL, BACKWARD, "    losses.total:backward { retain = true } losses.total:backward()"),
  after("an update between", ALL, LOG, "  train:next()"),
  after("the same update", ALL, LOG, "  train:seek(update.from)"),
  edit("losses before the batch", ALL, "tally(batch, losses)", "tally(losses, batch)"),
  edit("the total for the losses", ALL, "tally(batch, losses)", "tally(batch, losses.total)"),
  edit("log before the step", ALL, STEP .. "\n" .. LOG, LOG .. "\n" .. STEP),
  edit("the optimizer before the step", ALL, "log(step, optimizer)", "log(optimizer, step)"),
  edit("steps of the held loader", ALL, "run:steps(train)", "run:steps(held)"),
  edit("steps of nothing", ALL, "run:steps(train)", "run:steps()"),
  edit("batches that are not called", ALL, "update:batches()", "update.batches"),
  edit("batches by pairs", ALL, "for batch in update:batches()", "for _, batch in pairs(update:batches())"),
  edit("batches from 0", ALL, BATCHES, "  for i = 0, update.count - 1 do\n    local batch = update:batch(i)"),
  edit("batches but the last", ALL, BATCHES, "  for i = 1, update.count - 1 do\n    local batch = update:batch(i)"),
  edit("a dot for a colon", ALL, "losses.total:backward", "losses.total.backward"),
  edit("a step of a number", ALL, "optimizer:step { rate = rate(update.counters), clip = 1 }", "optimizer:step(1e-3)"),
  edit("a step by other words", ALL, "{ rate = rate(update.counters)", "{ lr = rate(update.counters)"),
  edit("no scope in the loss", ALL, "bert:losses(batch)", "bert.losses(batch)"),
  -- the model
  edit("not initialised", BOTH, ":initialise(cfg.seed)", ""),
  edit("another model", BOTH, STEPS, "bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(1) " .. STEPS),
  edit("another model of the task", { "tune", "own" }, STEPS, "bert = task:model(cfg, data) " .. STEPS),
  edit("initialise after the start", ALL, STEPS, "bert:initialise(cfg.seed)\n" .. STEPS),
  edit("frozen after the start", ALL, STEPS, "bert.encoder.frozen = 1\n" .. STEPS),
  edit("another optimizer's model", BOTH, "](bert.params", "](sr.nn.bert(task.model_options(cfg, corpus)).params"),
  before("frozen before the start", "bert.encoder.frozen = 1"),
  before("training off", "bert.training = false"), before("a number for false", "bert.training = 0"),
  before("trainning", "bert.trainning = false"),
  before("train", "bert.train = false"), before("recomput", "bert.recomput = true"),
  before("frozzen", "bert.encoder.frozzen = 1"), before("another head", "bert.head = bert.heads[1]"),
  before("other heads", "bert.heads = {}"), before("other params", "bert.params = sr.params.new {}"),
  -- what is written, or given
  edit("heldout", ALL, "held = held,", "heldout = held,"),
  edit("held is train", ALL, "held = held,", "held = train,"),
  edit("no held", ALL, "held = held,", ""),
  before("a key after its use", "cfg.model.hidden_dropout_prob = 0.5"),
  before("an unknown key", "cfg.optimizer.clipp = 0.1"), before("an element of a list", "cfg.optimizer.betas[1] = 0.5"),
  before("decay of the optimizer", "optimizer.options.decay = 0.5"), before("other options", "optimizer.options = {}"),
  before("options of the loader", "train.options = {}"),
  before("the end of the run", "run.total = 5"), edit("the last step", ALL, STEPS, "run.last = 3\n" .. STEPS),
  edit("a second start", ALL, STEPS, "run:start { loader = train, model = bert, optimizer = optimizer }\n" .. STEPS),
  before("a global", "local scaled = 1 + (lamda or 0)"),
  before("state of a tensor", "local kept = run:state { best = 0 } kept.best = sr.ones(1)"),
  edit("part of the held loader", HEAD, 'loader "held"', 'loader "train"'),
  before("a schedule of nothing", "rate = function() end"),
  before("a schedule of text", "rate = function() return 'x' end"),
  edit("a watch without functions", ALL, "held = held,", "held = held, watch = { evaluated = 1 },"),
  -- the head
  edit("mean for sum", LOSSES_OWN, TOTAL, "items:mean()"),
  edit("sum for weights", LOSSES_OWN, TOTAL, "items:sum()"),
  edit("mean without items", LOSSES_OWN, TOTAL .. ", items = items:detach()", "items:mean()"),
  edit("spread over N by N", LOSSES_OWN, GUESS, "\n"),
  edit("items of one", LOSSES_OWN, "items = items:", "items = items:mean():"),
  edit("count = 1", LOSSES_OWN, ITEMS, ITEMS .. ", count = 1"),
  edit("no return", LOSSES_OWN, "return { total", "local _ = { total"),
  edit("a detached guess", LOSSES_OWN, GUESS, ":reshape(-1):detach()\n"),
  edit("an unused bias", HEAD, "weight, bias):", "weight):"),
  edit("a weight of its own", HEAD, 'self.params:get "share.weight"', "sr.randn(1, encoder.config.hidden_size)"),
  edit("weights read as values", HEAD, 'self.params:get "share.weight"', 'self.params:value_of "share.weight"'),
  edit("sums without a count", HEAD, ITEMS, ITEMS .. ", sums = { error = { items:mean(), 0 } }"),
  edit("sums of nothing", OWN, "target.count }", "0 }"),
  edit("probabilities for logits", HEAD, ":square()\n", ":square()\n    items = sr.ops.binary_cross_entropy("
    .. "guess:sigmoid(), target.labels:reshape(-1))\n"),
  edit("no labels", HEAD, "  return made\n", ""),
  edit("labels of one micro-batch", HEAD, "for i = 1, update.count do\n    made", "for i = 1, 1 do\n    made"),
  -- its metrics
  edit("a metric of nothing", OWN, SCORE, "local _ = { distance ="),
  edit("a metric of text", OWN, "sum / #labels }", "'low' }"),
  edit("a metric named step", OWN, "{ distance =", "{ step ="),
  edit("a metric that exists", OWN, "{ distance =", "{ pearson ="),
  edit("a metric without self", OWN, "function(_, predictions, labels)", "function(predictions, labels)"),
  edit("a metric of NaN", OWN, "sum / #labels }", "0 / 0 }"),
  edit("predictions of nothing", HEAD, "  return self\n", "  function self:predict() end\n  function self:score() "
    .. "return { x = 1 } end\n  return self\n"),
  -- the task
  edit("a task like none", OWN, 'like = "regress"', 'like = "regres"'),
  edit("a task without a name", OWN, 'name = "robust",', ""),
  edit("a setting by another name", OWN, 'doc =', 'settings = { rate = { peek = 1 } }, doc ='),
  edit("a key without a type", OWN, 'doc =', 'keys = { { "far", 1 } }, doc ='),
  edit("a head of other outputs", OWN, "head = {", "head = {\n    outputs = 3,"),
  edit("a task by its name", OWN, "task = task,", 'task = "robust",'),
  edit("scores that are no table", OWN, "  head = {", "  scores = 1,\n  head = {"),
  edit("a loss by another name", OWN, "    loss = function", "    lose = function"),
  edit("a head by another name", OWN, "  head = {", "  heads = {"),
}

---The text of a recipe with an edit.
---@param kind string
---@param one table of recipes.edits
---@return string
function recipes.edited(kind, one) return changed(recipes.text[kind], one.from, one.to) end

return recipes

-- recipes.lua - short recipes, and one plausible mistake at a time in them.

local recipes = {}

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

---The recipes, as text.
recipes.text = {
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

local BOTH, HEAD = { "loop", "head" }, { "head" }

---Replaces text, before a line adds text, and so on.
local function edit(name, of, from, to) return { name = name, of = of, from = from, to = to } end
local function without(name, of, line) return edit(name, of, line .. "\n", "") end
local function after(name, of, line, more) return edit(name, of, line .. "\n", line .. "\n" .. more .. "\n") end

local BACKWARD, TALLY = "    losses.total:backward()", "    run:tally(batch, losses)"
local LOG = "  run:log(step, optimizer)"
local STEP = "  optimizer:step { rate = rate(update.counters), clip = 1 }"
local RATE = "local rate = sr.run.schedule(cfg)"
local LOSSES, BATCHES = "    local losses = bert:losses(batch)", "  for batch in update:batches() do"
local RETURN = "    return { total = (items * target.weights):sum(), items = items:detach(), factor = 0.1 }"
local GUESS = "    local guess = sr.ops.linear(hidden:pooled(target), weight, bias):reshape(-1)"

---@type { name: string, of: string[], from: string, to: string }[]
recipes.edits = {
  -- the loop
  without("no backward", BOTH, BACKWARD), without("no tally", BOTH, TALLY), without("no log", BOTH, LOG),
  without("no step", BOTH, STEP),
  edit("backward after the loop", BOTH, BACKWARD .. "\n" .. TALLY .. "\n  end\n",
    TALLY .. "\n    last = losses\n  end\n  last.total:backward()\n"),
  edit("zero_grad = false", BOTH, "clip = 1 }", "clip = 1, zero_grad = false }"),
  after("zero_grad before each backward", BOTH, LOSSES, "    bert.params:zero_grad()"),
  after("zero_grad after backward", BOTH, BACKWARD, "    bert.params:zero_grad()"),
  after("two steps", BOTH, STEP, STEP), edit("a step a batch", BOTH, TALLY .. "\n  end\n" .. STEP, TALLY .. "\n" .. STEP
    .. "\n  end"),
  after("break after a batch", BOTH, TALLY, "    break"),
  edit("some batches left out", BOTH, BACKWARD .. "\n" .. TALLY, "    if batch.sequences > 5 then\n" .. BACKWARD .. "\n"
    .. TALLY .. "\n    end"),
  edit("pcall around a batch", BOTH, BACKWARD, "    pcall(function() error 'no' losses.total:backward() end)"),
  edit("batches of the next update", BOTH, BATCHES, "  for batch in train:next():batches() do"),
  after("break at a step", BOTH, LOG, "  if step == 3 then break end"),
  edit("backward by chance", BOTH, BACKWARD, "    if math.random() < 0.5 then losses.total:backward() end"),
  edit("backward of one loss", BOTH, "losses.total:backward()", "losses.mlm.total:backward()"),
  edit("a mean over micro-batches", BOTH, "losses.total:backward()", "(losses.total / update.count):backward()"),
  after("a factor after add", BOTH, LOSSES, "    losses.nsp.factor = 0.1"),
  edit("NaN", BOTH, "losses.total:backward()", "(losses.total + (losses.total - losses.total):log()):backward()"),
  edit("a rate of nothing", BOTH, "rate(update.counters)", "rate(step // 1000)"),
  edit("a rate of a counter", BOTH, "rate(update.counters)", "rate(update.counter)"),
  -- the model
  edit("not initialised", BOTH, ":initialise(cfg.seed)", ""),
  after("another model", BOTH, RATE, "bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)"),
  edit("initialise after the start", BOTH, "for step, update in run:steps(train) do",
    "bert:initialise(cfg.seed)\nfor step, update in run:steps(train) do"),
  edit("frozen after the start", BOTH, "for step, update in run:steps(train) do",
    "bert.encoder.frozen = 1\nfor step, update in run:steps(train) do"),
  after("training off", BOTH, RATE, "bert.training = false"), after("trainning", BOTH, RATE, "bert.trainning = false"),
  after("train", BOTH, RATE, "bert.train = false"), after("recomput", BOTH, RATE, "bert.recomput = true"),
  after("frozzen", BOTH, RATE, "bert.encoder.frozzen = 1"),
  -- what is written, or given
  edit("heldout", BOTH, "held = held,", "heldout = held,"),
  edit("held is train", BOTH, "held = held,", "held = train,"),
  edit("no held", BOTH, "held = held, ", ""),
  after("a key after its use", BOTH, RATE, "cfg.model.hidden_dropout_prob = 0.5"),
  after("an unknown key", BOTH, RATE, "cfg.optimizer.clipp = 0.1"),
  after("decay of the optimizer", BOTH, RATE, "optimizer.options.decay = 0.5"),
  after("a global", BOTH, RATE, "local scaled = 1 + (lamda or 0)"),
  after("state of a tensor", BOTH, RATE, "local kept = run:state { best = 0 } kept.best = sr.ones(1)"),
  edit("part of the held loader", { "head" }, 'loader "held"', 'loader "train"'),
  -- the head
  edit("mean for sum", HEAD, "(items * target.weights):sum()", "items:mean()"),
  edit("sum for weights", HEAD, "(items * target.weights):sum()", "items:sum()"),
  edit("spread over N by N", HEAD, GUESS, GUESS:gsub(":reshape%(%-1%)", "")),
  edit("items of one", HEAD, "items = items:", "items = items:mean():"),
  edit("count = 1", HEAD, "factor = 0.1 }", "factor = 0.1, count = 1 }"),
  edit("no return", HEAD, RETURN, "    local _ = items"),
  edit("a detached guess", HEAD, GUESS, GUESS .. ":detach()"),
  edit("an unused bias", HEAD, "weight, bias):", "weight):"),
  edit("a weight of its own", HEAD, 'self.params:get "share.weight"', "sr.randn(1, encoder.config.hidden_size)"),
  edit("weights read as values", HEAD, 'self.params:get "share.weight"', 'self.params:value_of "share.weight"'),
  edit("sums without a count", HEAD, "factor = 0.1 }", "factor = 0.1, sums = { error = { items:mean(), 0 } } }"),
}

---The text of a recipe with an edit.
---@param kind string
---@param one table of recipes.edits
---@return string
function recipes.edited(kind, one)
  local text = recipes.text[kind]
  local first, last = text:find(one.from, 1, true)
  assert(first, one.name)
  return text:sub(1, first - 1) .. one.to .. text:sub(last + 1)
end

return recipes

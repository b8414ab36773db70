-- recipes.lua - short recipes, and one plausible mistake at a time in them.

local sys = require("seqrun.core.sys")

local recipes = {}

---A text with parts replaced, each of which it has: from, to, from, to ...
---@param text string
---@return string
function recipes.changed(text, ...)
  for i = 1, select("#", ...), 2 do
    local from, to = select(i, ...)
    local first, last = text:find(from, 1, true)
    assert(first, from)
    text = text:sub(1, first - 1) .. to .. text:sub(last + 1)
  end
  return text
end

---A recipe that ships, in the words of the edits.
local function shipped(name, ...) return recipes.changed(assert(sys.read_file("recipes/" .. name .. ".lua")), ...) end

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

---Replaces text, before a line adds text, and so on; what is there instead is the name.
local function edit(of, from, to)
  return { name = (to == "" and "no " .. from or to):gsub("%s+", " "), of = of, from = from, to = to }
end
local function without(of, line) return edit(of, line .. "\n", "") end
local function after(of, line, more) return edit(of, line .. "\n", line .. "\n" .. more .. "\n") end
local function before(line) return edit(ALL, "run:start {", line .. "\nrun:start {") end

local BACKWARD, TALLY = "    losses.total:backward()", "    run:tally(batch, losses)"
local LOG, STEPS = "  run:log(step, optimizer)", "for step, update in run:steps(train) do"
local STEP = "  optimizer:step { rate = rate(update.counters), clip = 1 }"
local LOSSES, BATCHES = "    local losses = bert:losses(batch)", "  for batch in update:batches() do"
local GUESS, TOTAL, ITEMS = ":reshape(-1)\n", "(items * target.weights):sum()", "items = items:detach()"
local SCORE = "return { distance ="

---@type { name: string, of: string[], from: string, to: string }[]
recipes.edits = {
  -- the loop
  without(ALL, BACKWARD), without(ALL, TALLY), without(ALL, LOG), without(ALL, STEP),
  edit(ALL, BACKWARD .. "\n" .. TALLY .. "\n  end\n", TALLY .. "\n    last = losses\n  end\n  last.total:backward()\n"),
  edit(ALL, "clip = 1 }", "clip = 1, zero_grad = false }"), after(ALL, LOSSES, "    bert.params:zero_grad()"),
  after(ALL, BACKWARD, "    bert.params:zero_grad()"), after(ALL, STEP, STEP),
  edit(ALL, TALLY .. "\n  end\n" .. STEP, TALLY .. "\n" .. STEP .. "\n  end"), after(ALL, TALLY, "    break"),
  edit(ALL, BACKWARD .. "\n" .. TALLY, "    if batch.number ~= 2 then\n" .. BACKWARD .. "\n" .. TALLY .. "\n    end"),
  edit(ALL, BACKWARD, "    pcall(function() error 'no' losses.total:backward() end)"),
  edit(ALL, BATCHES, "  for batch in train:next():batches() do"), after(ALL, LOG, "  if step == 3 then break end"),
  edit(ALL, BACKWARD, "    if math.random() < 0.5 then losses.total:backward() end"),
  edit(BOTH, "losses.total:backward()", "losses.mlm.total:backward()"),
  edit(ALL, "losses.total:backward()", "(losses.total / update.count):backward()"),
  edit(ALL, "losses.total:backward()",
    "(losses.total + bert.params:get(bert.params:names()[1]):square():sum() * 1e-2):backward()"),
  before([[local losses_of = bert.losses
function bert:losses(batch, see)
  local x = self:encode(batch)
  return losses_of(self, batch, see):add("quiet", { total = x:square():mean() * 0.1, count = batch.sequences })
end]]), after(ALL, LOSSES, "    losses[1].factor = 0.1"),
  edit(ALL, "losses.total:backward()", "(losses.total + (losses.total - losses.total):log()):backward()"),
  edit(BOTH, "rate(update.counters)", "rate(step // 1000)"), edit(ALL, "rate(update.counters)", "rate(update.counter)"),
  edit(ALL, "bert:losses(batch)", "bert:losses(update:batch(1))"), edit(ALL, "run:log(step,", "run:log(step - 1,"),
  edit(ALL, BACKWARD, "    losses.total:backward { retain = true } losses.total:backward()"),
  after(ALL, LOG, "  train:next()"), after(ALL, LOG, "  train:seek(update.from)"), after(ALL, TALLY, TALLY),
  edit(ALL, STEPS, "train:next()\n" .. STEPS), edit(ALL, "run:log(step, optimizer)", "run:log()"),
  edit(ALL, "tally(batch, losses)", "tally(losses, batch)"),
  edit(ALL, "tally(batch, losses)", "tally(batch, losses.total)"), edit(ALL, STEP .. "\n" .. LOG, LOG .. "\n" .. STEP),
  edit(ALL, "log(step, optimizer)", "log(optimizer, step)"), edit(ALL, "run:steps(train)", "run:steps(held)"),
  edit(ALL, "update:batches()", "update.batches"),
  edit(ALL, BATCHES, "  for i = 0, update.count - 1 do\n    local batch = update:batch(i)"),
  edit(ALL, BATCHES, "  for i = 1, update.count - 1 do\n    local batch = update:batch(i)"),
  edit(ALL, "losses.total:backward", "losses.total.backward"),
  edit(ALL, "optimizer:step { rate = rate(update.counters), clip = 1 }", "optimizer:step(1e-3)"),
  -- the model
  edit(BOTH, ":initialise(cfg.seed)", ""),
  edit(BOTH, STEPS, "bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(1) " .. STEPS),
  edit(ALL, STEPS, "bert:initialise(cfg.seed)\n" .. STEPS), edit(ALL, STEPS, "bert.encoder.frozen = 1\n" .. STEPS),
  edit(BOTH, "](bert.params", "](sr.nn.bert(task.model_options(cfg, corpus)).params"),
  before("bert.encoder.frozen = 1"), before("bert.training = false"), before("bert.training = 0"),
  before("bert.trainning = false"), before("bert.recomput = true"), before("bert.encoder.frozzen = 1"),
  before("bert.head = bert.heads[1]"), before("bert.heads = {}"), before("bert.params = sr.params.new {}"),
  -- what is written, or given
  edit(ALL, "held = held,", "heldout = held,"), edit(ALL, "held = held,", "held = train,"),
  edit(ALL, "held = held,", ""), before("cfg.model.hidden_dropout_prob = 0.5"), before("cfg.optimizer.clipp = 0.1"),
  before("cfg.optimizer.betas[1] = 0.5"), before("optimizer.options.decay = 0.5"), before("optimizer.options = {}"),
  before("train.options = {}"), before("run.total = 5"), edit(ALL, STEPS, "run.last = 3\n" .. STEPS),
  edit(ALL, STEPS, "run:start { loader = train, model = bert, optimizer = optimizer }\n" .. STEPS),
  before("local scaled = 1 + (lamda or 0)"), before("local kept = run:state { best = 0 } kept.best = sr.ones(1)"),
  edit(HEAD, 'loader "held"', 'loader "train"'), before("rate = function() end"),
  before("rate = function() return 'x' end"), edit(ALL, "held = held,", "held = held, watch = { evaluated = 1 },"),
  edit({ "tune", "own" }, "run:start {", "held = sr.must(sr.data.loader { data = held.data, by = 'sequences', "
    .. "sequences = 4 })\nrun:start {"),
  -- the head
  edit(LOSSES_OWN, TOTAL, "items:mean()"), edit(LOSSES_OWN, TOTAL, "items:sum()"),
  edit(LOSSES_OWN, TOTAL .. ", items = items:detach()", "items:mean()"), edit(LOSSES_OWN, GUESS, "\n"),
  edit(LOSSES_OWN, "items = items:", "items = items:mean():"), edit(LOSSES_OWN, ITEMS, ITEMS .. ", count = 1"),
  edit(LOSSES_OWN, "return { total", "local _ = { total"), edit(LOSSES_OWN, GUESS, ":reshape(-1):detach()\n"),
  edit(HEAD, "weight, bias):", "weight):"),
  edit(HEAD, 'self.params:get "share.weight"', "sr.randn(1, encoder.config.hidden_size)"),
  edit(HEAD, 'self.params:get "share.weight"', 'self.params:value_of "share.weight"'),
  edit(HEAD, ITEMS, ITEMS .. ", sums = { error = { items:mean(), 0 } }"), edit(OWN, "target.count }", "0 }"),
  edit(HEAD, "(guess - target.labels:reshape(-1)):square()",
    "sr.ops.binary_cross_entropy(guess:sigmoid(), target.labels:reshape(-1))"),
  edit(HEAD, "  return made\n", ""), edit(HEAD, "for i = 1, update.count do\n    made", "for i = 1, 1 do\n    made"),
  -- its metrics
  edit(OWN, SCORE, "local _ = { distance ="), edit(OWN, "sum / #labels }", "'low' }"),
  edit(OWN, "{ distance =", "{ step ="), edit(OWN, "{ distance =", "{ pearson ="),
  edit(OWN, "function(_, predictions, labels)", "function(predictions, labels)"),
  edit(OWN, "sum / #labels }", "0 / 0 }"),
  edit(HEAD, "  return self\n", "  function self:predict() end\n  function self:score() "
    .. "return { x = 1 } end\n  return self\n"),
  -- the task
  edit(OWN, 'like = "regress"', 'like = "regres"'), edit(OWN, 'name = "robust",', ""),
  edit(OWN, 'doc =', 'settings = { rate = { peek = 1 } }, doc ='), edit(OWN, "head = {", "head = {\n    outputs = 3,"),
  edit(OWN, "task = task,", 'task = "robust",'), edit(OWN, "  head = {", "  scores = 1,\n  head = {"),
  edit(OWN, "    loss = function", "    lose = function"), edit(OWN, "  head = {", "  heads = {"),
}

---The text of a recipe with an edit.
---@param kind string
---@param one table of recipes.edits
---@return string
function recipes.edited(kind, one) return recipes.changed(recipes.text[kind], one.from, one.to) end

return recipes

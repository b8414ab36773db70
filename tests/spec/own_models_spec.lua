-- Models that seqrun has never heard of, each a recipe of fewer than 60 lines, trained through sr.run.

local metrics = require("seqrun.history.metrics")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local works = program.works

---A head on a column of floats.
local REGRESSION = [[
local sr = require "seqrun"

local keys = { { "hidden", sr.config.integer { default = 16, min = 2, doc = "hidden size" } } }
local run <close> = sr.run.open { recipe = arg, keys = keys }
local cfg = run.config

local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local function loader(part)
  local options = sr.run.loader_options(cfg, corpus, part, run:saved_plan())
  options.targets = { "score" }
  return sr.must(sr.data.loader(options))
end
local train, held = loader "train", loader "held"

local function score(encoder)
  local specs, add = sr.nn.specs(0.02)
  add.linear("score", 1, encoder.config.hidden_size)
  local head = { name = "score", specs = specs, pooler = true }
  function head:loss(hidden, target)
    local w, b = self.params:get "score.weight", self.params:get "score.bias"
    local x, labels = sr.ops.linear(hidden:pooled(target), w, b):reshape(-1), target.labels:reshape(-1)
    local errors = (x - labels):detach()
    return {
      total = sr.ops.mse_loss(x, labels, target.weights), items = errors:square(),
      sums = { score_mae = { errors:abs():sum(), target.count } },
    }
  end
  return head
end

local model = sr.nn.bert {
  vocab_size = corpus:vocab_size(), hidden_size = cfg.hidden, num_hidden_layers = 1, num_attention_heads = 2,
  intermediate_size = 32, max_position_embeddings = 64, hidden_dropout_prob = 0, heads = { score },
}
model:initialise(cfg.seed)
local optimizer = sr.optim.adamw(model.params, sr.run.optimizer_options(cfg, train))
local rate = sr.run.schedule(cfg)

run:start { corpus = corpus, loader = train, held = held, model = model, optimizer = optimizer, rate = rate }
for step, update in run:steps(train) do
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = model:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(update.schedule_step), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end
]]

---A generator fills masked tokens in, a discriminator finds those that it replaced.
local TWO_NETWORKS = [[
local sr = require "seqrun"

local run <close> = sr.run.open { recipe = arg }
local cfg = run.config
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local function loader(part)
  local options = sr.run.loader_options(cfg, corpus, part, run:saved_plan())
  options.nsp, options.keep_ids, options.targets = false, true, { "mlm" }
  return sr.must(sr.data.loader(options))
end
local train, held = loader "train", loader "held"

local config = {
  vocab_size = corpus:vocab_size(), hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2,
  intermediate_size = 32, max_position_embeddings = 64,
}
local generator = sr.nn.encoder(config, { prefix = "generator." })
local fill = sr.nn.heads.mlm(generator, "generator_")
local discriminator = sr.nn.encoder(config, { prefix = "discriminator." })
local specs, add = sr.nn.specs(0.02)
add.linear("judge", 2, 16)
local model = sr.nn.model { generator, fill, discriminator, specs }
model:initialise(cfg.seed)

function model:losses(batch)
  local mlm, hidden, losses = batch.targets.mlm, generator:states(batch), sr.nn.losses()
  local filled = fill:loss(hidden, mlm)
  filled.count = mlm.count
  losses:add("generator", filled)
  local ids, owners = batch.original_ids:totable(), batch.layout:owners()
  local guesses = fill:logits(hidden:rows(mlm)):argmax(2):totable()
  local replaced, weights = {}, {}
  for t = 1, #ids do replaced[t], weights[t] = 0, owners[t] >= 0 and 1 / batch.tokens or 0 end
  for i, row in ipairs(mlm.rows:totable()) do
    local guess = math.tointeger(guesses[i])
    if guess ~= ids[row + 1] then ids[row + 1], replaced[row + 1] = guess, 1 end
  end
  local int = { dtype = "i32" }
  local seen = { ids = sr.tensor(ids, int), types = batch.types, layout = batch.layout }
  local w, b = self.params:get "judge.weight", self.params:get "judge.bias"
  local logits, own = sr.ops.linear(discriminator:encode(seen), w, b), sr.tensor(weights)
  local total, items, correct = sr.ops.cross_entropy(logits, sr.tensor(replaced, int), own)
  local owned = own:gt(0):to("f32")
  return losses:add("discriminator", { total = total, items = items * owned, correct = correct * owned,
    count = batch.tokens, factor = 5 })
end

local optimizer = sr.optim.adamw(model.params, sr.run.optimizer_options(cfg, train))
run:start { corpus = corpus, loader = train, held = held, model = model, optimizer = optimizer }
for step, update in run:steps(train) do
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = model:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = 3e-3, clip = 1 }
  run:log(step, optimizer)
end
]]

---An order of its own: half of an update are the examples with the greatest loss when they were last seen.
local HARDEST_FIRST = [[
local sr = require "seqrun"

local run <close> = sr.run.open { recipe = arg }
local cfg = run.config
local corpus = sr.must(sr.data.open(cfg.data.file))
local EACH = cfg.batch.sequences

---Half of an update in turn, half by the loss when they were last seen.
local function hardest(update, state)
  local order, taken, by_loss = {}, {}, {}
  local function take(uid)
    if not taken[uid] and #order < EACH then order[#order + 1], taken[uid] = uid, true end
  end
  for i = 0, EACH // 2 - 1 do take((update * EACH // 2 + i) % #state.loss) end
  for i = 1, #state.loss do by_loss[i] = i end
  table.sort(by_loss, function(a, b)
    if state.loss[a] ~= state.loss[b] then return state.loss[a] > state.loss[b] end
    return a < b
  end)
  for _, i in ipairs(by_loss) do take(i - 1) end
  return order
end

local unseen = {}
for i = 1, corpus:info().examples do unseen[i] = 0 end
local train = sr.must(sr.data.loader { data = corpus, max_len = cfg.data.max_len, seed = cfg.seed, micro_packs = 4,
  targets = { "score" }, order = hardest, order_state = { loss = unseen } })

local encoder = sr.nn.encoder { vocab_size = corpus:vocab_size(), hidden_size = 16, num_hidden_layers = 1,
  num_attention_heads = 2, intermediate_size = 32, max_position_embeddings = 64 }
local specs, add = sr.nn.specs(0.02)
add.linear("score", 1, 16)
local model = sr.nn.model { encoder, specs }:initialise(cfg.seed)

function model:losses(batch)
  local target, get = batch.targets.score, function(name) return self.params:get("score." .. name) end
  local states = encoder:states(batch):rows(target)
  local x, labels = sr.ops.linear(states, get "weight", get "bias"):reshape(-1), target.labels:reshape(-1)
  return sr.nn.losses():add("score", { total = sr.ops.mse_loss(x, labels, target.weights), count = target.count,
    items = (x - labels):detach():square() })
end

local optimizer = sr.optim.adamw(model.params, sr.run.optimizer_options(cfg, train))
run:start { corpus = corpus, loader = train, model = model, optimizer = optimizer }
for step, update in run:steps(train) do
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses, seen = model:losses(batch), train:order_state().loss
    losses.total:backward()
    run:tally(batch, losses)
    local items = losses.score.items:totable()
    for i, uid in ipairs(batch.layout:uids()) do seen[uid + 1] = items[i] end
  end
  optimizer:step { rate = 3e-3, clip = 1 }
  run:log(step, optimizer)
end
]]

local folder, text_corpus, scored

---Examples whose score is twice the share of one token among theirs: a mean that an encoder can learn.
local function scored_examples()
  local examples, draw = {}, require("tests.support.draws")(7)
  for i = 1, 400 do
    local a, hits = {}, 0
    for j = 1, 6 + i % 9 do
      local hit = draw(9) < i % 9
      a[j], hits = hit and 20 or 30 + j, hits + (hit and 1 or 0)
    end
    examples[i] = { a = a, score = 2 * hits / #a }
  end
  return examples
end

setup(function()
  folder = program.folder()
  text_corpus = small.corpus(folder)
  scored = folder .. "/scored.sqr"
  sr.must(sr.data.write {
    out = scored, vocab = "tests/data/model/tiny/vocab.txt", examples = scored_examples(),
    columns = { score = { type = "f32" } },
  })
end)

---Runs a recipe of this text; the words after its options.
local function run(name, text, out, data, ...)
  local path = program.write(folder, name .. ".lua", text)
  return program.run {
    path, "data.file=" .. data, "data.max_len=48", "data.held=0.1", "batch.sequences=24", "batch.micro_packs=4",
    "rate.peak=1e-2", "rate.total=60", "save.minutes=0", "log.every=1", "--quiet", "--out", folder .. "/" .. out, ...,
  }
end

local function lines_of(text) return select(2, text:gsub("\n", "\n")) end

describe("a regression head on a column of floats", function()
  it("is a short recipe that learns, is evaluated and reports what it is", function()
    assert.is_true(lines_of(REGRESSION) < 60)
    local out = works(run("regression", REGRESSION, "regression", scored))
    local train, eval = small.metrics(folder .. "/regression"), small.metrics(folder .. "/regression", "eval")[1]
    assert.is_true(train[#train].score_loss < train[1].score_loss / 4, train[#train].score_loss)
    assert.is_true(eval.score_loss < 0.1 and eval.score_mae < 0.3, eval.score_loss)
    assert.near(train[3].loss, train[3].score_loss, 1e-12)
    for key in pairs(eval) do assert.is_nil(key:find("mlm") or key:find("unigram"), key) end
    assert.truthy(out:find("held%-out   score loss 0%.%d+\n"), out)
    assert.is_nil(out:find("unigram", 1, true))
  end)

  it("resumes bit for bit", function()
    local whole, cut = folder .. "/whole", folder .. "/cut"
    assert.equal(0, (run("regression", REGRESSION, "whole", scored, "--max-steps", "9")))
    assert.equal(0, (run("regression", REGRESSION, "cut", scored, "--max-steps", "4")))
    works(run("regression", REGRESSION, "cut", scored, "--max-steps", "9", "--resume"))
    assert.same(small.metrics(whole), small.metrics(cut))
    local function weights(out) return sys.hash_file(out .. "/step-000000009/model.safetensors") end
    assert.equal(weights(whole), weights(cut))
  end)

  it("has an objective, which begins and finishes each update", function()
    local text = REGRESSION:gsub("run:start { ", [[
local calls, objective = {}, {}
function objective:begin(update) calls[#calls + 1] = "begin " .. update.count end
function objective:losses(batch)
  calls[#calls + 1] = "losses"
  return model:losses(batch)
end
function objective:finish(ranks) calls[#calls + 1] = ranks:several() and "several" or "finish" end
%0objective = objective, ]]):gsub("  for batch in", "  run:before(update)\n%0")
      :gsub("local losses = model:losses", "local losses = run:losses") .. 'print(table.concat(calls, " "))\n'
    local out = works(run("objective", text, "objective", scored, "--max-steps", "2", "batch.micro_packs=1000"))
    assert.matches("begin 1 losses finish begin 1 losses finish\n", out)
  end)
end)

it("a model of two networks is a short recipe with losses of its own, in their order", function()
  assert.is_true(lines_of(TWO_NETWORKS) < 60)
  local out = works(run("two", TWO_NETWORKS, "two", text_corpus, "batch.micro_packs=40", "log.seconds=0",
    "steps=40"))
  local train = small.metrics(folder .. "/two")
  local first, last = train[1], train[#train]
  assert.near(first.loss, first.generator_loss + 5 * first.discriminator_loss, 1e-4)
  assert.is_true(last.generator_loss < first.generator_loss - 0.3, last.generator_loss)
  assert.is_true(last.discriminator_loss < first.discriminator_loss, last.discriminator_loss)
  assert.is_true(last.discriminator_accuracy > 0.7, last.discriminator_accuracy)
  local eval = (metrics.read(folder .. "/two"))
  assert.equal("number", type(eval[#eval].discriminator_accuracy))
  local log = assert(sys.read_file(folder .. "/two/run.log"))
  assert.matches("generator %d+%.%d+  acc %d%.%d+  discriminator %d%.%d+  acc", log)
  assert.truthy(out:find("held%-out   generator loss .-held%-out   discriminator loss"), out)
end)

describe("an order written in Lua", function()
  local function weights(out) return sys.hash_file(out .. "/step-000000012/model.safetensors") end

  ---The recipe, in which a signal arrives in the middle of step 8.
  local function interrupted_by(signal)
    local kill = '    if step == 8 then os.execute("kill -%s " .. require("seqrun.core.sys").pid()) end\n'
    local recipe = HARDEST_FIRST:gsub("    run:tally%(batch, losses%)\n", function(line)
      return line .. kill:format(signal)
    end)
    assert.not_equal(HARDEST_FIRST, recipe)
    return recipe
  end

  it("is a short recipe that draws by its own results", function()
    assert.is_true(lines_of(HARDEST_FIRST) < 60)
    works(run("hardest", HARDEST_FIRST, "hardest", scored, "--max-steps", "12", "save.keep=99"))
    local train = small.metrics(folder .. "/hardest")
    assert.equal(12 * 24, train[12].sequences)
    local state = require("seqrun.checkpoint").state(folder .. "/hardest/step-000000012").state
    local cursor = state.loaders.cursors.train
    local seen, greatest = 0, 0
    for _, loss in ipairs(cursor.state.loss) do
      seen, greatest = seen + (loss > 0 and 1 or 0), math.max(greatest, loss)
    end
    assert.is_true(seen >= 12 * 12 and seen <= 12 * 13, seen) -- in turn, and the first half by loss
    assert.equal(1, #cursor.pending) -- decided ahead
    local drawn = cursor.pending[1].uids
    assert.equal(24, #drawn)
    assert.is_true(cursor.state.loss[drawn[13] + 1] > greatest / 4) -- the hardest when it was decided
  end)

  it("resumes bit for bit after it was killed, and after a signal that it handles", function()
    for signal, exit in pairs { KILL = 137, TERM = 75 } do
      local recipe, out = interrupted_by(signal), signal:lower()
      local words = { "--max-steps", "12", "save.every=3", "save.grace=0" }
      local code, _, err = run(out, recipe, out, scored, table.unpack(words))
      assert.equal(exit, code, err)
      words[#words + 1] = "--resume"
      works(run(out, HARDEST_FIRST, out, scored, table.unpack(words)))
      assert.same(small.metrics(folder .. "/hardest"), small.metrics(folder .. "/" .. out))
      assert.equal(weights(folder .. "/hardest"), weights(folder .. "/" .. out))
    end
  end)
end)

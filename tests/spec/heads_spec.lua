-- The heads of fine-tuning tasks: gradients, denominators, names, two at once, and one that a user writes.

local devices = require("tests.support.devices")
local fails = require("tests.support.fails")
local sr = require("seqrun")
local support = require("tests.support.bert")
local tasks = require("tests.support.tasks")

local it_on = devices.it_on(it)

local folder = require("tests.support.program").folder()
local corpora = {}

local function corpus(kind)
  corpora[kind] = corpora[kind] or tasks.corpus(kind, folder)
  return corpora[kind]
end

---The total loss of an update, and of each micro-batch.
local function total(model, update)
  local sum = 0
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local quiet <close> = sr.no_grad()
    sum = sum + model:losses(batch).total:item()
  end
  return sum
end

describe("the head", function()
  for _, kind in ipairs(tasks.ALL_HEADS) do
    it_on("ref", kind .. " has the gradients that finite differences give, with dropout", function()
      local model = tasks.model(kind, { num_hidden_layers = 1 })
      local batch = tasks.loader(kind, corpus(kind)):next():batch(1)
      local names = { "bert.encoder.layer.0.output.dense.bias", "bert.embeddings.token_type_embeddings.weight" }
      for i, spec in ipairs(model.heads[1].specs) do names[i + 2] = spec.name end
      support.check_gradients(model.params, names, function() return model:losses(batch).total end, 6)
    end)
  end

  it("has the names of Transformers, and a pooler only where they have one", function()
    for kind, wanted in pairs {
      classify = { "BertForSequenceClassification", true, { 3, 16 }, "single_label_classification" },
      regress = { "BertForSequenceClassification", true, { 2, 16 }, "regression" },
      multilabel = { "BertForSequenceClassification", true, { 3, 16 }, "multi_label_classification" },
      choice = { "BertForMultipleChoice", true, { 1, 16 } },
      tokens = { "BertForTokenClassification", false, { 2, 16 } },
      squad = { "BertForQuestionAnswering", false, { 2, 16 } },
    } do
      local model = tasks.model(kind)
      local head = model.heads[1]
      local layer = kind == "squad" and "qa_outputs.weight" or "classifier.weight"
      assert.same(wanted, { head.architecture, model.params:has("bert.pooler.dense.weight"), model.params:shape(layer),
        head.problem_type })
    end
  end)

  it("has no dropout of its own in evaluation, whatever it asks of hidden:drop", function()
    local scope <close> = sr.scope()
    local model = tasks.model("classify", { num_hidden_layers = 1 })
    local batch = tasks.loader("classify", corpus("classify")):next():batch(1)
    local target = batch.targets.label
    local function changed()
      local hidden = model.encoder:states(batch)
      local x = hidden:rows(target)
      return (hidden:drop(x, target, { p = 0.5 }) - x):abs():max():item() > 0
    end
    assert.is_true(changed())
    model.training = false
    assert.is_false(changed())
  end)

  it("says what is missing or wrong in its options", function()
    local heads = sr.nn.heads
    fails.raising("nn.heads.classify: give labels = { names } or outputs = the number of classes", heads.classify, {})
    fails.raising("nn.heads.classify: 1 classes; expected at least 2", heads.classify, { outputs = 1 })
    fails.raising("nn.heads.tokens: 2 labels, but outputs = 3", heads.tokens, { labels = { "a", "b" }, outputs = 3 })
    fails.raising("nn.heads.regress: unknown option 'output'", heads.regress, { output = 3 })
  end)
end)

---The same for each head: losses are means over what the update has, however it is divided.
describe("denominators", function()
  local each = devices.each(it)
  for _, kind in ipairs(tasks.ALL_HEADS) do
    each("are those of the update: " .. kind, function()
      local model = tasks.model(kind)
      model.training = false
      local wanted
      for _, arrange in ipairs { "packed", "padded", "single" } do
        local options = { arrange = arrange, micro_packs = 4 }
        local got = total(model, tasks.loader(kind, corpus(kind), options):next())
        wanted = wanted or got
        assert.near(wanted, got, 1e-6 * wanted)
      end
    end)
  end
end)

describe("the loss of", function()
  ---Logits and the target of a batch, on ref.
  local function logits_of(kind)
    local model = tasks.model(kind)
    model.training = false
    local batch = tasks.loader(kind, corpus(kind)):next():batch(1)
    local head = model.heads[1]
    local hidden, target = model.encoder:states(batch), batch.targets[head.name]
    return head:logits(hidden, target, batch), target, head:loss(hidden, target, batch), batch
  end

  it_on("ref", "regress is the mean of squares over items and values", function()
    local x, target, loss = logits_of("regress")
    assert.near((x - target.labels:to("f64")):square():mean():item(), loss.total:item(), 1e-7)
  end)

  it_on("ref", "multilabel is the mean over items and labels of -log of the sigmoid", function()
    local x, target, loss = logits_of("multilabel")
    local sum, n = 0, 0
    for i, row in ipairs(x:totable()) do
      for k, value in ipairs(row) do
        local p = 1 / (1 + math.exp(-value))
        sum, n = sum - math.log(target.labels:totable()[i][k] > 0 and p or 1 - p), n + 1
      end
    end
    assert.near(sum / n, loss.total:item(), 1e-7)
  end)

  it_on("ref", "choice is a softmax over the choices of each question", function()
    local x, target, loss, batch = logits_of("choice")
    local group = batch.targets.group
    local scores, questions, rows = x:totable(), group.labels:totable(), group.rows:totable()
    local right, sums, own = {}, {}, {}
    for _, row in ipairs(target.rows:totable()) do right[row] = true end
    for i, score in ipairs(scores) do
      local q = questions[i]
      sums[q] = (sums[q] or 0) + math.exp(score)
      if right[rows[i]] then own[q] = score end
    end
    local sum, n = 0, 0
    for q, score in pairs(own) do sum, n = sum + math.log(sums[q]) - score, n + 1 end
    assert.equal(4, n)
    assert.near(sum / n, loss.total:item(), 1e-7)
  end)

  it_on("ref", "squad is a softmax over the tokens of its own sequence alone", function()
    local x, target, loss, batch = logits_of("squad")
    local lengths, sum = batch.layout:lengths(), 0
    for i, pair in ipairs(x:totable()) do
      for k = 1, 2 do
        local all = 0
        for p = 1, lengths[i] do all = all + math.exp(pair[k][p]) end
        for p = lengths[i] + 1, #pair[k] do assert.is_true(pair[k][p] < -1e29) end
        sum = sum + math.log(all) - pair[k][target.labels:totable()[i][k] + 1]
      end
    end
    assert.near(sum / (2 * target.count), loss.total:item(), 1e-7)
  end)

  it("squad needs a target of spans", function()
    local model = tasks.model("squad")
    local loader = tasks.loader("squad", corpus("squad"), { targets = { { name = "span", reads = "sequences" } } })
    assert.error_matches(function() model:losses(loader:next():batch(1)) end,
      "head 'span': its target reads sequences; make it with { name = 'span', reads = 'spans' }", 1, true)
  end)

  it("choice needs the choices of a question together", function()
    local path, examples = folder .. "/apart.sqr", (tasks.examples("choice", 9))
    examples[1], examples[9] = examples[9], examples[1]
    sr.must(sr.data.write { out = path, vocab = tasks.VOCAB, examples = examples,
      columns = { group = { type = "i32" }, answer = { type = "i32" } } })
    fails.raising("example %d has the group %d, as example %d has, but others are between",
      sr.data.groups, sr.must(sr.data.open(path)), { groups = 2 })
  end)

  it("choice needs the target with all choices", function()
    local model = tasks.model("choice")
    local loader = tasks.loader("choice", corpus("choice"), { targets = { "answer" } })
    assert.error_matches(function() model:losses(loader:next():batch(1)) end, "has no target 'group'")
  end)
end)

it("binary cross entropy neither overflows nor loses its gradient", function()
  local x = sr.tensor({ -200, -1, 0, 1, 200 }):requires_grad_()
  local y = sr.tensor { 1, 0, 1, 0.25, 1 }
  local items = sr.ops.binary_cross_entropy(x, y)
  items:sum():backward()
  local function near(wanted, got) for i, w in ipairs(wanted) do assert.near(w, got[i], 1e-6 * math.max(1, w)) end end
  near({ 200, math.log(1 + math.exp(-1)), math.log(2), math.log(1 + math.exp(-1)) + 0.75, 0 }, items:totable())
  near({ -1, 1 / (1 + math.exp(1)), -0.5, 1 / (1 + math.exp(-1)) - 0.25, 0 }, x:grad():totable())
end)

it("two heads on one encoder train at once, each with its own loss, parameters and dropout", function()
  local examples = {}
  for i = 1, 40 do
    local ids, tags = {}, {}
    for k = 1, 4 + i % 7 do ids[k], tags[k] = 10 + (i * k) % 60, (i * k) % 2 end
    examples[i] = { a = ids, tags = tags, label = i % 3 }
  end
  local path = folder .. "/both.sqr"
  sr.must(sr.data.write { out = path, vocab = tasks.VOCAB, examples = examples,
    columns = { tags = { type = "i32", per = "token" }, label = { type = "i32" } } })
  local both = sr.must(sr.data.open(path))
  local function losses_of(targets, arrange)
    local model = tasks.model("tokens", { heads = {
      sr.nn.heads.tokens { outputs = 2, prefix = "tags_" }, sr.nn.heads.classify { outputs = 3 },
    } })
    assert.is_true(model.params:has("tags_classifier.weight") and model.params:has("classifier.weight"))
    local loader = sr.must(sr.data.loader { data = both, max_len = 48, by = "sequences", sequences = 12,
      seed = 5, prefetch = 0, targets = targets, arrange = arrange })
    local sums = {}
    for batch in loader:next():batches() do
      local scope <close> = sr.scope()
      local losses = model:losses(batch)
      losses.total:backward()
      for _, loss in ipairs(losses) do sums[loss.name] = (sums[loss.name] or 0) + loss.total:item() end
    end
    return sums
  end
  local packed, single = losses_of { "tags", "label" }, losses_of({ "tags", "label" }, "single")
  for _, name in ipairs { "tags", "label" } do assert.near(packed[name], single[name], 1e-6) end
  assert.is_nil(losses_of { "label" }.tags)
end)

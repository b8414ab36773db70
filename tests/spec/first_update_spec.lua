-- A recipe with a head of its own and one plausible mistake: what the first update says of its losses and gradients.

local program = require("tests.support.program")
local recipes = require("tests.support.recipes")
local small = require("tests.support.small")

local exits, works = program.exits, program.works

local RECIPE = recipes.text.head:gsub("held = held,", "held = false,")

local folder, corpus = small.folder()

---Runs two steps of the recipe with these changes: pairs of a text in it and another.
local function run(changes, ...)
  local text = recipes.changed(RECIPE, table.unpack(changes))
  local words = small.words(corpus, "--max-steps", "2", "--out", folder .. "/out", "--force", ...)
  words[1] = program.write(folder, "own.lua", text)
  return program.run(words)
end

---The warnings of a run that ends well.
local function warnings(...)
  local _, err = works(run(...))
  local list = {}
  for line in err:gmatch("warning: ([^\n]*)") do
    if not line:find("^alert: ") then list[#list + 1] = line end
  end
  return list
end

local function warns(words, ...)
  local list = warnings(...)
  assert.equal(1, #list, table.concat(list, "\n"))
  assert.matches(words, list[1])
end

local TOTAL, ITEMS = "total = (items * target.weights):sum()", "items = items:detach()"
local GUESS, LABELS = "weight, bias):reshape(-1)\n", "target.labels:reshape(-1)"
local BACKWARD, WEIGHT = "losses.total:backward()", 'self.params:get "share.weight"'

it("a sound recipe is not warned of, in one micro-batch or several, nor where it resumes", function()
  assert.same({}, warnings {})
  assert.same({}, warnings({}, "batch.micro_packs=1000"))
  assert.same({}, warnings({}, "model.recompute=true"))
  assert.same({}, warnings { BACKWARD, "losses.mlm.total:backward { retain = true }\n"
    .. "local rest = losses.nsp.total + losses.share.total * 0.1\nrest:backward()" })
end)

describe("the gradients of the first update", function()
  local cut = "in the first update: call backward%(%) on losses.total, without detach"

  it("are missed in parameters that no backward pass reaches, by name", function()
    warns("no gradient reaches share.weight, share.bias " .. cut,
      { GUESS, "weight, bias):reshape(-1):detach()\n" })
    warns('reaches share.bias in .* groups = { { match = "^share%%.bias%$"',
      { GUESS, "weight):reshape(-1)\n" })
    warns("reaches share.weight in", { WEIGHT, 'self.params:value_of "share.weight"' })
    warns("reaches bert.pooler.dense.weight, .*, cls.seq_relationship.weight, .* and 2 more in",
      { BACKWARD, "losses.mlm.total:backward()" })
  end)

  it("are not missed where the optimizer, the model or the targets leave parameters out", function()
    assert.same({}, warnings { GUESS, "weight):reshape(-1)\n", "local optimizer",
      'settings.groups = { { match = "^share%.bias$", frozen = true } }\nlocal optimizer' })
    assert.same({}, warnings { 'options.heads = { "mlm", "nsp", head }', 'options.heads = { "mlm", head }',
      '{ "mlm", "nsp", {', '{ "mlm", {', "pooler = true", "pooler = false", "hidden:pooled(target)",
      "hidden:rows(target)" })
  end)

  it("are noticed in tensors that are no parameters, unless they are used up or stepped by hand", function()
    local function made(own, get, before, after)
      return { "local own = {}", "local own = " .. own, WEIGHT, get,
        '  add.linear("share", 1, encoder.config.hidden_size)', '  specs[1] = { name = "share.bias", shape = { 1 } }',
        "local options = task.model_options", (before or "") .. "local options = task.model_options",
        "  run:log", (after or "") .. "  run:log" }
    end
    local list, store = "{ sr.randn({ 1, 16 }, { requires_grad = true }):keep() }",
      'sr.params.new { { name = "apart", shape = { 1, 16 } } }:initialise(1)'
    local words = "gradients reach 1 tensor outside of the model's parameters, .*: %s; declare"
    warns(words:format "%(1, 16%)", made(list, "own[1]"))
    warns(words:format "apart", made(store, 'own:get "apart"'))
    assert.same({}, warnings(made(list, "own[1]", nil,
      "  do local quiet <close> = sr.no_grad() own[1]:add_(own[1]:grad() * -1e-3) end\n")))
    assert.same({}, warnings(made(store, 'own:get "apart"', "local second = sr.optim.adamw(own)\n",
      "  second:step { rate = 1e-3 }\n")))
    assert.same({}, warnings { GUESS, GUESS .. "local shift = sr.zeros(guess:size(1), { requires_grad = true })\n"
      .. "guess = guess + shift\n" })
  end)
end)

describe("the losses of the first update", function()
  it("are the items times the weights, unless they say otherwise", function()
    for _, total in ipairs { "items:mean()", "items:sum()", "items:mean() / 3" } do
      warns("the loss 'share' %(.*own.lua:%d+%) has a total of .*, but its items times target.weights sum to",
        { TOTAL, "total = " .. total })
    end
    assert.same({}, warnings { TOTAL, "reduced = true, total = items:mean()" })
  end)

  it("depend on the weights also without items, unless they say otherwise", function()
    local function total(text, ...) return { TOTAL .. ", " .. ITEMS, "total = " .. text }, ... end
    for _, text in ipairs { "items:mean()", "items:sum()" } do
      warns("the loss 'share' %(.*own.lua:%d+%) has a total that does not depend on target.weights", total(text))
      assert.same({}, warnings(total(text .. ", reduced = true")))
      assert.same({}, warnings(total(text, "batch.micro_packs=1000")))
    end
    assert.same({}, warnings(total "(items * target.weights):sum()"))
    assert.same({}, warnings(total "items:sum() / target.denominator"))
    local drawn = {}
    for i, text in ipairs { "items:mean()", "items:mean(), " .. ITEMS } do
      local edits, tally = total(text .. " * math.random()"), "run:tally(batch, losses)"
      edits[3], edits[4] = tally, tally .. " local t = batch.targets.share\nprint('drawn', math.random(), "
        .. "t.denominator, batch.update_sequences, t.weights:sum():item())"
      drawn[i] = works(run(edits)):match("drawn.*drawn[^\n]*")
    end
    assert.equal(drawn[1], drawn[2])
  end)

  it("count their items", function()
    exits(1, "own.lua:%d+: run:tally: 'share' has %d+ values other than 0 in `items`, but a count of 1, the number",
      run { ITEMS, ITEMS .. ", count = 1" })
    exits(1, "'share' has `items` with 1 value, but its count is %d+", run { ITEMS, "items = items:mean():detach()" })
    warns("gives the metric far with a count of 0",
      { ITEMS, ITEMS .. ", sums = { far = { items:detach():sum(), 0 } }" })
    assert.same({}, warnings { ITEMS, "items = items:detach() * sr.arange(0, items:size(1) - 1):eq(0), count = 1,"
      .. " reduced = true" })
  end)

  it("do not compare every item with every label, unless both shapes say so", function()
    local column = { GUESS, "weight, bias)\n", LABELS, "target.labels", TOTAL, "total = items:mean()", ITEMS,
      "count = 1" }
    exits(1, "own.lua:%d+: sub: %(N, 1%) with %(N%) spreads to every pair, here %(%d+, %d+%)", run(column))
    column[4], column[8] = "target.labels:reshape(1, -1)", "count = 1, reduced = true"
    assert.same({}, warnings(column))
  end)

  it("are not constants added up over the micro-batches", function()
    local function penalty(text)
      return { BACKWARD, 'local size = bert.params:get("share.weight"):square():sum()\n'
        .. 'losses:add("penalty", { count = 1, ' .. text .. " })\n" .. BACKWARD }
    end
    warns("the loss 'penalty' is .* in each of the %d+ micro%-batches of an update", penalty "total = size")
    assert.same({}, warnings(penalty "total = size / update.count, reduced = true"))
    assert.same({}, warnings(penalty "total = size", "batch.micro_packs=1000"))
    local function wrapped(more)
      return { "local settings", "local losses_of = bert.losses function bert:losses(batch, see)\nlocal losses = "
        .. "losses_of(self, batch, see) " .. more .. " return losses end local settings" }
    end
    warns("the loss 'quiet' .* has a total that does not depend on target.weights",
      wrapped "losses:add('quiet', { total = self:encode(batch):square():mean(), count = batch.sequences })")
    assert.same({}, warnings(wrapped "", "model.experts=2"))
    assert.same({}, warnings(wrapped("losses:add('quiet', { total = self:encode(batch):square():mean() "
      .. "* batch.sequences / batch.update_sequences, count = batch.sequences })")))
    local sum = { BACKWARD, ';(losses.total + bert.params:get("share.weight"):square():sum()):backward()' }
    warns("own.lua:%d+: backward%(%) begins at losses.total and .* more in each of the %d micro%-batches", sum)
    assert.same({}, warnings(sum, "batch.micro_packs=1000"))
  end)

  it("are numbers, or the head, its target and the line are named", function()
    local made = "made[i].labels[k] = length / cfg.data.max_len end"
    warns("the loss 'share' %(.*own.lua:%d+%) is NaN or infinite in update 1, as are 1 of its items and 1 of "
      .. "the labels", { made,
      made .. "\nif not own[1] then own[1], made[1].labels[2] = 1, 0 / 0 end" })
    warns("own.lua:%d+: backward%(%) begins at NaN or infinity, though losses.total is finite",
      { BACKWARD, ";(losses.total + (losses.total - losses.total):log()):backward()" })
    warns("own.lua:%d+: backward%(%) begins at this total once more, so gradients count twice",
      { BACKWARD, "losses.total:backward { retain = true } losses.total:backward()" })
    warns("own.lua:%d+: backward%(%) begins at losses.total / %d, but the totals",
      { BACKWARD, ";(losses.total / update.count):backward()" })
  end)

  it("have logits, not probabilities", function()
    local function head(logits)
      return { GUESS, "weight, bias)\nguess = sr.cat({ guess, guess * -1 }, 2)" .. logits .. "\n",
        "local items = (guess - target.labels:reshape(-1)):square()",
        "local labels = target.labels:gt(0.5):to('i32'):reshape(-1)\n"
        .. "local total, items = sr.ops.cross_entropy(guess, labels, target.weights)", TOTAL, "total = total" }
    end
    exits(1, "own.lua:%d+: cross_entropy: each row sums to 1, so these are probabilities; pass logits",
      run(head ":softmax(-1)"))
    assert.same({}, warnings(head ""))
    exits(1, "own.lua:%d+: binary_cross_entropy: labels are from [%d.]+ to %d.*; expected 0 and 1", run {
      "(guess - target.labels:reshape(-1)):square()",
      "sr.ops.binary_cross_entropy(guess, target.labels:reshape(-1) * 8)" })
    local function binary(logits)
      return { "(guess - target.labels:reshape(-1)):square()", ("sr.ops.binary_cross_entropy(%s:reshape(-1), "
        .. "target.labels:reshape(-1))"):format(logits) }
    end
    exits(1, "own.lua:%d+: binary_cross_entropy: the logits are the result of sigmoid", run(binary "guess:sigmoid()"))
    assert.same({}, warnings(binary "guess"))
  end)
end)

it("a rate of 0 that the schedule does not give is warned of", function()
  warns("the learning rate of the first update is 0, but the schedule gives 0.001 for it; steps count from 1",
    { "rate(update.counters)", "rate(step // 1000)" })
end)

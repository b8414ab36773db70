-- The gradient of an update: a sum over shares in a tree by index, however the micro-batches are cut.

local sr = require "seqrun"
local support = require "tests.support.bert"

local TOLERANCE = 1e-5 -- f32: an update cut into micro-batches against one batch

local folder = require("tests.support.program").folder()

local corpus = require("tests.support.numbers").corpus(folder, 200, 0)
local bert = sr.nn.bert {
  vocab_size = corpus:vocab_size(), hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
  num_attention_heads = 2, max_position_embeddings = 64,
}
bert:initialise(5)

local function update_of(options)
  local given = { data = corpus, max_len = 64, packs = 8, seed = 3, prefetch = 0 }
  return assert(sr.data.loader(require("tests.support.with")(given, options))):next()
end

---Gradients by name after all micro-batches.
local function gradients(update)
  bert.params:zero_grad()
  for batch in update:batches(bert.params) do
    local scope <close> = sr.scope()
    bert:losses(batch).total:backward()
  end
  return support.gradients(bert.params)
end

local function bytes(found)
  local parts = {}
  for i, name in ipairs(bert.params:names()) do parts[i] = found[name]:tostring_bytes() end
  return table.concat(parts)
end

---An update of numbers: the gradient of its only parameter is their sum.
local function numbers(list, count)
  local update = { count = #list, shares = count }
  function update:batch(i) return { number = list[i], share = update.count == count and i or nil } end
  return update
end

local function each(update, stores) return require("seqrun.data.loader.shares").each(update, stores) end

local function one() return sr.params.new { { name = "w", shape = { 1 }, init = "zeros" } } end

---One step of a loop: the gradient of w * number is number.
local function back(p, batch) (p:get("w") * batch.number):sum():backward() end

describe("an update", function()
  it("gives one gradient, cut into 1, 2, 4 and 8 micro-batches", function()
    local whole = gradients(update_of {})
    for _, micro in ipairs { 4, 2, 1 } do
      local update = update_of { micro_packs = micro }
      assert.equal(8 // micro, update.count)
      assert.is_nil(support.differ(gradients(update), whole, TOLERANCE))
    end
  end)

  it("gives one gradient in the same shares, each in 1, 2 and 4 micro-batches", function()
    local whole = gradients(update_of { shares = 2, micro_packs = 4 })
    for _, micro in ipairs { 2, 1 } do
      local update = update_of { shares = 2, micro_packs = micro }
      assert.same({ 2, 8 // micro }, { update.shares, update.count })
      assert.is_nil(support.differ(gradients(update), whole, TOLERANCE))
    end
  end)

  it("gives the same bits on 1 and 2 threads", function()
    local before = sr.threads("cpu")
    sr.use("cpu", { threads = 1 })
    local alone = bytes(gradients(update_of { micro_packs = 1 }))
    sr.use("cpu", { threads = 2 })
    assert.is_true(alone == bytes(gradients(update_of { micro_packs = 1 })))
    sr.use("cpu", { threads = before })
  end)

  it("adds up its shares in a tree by index", function()
    local e = 2 ^ -24 -- 1 + e is 1 in f32
    local list = { 1, e, e, e, e, e, e }
    local p = one()
    for batch in each(numbers(list, 7), { p }) do back(p, batch) end
    local function f32(x) return string.unpack("f", string.pack("f", x)) end
    local left = f32(f32(list[1] + list[2]) + f32(list[3] + list[4]))
    local right = f32(f32(list[5] + list[6]) + list[7])
    assert.equal(f32(left + right), p:get("w"):grad():item())
    local in_order = 0
    for _, x in ipairs(list) do in_order = f32(in_order + x) end
    assert.not_equal(in_order, p:get("w"):grad():item())
  end)

  it("gives neighbouring micro-batches to a share, at most 8 of them", function()
    local list = {}
    for i = 1, 20 do list[i] = i end
    local ended = {}
    local function nothing() end
    local fake = { begin_update = function(_, n) ended.total = n end, begin_batch = nothing, end_batches = nothing }
    fake.end_share = function(_, i) ended[#ended + 1] = i end
    for _ in each(numbers(list), { fake }) do end -- luacheck: ignore 542
    assert.same({ total = 8, 1, 2, 3, 4, 5, 6, 7, 8 }, ended)
  end)

  it("that is left early has the gradient of what was computed, and the next one starts from zero", function()
    local p = one()
    local opt = sr.optim.adamw(p, { betas = { 0, 0 } })
    for batch in each(numbers({ 1, 2, 4, 8, 16 }, 5), { p }) do
      back(p, batch)
      if batch.number == 8 then break end
    end
    assert.equal(15, opt:step({ rate = 0 }).norm)
    for batch in each(numbers({ 1, 2 }, 2), { p }) do back(p, batch) end
    assert.equal(3, opt:step({ rate = 0 }).norm)
  end)

  it("adds to the gradient of the update before when no step came between", function()
    local p = one()
    local opt = sr.optim.adamw(p, { betas = { 0, 0 } })
    for _ = 1, 2 do
      for batch in each(numbers({ 1, 2, 4 }, 3), { p }) do back(p, batch) end
    end
    assert.equal(14, opt:step({ rate = 0 }).norm)
    for batch in each(numbers({ 1, 2, 4 }, 3), { p }) do
      back(p, batch)
      if batch.number == 2 then break end
    end
    p:zero_grad()
    assert.equal(0, opt:step({ rate = 0 }).norm)
  end)

  it("leaves sums to be held and sent, as the tree of its ranks says", function()
    local sums = require("seqrun.core.train").share_sums
    assert.same({ { 0, 1 }, { 3, 1 }, { 0, 0 } }, { { sums(1, 0, 1) }, { sums(8, 0, 1) }, { sums(1, 1, 2) } })
    assert.same({ { 2, 1 }, { 3, 2 } }, { { sums(8, 1, 2, true) }, { sums(8, 1, 3) } })
    assert.error_matches(function() sums(8, 2, 2) end, "from 0 to 1, got 2")
  end)

  it("sums the gradients of several stores", function()
    local p, q = one(), one()
    for batch in each(numbers({ 1, 2, 4 }, 3), { p, q }) do
      back(p, batch)
      back(q, batch)
    end
    assert.equal(7, p:get("w"):grad():item())
    assert.equal(7, q:get("w"):grad():item())
  end)
end)

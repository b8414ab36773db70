-- The optimizers on problems small enough to work out by hand; the 20-step tables are in bert_spec.

local sr = require("seqrun")
local core = require("seqrun.core.tensor")
local fails = require("tests.support.fails")

require("tests.support.devices").late()
require("tests.support.devices").gpus()

local function near(wanted, got, tolerance)
  assert.is_true(math.abs(got - wanted) <= (tolerance or 1e-6) * math.max(1, math.abs(wanted)),
    ("%.9g is not %.9g"):format(got, wanted))
end

---A store with a weight {3, 4} and a bias {0.5}, on the current device.
local function store(more)
  local list = {
    { name = "w", shape = { 2 }, init = "zeros" },
    { name = "b", shape = { 1 }, init = "zeros", group = "no_decay" },
  }
  for _, spec in ipairs(more or {}) do list[#list + 1] = spec end
  local p = sr.params.new(list)
  p:set("w", { 3, 4 })
  p:set("b", { 0.5 })
  return p
end

local function set_grad(p, name, values) p:get(name):grad():copy_(sr.tensor(values)) end

---That store and an optimizer of it; gradients of norm 1.3 where `moved`.
local function made(kind, options, moved)
  local p = store()
  local opt = sr.optim[kind](p, options)
  if moved then
    set_grad(p, "w", { 0.3, -0.4 })
    set_grad(p, "b", { 1.2 })
  end
  return p, opt
end

for _, device in ipairs(sr.devices()) do
  describe("optim on " .. device, function()
    before_each(function() sr.use(device) end)
    after_each(function() sr.use("cpu") end)

    it("takes one AdamW step as published", function()
      local p, opt = made("adamw", { decay = 0.1, eps = 1e-6 }, true)
      local result = opt:step { rate = 0.01 }
      near(1.3, result.norm)
      assert.is_true(result.finite and result.applied)
      -- after one step m^ / (sqrt(v^) + eps) is the sign of the gradient, nearly
      local w = p:value_of("w"):totable()
      near(3 - 0.01 * (0.3 / (0.3 + 1e-6) + 0.1 * 3), w[1])
      near(4 - 0.01 * (-0.4 / (0.4 + 1e-6) + 0.1 * 4), w[2])
      near(0.5 - 0.01 * 1.2 / (1.2 + 1e-6), p:value_of("b"):item())
      assert.same({ 1, 0, 0 }, { opt:counts() })
    end)

    it("scales a LAMB update by the norms of weight and update, but not a bias", function()
      local p, opt = made("lamb", { decay = 0, eps = 1e-6 }, true)
      opt:step { rate = 0.01 }
      local u1, u2 = 0.3 / (0.3 + 1e-6), -0.4 / (0.4 + 1e-6)
      local ratio = 5 / math.sqrt(u1 * u1 + u2 * u2)
      local w = p:value_of("w"):totable()
      near(3 - 0.01 * ratio * u1, w[1])
      near(4 - 0.01 * ratio * u2, w[2])
      near(0.5 - 0.01 * 1.2 / (1.2 + 1e-6), p:value_of("b"):item())
    end)

    it("clips the global gradient norm, and leaves a smaller one unchanged", function()
      for _, case in ipairs { { 0.13, 0.1 }, { 10, 1 } } do
        local _, opt = made("lamb", { betas = { 0, 0 }, decay = 0 }, true)
        near(1.3, opt:step({ rate = 0, clip = case[1] }).norm)
        local m = opt:moments("b")
        near(1.2 * case[2], m:item())
      end
    end)

    it("adds 1e-6 to the norm when clipping for AdamW, like PyTorch, and nothing for LAMB", function()
      for kind, factor in pairs { adamw = 1 / 3, lamb = 1 / 2 } do
        local p, opt = made(kind, { betas = { 0, 0 }, decay = 0 })
        set_grad(p, "b", { 2e-6 })
        opt:step { rate = 0, clip = 1e-6 }
        near(factor, opt:moments("b"):item() / 2e-6, 1e-5)
      end
    end)

    it("moves a zero tensor by LAMB's update with ratio 1", function()
      local p = store { { name = "zero", shape = { 2 }, init = "zeros" } }
      local opt = sr.optim.lamb(p, { decay = 0, eps = 1e-6 })
      set_grad(p, "zero", { 0.3, -0.4 })
      opt:step { rate = 0.01 }
      local moved = p:value_of("zero"):totable()
      near(-0.01, moved[1], 1e-5)
      near(0.01, moved[2], 1e-5)
      assert.same({ 3, 4 }, p:value_of("w"):totable()) -- an update of zeros
    end)

    it("divides the rate of a tensor with a sudden gradient, in StableAdamW", function()
      local p, opt = made("stable_adamw", { betas = { 0.9, 0.99 }, decay = 0.1 })
      set_grad(p, "w", { 0.3, -0.3 })
      set_grad(p, "b", { 1.2 })
      opt:step { rate = 0.01 } -- both moments are the gradient and its square: no division
      local w = p:value_of("w"):totable()
      near(3 * (1 - 0.001) - 0.01, w[1])
      near(4 * (1 - 0.001) + 0.01, w[2])
      near(0.5 - 0.01, p:value_of("b"):item(), 2e-6)
      set_grad(p, "w", { 30, -30 })
      opt:step { rate = 0.01 }
      local h1, h2 = (0.9 - 0.81) / (1 - 0.81), (0.99 - 0.9801) / (1 - 0.9801)
      local m, v = h1 * 0.3 + (1 - h1) * 30, h2 * 0.09 + (1 - h2) * 900
      local rate = 0.01 / math.max(1, math.sqrt(900 / v))
      near(w[1] * (1 - rate * 0.1) - rate * m / math.sqrt(v), p:value_of("w"):totable()[1])
    end)

    it("moves a matrix of orthogonal rows along them in Muon, and the rest as AdamW", function()
      local p = store {
        { name = "layer.0.w", shape = { 2, 2 }, init = "zeros" }, { name = "embeddings.w", shape = { 2, 2 } },
      }
      local opt = sr.optim.muon(p, { decay = 0, eps = 1e-8 })
      set_grad(p, "b", { 1.2 })
      p:get("layer.0.w"):grad():copy_(sr.tensor { { 0, 0.4 }, { -0.4, 0 } })
      p:get("embeddings.w"):grad():copy_(sr.tensor { { 0, 0.4 }, { -0.4, 0 } })
      opt:step { rate = 0.01 }
      local x = math.sqrt(0.5) -- singular values after the division by the norm, then five steps of the polynomial
      for _ = 1, 5 do x = 3.4445 * x - 4.7750 * x ^ 3 + 2.0315 * x ^ 5 end
      local w = p:value_of("layer.0.w"):totable()
      near(-0.01 * 0.2 * math.sqrt(2) * x, w[1][2], 1e-5)
      near(0.01 * 0.2 * math.sqrt(2) * x, w[2][1], 1e-5)
      near(0, w[1][1])
      near(-0.01, p:value_of("embeddings.w"):totable()[1][2], 1e-5)
      near(0.5 - 0.01, p:value_of("b"):item(), 1e-5)
      local names = {}
      for _, piece in ipairs(opt:pieces()) do names[piece.name] = true end
      assert.is_true(names["m.layer.0.w"] and names["v.embeddings.w"] and not names["v.layer.0.w"])
    end)

    it("leaves a matrix with a zero gradient where it is in Muon, and changes nothing by a gradient of NaN", function()
      local p = store { { name = "layer.0.w", shape = { 3, 2 } } }
      p:initialise(1)
      local before = p:value_of("layer.0.w"):totable()
      local opt = sr.optim.muon(p, { decay = 0 })
      opt:step { rate = 0.01 }
      assert.same(before, p:value_of("layer.0.w"):totable())
      set_grad(p, "b", { 0 / 0 })
      assert.is_false(opt:step({ rate = 0.01 }).applied)
      assert.same(before, p:value_of("layer.0.w"):totable())
      assert.same({ 0, 0, 0, 0, 0, 0 }, opt:moments("layer.0.w"):contiguous():view({ 6 }):totable())
    end)

    it("changes the parameters: backward through a graph from before the step is rejected", function()
      local p, opt = made("adamw")
      local loss = p:get("w"):square():sum()
      opt:step { rate = 0.1 }
      assert.error_matches(function() loss:backward() end, "written to in place")
    end)

    it("decays the moments by beta^power", function()
      local p, opt = made("adamw", { betas = { 0.9, 0.99 }, power = 2 })
      for _, g in ipairs { 1, 3 } do
        set_grad(p, "b", { g })
        opt:step { rate = 0 }
      end
      local m, v = opt:moments("b")
      near(0.81 * 0.19 * 1 + 0.19 * 3, m:item())
      near(0.9801 * 0.0199 * 1 + 0.0199 * 9, v:item())
    end)

    it("applies rate, decay and trust by group, and ignores frozen parameters", function()
      local p = store { { name = "frozen.w", shape = { 1 }, init = "ones" } }
      p:initialise(1, "frozen.w")
      local opt = sr.optim.adamw(p, {
        decay = 0.1,
        groups = {
          { match = "^b$", rate = 0.5 }, { match = "^frozen", frozen = true }, { match = "w", decay = 7 },
          { match = "^w$", decay = 0 }, -- the later one wins
        },
      })
      set_grad(p, "w", { 0.3, -0.4 })
      set_grad(p, "b", { 1.2 })
      set_grad(p, "frozen.w", { 100 })
      near(1.3, opt:step({ rate = 0.01 }).norm)
      near(3 - 0.01, p:value_of("w"):totable()[1])
      near(0.5 - 0.005, p:value_of("b"):item())
      assert.equal(1, p:value_of("frozen.w"):item())
    end)

    it("skips a step with a non-finite gradient or loss, and fails after several in a row", function()
      local p, opt = made("lamb", { max_skipped = 2 })
      set_grad(p, "b", { 1 })
      opt:step { rate = 0.1 }
      local before, m = p:value_of("b"):item(), opt:moments("b"):item()
      set_grad(p, "w", { 0 / 0, 1 })
      local result = opt:step { rate = 0.1 }
      assert.is_false(result.finite or result.applied)
      assert.equal(m, opt:moments("b"):item())
      assert.equal(before, p:value_of("b"):item())
      set_grad(p, "w", { 1, 1 })
      assert.is_false(opt:step({ rate = 0.1, loss = sr.tensor(math.huge) }).applied)
      assert.equal(before, p:value_of("b"):item())
      assert.same({ 1, 2, 2 }, { opt:counts() })
    end)

    it("ends the run with the reason if too many updates in a row are skipped", function()
      local p, opt = made("adamw", { max_skipped = 2 })
      for _ = 1, 2 do
        set_grad(p, "b", { math.huge })
        opt:step { rate = 0.1 }
      end
      assert.equal(0.5, p:value_of("b"):item())
      local raised = fails.raising("2 updates in a row", function() return opt:step { rate = 0.1 } end)
      assert.equal("numeric", require("seqrun.base.failure").of(raised).code)
      assert.same({ 0, 2, 2 }, { opt:counts() })
    end)

    it("reads no result before somebody asks or its history is full", function()
      local _, opt = made("adamw", { max_skipped = 4 })
      local room = (device == "ref" or device == "cpu") and 1 or 4
      local loss, results, waits = sr.tensor(1.5), {}, core.transfers().waits
      for i = 1, 4 do results[i] = opt:step { rate = 0.1, loss = loss } end
      assert.equal(4 // room - 1, core.transfers().waits - waits)
      opt:step { rate = 0.1, loss = loss }
      assert.equal(room == 1 and 4 or 1, core.transfers().waits - waits)
      for i = 1, 4 do assert.is_true(results[i].applied) end
      assert.same({ 5, 0, 0 }, { opt:counts() })
    end)

    it("ends the run even when later updates of its history were applied", function()
      local p, opt = made("adamw", { max_skipped = 3 })
      local done, count = true, 0
      for i = 1, 9 do
        set_grad(p, "b", { i > 1 and i < 5 and 0 / 0 or 1 })
        done = done and pcall(opt.step, opt, { rate = 0.1 })
        if done then count = i end
      end
      assert.is_true(count >= 4 and count < 8)
    end)

    it("resets the count of skipped steps when one is applied", function()
      local p, opt = made("adamw", { max_skipped = 2 })
      for i = 1, 6 do
        set_grad(p, "b", { i % 2 == 0 and 1 or 0 / 0 })
        opt:step { rate = 0.1 }
      end
      assert.same({ 3, 3, 0 }, { opt:counts() })
    end)

    it("clears the gradients after a step, unless they are to be kept", function()
      local p, opt = made("adamw")
      set_grad(p, "w", { 0.5, 0.25 })
      opt:step { rate = 0, zero_grad = false }
      assert.same({ 0.5, 0.25 }, p:get("w"):grad():totable())
      opt:step { rate = 0 }
      assert.same({ 0, 0 }, p:get("w"):grad():totable())
    end)

    it("returns separate results for every step", function()
      local p, opt = made("adamw")
      set_grad(p, "b", { 1 })
      local first = opt:step { rate = 0 }
      set_grad(p, "b", { 2 })
      local second = opt:step { rate = 0 }
      assert.equal(2, second.norm)
      assert.equal(1, first.norm)
    end)
  end)

  describe("params on " .. device, function()
    before_each(function() sr.use(device) end)
    after_each(function() sr.use("cpu") end)

    it("stores fused members contiguously, with one gradient for both views", function()
      local p = sr.params.new {
        { name = "a", shape = { 3 } },
        { name = "q", shape = { 2, 3 }, fuse = "qk" },
        { name = "k", shape = { 1, 3 }, fuse = "qk" },
      }
      p:set("q", { { 1, 2, 3 }, { 4, 5, 6 } })
      p:set("k", { { 7, 8, 9 } })
      local fused = p:fused("qk")
      assert.same({ { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } }, fused:detach():totable())
      fused:sum():backward()
      assert.same({ { 1, 1, 1 } }, p:get("k"):grad():totable())
      assert.same({ 0, 0, 0 }, p:get("a"):grad():totable())
      p:zero_grad()
      assert.same({ { 0, 0, 0 } }, p:get("k"):grad():totable())
      assert.equal(12, p:count())
    end)

    it("draws initial values from seed and name alone, regardless of padding and order", function()
      local one = sr.params.new { { name = "x", shape = { 50, 20 } }, { name = "y", shape = { 7 } } }
      local two = sr.params.new { { name = "y", shape = { 7 } }, { name = "x", shape = { 50, 20 }, pad_rows_to = 64 } }
      one:initialise(5)
      two:initialise(5)
      for _, name in ipairs { "x", "y" } do
        assert.same(one:value_of(name):totable(), two:value_of(name):totable())
      end
      two:initialise(6)
      assert.not_same(one:value_of("y"):totable(), two:value_of("y"):totable())
    end)

    it("draws from a normal truncated at two standard deviations", function()
      local p = sr.params.new { { name = "x", shape = { 200, 100 }, std = 0.02 } }
      p:initialise(1)
      local x = p:value_of("x")
      assert.is_true(x:abs():max():item() <= 0.04)
      near(0, x:mean():item(), 1e-3)
      -- a normal truncated at two deviations has 0.8796 of the deviation
      near(0.8796 * 0.02, math.sqrt(x:square():mean():item()), 1e-3)
    end)

    it("outlives the scope in which it was created", function()
      local p
      do
        local scope <close> = sr.scope()
        p = sr.params.new { { name = "x", shape = { 2 }, init = "ones" } }
        p:initialise(1)
      end
      assert.same({ 1, 1 }, p:value_of("x"):totable())
    end)
  end)
end

it("options of optimizers that contradict each other are refused in a sentence", function()
  local p = store { { name = "layer.0.w", shape = { 2, 2 } } }
  local function refused(kind, options, text)
    assert.error_matches(function() sr.optim[kind](p, options) end, text)
  end
  refused("adamw", { momentum = 0.9 }, "'momentum' is an option of muon; adamw does not have it")
  refused("lamb", { peak = 1e-3 }, "trust ratio scales its decay; leave out peak")
  refused("stable_adamw", { peak = 0 }, "peak is 0; it must be the largest rate")
  refused("muon", { scale = "unit" }, "scale.*rms")
  refused("muon", { momentum = 1 }, "momentum is 1; it must be at least 0 and below 1")
  refused("muon", { matrix_rate = 0 }, "matrix_rate is 0")
  refused("muon", { groups = { { match = "^b$", muon = true } } }, "'b', which has 1 dimensions; Muon is for")
  refused("muon", { groups = { { match = "layer", muon = false } } }, "finds no matrix of a hidden layer")
end)

it("options of optimizers of a group choose the matrices of Muon", function()
  local p = store { { name = "layer.0.w", shape = { 2, 2 } }, { name = "classifier.weight", shape = { 3, 2 } } }
  local function matrices(groups)
    local names = {}
    for i, segment in ipairs(sr.optim.muon(p, { groups = groups }).segments) do
      if segment.rows then names[#names + 1] = p:names()[i] end
    end
    return table.concat(names, " ")
  end
  assert.equal("layer.0.w", matrices())
  assert.equal("layer.0.w classifier.weight", matrices { { match = "classifier", muon = true } })
  assert.equal("classifier.weight", matrices {
    { match = "classifier", muon = true }, { match = "layer", muon = false } })
end)

it("params reports the error in a list, or an invalid name", function()
  local function refused(words, f)
    local message = fails.raising(words, f)
    assert.truthy(f == sr.optim.lamb or tostring(message):find("^tests/spec/optim_spec.lua:%d"), message)
  end
  refused("the list is empty", function() sr.params.new {} end)
  local function one(name, fuse, more)
    return { name = name, shape = { 1, more }, fuse = fuse }
  end
  refused("duplicate name 'x'", function() sr.params.new { one "x", one "x" } end)
  refused("size 0 in dimension 2", function() sr.params.new { { name = "x", shape = { 1, 0 } } } end)
  refused("are not consecutive", function() sr.params.new { one("a", "f"), one "b", one("c", "f") } end)
  refused("differ in more than rows", function() sr.params.new { one("a", "f", 2), one("b", "f", 3) } end)
  refused("fused and padded", function()
    sr.params.new { { name = "a", shape = { 1 }, fuse = "f", pad_rows_to = 8 } }
  end)
  refused("did you mean 'weight'", function() sr.params.new({ { name = "weight", shape = { 1 } } }):get("wieght") end)
  refused("no fuse group named", function() sr.params.new({ { name = "w", shape = { 1 } } }):fused("x") end)
  refused("matches no parameter", function()
    sr.optim.adamw(sr.params.new { { name = "w", shape = { 1 } } }, { groups = { { match = "bias" } } })
  end)
  local opt = sr.optim.adamw(sr.params.new { one "w" })
  opt.params.core:release()
  refused("the parameters of the optimizer were released", function() opt:step { rate = 1 } end)
  local p = sr.params.new { one "w" }
  refused("must be in [0, 1)", function() sr.optim.adamw(p, { betas = { 1, 0.9 } }) end)
  refused("did you mean 'decay'", function() sr.optim.adamw(p, { dceay = 1 }) end)
  refused("'w': unknown option 'stdd'; did you mean 'std'", function()
    sr.params.new { { name = "w", shape = { 1 }, stdd = 1 } }
  end)
  refused("params: 'w': std must be a number, got 'x'", function()
    sr.params.new { { name = "w", shape = { 1 }, std = "x" } }
  end)
  refused("parameter 1 needs a name and a shape", function() sr.params.new { { name = "w" } } end)
  refused("betas must be two numbers", function() sr.optim.adamw(p, { betas = { 0.9 } }) end)
  refused("optim: decay must be a number, got 'x'", function() sr.optim.adamw(p, { decay = "x" }) end)
  refused("optim: group 1: frozen must be true or false, got 'no'", function()
    sr.optim.adamw(p, { groups = { { match = "w", frozen = "no" } } })
  end)
  refused("optim: groups must be a list, such as", function()
    sr.optim.adamw(p, { groups = { match = "w", frozen = true } })
  end)
  refused("groups freeze every parameter, so nothing would be trained", function()
    sr.optim.adamw(p, { groups = { { match = "w", frozen = true } } })
  end)
  refused("unknown option 'lr'; the learning rate is an argument of each step", function()
    sr.optim.adamw(p, { lr = 1e-3 })
  end)
  refused("optim: group 1: 'match' is missing", function() sr.optim.adamw(p, { groups = { { rate = 1 } } }) end)
  refused("expected parameters", sr.optim.lamb)
  opt = sr.optim.adamw(p)
  refused("step requires a learning rate", function() opt:step(0.1) end)
  refused("its rate is nil %(does the function that gives it", function() opt:step { rate = nil } end)
  refused("its rate is NaN", function() opt:step { rate = 0 / 0 } end)
  refused("optim: step: unknown option 'cilp'; did you mean 'clip'", function() opt:step { rate = 1, cilp = 1 } end)
end)

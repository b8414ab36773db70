-- The moving average of the weights: by its formula, with every optimizer and device; over ranks, threads and a stop.

local checkpoint = require("seqrun.checkpoint")
local mpi = require("tests.support.mpi")
local fails = require("tests.support.fails")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

require("tests.support.devices").late()
require("tests.support.devices").gpus()

local SHAPES = {
  { name = "layer.0.w", shape = { 12, 40 } }, { name = "embeddings.w", shape = { 70, 3 } },
  { name = "norm.weight", shape = { 5 }, group = "no_decay" },
}

local function store(precision)
  local list = {}
  for i, spec in ipairs(SHAPES) do list[i] = { name = spec.name, shape = spec.shape, group = spec.group } end
  local p = sr.params.new(list, { precision = precision })
  p:initialise(3)
  return p
end

---Values of all parameters, in one list.
local function values_of(p, read)
  local list = {}
  for _, spec in ipairs(SHAPES) do
    for _, x in ipairs(read(spec.name):contiguous():view({ -1 }):totable()) do list[#list + 1] = x end
  end
  return list
end

local function weights(p) return values_of(p, function(name) return p:value_of(name) end) end

local function set_gradients(p, step)
  for k, spec in ipairs(SHAPES) do
    local g = p:get(spec.name):grad()
    local values = {}
    for i = 1, g:numel() do values[i] = math.sin(0.7 * i + 1.3 * step + k) * 0.1 end
    g:copy_(sr.tensor(values):view(spec.shape))
  end
end

local function near(wanted, got, tolerance)
  assert.equal(#wanted, #got)
  for i, x in ipairs(wanted) do
    local said = ("%d: %.9g, %.9g"):format(i, x, got[i])
    assert.is_true(math.abs(got[i] - x) <= tolerance * math.max(1, math.abs(x)), said)
  end
end

for _, device in ipairs(sr.devices()) do
  describe("an average on " .. device, function()
    before_each(function() sr.use(device) end)
    after_each(function() sr.use("cpu") end)

    for _, kind in ipairs { "adamw", "lamb", "stable_adamw", "muon" } do
      it("is the mean of the weights of 20 steps, weighed by the decay, with " .. kind, function()
        local p, decay, from = store(), 0.9, 4
        local opt = sr.optim[kind](p, { average = decay })
        local sums, weight = {}, 0
        for step = 1, 20 do
          set_gradients(p, step)
          if step == 9 then p:get("norm.weight"):grad():fill_(0 / 0) end -- skipped, and so not averaged
          opt:set_averaging(step > from)
          local applied = opt:step({ rate = 0.02, clip = 1 }).applied
          assert.equal(step ~= 9, applied)
          if step > from and applied then
            weight = decay * weight + 1
            for i, w in ipairs(weights(p)) do sums[i] = decay * (sums[i] or 0) + w end
          end
        end
        assert.equal(15, opt:averaged())
        for i, sum in ipairs(sums) do sums[i] = sum / weight end
        near(sums, values_of(p, function(name) return opt:average(name) end), device == "ref" and 1e-13 or 1e-6)
      end)
    end

    it("is what the model has while it is in use, and the weights come back bit by bit", function()
      local p = store()
      local opt = sr.optim.adamw(p, { average = 0.5 })
      local none <close> = opt:use_average()
      assert.is_false(none.given)
      assert.is_nil(opt:average("layer.0.w"))
      set_gradients(p, 1)
      opt:step { rate = 0.1 }
      local first = weights(p)
      assert.same(first, values_of(p, function(name) return opt:average(name) end)) -- of one step: those weights
      set_gradients(p, 2)
      opt:step { rate = 0.1 }
      local second, mean = weights(p), {}
      for i, w in ipairs(second) do mean[i] = (0.5 * first[i] + w) / 1.5 end
      do
        local averaged <close> = opt:use_average()
        assert.is_true(averaged.given)
        near(mean, weights(p), device == "ref" and 1e-13 or 1e-6)
        assert.has_error(function() opt:step { rate = 0.1 } end,
          "optim: step: the model has the averaged weights; close use_average() first")
      end
      assert.same(second, weights(p))
      near(mean, values_of(p, function(name) return opt:average(name) end), device == "ref" and 1e-13 or 1e-6)
    end)

    it("leaves frozen parameters where they are", function()
      local p = store()
      local opt = sr.optim.adamw(p, { average = 0.5, groups = { { match = "embeddings", frozen = true } } })
      local before = p:value_of("embeddings.w"):totable()
      set_gradients(p, 1)
      opt:step { rate = 0.1 }
      local _ <close> = opt:use_average()
      assert.same(before, p:value_of("embeddings.w"):totable())
      assert.is_nil(opt:average("embeddings.w"))
      assert.is_nil(opt:state().tensors["average.embeddings.w"])
    end)
  end)
end

describe("an average", function()
  it("is read by ops of bf16 while it is in use", function()
    local p = store("bf16")
    local opt = sr.optim.adamw(p, { average = 0.5 })
    for step = 1, 3 do
      set_gradients(p, step)
      opt:step { rate = 0.1 }
    end
    local function read() return values_of(p, function(name) return p:get(name):detach():to("f32") end) end
    local function rounded() return values_of(p, function(name) return p:value_of(name):to("bf16"):to("f32") end) end
    local before = read()
    do
      local _ <close> = opt:use_average()
      assert.same(rounded(), read())
      assert.not_same(before, read())
    end
    assert.same(before, read())
  end)

  it("has a decay between 0 and 1", function()
    for _, wrong in ipairs { 0, 1, 1.5, 0 / 0 } do
      assert.has_error(function() sr.optim.adamw(store(), { average = wrong }) end)
    end
    assert.has_error(function() sr.optim.adamw(store(), { average = "yes" }) end)
  end)

  it("goes on with a checkpoint that has one, and begins anew with one that has none", function()
    local dir <close> = setmetatable({ path = program.folder() }, { __close = function(d) sys.remove(d.path) end })
    local p = store()
    local plain, with = sr.optim.adamw(p), sr.optim.adamw(p, { average = 0.5 })
    for i, opt in ipairs { plain, with } do
      set_gradients(p, i)
      opt:step { rate = 0.1 }
      assert(sys.make_dirs(("%s/%d"):format(dir.path, i)))
      sr.must(checkpoint.save(("%s/%d"):format(dir.path, i), { step = 1, model = p, opt = opt }))
    end
    for i, wanted in ipairs { 0, 1 } do
      for _, carry in ipairs { "resume", "moments" } do
        local other = store()
        local opt = sr.optim.adamw(other, { average = 0.5 })
        sr.must(checkpoint.load(("%s/%d"):format(dir.path, i), { model = other, opt = opt, carry = carry }))
        assert.equal(wanted, opt:averaged())
        assert.equal(wanted == 1, opt:average("layer.0.w") ~= nil)
      end
    end
  end)
end)

-- ---- runs ------------------------------------------------------------------------------------

local STEPS = 12

describe("a run with an average", function()
  local folder, corpus = small.folder()
  local wanted
  local words = {
    "optimizer.average=0.8", "optimizer.average_from=4", "eval.every=6", "eval.average=true", "save.best=mlm_loss",
  }

  ---A run of this many ranks; the words after its own.
  local function run(ranks, out, ...)
    local all = small.words(corpus, "--out", folder .. "/" .. out, "ranks.bucket=0.001", ...)
    table.move(words, 1, #words, #all + 1, all)
    if ranks == 1 then program.ok(all) else program.works(mpi.run(ranks, all)) end
  end

  local function facts(out)
    local path = folder .. "/" .. out
    return { small.weights(path, STEPS), small.metrics(path), small.metrics(path, "eval") }
  end

  setup(function()
    run(1, "one", "--max-steps", tostring(STEPS), "threads=1")
    wanted = facts("one")
  end)

  it("has the same bits on three threads, and when it is stopped and resumed, before and after it began", function()
    run(1, "threads", "--max-steps", tostring(STEPS), "threads=3")
    assert.same(wanted, facts("threads"))
    for _, stop in ipairs { 2, 7 } do
      local out = "stopped" .. stop
      run(1, out, "--max-steps", tostring(stop), "threads=1")
      run(1, out, "--max-steps", tostring(STEPS), "--resume", "threads=1")
      local found = facts(out)
      assert.same(wanted[1], found[1])
      assert.same(wanted[2], found[2])
    end
  end)

  it("has the same bits on two and three ranks, also without shards and in bf16 #slow", function()
    local why = mpi.missing()
    if why then return pending(why) end
    for _, case in ipairs { { 2, "true" }, { 3, "true" }, { 2, "false" } } do
      local out = "ranks" .. case[1] .. case[2]
      run(case[1], out, "--max-steps", tostring(STEPS), "threads=1", "optimizer.shard=" .. case[2])
      assert.same(wanted, facts(out))
    end
    run(1, "bf16", "--max-steps", tostring(STEPS), "threads=1", "precision=bf16")
    run(2, "bf16_ranks", "--max-steps", tostring(STEPS), "threads=1", "precision=bf16")
    assert.same(facts("bf16"), facts("bf16_ranks"))
  end)

  it("trains as one without it", function()
    local out = folder .. "/without"
    local all = small.words(corpus, "--out", out, "--max-steps", tostring(STEPS), "threads=1", "ranks.bucket=0.001")
    program.ok(all)
    assert.same(wanted[1]["model.safetensors"], small.weights(out, STEPS)["model.safetensors"])
  end)

  it("exports and evaluates it, as the run did", function()
    local averaged = folder .. "/averaged"
    program.ok { "export", folder .. "/one", averaged, "--average" }
    local exported = sr.must(checkpoint.read_tensors(averaged .. "/model.safetensors"))
    local step = ("%s/one/step-%09d"):format(folder, STEPS)
    local moments = sr.must(checkpoint.read_tensors(step .. "/trainer/optim.safetensors"))
    local count = 0
    for name, tensor in pairs(exported) do
      assert.is_true(moments["average." .. name]:tostring_bytes() == tensor:tostring_bytes(), name)
      count = count + 1
    end
    assert.is_true(count > 20)
    local model = sr.must(sr.nn.pretrained(folder .. "/one", { average = true }))
    local name = model.params:names()[1]
    assert.same(exported[name]:totable(), model.params:value_of(name):totable())
    local newest = sr.must(checkpoint.latest(folder .. "/one/best"))
    local best = sr.must(checkpoint.read_tensors(newest .. "/model.safetensors"))
    assert.same(exported[name]:totable(), best[name]:totable()) -- falling losses: the last evaluation is the best
    local function score(...)
      local text = program.ok { "eval", ... }
      return assert(tonumber(text:match('"mlm_loss":([%d.]+)')))
    end
    local lines = small.metrics(folder .. "/one", "eval")
    near({ lines[#lines].mlm_loss }, { score(folder .. "/one", corpus, "--json", "--average") }, 1e-5)
    near({ lines[#lines].mlm_loss }, { score(folder .. "/one/best", corpus, "--json", "--part", "held") }, 1e-5)
    assert.is_true(math.abs(score(folder .. "/one", corpus, "--json") - lines[#lines].mlm_loss) > 1e-3)
  end)

  it("is what another run may start from", function()
    local out = folder .. "/next"
    local all = small.words(corpus, "--out", out, "--max-steps", "1", "rate.peak=0", "init.average=true",
      "init.from=" .. folder .. "/one")
    program.ok(all)
    local moments = sr.must(checkpoint.read_tensors(
      ("%s/one/step-%09d/trainer/optim.safetensors"):format(folder, STEPS)))
    local weights_of = sr.must(checkpoint.read_tensors(out .. "/step-000000001/model.safetensors"))
    for name, tensor in pairs(weights_of) do
      assert.is_true(moments["average." .. name]:tostring_bytes() == tensor:tostring_bytes(), name)
    end
  end)

  it("says what is wrong where there is none", function()
    local early, none = folder .. "/early", "has no moving average of the weights: it is not a checkpoint of a run with"
    program.ok(small.words(corpus, "--out", early, "--max-steps", "2", "optimizer.average=0.8",
      "optimizer.average_from=4"))
    fails.exiting(3, none, { "eval", folder .. "/one/best", corpus, "--average" })
    local input = { export = folder .. "/no", eval = corpus }
    for _, verb in ipairs { "export", "eval", "fill", "score", "encode" } do
      fails.exiting(3, none, { verb, early, input[verb] or program.write(folder, "lines.txt", "the\n"), "--average" })
    end
    for _, case in ipairs {
      { "optimizer.average=1", "a decay is below 1" }, { "eval.average=true", "eval.average needs optimizer.average" },
      { "optimizer.average_from=3", "optimizer.average_from needs optimizer.average" },
      { "init.average=true", "init.average needs init.from" },
    } do
      fails.exiting(2, case[2], small.words(corpus, "--out", folder .. "/wrong", case[1]))
    end
  end)
end)

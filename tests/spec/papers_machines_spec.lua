-- What recipes/papers says of machines: how evenly ranks share updates, many devices, layouts measured here, schedules
-- of threads, the advisor's fit.  A rehearsal of each; with LONG=1 also their arithmetic by hand.

package.path = "recipes/papers/?.lua;recipes/bench/?.lua;" .. package.path

local advise = require("seqrun.advise")
local list_schedule = require("list_schedule")
local models = require("seqrun.advise.models")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local scale = require("collectives")

local exits, works = program.exits, program.works

it("balance over ranks reproduces the study at 8 ranks of 56 sequences, and is more even", function()
  local out = works(program.run { "recipes/papers/balance.lua", "draws=20" })
  local mean, worst, packed, packed_worst, micro = {}, {}, {}, {}, {}
  for line in out:gmatch("[^\n]+") do
    local way, a, b, c, d, e = line:match("^(%l+) +([%d.]+) +([%d.]+) +[%d.-]+ +([%d.]+) +([%d.]+) +([%d.]+)")
    if way then
      mean[way], worst[way], packed[way] = tonumber(a), tonumber(b), tonumber(c)
      packed_worst[way], micro[way] = tonumber(d), tonumber(e)
    end
  end
  assert.near(1.142, mean.random, 0.03) -- 20 draws vary by 0.01
  assert.near(1.0155, mean.strided, 5e-4)
  assert.near(1.0014, mean.snake, 5e-4)
  assert.near(1.0002, mean.lpt, 1e-4)
  assert.is_true(worst.cost < 1.0002 and packed_worst.cost < 1.001 and micro.cost < 1.001)
  assert.is_true(packed.strided < packed.random and packed.snake < packed.strided)
  assert.is_truthy(out:find("\nunpadded, buckets of 128, strided %(exchange%) +1.000 +1.2%d+ "), out)
  assert.is_truthy(out:find("\npadded to 512 +[12]%.%d+ +[23]%.%d+ +1.0000 +[12]%."), out)
end)

local function links(overrides)
  local found = {}
  for key, value in pairs(scale.links) do found[key] = value end
  for key, value in pairs(overrides or {}) do found[key] = value end
  return found
end

local function scene(overrides)
  local s = {
    model = assert(models.model "bert-large"), device = assert(models.device "a100"), ranks = 64, packs = 28,
    attended = 386, uneven = 1, links = links(),
  }
  for key, value in pairs(overrides or {}) do s[key] = value end
  return s
end

describe("the simulation of many devices", function()
  it("moves what rings inside a node and between nodes move #long", function()
    local device = { node = 8, link = 100, network = 10 }
    local free = links { link = 1, network = 1, hop = 0, inner_hop = 0 }
    assert.near(1000 * 7 / 8 / 100, scale.collective(device, free, 1000, 8, 1), 1e-12)
    assert.near(1000 * 7 / 8 / 100 + 125 * 3 / 4 / 10, scale.collective(device, free, 1000, 32, 1), 1e-12)
    local slow = links { link = 1, network = 1, hop = 2, inner_hop = 1 }
    assert.near(5 * (7 * 1 + 2 * 2), scale.collective(device, slow, 0, 32, 5), 1e-12)
  end)

  it("loses efficiency with more devices, less with what hides communication #long", function()
    local last = 0
    for _, ranks in ipairs { 1, 8, 64, 512, 1024 } do
      local parts, seconds = scale.step(scene { ranks = ranks })
      local sum = 0
      for _, each in pairs(parts) do sum = sum + each end
      assert.near(seconds, sum, 1e-12)
      assert.is_true(ranks == 1 or seconds - parts.optimizer > last)
      last = seconds - parts.optimizer
    end
    local function seconds(overrides) return (select(2, scale.step(scene { links = links(overrides) }))) end
    assert.is_true(seconds { gather_hidden = true } < seconds {})
    assert.is_true(seconds { network = 0.9 } < seconds {})
    assert.is_true(seconds { buckets = 1 } > seconds {})
    local _, even = scale.step(scene())
    local parts, uneven = scale.step(scene { uneven = 1.1 })
    assert.near(even + 0.1 * parts.compute, uneven, 1e-9)
  end)

  it("reaches MLPerf's target at an evaluation #long", function()
    for _, batch in ipairs { 256, 448, 600, 3072, 8192, 13888, 20000 } do
      local sequences, interval = scale.to_target(batch)
      assert.equal(0, sequences % interval)
      assert.is_true(sequences >= 2.4e6 and sequences <= 6e6)
    end
    assert.equal(150000, select(2, scale.to_target(448)))
    assert.equal(225000, select(2, scale.to_target(8192)))
    assert.near(2 * scale.minutes(448, 0.1), scale.minutes(448, 0.2), 1e-9)
  end)

  it("prints its tables, with published results beside them", function()
    local home = program.folder()
    local file = program.write(home, "results.tsv", "accel\tdivision\tn_accel\tgbs\tseq_s\n"
      .. "NVIDIA A100-SXM4-80GB\tclosed\t8\t448\t2400\nNVIDIA A100-SXM4-80GB\tclosed\t64\t3072\t18000\n"
      .. "NVIDIA H100-SXM5-80GB\tclosed\t8\t768\t7700\n")
    local out = works(program.run { "recipes/papers/scale.lua", "draws=1", "packs=2", "results=" .. file })
    assert.truthy(out:find("\n1024 "))
    assert.truthy(out:find("\n64 [^\n]* 281 +94 %%\n"), out)
    assert.is_nil(out:find(" 962 ", 1, true))
  end)
end)

describe("the sweep over layouts", function()
  local function sweep(...)
    return program.run { "recipes/papers/layouts.lua", "max_len=32", "packs=8", "hidden=64", "layers=1",
      "vocabulary=200", "steps=1", "turns=1", "threads=2", ... }
  end

  mpi.tests(it, pending)("measures micro-batches, recomputation, ranks and ZeRO beside the advice", function()
    local out = works(sweep("ranks=1,2", "micro=2,4"))
    local rows = 0
    for ms, advised in out:gmatch("\n%d x %d, micro %d[%a%d,. -]-  +([%d.]+) +%d+ +[%d.]+ +([%d.]+)") do
      rows = rows + 1
      assert.is_true(tonumber(ms) > 0 and tonumber(advised) > 0)
    end
    assert.equal(12, rows, out) -- 2 micro-batches with and without recomputation; two ranks also with ZeRO
    local fastest, advised, regret = out:match("fastest: ([^;]+); advised: ([^;]+); regret ([%d.]+) %%")
    assert.is_true(tonumber(regret) == 0 or fastest ~= advised, out)
  end)

  it("says what it leaves out #long", function()
    local out = works(sweep("ranks=1,4", "micro=4,3", "recompute=false"))
    assert.is_truthy(out:find("left out: 4 ranks: only 2 threads", 1, true), out)
    assert.is_falsy(out:find("micro 3", 1, true)) -- does not divide the packs
  end)
end)

describe("the simulation of a schedule", function()
  local function schedule(...)
    return program.run { "recipes/papers/schedule.lua", "T=128", "hidden=16", "inner=32", "heads=2", "layers=2",
      "vocabulary=40", "len=128", "masked=8", "repeats=1", ... }
  end

  it("gives tasks in order to the thread that is free first", function()
    assert.equal(10, list_schedule({ 4, 3, 2, 1 }, 1))
    assert.equal(5, list_schedule({ 4, 3, 2, 1 }, 2)) -- 4 1, 3 2
    assert.equal(6, list_schedule({ 1, 2, 3, 4 }, 2)) -- 1 3, 2 4
    assert.equal(4, list_schedule({ 4, 3, 2, 1 }, 64))
    assert.equal(0, list_schedule({}, 3))
  end)

  it("lies between the bounds of any schedule without idle threads", function()
    for seed = 1, 50 do
      local tasks, sum, most = {}, 0, 0
      for i = 1, seed do
        tasks[i] = (i * 7919 * seed % 101) + 1
        sum, most = sum + tasks[i], math.max(most, tasks[i])
      end
      for _, threads in ipairs { 1, 3, 16, 64 } do
        local seconds = list_schedule(tasks, threads)
        assert.is_true(seconds >= math.max(most, sum / threads) - 1e-9)
        assert.is_true(seconds <= sum / threads + most * (1 - 1 / threads) + 1e-9)
      end
    end
  end)

  it("is printed for every op and the step", function()
    local out = works(schedule("threads=4,64"))
    for _, row in ipairs { "linear qkv", "linear qkv back", "attention 128, dropout back", "step of 2 layers" } do
      assert.is_truthy(out:find("\n" .. row .. " +"), row .. "\n" .. out)
    end
    exits(2, "", schedule("threads=0"))
  end)
end)

it("the fit of the advisor finds constants that explain rows it has not seen", function()
  -- layouts of a made-up cluster: the model's own predictions with other constants
  local function table_of(path)
    local constants = advise.coefficients("flash2_rms")
    constants.time.product, constants.time.link = 0.7, 0.4
    local lines = { "study\tmodel\thidden\tlayers\theads\tffn\tvocab\tseq\tworld\tgbs\tmbs\ttp\tpp\tdp\tckpt\tsp\t"
      .. "kernel\tstatus\tstep_s\tmfu" }
    for _, model in ipairs { { "8B", 4096, 32, 32, 11008 }, { "3B", 2560, 32, 32, 6912 } } do
      local name, hidden, layers, heads, inner = table.unpack(model)
      local job = {
        model = { hidden = hidden, layers = layers, heads = heads, inner = inner, vocabulary = 32000, gated = true,
          causal = true, masked = 1 },
        device = assert(models.device "a100"), seq = 2048, batch = 256, devices = 16, kernel = "flash2_rms",
      }
      for _, tensor in ipairs { 1, 2, 4 } do
        for _, pipeline in ipairs { 1, 2 } do
          for _, micro in ipairs { 1, 2, 4 } do
            local data = 16 // tensor // pipeline
            local layout = { micro_batch = micro, data = data, tensor = tensor, pipeline = pipeline,
              sequence_parallel = false, recompute = false, zero = 1 }
            local found = advise.predict(job, layout, constants)
            lines[#lines + 1] = table.concat({ name .. "-study", name, hidden, layers, heads, inner, 32000, 2048, 16,
              256, micro, tensor, pipeline, data, 0, 0, "flash2_rms", found.fits and "ok" or "oom",
              found.fits and found.step_seconds or "", found.fits and found.mfu or "" }, "\t")
          end
        end
      end
    end
    program.write(path, "layouts.tsv", table.concat(lines, "\n") .. "\n")
    return path .. "/layouts.tsv"
  end

  local out = works(program.run { "recipes/papers/advise.lua", table_of(program.folder()) })
  local apart = out:match("each group left out.*\n(all[^\n]*)\n")
  local error_of, rank, right, regret = apart:match("([%d%.]+) %%%s+([%d%.]+)%s+([%d%.]+) %%%s+([%d%.]+)")
  assert.is_true(tonumber(error_of) <= 3, out)
  assert.is_true(tonumber(rank) >= 0.95, out)
  assert.is_true(tonumber(right) >= 90, out)
  assert.is_true(tonumber(regret) <= 0.05, out)
end)

-- The simulation of many devices in recipes/bench/scale.lua.

local models = require("seqrun.advise.models")
local program = require("tests.support.program")

local folder = debug.getinfo(1, "S").source:match("^@(.*)tests/spec/") or ""
local scale = dofile(folder .. "recipes/bench/scale_model.lua")

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
  it("moves what rings inside a node and between nodes move", function()
    local device = { node = 8, link = 100, network = 10 }
    local free = links { link = 1, network = 1, hop = 0, inner_hop = 0 }
    assert.near(1000 * 7 / 8 / 100, scale.collective(device, free, 1000, 8, 1), 1e-12)
    assert.near(1000 * 7 / 8 / 100 + 125 * 3 / 4 / 10, scale.collective(device, free, 1000, 32, 1), 1e-12)
    local slow = links { link = 1, network = 1, hop = 2, inner_hop = 1 }
    assert.near(5 * (7 * 1 + 2 * 2), scale.collective(device, slow, 0, 32, 5), 1e-12)
  end)

  it("loses efficiency with more devices, less with what hides communication", function()
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

  it("keeps 95 % of its rate from 8 to 64 devices", function()
    for _, device in ipairs { "a100", "h100" } do
      local _, few = scale.step(scene { ranks = 8, device = assert(models.device(device)) })
      local _, many = scale.step(scene { ranks = 64, device = assert(models.device(device)) })
      assert.is_true(few / many >= 0.95, device)
    end
  end)

  it("reaches MLPerf's target at an evaluation", function()
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
    local code, out, err = program.run { folder .. "recipes/bench/scale.lua", "draws=1", "packs=2", "results=" .. file }
    assert.equal(0, code, err)
    assert.truthy(out:find("\n1024 "))
    assert.truthy(out:find("\n64 [^\n]* 281 +94 %%\n"), out)
    assert.is_nil(out:find(" 962 ", 1, true))
  end)
end)

-- What `auto` becomes when a run is opened, what the first lines say of the machine, and the energy counters.

local auto = require("seqrun.run.auto")
local energy = require("seqrun.run.measure.energy")
local peak = require("seqrun.run.measure.peak")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local works = program.works

local folder, corpus = small.folder()

local function run(...) return program.all(small.words(corpus, ...)) end

local function config_of(sequences, more)
  return require("tests.support.with")({
    batch = { sequences = sequences }, data = { max_len = 512 }, init = {}, precision = "f32",
    model = { hidden_size = 768, num_hidden_layers = 12, intermediate_size = 3072 },
  }, more)
end

describe("batch.micro_packs: auto", function()
  it("takes what an update has if that is little", function()
    assert.equal(3, (auto.packs(config_of(3), 1)))
  end)
  it("stops where more rows are no faster, or the memory ends", function()
    local packs, reason = auto.packs(config_of(4096), 1)
    assert.is_true(packs >= 1 and packs <= 16)
    assert.matches("^auto: ", reason)
    assert.is_true(auto.packs(config_of(4096, { precision = "bf16" }), 1) >= packs)
  end)
  it("leaves packs for every rank and share", function()
    assert.equal(2, (auto.packs(config_of(32), 4)))
    assert.equal(1, (auto.packs(config_of(2), 4)))
    assert.equal(4, (auto.packs(config_of(16, { batch = { sequences = 16, shares = 4 } }), 1)))
  end)
  it("is what it was by default while the size of the model is unknown", function()
    local packs, reason = auto.packs(config_of(64, { model = false }), 1)
    assert.equal(8, packs)
    assert.matches("not known", reason)
  end)
end)

it("a run with auto stores what it chose, and keeps it when it resumes", function()
  local out = folder .. "/auto"
  works(run("--out", out, "--max-steps", "2", "batch.micro_packs=auto"))
  local log = sys.read_file(out .. "/run.log")
  assert.matches("packs in a micro%-batch %(auto: the whole share%)", log)
  assert.matches("compute f32, .- instructions.-, peak %d+ GFLOP/s, as measured", log)
  local written = sys.read_file(out .. "/config.yaml")
  local packs = written:match("micro_packs: (%d+)")
  assert.truthy(packs, written)
  assert.truthy(written:find("instructions: " .. sr.instructions(), 1, true), written)
  works(run("--out", out, "--max-steps", "3", "--resume", "batch.micro_packs=auto"))
  assert.equal(packs, sys.read_file(out .. "/config.yaml"):match("micro_packs: (%d+)"))
end)
it("a run with auto says how much memory it took, and warns about a config of another instruction set", function()
  local said = works(run("--out", folder .. "/class", "--max-steps", "1", "instructions=cuda sm_10"))
  assert.matches("warning: the config is of a run with cuda sm_10 instructions; this one has ", said)
  assert.matches("memory     [%d.]+ %a+ at most", said)
end)

it("the peak of the cpu can be measured #slow", function()
  if sr.device() ~= "cpu" then return pending("the current device is not cpu") end
  assert.is_true(peak.measure("f32") > 1e8)
end)

describe("energy counters", function()
  local function write(path, value)
    local file <close> = assert(io.open(path, "w"))
    file:write(value, "\n")
  end
  it("are absent where the kernel has none", function() assert.is_nil(energy.open(folder .. "/nowhere")) end)
  it("add up packages, and wrap", function()
    local root = folder .. "/powercap"
    for i, now in ipairs { 1000000, 5000000 } do
      os.execute(("mkdir -p '%s/intel-rapl:%d'"):format(root, i - 1))
      write(("%s/intel-rapl:%d/energy_uj"):format(root, i - 1), now)
      write(("%s/intel-rapl:%d/max_energy_range_uj"):format(root, i - 1), 6000000)
    end
    local counters = assert(energy.open(root))
    write(root .. "/intel-rapl:0/energy_uj", 3500000)
    write(root .. "/intel-rapl:1/energy_uj", 500000)
    assert.near(2.5 + 1.5, counters:joules(), 1e-9)
    assert.equal(0, counters:joules())
  end)
end)

-- A run continues with the instruction set that it began with where it can, to the same bits; else it says why not.

local devices = require("seqrun.tensor.devices")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local exits = program.exits

local folder, corpus = small.folder()
local own, lower
local many = mpi.tests(it, function(reason) pending(reason) end)

---@return integer code
---@return string said standard output and error
local function run(before, ...)
  return program.all(small.words(corpus, ...), { before = before and "SEQRUN_ISA=" .. before })
end

local function warnings(text)
  return select(2, text:gsub("warning: ", ""))
end

local function log_of(out) return (sys.read_file(out .. "/run.log")) end

setup(function()
  own = tensor.instructions()
  for i, set in ipairs(devices.INSTRUCTION_SETS) do
    if set == own then lower = devices.INSTRUCTION_SETS[i - 1] end
  end
  if os.getenv("SEQRUN_ISA") or tensor.device() ~= "cpu" then lower = nil end
  if lower == "avx512" then lower = "avx2" end
end)

---Replaces the instruction set in a file.
local function rename_set(path, set)
  local text, count = assert(sys.read_file(path)):gsub('(instructions":"s:)[%w_]+', "%1" .. set)
  if count == 0 then text, count = text:gsub("(instructions: )[%w_]+", '%1"' .. set .. '"') end
  assert.equal(1, count, path)
  assert(sys.write_file(path, text))
end

---A run of 4 steps that is stored as one of another instruction set.
local function stored_as(name, set)
  local out = folder .. "/" .. name
  local step = out .. "/step-000000004"
  assert.equal(0, (run(nil, "--out", out, "--max-steps", "4")))
  for _, path in ipairs { out .. "/config.yaml", step .. "/trainer/config.yaml", step .. "/trainer/state.json" } do
    rename_set(path, set)
  end
  small.sign(step)
  return out
end

describe("a resumed run", function()
  it("computes with the instruction set that the config names, to the same bits", function()
    if not lower then return pending("no AVX2: there is one instruction set only") end
    local set, straight, out = "instructions=" .. lower, folder .. "/straight", folder .. "/lower"
    assert.equal(0, (run(nil, "--out", straight, "--max-steps", "7", set)))
    assert.equal(0, (run(nil, "--out", out, "--max-steps", "4", set)))
    local code, said = run(nil, "--out", out, "--resume", "--max-steps", "7")
    assert.same({ 0, 0 }, { code, warnings(said) }, said)
    assert.matches("compute f32, " .. lower .. " instructions", log_of(out))
    assert.matches("instructions is " .. lower .. " in the run's config", log_of(out))
    assert.same(small.weights(straight, 7), small.weights(out, 7))
    assert.same(small.metrics(straight), small.metrics(out))
  end)

  it("warns once, with the reason, if the processor lacks the instruction set of the run", function()
    if sys.machine().amx_bf16 then return pending("no instruction set is missing") end
    local out = stored_as("tiles", "amx")
    local code, said = run(nil, "--out", out, "--resume", "--max-steps", "5")
    assert.same({ 0, 1 }, { code, warnings(said) }, said)
    assert.matches("the run used amx instructions before; resuming with " .. own .. " is not bit%-exact "
      .. "%(cpu: no amx instructions: the %a+ [^\n;]+%)\n", said)
    assert.truthy(sys.read_file(out .. "/config.yaml"):find("instructions: " .. own .. "\n", 1, true))
    code, said = run(nil, "--out", out, "--resume", "--max-steps", "6")
    assert.same({ 0, 0 }, { code, warnings(said) }, said)
  end)

  many("warns once, with the reason, on several ranks too", function()
    if sys.machine().amx_bf16 then return pending("no instruction set is missing") end
    local out = stored_as("ranks", "amx")
    local code, _, said = mpi.run(2, small.words(corpus, "--out", out, "--resume", "--max-steps", "5", "threads=1"))
    assert.same({ 0, 1 }, { code, warnings(said) }, said)
    assert.matches("the run used amx instructions before; [^\n]+ %(cpu: no amx instructions: [^\n]+%)\n", said)
  end)

  it("warns once if it was on a GPU before", function()
    local out = stored_as("gpu", "cuda sm_90")
    local code, said = run(nil, "--out", out, "--resume", "--max-steps", "5")
    assert.same({ 0, 1 }, { code, warnings(said) }, said)
    assert.matches("the run used cuda sm_90 instructions before; resuming with " .. own .. " is not bit%-exact\n", said)
  end)

  it("warns if SEQRUN_ISA contradicts the instructions of the run, and takes SEQRUN_ISA's", function()
    if not lower then return pending("no AVX2: there is one instruction set only") end
    local out = folder .. "/contradiction"
    assert.equal(0, (run(nil, "--out", out, "--max-steps", "4", "instructions=" .. lower)))
    local code, said = run("plain", "--out", out, "--resume", "--max-steps", "5")
    assert.same({ 0, lower == "plain" and 0 or 1 }, { code, warnings(said) }, said)
    if lower == "plain" then return end
    assert.matches("the run used " .. lower .. " instructions before; resuming with plain is not bit%-exact "
      .. "%(cpu: SEQRUN_ISA=plain rules out " .. lower .. "; unset it%)", said)
  end)
end)

it("instructions must be one of these", function()
  exits(2, "'instructions' is 'avx3'; expected one of auto, plain, avx2, avx512, avx512_bf16, amx, ref, simt, "
    .. "or such as cuda sm_90; did you mean 'avx2'%?", run(nil, "--out", folder .. "/none", "instructions=avx3"))
  assert.is_false(sys.exists(folder .. "/none"))
  local config = program.write(folder, "config.yaml", "instructions: sse\n")
  exits(2, "config.yaml:1.-'instructions' is 'sse'; expected one of auto, plain, ",
    run(nil, "--out", folder .. "/none", "config=" .. config))
end)

it("instructions of a config that this machine lacks give a warning, in a new run", function()
  if sys.machine().amx_bf16 then return pending("no instruction set is missing") end
  local code, said = run(nil, "--out", folder .. "/new", "--max-steps", "1", "instructions=amx")
  assert.same({ 0, 1 }, { code, warnings(said) }, said)
  assert.matches("the config is of a run with amx instructions; this one has " .. own
    .. ", and its results differ in the last bits %(cpu: no amx instructions: the %a+ [^\n;]+%)\n", said)
end)

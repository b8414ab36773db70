-- The doctor finds problems, suggests remedies, and never fails itself.

local doctor = require "seqrun.commands.doctor"
local fault = require("tests.support.fault")
local json = require "seqrun.core.json"
local program = require("tests.support.program")

---The finding of this name.
local function find(findings, name)
  for _, finding in ipairs(findings) do
    if finding.name == name then return finding end
  end
end

---What the doctor prints with a plug-in whose device is this, or in this environment.
local function said(before, ...)
  return (select(2, program.run({ "doctor", ... }, { before = before })))
end

local function odd(device)
  return ("SEQRUN_ODD=%s SEQRUN_PLUGINS='%s'"):format(device, require("tests.support.devices").plugin("odd"))
end

describe("the doctor", function()
  after_each(function() fault.storage(0) end)

  it("makes at most fifteen checks, each with one line of facts", function()
    local findings = doctor.examine()
    assert.is_true(#findings >= 8 and #findings <= 15)
    for _, f in ipairs(findings) do
      assert.is_true(#f.facts > 0 and not f.facts:find("\n"), f.name)
      assert.equal("boolean", type(f.ok))
    end
  end)

  it("suggests a command for failed checks only", function()
    fault.storage(1, "EROFS", "rename")
    local crosses = 0
    for _, f in ipairs(doctor.examine()) do
      assert.equal(f.ok, f.command == nil, f.name)
      if not f.ok then crosses = crosses + 1 end
    end
    assert.is_true(crosses >= 1)
  end)

  it("detects a directory that is not writable", function()
    fault.storage(1, "EROFS", "rename")
    local seen = find(doctor.examine(), "runs")
    assert.is_false(seen.ok)
    assert.matches("Read%-only file system", seen.facts)
    assert.matches("%-%-out", seen.command)
  end)

  it("prints tick marks on a UTF-8 terminal, and words elsewhere", function()
    local text = doctor.text {
      { name = "a", ok = true, facts = "fine" },
      { name = "b", ok = false, facts = "broken", command = "mend it" },
    }
    assert.is_true(text:find("^ok a") ~= nil or text:find("^✓ a") ~= nil)
    assert.matches("try: mend it", text, 1, true)
  end)

  it("lists GPUs, and says why one cannot be used", function()
    local out = said(odd "cuda")
    local gpu = "Odd 1000, odd_1, 1.5 GiB (0.0 GiB free)"
    local line = ("GPU              cuda: %s; cuda:1: %s: it has no memory"):format(gpu, gpu)
    assert.is_truthy(out:find(line, 1, true), out)
    local first = {
      device = "cuda", model = "Odd 1000", arch = "odd_1", memory = 3 << 29, free = 0, driver = "", runtime = "",
    }
    local second = setmetatable({ device = "cuda:1", problem = "it has no memory" }, { __index = first })
    local gpus = find(json.decode(said(odd "cuda", "--json")).findings, "GPU").gpus
    assert.equal(2, #gpus)
    for i, wanted in ipairs { first, second } do
      for key in pairs(first) do assert.equal(wanted[key], gpus[i][key], key) end
      assert.equal(wanted.problem, gpus[i].problem)
    end
  end)

  it("gives the reason where there is no GPU", function()
    local out = said(odd "nogpu", "--json")
    local found = find(json.decode(out).findings, "GPU")
    assert.is_truthy(out:find('"gpus":[]', 1, true), out)
    assert.equal("odd: the driver is missing", found.missing)
  end)

  it("does not fail where one process trains: without mpirun", function()
    local finding = find(json.decode(said("PATH=/nowhere", "--json")).findings, "ranks")
    assert.is_true(finding.ok, finding.facts)
  end)

  it("names driver and CUDA version of a GPU", function()
    assert.equal("NVIDIA H100, sm_90, 79.2 GiB (78.5 GiB free), driver 13.1, CUDA 13.0",
      require("seqrun.tensor.devices").text {
        model = "NVIDIA H100", arch = "sm_90", memory = 85040000000, free = 84290000000, driver = "13.1",
        runtime = "13.0",
      })
  end)

  it("prints JSON on request, with exit code 0 or 1", function()
    local code, out = program.run { "doctor", "--json" }
    local answer = assert(json.decode(out))
    assert.equal(answer.ok and 0 or 1, code)
    assert.is_true(#answer.findings >= 8)
  end)
end)

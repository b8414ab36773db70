-- Phases of a training in one file: each begins where the one before has ended, and a stopped one continues.

local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local folder, corpus = small.folder()

local function run(out, list, ...)
  local words = {}
  for _, word in ipairs(small.words(corpus, "--out", folder .. "/" .. out, "threads=1", "phases=" .. list, ...)) do
    if not word:find("^rate.total=") then words[#words + 1] = word end -- the command line wins over phases
  end
  local code, stdout, stderr = program.run(words)
  return code, stdout .. stderr
end

local LIST = "[one rate.total=6, two rate.total=4 mask.prob=0.2 rate.decay=linear]"

describe("phases", function()
  it("are runs of their own, with weights and moments of the one before", function()
    works(run("all", LIST, "optimizer.name=stable_adamw", "batch.by=sequences"))
    local state = sr.must(sr.checkpoint.state(folder .. "/all/two/step-000000004"))
    assert.equal(10, state.optimizer.applied)
    local config = assert(sys.read_file(folder .. "/all/two/config.yaml"))
    assert.is_truthy(config:find("from: %S*/all/one\n") and config:find("prob: 0.2", 1, true), config)
    local again = sys.hash_file(folder .. "/all/two/step-000000004/model.safetensors")
    assert.equal(0, (run("all", LIST, "optimizer.name=stable_adamw", "batch.by=sequences"))) -- nothing left to do
    assert.equal(again, sys.hash_file(folder .. "/all/two/step-000000004/model.safetensors"))
  end)

  it("that were stopped go on, with the bits of those that were not", function()
    assert.equal(0, (run("straight", LIST, "batch.by=sequences")))
    assert.equal(0, (run("stopped", LIST, "batch.by=sequences", "--max-steps", "6")))
    sys.remove(folder .. "/stopped/two")
    assert.equal(0, (run("stopped", LIST, "batch.by=sequences")))
    assert.same(small.weights(folder .. "/straight/two", 4), small.weights(folder .. "/stopped/two", 4))
  end)

  it("are refused in a sentence where they cannot be", function()
    for words, list in pairs {
      ["two have the name 'a'"] = "[a rate.total=5, a rate.total=6]", ["'lower' is not key=value"] = "[a lower]",
      ["must begin with a name"] = "[rate.total=5]",
    } do
      exits(2, words, run("refused", list))
    end
    local text = exits(2, "", run("failing", "[a rate.peek=5]"))
    assert.is_truthy(text:find("did you mean", 1, true) and text:find("phase a ended with exit code 2", 1, true), text)
  end)
end)

it("recipes/modernbert.lua goes through its three phases, with longer sequences and other thetas", function()
  works(program.run {
    "recipes/modernbert.lua", "preset=tiny", "data.file=" .. corpus, "--max-steps", "1", "threads=1", "data.held=0",
    "--out", folder .. "/modernbert", "--quiet",
  })
  local decay = assert(sys.read_file(folder .. "/modernbert/decay/config.yaml"))
  for _, text in ipairs { "max_len: 512", "global_rope_theta: 160000", "decay: 1-sqrt", "prob: 0.15" } do
    assert.is_truthy(decay:find(text, 1, true), text .. "\n" .. decay)
  end
  local config = assert(sys.read_file(folder .. "/modernbert/constant/step-000000001/config.json"))
  assert.is_truthy(config:find('"modernbert"', 1, true) and config:find("10000", 1, true), config)
end)

-- Exit codes of runs and commands, and where all of them are documented; those of a recipe that fails, and of each code
-- of a failure, are in cli_spec.lua.

local exits = require("seqrun.cli.exits")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local CONFIG = [[
data: {file: %s/novels.sqr}
model: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}
batch: {sequences: 4, micro_packs: 4}
rate: {peak: 1e-3, total: 4}
eval: {updates: 1}
]]

local TWICE = [[
local sr = require "seqrun"
local run <close> = sr.run.open { recipe = arg, task = sr.tasks.pretraining }
for _ = 1, 2 do io.popen("kill -INT $PPID"):close() end
while run do end
]]

describe("the program #slow", function()
  local folder, config
  setup(function()
    folder = program.folder()
    assert.equal(0, (program.run { "recipes/prepare.lua", "--out", folder, "vocab.size=500" }))
    config = "config=" .. program.write(folder, "small.yaml", CONFIG:format(folder))
  end)

  ---Checks the exit code of some words; a failing program says why in one line.
  local function ends_with(code, words)
    local got, out, err = program.run(words)
    assert.same({ code }, { got }, table.concat(words, " ") .. "\n" .. out .. err)
    if code ~= 0 and code ~= 130 then assert.matches("seqrun: [^\n]+\n", err) end
  end

  local function pretrain(name, ...) return { "recipes/pretrain.lua", config, "--out", folder .. "/" .. name, ... } end

  it("ends with 0 when all is done", function() ends_with(0, pretrain("done", "--max-steps", "1")) end)

  it("ends with 2 on a mistake in a config", function()
    ends_with(2, pretrain("typo", "rate.peek=1"))
  end)

  it("ends with 3 on missing or invalid data", function()
    ends_with(3, { "info", folder .. "/nothing" })
    ends_with(3, { "stats", program.write(folder, "no.sqr", "no data set") })
  end)

  it("ends with 4 when memory does not suffice", function()
    ends_with(4, pretrain("huge", "model.hidden_size=65536", "model.num_hidden_layers=1000", "--dry-run"))
  end)

  it("ends with 5 when a file cannot be written", function()
    ends_with(5, { "vocab", "--out", "/proc/nothing/vocab.txt", "README.md" })
  end)

  it("ends with 75 when a run was stopped, and can be resumed", function()
    ends_with(75, pretrain("stopped", "budget=0.0001"))
    ends_with(0, pretrain("stopped", "--resume", "budget=none", "--max-steps", "2"))
  end)

  it("ends with 130 when it is interrupted twice", function()
    ends_with(130, { program.write(folder, "twice.lua", TWICE), config, "--out", folder .. "/twice" })
  end)
end)

it("the exit codes in the guide are those of the manual page", function()
  local text, codes = assert(sys.read_file(require("seqrun.help.pages").find("guide").path)), {}
  for code, meaning in text:match("## %d+%. Exit codes(.*)$"):gmatch("\n| (%d+) | ([^|]-) |") do
    codes[#codes + 1] = { tonumber(code), meaning }
  end
  assert.same(exits, codes)
end)

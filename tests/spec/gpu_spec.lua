-- tests/gpu without a GPU: its programs run on the simt device.

local program = require("tests.support.program")

local folder = debug.getinfo(1, "S").source:match("^@(.*)tests/spec/") or ""
local home = program.path:match("^(.*)/")

local it_on_simt = require("tests.support.devices").on_simt(it, function(reason) pending(reason) end)

describe("tests/gpu", function()
  it_on_simt("repeats a batch to the bit", function()
    local code, out, err = program.run { folder .. "tests/gpu/repeat.lua", "simt", "2" }
    assert.equal(0, code, err)
    assert.is_truthy(out:find("simt in bf16: 2 runs", 1, true))
  end)

  it_on_simt("times every op that the roofline of a step has, but what is tiny", function()
    local work = os.tmpname()
    local roofline = { folder .. "recipes/bench/roofline.lua", "model=tiny", "tokens=512", "dump=" .. work }
    assert.equal(0, (program.run(roofline)))
    local pipe = assert(io.popen(("SEQRUN_SIMT_CHECK=0 '%s/gpu-bench' simt h100 <'%s'"):format(home, work)))
    local timed, tsv = {}, os.tmpname()
    local file = assert(io.open(tsv, "w"))
    for line in pipe:lines() do
      file:write(line, "\n")
      timed[line:match("^h100\t[^\t]*\t[^\t]*\t([^\t]*)\t%d")] = true
    end
    file:close()
    assert.is_true(pipe:close())
    roofline[4] = "measured=" .. tsv
    local _, out = program.run(roofline)
    for line in out:match("\na step of.*"):gmatch("[^\n]+") do
      local op, measured = line:match("^(.-)  +%d+ .* (%S+) +%S+$")
      local tiny = op and (op:find("^pooler") or op:find("^next sentence") or op:find("^transform"))
      if op and op ~= "op" and op ~= "step" then
        assert.equal(tiny == nil, timed[op] == true and measured ~= "-", op)
      end
    end
    os.remove(work)
    os.remove(tsv)
  end)
end)

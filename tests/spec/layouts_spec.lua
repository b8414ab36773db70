-- The sweep over layouts on CPU ranks, at toy size: measured beside advised.

local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")

local folder, corpus

local function sweep(...)
  local code, out, err = program.run {
    "recipes/bench/layouts.lua", "data=" .. corpus, "max_len=32", "packs=8", "hidden=64", "layers=1", "steps=1",
    "turns=1", "threads=2", ...,
  }
  return code, out, err
end

setup(function()
  folder = program.folder()
  corpus = small.corpus(folder)
end)

describe("the sweep over layouts", function()
  mpi.tests(it, pending)("measures micro-batches, recomputation, ranks and ZeRO beside the advice", function()
    local code, out, err = sweep("ranks=1,2", "micro=2,4")
    assert.equal(0, code, err)
    local rows = {}
    for name, ms, advised in out:gmatch("\n(%d x %d, micro %d[%a%d,. -]-)  +([%d.]+) +%d+ +%d+ +([%d.]+)") do
      rows[#rows + 1] = name
      assert.is_true(tonumber(ms) > 0 and tonumber(advised) > 0)
    end
    assert.equal(12, #rows, out) -- 2 micro-batches with and without recomputation; two ranks also with ZeRO
    local fastest, advised, regret = out:match("fastest: ([^;]+); advised: ([^;]+); regret ([%d.]+) %%")
    assert.is_true(tonumber(regret) == 0 or fastest ~= advised, out)
  end)

  it("says what it leaves out, and what is missing", function()
    local code, out, err = sweep("ranks=1,4", "micro=4,3", "recompute=false")
    assert.equal(0, code, err)
    assert.is_truthy(out:find("left out: 4 ranks: only 2 threads", 1, true), out)
    assert.is_falsy(out:find("micro 3", 1, true)) -- does not divide the packs
    corpus = folder .. "/none.sqr"
    code, out, err = sweep("ranks=1", "micro=4")
    assert.is_true(code ~= 0 and err:find("none.sqr is missing", 1, true) ~= nil, out .. err)
  end)
end)

-- The benchmarks of ops: the share of a step, the roofline's picture, and the jobs of a call.

package.path = "recipes/bench/?.lua;" .. package.path

local core = require("seqrun.core.tensor")
local fails = require("tests.support.devices").fails
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local folder = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../"
local SIZES = {
  "T=128", "hidden=16", "inner=32", "heads=2", "layers=2", "vocabulary=40", "len=128", "masked=8", "repeats=1",
}

local function bench(name, ...)
  local words = { folder .. "recipes/bench/" .. name, ... }
  return program.run(table.move(SIZES, 1, #SIZES, #words + 1, words))
end

describe("ops.lua", function()
  it("gives each op's share of a step, and draws the ops under the roofline", function()
    local picture = program.folder() .. "/roofline.svg"
    local out = program.works(bench("ops.lua", "svg=" .. picture, "clock=cpu", "threads=1"))
    local total, count = 0, 0
    for line in out:gmatch("[^\n]+") do
      local share = tonumber(line:match("^.-  +%S+  +(%S+)  +"))
      if share then total, count = total + share, count + 1 end
    end
    assert.equal(19, count, out)
    assert.is_true(math.abs(total - 100) < 1, out)
    assert.is_truthy(out:find("a step of 2 layers from these ops: "), out)
    local drawn = assert(sys.read_file(picture))
    for _, name in ipairs { "roof: ", "linear qkv: ", "attention, 64 to 8 tokens: ", "mlm_loss: " } do
      assert.is_truthy(drawn:find(name, 1, true), name)
    end
  end)

  it("times attention with a window beside that without", function()
    local out = program.works(bench("ops.lua", "op=attention 128", "window=16", "kv_heads=1", "clock=cpu",
      "threads=1"))
    for _, name in ipairs { "attention 128", "attention 128, window 16", "attention 128, window 16, dropout back" } do
      assert.is_truthy(out:find("\n" .. name .. "  ", 1, true), out)
    end
  end)

  it("refuses what it cannot measure", function()
    for words, message in pairs {
      ["clock=cpu"] = "use it with threads=1", ["clock=sun"] = "choose wall or cpu",
      ["precision=f16"] = "choose f32 or bf16",
    } do
      program.exits(2, message, bench("ops.lua", words))
    end
  end)
end)

describe("recorded jobs", function()
  teardown(function() sr.use("cpu") end)

  it("have all tasks of the work, in order, with results as ever", function()
    sr.use("cpu", { threads = 1 })
    local x, w, y = sr.randn({ 600, 64 }, { seed = 1 }), sr.randn({ 400, 64 }, { seed = 2 }), nil
    local plain = sr.ops.linear(x, w):tostring_bytes()
    local jobs = assert(core.jobs(function() y = sr.ops.linear(x, w) end))
    assert.is_true(plain == y:tostring_bytes())
    assert.equal(2, #jobs) -- packing, and the blocks
    for _, tasks in ipairs(jobs) do
      local sum = 0
      for _, seconds in ipairs(tasks) do sum = sum + seconds end
      assert.is_true(#tasks > 1 and sum > 0 and sum <= tasks.whole)
    end
    assert.equal(0, #assert(core.jobs(function() end)))
  end)

  it("pass on an error, and need one thread of a cpu", function()
    sr.use("cpu", { threads = 1 })
    assert.has_error(function() core.jobs(function() error("no", 0) end) end, "no")
    local x = sr.zeros(4)
    assert.equal(1, #assert(core.jobs(function() x:fill_(1) end)))
    assert.equal(1, #assert(core.jobs(function()
      fails("already recording", core.jobs, function() end)
      x:fill_(1)
    end)))
    sr.use("cpu", { threads = 2 })
    fails("the device has 2 threads", core.jobs, function() end)
    sr.use("ref")
    require("tests.support.none")(nil, "the current device is ref, not cpu", core.jobs(function() end))
  end)
end)

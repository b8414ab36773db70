-- How evenly updates are shared among ranks, counted by the benchmark on the lengths of Wikipedia.

local program = require("tests.support.program")

local folder = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../"

describe("balance over ranks", function()
  it("reproduces the study at 8 ranks of 56 sequences, and is more even", function()
    local code, out, err = program.run { folder .. "recipes/bench/balance.lua", "draws=20" }
    assert.equal(0, code, err)
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
end)

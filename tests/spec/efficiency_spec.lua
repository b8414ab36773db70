-- The report of recipes/bench/efficiency.lua: intervals, and losses of the baseline at equal values of a counter.

package.path = "recipes/bench/?.lua;" .. package.path

local arms = require("efficiency_arms")
local report = require("efficiency_report")
local svg = require("efficiency_svg")

describe("the report of the data efficiency experiment", function()
  it("has 95 % intervals of Student's t over seeds", function()
    local mean, half = report.interval { 1, 2, 3 }
    assert.equal(2, mean)
    assert.near(4.303 * math.sqrt(1 / 3), half, 1e-9)
    assert.same({ 5 }, { report.interval { 5 } })
    assert.is_nil(report.interval {})
  end)

  it("interpolates the baseline in log x, and says when it extrapolates", function()
    local points = { { 100, 3 }, { 400, 1 } }
    assert.same({ 3, false }, { report.at(points, 100) })
    local loss, outside = report.at(points, 200)
    assert.near(2, loss, 1e-12)
    assert.is_false(outside)
    loss, outside = report.at(points, 800)
    assert.near(0, loss, 1e-12)
    assert.is_true(outside)
    assert.is_nil(report.at({ { 100, 3 } }, 200))
  end)

  it("compares each arm with the baseline of the same seed, three ways", function()
    local runs = {}
    for seed = 1, 2 do
      for _, share in ipairs { 0.5, 1 } do
        local base = 4 - 2 * math.log(share) + seed
        runs[#runs + 1] = { arm = "baseline", share = share, seed = seed, loss = base, effective_tokens = 100 * share,
          raw_tokens = 100 * share, step = 100 * share, train_seconds = 1 }
        runs[#runs + 1] = { arm = "token_drop", share = share, seed = seed, loss = base - 0.5,
          effective_tokens = 100 * share,
          raw_tokens = 200 * share, step = 100 * share, train_seconds = 1 }
      end
    end
    local row = report.rows(runs, 0.5)[3]
    assert.equal(arms.TITLES.token_drop, row[1])
    assert.equal("-0.500 ± 0.000", row[4])
    assert.equal(("%+.3f ± 0.000"):format(2 * math.log(2) - 0.5), row[5]) -- as many raw tokens are better
    assert.equal("-0.500 ± 0.000", row[6])
    assert.equal("-", row[7])
    assert.truthy(report.rows(runs, 1)[3][5]:find("*", 1, true))
  end)

  it("has the eight arms, with schedules over effective tokens", function()
    assert.equal(8, #arms.NAMES)
    for _, name in ipairs(arms.NAMES) do
      local text = table.concat(arms.words(name, { tokens = 1e6, rarity = "r.metric" }), " ")
      assert.equal(name == "baseline", text == "")
      assert.equal(name == "random" or name == "reversed", text:find("curriculum.order", 1, true) ~= nil)
    end
    local text = table.concat(arms.words("composed", { tokens = 1e6, rarity = "r.metric" }), " ")
    assert.truthy(text:find("curriculum.length.total=480000", 1, true))
    assert.truthy(text:find("token_drop.keep.total=1000000", 1, true))
  end)

  it("draws the mean and the interval of each arm over the seeds", function()
    local curves = {}
    for seed = 1, 3 do
      curves[seed] = {}
      for i = 1, 4 do curves[seed][i] = { raw_tokens = 100 * i + seed, mlm_loss = 6 - i + seed / 10 } end
    end
    local points = svg.mean(curves, "raw_tokens")
    assert.same({ 103, 401 }, { points[1][1], points[#points][1] }) -- where all of them are
    local mean, half = report.interval { 6 - 1.02 + 0.1, 6 - 1.01 + 0.2, 6 - 1 + 0.3 }
    assert.near(mean, points[1][2], 1e-9)
    assert.near(half, points[1][3], 1e-9)
    assert.same({}, svg.mean({ { { raw_tokens = 5, mlm_loss = 1 } } }, "raw_tokens"))
    assert.is_nil(svg.draw({}, { 1 }))
  end)
end)

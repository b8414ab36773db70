-- The report of recipes/bench/saving.lua: intervals, and losses of the baseline at equal values of a counter.

package.path = "recipes/bench/?.lua;" .. package.path

local arms = require("saving_arms")
local report = require("saving_report")

describe("the report of the data efficiency experiment", function()
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
    for _, name in ipairs(arms.USUAL) do assert.truthy(arms.TITLES[name]) end
    for _, name in ipairs(arms.NAMES) do
      local text = table.concat(arms.words(name, { tokens = 1e6, rarity = "r.metric" }), " ")
      assert.equal(name == "baseline", text == "")
      assert.equal(name == "random" or name == "reversed", text:find("curriculum.order", 1, true) ~= nil)
    end
    local text = table.concat(arms.words("composed", { tokens = 1e6, rarity = "r.metric" }), " ")
    assert.truthy(text:find("curriculum.length.total=480000", 1, true))
    assert.truthy(text:find("token_drop.keep.total=1000000", 1, true))
  end)

  it("says how many times less an arm needs for the loss of the baseline", function()
    local x, outside = report.where({ { 100, 3 }, { 400, 1 } }, 2)
    assert.near(200, x, 1e-9)
    assert.is_false(outside)
    assert.is_true(select(2, report.where({ { 100, 3 }, { 400, 1 } }, 0.5)))
    assert.is_nil(report.where({ { 100, 3 } }, 2))
    assert.is_nil(report.where({ { 100, 3 }, { 200, 3 } }, 2))
    local runs = {}
    for seed = 1, 2 do
      for _, share in ipairs { 0.5, 1 } do
        for _, name in ipairs { "baseline", "composed" } do -- composed: 1.5 times less
          local tokens = 100 * share
          runs[#runs + 1] = { arm = name, share = share, seed = seed, effective_tokens = tokens, raw_tokens = tokens,
            step = tokens, train_seconds = tokens, loss = 9 - math.log(tokens * (name == "composed" and 1.5 or 1)) }
        end
      end
    end
    assert.same({ arms.TITLES.composed, "1.50 ± 0.00", "1.50 ± 0.00", "1.50 ± 0.00", "1.50 ± 0.00" },
      report.saved(runs)[2])
  end)

  it("has curves by share and counter", function()
    local curve = { { effective_tokens = 1, raw_tokens = 1, train_seconds = 1, mlm_loss = 5 } }
    local panels = report.panels({ { arm = "baseline", share = 1, curve = curve } }, { 1, 0.5 })
    assert.equal(6, #panels)
    assert.same({ curve }, panels[1].series[1].curves)
  end)

  it("has arms of fine-tuning that keep to the length of packs", function()
    for _, name in ipairs(arms.TUNING) do
      local text = table.concat(arms.tuned_words(name, { tokens = 1e5, max_len = 128, loss = "l.metric" }), " ")
      assert.equal(name == "baseline", text == "")
      assert.equal(name == "loss" or name == "composed", text:find("l.metric", 1, true) ~= nil)
    end
  end)
end)

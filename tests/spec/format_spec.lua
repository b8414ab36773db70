-- Quantities for people: a unit begins where rounding reaches it.

local format = require("seqrun.base.format")

local function check(name, cases)
  for _, case in ipairs(cases) do
    assert.equal(case[2], format[name](case[1]), ("%s(%s)"):format(name, case[1]))
  end
end

describe("a quantity", function()
  it("counts with three digits, also where rounding reaches the next unit", function()
    check("count", {
      { 0, "0" }, { 5.0, "5" }, { 0.125, "0.125" }, { 12.34, "12.3" }, { 999, "999" }, { 999.4, "999" },
      { 999.6, "1.00k" }, { 1000, "1.00k" }, { 1234567, "1.23M" }, { 9994, "9.99k" }, { 9999, "10.0k" },
      { 99940, "99.9k" }, { 99999, "100k" }, { 999499, "999k" }, { 999999, "1.00M" }, { 999999999, "1.00G" },
      { 999999999999, "1.00T" }, { 1234e12, "1234T" }, { -999999, "-1.00M" }, { -12, "-12" }, { 1e300 * 1e10, "inf" },
      { -math.huge, "-inf" }, { 0 / 0, "nan" },
    })
  end)

  it("of bytes is in the unit that fits", function()
    check("bytes", {
      { 0, "0 B" }, { 10, "10 B" }, { 1023, "1023 B" }, { 1024, "1.0 KiB" }, { 1536, "1.5 KiB" },
      { 1024 * 1023, "1023.0 KiB" }, { 1024 * 1024 - 1, "1.0 MiB" }, { 1 << 20, "1.0 MiB" },
      { (1 << 30) - 1, "1.0 GiB" },
      { 3 << 29, "1.5 GiB" }, { 1 << 40, "1.0 TiB" }, { 5 << 50, "5120.0 TiB" }, { 1.5, "2 B" }, { 0 / 0, "nan" },
      { math.huge, "inf" },
    })
  end)

  it("with commas takes any number", function()
    check("commas", {
      { 0, "0" }, { 999, "999" }, { 1000, "1,000" }, { -1234567, "-1,234,567" }, { 1e6, "1,000,000" }, { 1.5, "2" },
      { math.maxinteger, "9,223,372,036,854,775,807" }, { math.huge, "inf" }, { 0 / 0, "nan" },
      { 1e18, "1,000,000,000,000,000,000" }, { 1e20, "100,000,000,000,000,000,000" },
    })
    assert.equal("1 column", format.counted(1, "column"))
    assert.equal("2,000 columns", format.counted(2000, "column"))
  end)

  it("of time has a unit that rounding has reached", function()
    check("duration", {
      { 0, "0ms" }, { 0.045, "45ms" }, { 0.9994, "999ms" }, { 0.9996, "1.0s" }, { 3.2, "3.2s" }, { 9.94, "9.9s" },
      { 9.96, "10s" }, { 59.4, "59s" }, { 59.6, "1m00" }, { 75, "1m15" }, { 3599.6, "1h00" }, { 4000, "1h06" },
      { 86399.6, "1d00h" }, { 1e12, "31,688 years" }, { math.huge, "over a million years" }, { 0 / 0, "unknown" },
    })
  end)

  it("is a percentage, a step or a word of a command", function()
    check("percent", { { 0, "0.0%" }, { 0.9994, "99.9%" }, { 0.9996, "100.0%" } })
    assert.same({ "3 of 10", "3" }, { format.step(3, 10), format.step(3, format.UNLIMITED) })
    check("shell", { { "a/b=1", "a/b=1" }, { "", "''" }, { "a b", "'a b'" }, { "it's", [['it'\''s']] } })
  end)
end)

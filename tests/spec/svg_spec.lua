-- Charts: valid XML whatever they are given, round ticks, and thinning that keeps what stands out.

local axes = require("seqrun.draw.svg_axes")
local svg = require("seqrun.draw.svg")

---Fails unless all elements are closed and every attribute is quoted.
local function check_xml(text)
  local open = {}
  text = text:gsub("<style>.-</style>", "")
  for closing, name, attributes, empty in text:gmatch("<(/?)([%w]+)([^<>]-)(/?)>") do
    if closing == "/" then
      assert.equal(table.remove(open), name)
    else
      assert.equal("", (attributes:gsub(' [%w:-]+="[^"]*"', "")))
      if empty == "" then open[#open + 1] = name end
    end
  end
  assert.same({}, open)
end

local function chart(series, more)
  local o = { title = "loss", x = { label = "step" }, y = { label = "nats" }, series = series }
  return svg.chart(require("tests.support.with")(o, more))
end

describe("a chart", function()
  it("has axes, ticks, units, a legend, a title and a description", function()
    local text = assert(chart({
      { name = "train", class = "s1", points = { { 1, 9 }, { 50, 4 }, { 100, 3 } } },
      { name = "held-out", class = "s2", kind = "dots", points = { { 50, 5 }, { 100, 4 } } },
      { name = "unigram model", class = "s7", kind = "level", y = 6.2 },
    }, { desc = "the loss by step", heading = "MLM", marks = { { x = 70, name = "resumed" } } }))
    check_xml(text)
    for _, part in ipairs {
      ">step<", ">nats<", ">100<", ">8<", ">train<", ">held-out<", ">unigram model<", ">MLM<", "<title id=",
      "<desc id=", 'role="img"', "<circle ", "resumed",
    } do
      assert.truthy(text:find(part, 1, true), part)
    end
    check_xml(svg.page(500, 300, { text }, "a file"))
  end)

  it("escapes what it is given", function()
    assert.equal("&lt;b a=&quot;&amp;&#39;&gt;", svg.escape("<b a=\"&'>"))
    assert.equal("a\u{FFFD}b\u{FFFD}\u{FFFD}é\n", svg.escape("a\xffb\0\27é\n"))
    assert.equal("\u{FFFD}", svg.escape("\xc3"))
    local text = assert(chart({ { name = "</text><script>", class = "s1", points = { { 1, 1 }, { 2, 2 } } } }))
    assert.is_nil(text:find("<script", 1, true))
    check_xml(text)
  end)

  it("draws a single point, equal values, huge, tiny and negative numbers", function()
    for _, values in ipairs {
      { 1 }, { 3, 3, 3 }, { 9e299, -9e299 }, { 1e-300, 2e-300 }, { 1e-320, 2e-320 }, { 5e-324, 0 },
      { 2 ^ 53, 2 ^ 53 + 2 }, { -5, -7 }, { 0, 0 },
    } do
      local points = {}
      for i, y in ipairs(values) do points[i] = { i, y } end
      for _, axis in ipairs { {}, { even = true }, { log = true }, { low = 0 } } do
        axis.label = "y"
        local text = assert(chart({ { class = "s1", points = points } }, { y = axis }))
        assert.is_nil(text:find("nan", 1, true))
        assert.is_nil(text:find("inf", 1, true))
        check_xml(text)
        assert.equal(#values == 1, text:find("<circle ", 1, true) ~= nil) -- a line of one point shows nothing
      end
    end
  end)

  it("ends even axes at ticks, whatever the range", function()
    for low = 1, 60 do
      for high = low + 1, 60 do
        local axis = axes.new({ label = "y", even = true }, low / 10, high / 10, 5)
        local position = axis.scale(0, 1)
        assert.is_true(position(low / 10) >= -1e-9 and position(high / 10) <= 1 + 1e-9)
        assert.near(0, position(axis.ticks[1].at), 1e-9)
        assert.near(1, position(axis.ticks[#axis.ticks].at), 1e-9)
        assert.is_true(#axis.ticks <= 6)
      end
    end
  end)

  it("leaves gaps where values are not finite, marks them, and draws nothing without numbers", function()
    local text = assert(chart({ { class = "s1", points = { { 1, 1 }, { 2, 2 }, { 3 }, { 4, 0 / 0 }, { 5, 2 } } } }))
    assert.equal(2, select(2, text:match('class="s1" d="([^"]*)"'):gsub("M", "")))
    assert.truthy(text:find("not a finite number", 1, true))
    assert.is_nil(chart({ { class = "s1", points = { { 1 } } } }))
    assert.is_nil(chart({ { class = "s1", points = {} } }))
  end)

  it("draws bars with their labels, and a bar for the smallest count", function()
    local text = assert(chart({ { kind = "bars", points = { { 0, 1, 5, "five" }, { 1, 2, 0 }, { 2, 3, 1e-9 } } } }))
    check_xml(text)
    assert.equal(2, select(2, text:gsub("<rect", "")))
    assert.truthy(text:find(">five<", 1, true))
  end)
end)

it("ticks are round, within the range, and never too many", function()
  assert.same({ 0, 2, 4, 6, 8, 10 }, (axes.ticks(0, 10, 5)))
  assert.same({ 7 }, (axes.ticks(7, 7, 5)))
  for i = 1, 200 do
    local low = (i * 37 % 100 - 50) * 10.0 ^ (i % 9 - 4)
    local high = low + (i % 13 + 1) * 10.0 ^ (i % 7 - 3)
    local list = axes.ticks(low, high, 6)
    assert.is_true(#list >= 1 and #list <= 7)
    local slack = 1e-6 * (math.abs(low) + math.abs(high))
    for _, at in ipairs(list) do assert.is_true(at >= low - slack and at <= high + slack) end
  end
end)

describe("thinning", function()
  it("keeps the number of points below the limit, spikes, gaps and the order", function()
    local points = {}
    for i = 1, 100000 do points[i] = { i, math.sin(i / 1000) } end
    points[54321], points[777], points[90000] = { 54321, 40 }, { 777, -40 }, { 90000 }
    local list = svg.thin(points, 2000)
    assert.is_true(#list <= 3000)
    local found, before = {}, 0
    for _, point in ipairs(list) do
      found[point[1]] = true
      assert.is_true(point[1] > before)
      before = point[1]
    end
    assert.truthy(found[54321] and found[777] and found[90000])
    assert.equal(points, svg.thin(points, 100000))
  end)
end)

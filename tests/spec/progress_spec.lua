-- Progress: a line that fits the terminal, lines that stay without wrapping, and plain lines elsewhere.

local live = require("seqrun.draw.live")
local program = require("tests.support.program")
local screen = require("tests.support.screen")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")
local terminal = require("tests.support.terminal")

local works = program.works

describe("the status line", function()
  local parts = {
    { text = "step 12/100", rank = 1 }, { bar = 0.12, rank = 4 }, { text = "loss 5.123 ↓", rank = 2 },
    { text = "lr 1.00e-03", rank = 5 }, { text = "1.6k tok/s", rank = 6 }, { text = "eta 12s", rank = 3 },
  }

  it("has the parts that fit, the most important ones first", function()
    for width = 10, 250 do
      local line = live.fit(parts, width)
      assert.is_true(live.columns(line) <= width, line)
      assert.equal(width >= 11, line:find("step 12/100", 1, true) ~= nil)
      assert.equal(width >= 25, line:find("loss", 1, true) ~= nil)
      assert.equal(width >= 34, line:find("eta", 1, true) ~= nil)
    end
    assert.equal("step 12/100  ━━━─────────────────────  loss 5.123 ↓  lr 1.00e-03  1.6k tok/s  eta 12s",
      live.fit(parts, 200))
    assert.equal("step 12/100  loss 5.123 ↓  eta 12s", live.fit(parts, 39))
    assert.equal("", live.fit(parts, 10))
  end)

  it("has a bar from empty to full", function()
    assert.equal("────", live.bar(0, 4))
    assert.equal("━━──", live.bar(0.5, 4))
    assert.equal("━━━━", live.bar(1.5, 4))
  end)
end)

it("a line knows that the terminal has another width since it was drawn", function()
  local columns, real = 80, sys.columns
  sys.columns = function() return columns end
  local line = live.new()
  assert.is_false(line:resized())
  line.drawn, line.columns = 20, 80
  assert.is_false(line:resized())
  columns = 60
  assert.is_true(line:resized())
  sys.columns = real
end)

it("lines that stay are broken at blanks and indented", function()
  local line = "  plan    100 sequences in 20 packs of 48: 98.8% full, factor 1.45"
  assert.equal(line, live.fold(line, 100))
  assert.equal("  plan    100 sequences in 20\n          packs of 48: 98.8%\n          full, factor 1.45",
    live.fold(line, 30))
  assert.equal("  plan    100\n    sequences in 20\n    packs of 48:\n    98.8% full,\n    factor 1.45",
    live.fold(line, 20))
  assert.equal("a\n  bbbbbbbbbbbbbbb\n  c", live.fold("a bbbbbbbbbbbbbbb c", 8))
  assert.equal("", live.fold("", 8))
  assert.equal("step 5/14  loss 8.973\n  acc 0.000  lr 1.92e-04",
    live.fold("step 5/14  loss 8.973  acc 0.000  lr 1.92e-04", 27))
  local metrics = "step 10/14  eta 492ms  loss 8.906  accuracy_of_the_head 0.000  lr 4.00e-04  real 3.39k tok/s"
  for width = 30, 80 do
    for _, long in ipairs { line .. "\n" .. line, metrics } do
      local folded = live.fold(long, width)
      for part in folded:gmatch("[^\n]+") do assert.is_true(#part <= width, part) end
      assert.equal(long:gsub("%s+", " "), (folded:gsub("%s+", " ")))
    end
  end
end)

it("long work shows nothing in its first second, then lines at growing intervals", function()
  local lines, now = {}, 100
  local real = sys.now
  sys.now = function() return now end
  local work = live.work("tokenizing", { total = 1000, unit = "bytes", print = function(line)
    lines[#lines + 1] = ("%d: %s"):format(now - 100, line)
  end })
  for second = 0, 60 do
    now = 100 + second
    work:at(10 * second, second .. " tokens")
  end
  work:finish()
  sys.now = real
  assert.equal("1: tokenizing  ", lines[1]:sub(1, 15))
  local seconds = {}
  for i, line in ipairs(lines) do seconds[i] = tonumber(line:match("^%d+")) end
  assert.same({ 1, 5, 13, 29 }, { table.unpack(seconds, 1, 4) })
  assert.equal("5: tokenizing  5.0%  eta 1m35  50/1.00k bytes  5 tokens", lines[2])
end)

describe("a run #slow", function()
  local folder, corpus = small.folder()

  local function words_of(name, ...)
    local words = small.words(corpus, "--out", folder .. "/" .. name, "rate.total=100", ...)
    for i = #words, 1, -1 do
      if words[i] == "--quiet" then table.remove(words, i) end
    end
    return words
  end

  ---What a run writes to a terminal.
  local function written(name, script, columns, before, ...)
    if terminal.missing() then return nil end
    local words = words_of(name, ...)
    for i, word in ipairs(words) do words[i] = "'" .. word .. "'" end
    local code, shown, err = terminal.run(script, {
      columns = columns, words = table.concat(words, " "), before = before, raw = true,
    })
    assert.equal("", err)
    return code, shown
  end

  for _, columns in ipairs { 40, 80, 200 } do
    it(("fits a terminal of %d columns"):format(columns), function()
      local code, shown = written("at" .. columns, "", columns, "", "--max-steps", "12", "log.every=4", "log.seconds=0")
      if not code then return pending(terminal.missing()) end
      assert.equal(0, code)
      local rows, wrapped = screen.of(shown, columns)
      assert.equal(0, wrapped)
      local text = table.concat(rows, "\n")
      assert.is_nil(text:find("━", 1, true), "the status line has gone")
      for _, words in ipairs { "step 4/12", "step 8/12", "step 12/12", "held-out", "saved" } do
        assert.truthy(text:find(words, 1, true), words)
      end
      assert.truthy(shown:find("step 8/12  ", 1, true))
      if columns > 40 then assert.matches("━ +loss", (shown:gsub("─", ""))) end
      assert.truthy(shown:find("\27[32m↓\27[0m", 1, true))
    end)
  end

  it("follows the width of the terminal, and leaves whole lines after Ctrl-C", function()
    local code, shown = written("resized", "? step 4/\nsize 40\n? step 16/\n? step 20/\n! \\x03\n", 120, "NO_COLOR=1",
      "log.every=4", "log.seconds=1000", "rate.total=100000")
    if not code then return pending(terminal.missing()) end
    assert.equal(75, code)
    local last
    for drawn in shown:gmatch("\r\27%[K\r(step [^\r\27]*)\27%[K") do last = drawn end
    assert.is_true(live.columns(last) < 40, last)
    assert.is_nil(shown:find("\27%[3%dm"), "no colours")
    local rows = screen.of(shown, 120)
    local text = table.concat(rows, "\n")
    assert.truthy(text:find("\nseqrun: stopped by signal INT at step", 1, true))
    assert.is_nil(text:find("^C", 1, true))
  end)

  it("writes plain lines elsewhere, to a simple terminal, and none with --quiet", function()
    local code, _, err = program.run(words_of("plain", "--max-steps", "8", "log.every=4", "log.seconds=0"))
    assert.equal(0, code)
    assert.is_nil(err:find("[\27\r]"))
    assert.matches("\nstep 4/8  eta .-  loss .-\nstep 8/8  ", err)
    local dumb
    code, dumb = written("dumb", "", 80, "TERM=dumb", "--max-steps", "4")
    if code then
      assert.is_nil(dumb:gsub("\r\n", "\n"):find("[\27\r]"))
      for line in dumb:gmatch("[^\r\n]+") do assert.is_true(live.columns(line) <= 80, line) end
    end
    code, _, err = program.run(small.words(corpus, "--out", folder .. "/quiet", "--max-steps", "2"))
    assert.same({ 0, "" }, { code, err })
    _, err = works(program.run(words_of("json", "--max-steps", "4", "log.every=2", "log.seconds=0", "--json-log")))
    for line in err:gmatch("[^\n]+") do assert.truthy(require("seqrun.core.json").decode(line), line) end
  end)
end)

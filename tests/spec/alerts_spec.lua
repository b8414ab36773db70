-- Alerts of a run: what is reported, at which step, and what is not; the command, the event, the end of the run.

local alerts = require("seqrun.run.alerts")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

---Alerts that record what they report: "kind step".
local function noted(options)
  local told = {}
  local screen = { warn = function(_, _, kind, step) told[#told + 1] = kind .. " " .. step end }
  local one = alerts.new {
    options = { spike = 10, stall = 60, disk = 0, stop = false, run = nil }, folder = ".", screen = screen,
    records = { event = function() end, alarm = function() end }, each_step = true,
  }
  for key, value in pairs(options or {}) do one.options[key] = value end
  return one, told
end

local function feed(one, t)
  for step = 1, #t.norms do
    local at = { step = step, seconds = step }
    one:step(at, {
      norm = t.norms[step], applied = t.norms[step] == t.norms[step], rate = (t.rates or {})[step] or 1e-3,
    }, (t.waits or {})[step] or 0, step < #t.norms)
    if t.losses and t.losses[step] then one:line(at, { loss = t.losses[step] }, {}) end
  end
end

local function repeated(count, value, changes)
  local list = {}
  for i = 1, count do list[i] = value end
  for at, other in pairs(changes or {}) do list[at] = other end
  return list
end

describe("alerts", function()
  it("report NaN, spikes, waiting and a rate of zero at the step itself", function()
    local one, told = noted()
    feed(one, {
      norms = repeated(60, 1.0, { [10] = 0 / 0, [20] = 50, [50] = 11 }), waits = { [30] = 61 },
      rates = repeated(60, 1e-3, { [58] = 0, [59] = 0, [60] = 0 }),
    })
    assert.same({ "nonfinite 10", "data 30", "gradient 50" }, told) -- at 20 too few norms are known; at 60 it ends
    one, told = noted()
    feed(one, { norms = repeated(20, 1.0), rates = repeated(20, 0, { 1e-3, 1e-3 }) })
    assert.same({ "rate 13" }, told)
    one, told = noted { spike = 0, stall = 0 }
    local losses = repeated(60, 2, { [40] = 99 })
    feed(one, { norms = repeated(60, 1.0, { [50] = 99 }), waits = { [30] = 999 }, losses = losses })
    assert.same({}, told)
  end)

  it("report a loss far above the last lines, or above the first", function()
    local one, told = noted()
    feed(one, { norms = repeated(20, 1.0), losses = { 10, 8, 7, 6.5, 6.2, 6, 5.9, 5.8, 5.8, 5.7, 9.5, 5.8 } })
    assert.same({ "loss 11" }, told)
    one, told = noted()
    feed(one, { norms = repeated(20, 1.0), losses = { 5, 4.9, 4.9, 4.8, 5.2, 5.9, 6.6, 7.6, 8, 9 } })
    assert.same({ "loss 7" }, told) -- again only 100 steps later
  end)

  it("do not report clean runs: falling noisy losses and norms", function()
    math.randomseed(5)
    for _ = 1, 100 do
      local one, told = noted()
      local norms, losses = {}, {}
      for step = 1, 300 do
        local normal = math.sqrt(-2 * math.log(1 - math.random())) * math.cos(2 * math.pi * math.random())
        local noise = math.exp(0.4 * normal)
        norms[step] = (0.5 + 4 * math.exp(-step / 40)) * noise
        losses[step] = (0.05 + 0.65 * math.exp(-step / 60)) * noise ^ 0.25
      end
      feed(one, { norms = norms, losses = losses })
      assert.same({}, told)
    end
  end)
end)

describe("an alarm", function()
  local train = require("seqrun.core.train")

  it("fires on timeout, once, with a record and a command, and not when disarmed", function()
    local dir = program.folder()
    local file = assert(train.append(dir .. "/lines"))
    local alarm = assert(train.alarm(file))
    assert.is_false(alarm:disarm())
    assert(alarm:arm(60, "not told", "never\n"))
    assert.is_false(alarm:disarm())
    assert(alarm:arm(0.05, "told by a test of alarms", "late\n", "echo done > " .. dir .. "/command"))
    for _ = 1, 2400 do
      if sys.exists(dir .. "/command") then break end
      sys.sleep(0.05)
    end
    assert.is_true(alarm:disarm())
    assert.is_false(alarm:disarm())
    assert(file:write("next\n"))
    alarm:close()
    file:close()
    assert.equal("late\nnext\n", sys.read_file(dir .. "/lines"))
    assert.has_error(function() alarm:disarm() end)
    local other = assert(train.append(dir .. "/others"))
    local armed = assert(train.alarm(other))
    assert.error_matches(function() train.alarm(other) end, "the file has an alarm already")
    assert(armed:arm(0.05, "not told", "late\n"))
    other:close() -- its alarm before it
    assert.has_error(function() armed:disarm() end)
    armed:close()
    armed = nil -- luacheck: ignore
    collectgarbage()
  end)

  it("reports data that do not arrive and a step that does not end, at that step", function()
    local dir = program.folder()
    local file = assert(train.append(dir .. "/metrics.jsonl"))
    local told = {}
    local one = alerts.new {
      options = { spike = 10, stall = 0.3, disk = 0, stop = false }, folder = dir, each_step = false,
      screen = { warn = function(_, _, kind, step) told[#told + 1] = kind .. " " .. step end },
      records = { event = function() end, alarm = function() return train.alarm(file) end },
    }
    local function until_told(count) -- on a busy machine long after the limit
      for _ = 1, 2400 do
        if #sr.must(sr.metrics.read(dir)) >= count then return end
        sys.sleep(0.05)
      end
    end
    ---What nothing is to be told of may take as long as it likes.
    local function stall(is_told) one.options.stall = is_told and 0.3 or 1000 end
    local function step(number, waited, told_with_data, told_by_then)
      local at = { step = number, seconds = number }
      stall(told_with_data)
      one:wait_for_data(at)
      until_told(told_with_data or 0)
      stall(told_by_then)
      one:compute(at)
      until_told(told_by_then or 0)
      stall(true)
      one:step(at, { rate = 1 }, waited, true)
    end
    for number = 1, 4 do step(number, 0) end
    step(5, 0.8, 1)
    step(6, 0, 1, 2)
    step(7, 0.8) -- reported a few steps before
    one:close()
    file:close()
    local events = {}
    for _, event in ipairs(sr.must(sr.metrics.read(dir))) do
      events[#events + 1] = ("%s %s %d"):format(event.event, event.alert, event.step)
    end
    assert.same({ "alert data 5", "alert step 6" }, events)
    assert.same({}, told) -- nothing twice
  end)
end)

describe("alerts of a run #slow", function()
  local dir = program.folder()
  local corpus = small.corpus(dir)

  it("are lines, events and a command; they stop it only with alert.stop", function()
    local out, file = dir .. "/high", dir .. "/alerts.txt"
    local function run(...)
      return program.run(small.words(corpus, "rate.peak=3", "rate.warmup=0", "--max-steps", "12", ...))
    end
    local code, _, err = run("--out", out, "alert.run=echo $SEQRUN_ALERT $SEQRUN_STEP $SEQRUN_RUN >> " .. file)
    assert.matches("alert: loss: step %d+: the loss is %S+, above the [%d.]+ of the beginning; rate.peak may be", err)
    assert.equal(0, code, err)
    local kinds, events = {}, small.metrics(out, "event")
    for _, event in ipairs(events) do
      if event.event == "alert" then kinds[#kinds + 1] = ("%s %d %s"):format(event.alert, event.step, out) end
    end
    assert.is_true(#kinds > 0)
    local text
    for _ = 1, 1200 do -- the command runs beside the training
      text = sys.read_file(file) or ""
      if select(2, text:gsub("\n", "")) == #kinds then break end
      sys.sleep(0.1)
    end
    table.sort(kinds)
    local lines = {}
    for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
    table.sort(lines)
    assert.same(kinds, lines)
    program.exits(1, "stopped by alert.stop: loss: step %d", run("--out", dir .. "/stop", "alert.stop=true"))
  end)

  it("do not appear in a clean run, and change no bits", function()
    local a, b = dir .. "/with", dir .. "/without"
    local code, _, err = program.run(small.words(corpus, "--out", a, "--max-steps", "12"))
    assert.same({ 0, "" }, { code, err })
    assert.equal(0, (program.run(small.words(corpus, "--out", b, "--max-steps", "12", "alert.spike=0"))))
    assert.same(small.weights(a, 12), small.weights(b, 12))
    for _, line in ipairs(sr.must(sr.metrics.read(a))) do assert.not_equal("alert", line.event) end
  end)
end)

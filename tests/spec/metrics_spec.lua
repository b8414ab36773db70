-- metrics.jsonl and TensorBoard event files.

local json = require("seqrun.core.json")
local line_file = require("seqrun.base.line_file")
local metrics = require("seqrun.history.metrics")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local folder = require("tests.support.program").folder

local function read(path) return assert(sys.read_file(path)) end

local function event_file(dir, n)
  local found = {}
  for _, name in ipairs(assert(sys.list(dir))) do
    if name:find("^events%.out%.tfevents%.") then found[#found + 1] = dir .. "/" .. name end
  end
  assert.equal(n, #found)
  table.sort(found, function(a, b) return tonumber(a:match("%.(%d+)$")) < tonumber(b:match("%.(%d+)$")) end)
  return found[n]
end

describe("metrics", function()
  local dir
  before_each(function() dir = folder() end)

  it("are not cut by a resume that cannot read them", function()
    local path = dir .. "/metrics.jsonl"
    assert(sys.write_file(path, '{"step":1,"loss":2.5}\n'))
    local open = io.open
    io.open = function() return nil, path .. ": Too many open files", 24 end -- luacheck: ignore 122
    local done, problem = pcall(metrics.open, dir, { step = 1 })
    io.open = open -- luacheck: ignore 122
    assert.is_false(done)
    assert.matches("^metrics.jsonl cannot be read: Too many open files", tostring(problem))
    assert.equal('{"step":1,"loss":2.5}\n', sys.read_file(path))
  end)

  it("writes one object per line with every field, and names non-finite values", function()
    local m = assert(metrics.open(dir, { train = { "mlm_loss", "nsp_loss" } }))
    assert(m:write { step = 1, loss = 0 / 0, mlm_loss = math.huge, sequences = 8 })
    m:close()
    local line = assert(json.decode(read(dir .. "/metrics.jsonl")))
    assert.same({ "train", 1, json.null }, { line.type, line.step, line.loss })
    assert.same({ "loss", "mlm_loss" }, { table.unpack(line.nonfinite) })
    for _, key in ipairs(metrics.TRAIN) do assert.not_nil(line[key]) end
    assert.equal(json.null, line.nsp_loss)
  end)

  it("removes lines beyond the resumed step, and a line left incomplete by a crash", function()
    local m = assert(metrics.open(dir))
    for step = 1, 5 do assert(m:write { step = step, seconds = step * 1.5 }) end
    m:close()
    local text = read(dir .. "/metrics.jsonl")
    assert(sys.write_file(dir .. "/metrics.jsonl", text .. '{"step":6,"lo'))
    m = assert(metrics.open(dir, { step = 3 }))
    assert.same({ 3, 4.5 }, { m.last.step, m.last.seconds })
    assert(m:write { step = 4 })
    m:close()
    local steps = {}
    local list, damaged = metrics.read(dir)
    for i, line in ipairs(list) do steps[i] = line.step end
    assert.same({ 1, 2, 3, 4 }, steps)
    assert.equal(0, damaged)
    assert(sys.write_file(dir .. "/metrics.jsonl", '{"step":1}\n{"step":2}')) -- complete but for the newline
    m = assert(metrics.open(dir, { step = 3 }))
    assert(m:write { step = 4 })
    m:close()
    list, damaged = metrics.read(dir)
    assert.same({ 1, 4, 0 }, { list[1].step, list[2].step, damaged })
  end)

  it("keeps the lines readable after a power cut, and starts over at step 0", function()
    local path = dir .. "/metrics.jsonl"
    assert(sys.write_file(path, '{"step":1}\n\0\0\0\0\n{"step":2}\n' .. ("\0"):rep(100)))
    local m = assert(metrics.open(dir, { step = 2, tensorboard = false }))
    assert.equal(2, m.last.step)
    m:close()
    local list, damaged = metrics.read(path)
    assert.same({ 2, 1 }, { #list, damaged })
    m = assert(metrics.open(dir, { tensorboard = false }))
    m:close()
    assert.equal("", read(path))
  end)

  it("are marked as far as a resume keeps them", function()
    local m = assert(metrics.open(dir))
    assert.is_nil(m:mark(0))
    for step = 1, 4 do m:write { step = step, loss = 1 } end
    local kept = #read(dir .. "/metrics.jsonl")
    m:write { type = "event", event = "save", step = 5, seconds = 1 }
    m:write { type = "event", event = "rate", step = 5, seconds = 1 }
    assert.equal(kept, m:mark(4).bytes)
    m:close()
    assert.same(line_file.mark(dir .. "/metrics.jsonl", kept), assert(metrics.open(dir, { step = 4 })):mark(4))
    assert.equal(kept, #read(dir .. "/metrics.jsonl"))
    assert.is_nil(line_file.mark(dir .. "/metrics.jsonl", kept + 1))
  end)

  it("does not write through a symbolic link", function()
    assert(sys.write_file(dir .. "/victim", "mine"))
    os.execute(("ln -s victim '%s/metrics.jsonl'"):format(dir))
    assert.equal("storage", (select(3, metrics.open(dir))))
    assert.equal("mine", read(dir .. "/victim"))
  end)
end)

describe("event files", function()
  local dir
  before_each(function() dir = folder() end)

  it("use the checksum with the Castagnoli polynomial", function()
    -- test vectors of RFC 3720, B.4
    assert.equal(0x8A9136AA, train.crc32c(("\0"):rep(32)))
    assert.equal(0x62A8AB43, train.crc32c(("\255"):rep(32)))
    local rising = {}
    for i = 0, 31 do rising[i + 1] = string.char(i) end
    assert.equal(0x46DD794E, train.crc32c(table.concat(rising)))
    assert.equal(0x113FDB5C, train.crc32c(table.concat(rising):reverse()))
    assert.equal(0xE3069283, train.crc32c("123456789"))
  end)

  ---The payloads of a file; verifies both checksums.
  local function records(path)
    local text, at, list = read(path), 1, {}
    local function masked(bytes)
      local crc = train.crc32c(bytes)
      return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    end
    while at <= #text do
      local size, crc = ("<I8I4"):unpack(text, at)
      assert.equal(masked(text:sub(at, at + 7)), crc)
      local payload = text:sub(at + 12, at + 11 + size)
      assert.equal(masked(payload), (("<I4"):unpack(text, at + 12 + size)))
      list[#list + 1] = payload
      at = at + 16 + size
    end
    return list
  end

  it("frame records as TensorBoard expects", function()
    local e = assert(train.events(dir, 1000.5))
    assert(e:scalars(1001.5, 300, { ["train/loss"] = 0.25 }))
    e:close()
    local list = records(event_file(dir, 1))
    assert.equal(2, #list)
    assert.equal(("<B d"):pack(0x09, 1000.5) .. "\x1a\x0dbrain.Event:2", list[1])
    local value = "\x0a\x0atrain/loss" .. "\x15" .. ("<f"):pack(0.25)
    local summary = "\x0a" .. string.char(#value) .. value
    assert.equal(("<B d"):pack(0x09, 1001.5) .. "\x10\xac\x02" .. "\x2a" .. string.char(#summary) .. summary, list[2])
  end)

  it("begin a new file with a session START record when a run is resumed", function()
    local m = assert(metrics.open(dir))
    m:write { step = 1, loss = 1.5 }
    m:close()
    m = assert(metrics.open(dir, { step = 1 }))
    m:close()
    local list = records(event_file(dir, 2))
    assert.equal(2, #list)
    assert.equal("\x10\x02" .. "\x3a\x02\x08\x01", list[2]:sub(10))
  end)
end)

describe("a window of steps", function()
  local sr = require("seqrun")

  local function add(window, i)
    local losses = sr.nn.losses()
    losses:add("words", { total = sr.tensor(2 * i), correct = sr.tensor { 4 * i, 2 * i }, count = 15 * i })
    losses:add("pairs", { total = sr.tensor(i), correct = sr.tensor { 5 * i }, count = 10 * i })
    window:add({ sequences = 10 * i, tokens = 100 * i, slots = 150 * i * i }, losses, 1000 * i)
  end

  it("adds up, and divides every sum by its own count", function()
    local window = require("seqrun.run.measure.window").new()
    for i = 1, 2 do
      add(window, i)
      window:step(2 * i, 0.5 * i, 1 + i / 10)
    end
    local line = window:line(100)
    assert.near(1.15, line.imbalance, 1e-12)
    line.imbalance = nil
    assert.same({
      loss = 4.5, words_loss = 3.0, pairs_loss = 1.5, words_accuracy = 18 / 45, pairs_accuracy = 15 / 30,
      sequences = 30,
      real_tokens = 300, slot_tokens = 750, efficiency = 300 / 750, real_tokens_per_s = 50.0, slot_tokens_per_s = 125.0,
      mfu = 3000 / 600, data_wait_ms = 750.0,
    }, line)
    add(window, 1) -- and then dropped
    window:drop()
    add(window, 3)
    window:step(3, 0, 1)
    line = window:line()
    assert.same({ 60, 600, 2100 }, { line.sequences, line.real_tokens, line.slot_tokens })
    assert.same({ 9.0, 300 / 1350, 100.0 }, { line.loss, line.efficiency, line.real_tokens_per_s })
    assert.is_nil(line.mfu)
  end)

  it("means over the updates that had a loss, and reports what its items add up to", function()
    local window = require("seqrun.run.measure.window").new()
    for i = 1, 4 do
      for part = 1, 2 do
        local losses = sr.nn.losses():add("always", { total = sr.tensor(0.5), count = 1 })
        if i % 2 == 0 then
          local sums = { error = { sr.tensor { i }, 2 }, seen = { part, 1 } }
          losses:add("rare", { total = sr.tensor(i), count = 1, sums = sums, factor = 10 })
        end
        window:add({ sequences = 1, tokens = 1, slots = 1 }, losses, 0)
      end
      window:step(1, 0, 1)
    end
    local line = window:line()
    assert.same({ 1.0, 6.0, 1.5, 1.5 }, { line.always_loss, line.rare_loss, line.error, line.seen })
    assert.equal((4 + 10 * 12) / 4, line.loss)
    assert.is_nil(line.rare_accuracy)
  end)

  it("reads its scalars in one copy, regardless of their number", function()
    local window, tensor, copies = require("seqrun.run.measure.window").new(), require("seqrun.tensor"), 0
    local cat = tensor.cat
    tensor.cat = function(...) -- luacheck: ignore 122
      copies = copies + 1
      return cat(...)
    end
    for i = 1, 5 do add(window, i) end
    window:step(1, 0, 1)
    local line = window:line()
    tensor.cat = cat -- luacheck: ignore 122
    assert.equal(1, copies)
    assert.equal(45.0, line.loss)
  end)

  it("continues after a restart as if there had been none", function()
    local whole, cut = require("seqrun.run.measure.window").new(), require("seqrun.run.measure.window").new()
    for i = 1, 2 do
      add(whole, i)
      whole:step(1, 0, 1)
      add(cut, i)
      cut:step(1, 0, 1)
      local state = cut:state()
      cut = require("seqrun.run.measure.window").new()
      cut:restore(state)
    end
    assert.same(whole:line(), cut:line())
  end)
end)

it("the measured peak is the best of several bursts, also where another program interrupts one", function()
  local core, clock = require("seqrun.core.tensor"), require("seqrun.core.sys")
  local burst, real, now, count = core.burst, clock.now, 0, 0
  clock.now = function() return now end
  core.burst = function()
    count = count + 1
    now = now + (count == 1 and 0.1 or 0.001)
    return 1e6
  end
  require("seqrun.tensor").use("cpu")
  local best = require("seqrun.run.measure.peak").measure("f32")
  core.burst, clock.now = burst, real
  assert.near(1e9, best, 1)
  assert.equal(8, count)
end)

it("the measured peak lengthens bursts that are too short to measure, and no others", function()
  local core, clock = require("seqrun.core.tensor"), require("seqrun.core.sys")
  local burst, real, now = core.burst, clock.now, 0
  clock.now = function() return now end
  require("seqrun.tensor").use("cpu")
  for _, a_round in ipairs { 2e-9, 64e-9 } do -- seconds
    local longest = 0
    core.burst = function(rounds)
      longest = math.max(longest, rounds * a_round)
      now = now + 1e-4 + rounds * a_round
      return 1e3 * rounds
    end
    local best = require("seqrun.run.measure.peak").measure("f32")
    assert.is_true(longest > 4e-4 and longest < 2e-3, longest)
    assert.is_true(best * a_round > 0.75e3)
  end
  core.burst, clock.now = burst, real
end)

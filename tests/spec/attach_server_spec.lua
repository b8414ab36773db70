-- The side of the run of attached prompts, without a run: prompts that do not read, and memory that runs out.

local core = require("seqrun.core.tensor")
local fault = require("tests.support.fault")
local frames = require("seqrun.attach.frames")
local ops = require("seqrun.core.ops")
local program = require("tests.support.program")
local server = require("seqrun.attach.server")
local socket = require("seqrun.core.socket")
local sys = require("seqrun.core.sys")

local nothing = function() end

---What a server needs of a run.
local function stand_in(folder)
  local sample = require("seqrun.help.sample")()
  return {
    folder = folder, step = 3, last = 10, total = 10, config = { seed = 1 }, model = sample.model,
    loaded = { values = { seed = 1 } }, ranks = { several = function() return false end },
    optimizer = sample.optimizer, loader = sample.loader,
    seconds = function() return 1 end, totals = function() return {} end, record = nothing, seconds_left = nothing,
    evaluation = nothing, saved_step = nothing, last_line = function() return { step = 3, loss = 2.5 } end,
  }
end

describe("the server of attached prompts", function()
  local folder = program.folder()
  local run = stand_in(folder)

  local function open()
    local opened = assert(server.open(run))
    return opened, assert(socket.connect(opened.path))
  end

  ---Answers what was sent.
  local function serve(opened)
    local asked = opened:look() and opened:evaluate() or nil
    if asked then opened:answer {} end
    return asked
  end

  ---All frames that have arrived.
  local function heard(connection)
    local reader, list = frames.reader(), {}
    while connection:wait(0.05) do
      local bytes = connection:read()
      if not bytes then break end
      reader:feed(bytes)
    end
    for frame in function() return (reader:next()) end do list[#list + 1] = frame end
    return list
  end

  it("greets, answers and says goodbye", function()
    local opened, connection = open()
    connection:write(frames.pack("eval", 1, "step, loss", 80, 5))
    assert.same({}, serve(opened))
    local list = heard(connection)
    assert.same({ kind = "hello", id = 0, text = folder .. ", step 3 of 10" }, list[1])
    assert.same({ "3\n", "2.5\n", "0" }, { list[2].text, list[3].text, list[4].text })
    connection:write(frames.pack("eval", 2, "scale_rate(0.5); save(); stop()", 80, 5))
    assert.same({ factor = 0.5, save = true, stop = true }, serve(opened))
    connection:write(frames.pack("tab", 3, "confi", 80, 5))
    serve(opened)
    opened:close("the end")
    list = heard(connection)
    assert.same({ "done", "tab", "bye" }, { list[1].kind, list[2].kind, list[3].kind })
    assert.same({ "g\0", "the end" }, { list[2].text, list[3].text })
    assert.is_false(sys.exists(opened.path) or sys.exists(folder .. "/attach.json"))
  end)

  it("answers what a prompt sends after a completion that it no longer waits for, as in a slow step", function()
    local opened, connection <close> = open()
    connection:write(frames.pack("tab", 1, "confi", 80, 5) .. frames.pack("tab", 2, "st", 80, 5)
      .. frames.pack("eval", 3, "1 + 6", 80, 5))
    serve(opened)
    local list = heard(connection)
    assert.same({ "hello", "out", "done" }, { list[1].kind, list[2].kind, list[3].kind })
    assert.same({ 3, "7\n" }, { list[2].id, list[2].text })
    opened:close("the end")
  end)

  it("keeps what a prompt has not read, and drops it after a while", function()
    local opened, connection = open()
    connection:write(frames.pack("eval", 1, "('x'):rep(2000), print(('x\\n'):rep(500000))", 80, 5))
    serve(opened)
    assert.is_true(#opened.clients[1].kept > 0)
    opened:look()
    assert.equal(1, #opened.clients)
    local real = sys.now
    sys.now = function() return real() + 31 end
    opened:look()
    opened:look()
    sys.now = real
    assert.equal(0, #opened.clients)
    connection:close()
    opened:close("the end")
  end)

  it("survives that memory runs out, at whichever allocation, and leaves the run as it was", function()
    local text = "x = model.params:get('cls.predictions.bias') + 1; print(x:sum(), sr.randn(2)); y = {}"
    collectgarbage()
    local n, failed, done = 0, 0, false
    local random = table.pack(ops.random_state())
    while not done do
      n = n + math.max(1, n // 40)
      local opened, connection = open()
      connection:write(frames.pack("eval", 1, text, 80, 5))
      fault.memory(n, true)
      local served, asked = pcall(serve, opened)
      done = fault.allocations() < n
      fault.memory(0)
      failed = failed + (served and 0 or 1)
      assert.is_true(core.recording())
      assert.same(random, table.pack(ops.random_state()))
      assert.is_false(served and asked ~= nil and asked.weights or false)
      pcall(opened.close, opened, "the end")
      connection:close()
    end
    assert.is_true(n > 50 and failed > 0)
    local opened, connection = open()
    connection:write(frames.pack("eval", 1, "1 + 1", 80, 5))
    serve(opened)
    assert.equal("2\n", heard(connection)[2].text)
    opened:close("the end")
    connection:close()
  end)
end)

-- A prompt inside a run: looking changes nothing, changes are recorded and survive a resume, and nothing that a
-- prompt does ends or delays the run.

local attached = require("tests.support.attached")
local fails = require("tests.support.fails")
local program = require("tests.support.program")
local small = require("tests.support.small")
local socket = require("seqrun.core.socket")
local sys = require("seqrun.core.sys")
local terminal = require("tests.support.terminal")

local folder, corpus = small.folder()
local run
local started = {}

local function start(...)
  local new = attached.start(folder, corpus, ...)
  started[#started + 1] = new
  return new
end

setup(function() run = start("run") end)
teardown(function()
  for _, each in ipairs(started) do each:finish() end
end)

local function newest_step(dir)
  local steps = {}
  for _, name in ipairs(sys.list(dir)) do steps[#steps + 1] = tonumber(name:match("^step%-(%d+)$")) end
  return steps[#steps]
end

---Resumes a run of these files up to a step, elsewhere.
local function resumed(from, step, upto, before)
  local dir = folder .. "/resumed"
  sys.remove(dir)
  os.execute(("mkdir %s && cp -r %s/step-%09d %s/config.yaml %s"):format(dir, from, step, from, dir))
  local words = small.words(corpus, "--resume=" .. dir, "--max-steps", tostring(upto), "rate.total=1000000")
  words[#words + 1] = "log.every=20"
  program.ok(words, { before = before })
  return dir
end

describe("an attached prompt #slow", function()
  it("prints values as the prompt does, from -e and from standard input", function()
    assert.equal("2\n\"ab\"", run:ask "1 + 1, 'a' .. 'b'")
    local code, out, err = run:attach("x = 20\nx + 1\nfor i = 1, 2 do\n  print(i)\nend\nconfig.seed\n")
    assert.same({ 0, "21\n1\n2\n42\n", "" }, { code, out, err })
    local _, _, refused = run:attach("config.rate.peak = 5\n")
    assert.matches("config.rate.peak cannot be set here; set_rate", refused)
    assert.matches("^%(32%) f32 on cpu", run:ask 'model.params:get "bert.encoder.layer.0.intermediate.dense.bias"')
    assert.matches(": step %d+ of 100%d+", run:ask "status()")
    assert.matches("scale_rate%(0.5%)", run:ask "help()")
    assert.matches("\n +└─", run:ask "plot { 1, 2, 3 }")
    assert.matches("^sr.zeros%(", run:ask("help(sr.zeros)"))
    assert.equal("true", run:ask "math.type(step) == 'integer' and step > 0 and step < last")
  end)

  it("says what failed, with exit code 1, and goes on with the next line", function()
    local out = program.exits(1, "^prompt:1: oh\n[^\n]*unexpected symbol[^\n]*\nno 'stepp'; did you mean 'step'%?\n$",
      run:attach("error 'oh'\n1 +* 2\nstepp\n3\n"))
    assert.equal("nil\n3\n", out)
  end)

  it("keeps what it sets in its session", function()
    run:ask "string.rep = nil; table.insert = nil; sample = 1; math.huge = 1; _G.print = nil"
    assert.equal('"aa"\nnil', run:ask "string.rep('a', 2), rawget(_G, 'sample')")
    for text, words in pairs {
      ["sr.zeros = 1"] = "sr.zeros cannot be set here", ["run.dir = 1"] = "run.dir cannot be set here",
      ["os.exit(0)"] = "os.exit would end the run", ["math.random()"] = "use sr.rand",
      ["io.read()"] = "standard input is the run's", ["optimizer:step { rate = 1 }"] = "nil value %(method 'step'%)",
      ["loader:next()"] = "nil value %(method 'next'%)", ["scale_rate(1e6)"] = "scaled by 0 to 100, got",
      ["sr.ones(2):sum():backward()"] = "backward", ["edit 'x'"] = "edit files outside",
      ["sr.tain"] = "^prompt:1: sr has no 'tain'[^\n]*\n$", ["scale_rate(0/0)"] = "scaled by 0 to 100, got NaN",
      ["sr.scope()"] = "live as long as their names",
    } do
      program.exits(1, words, run:attach("", "-e", text))
    end
  end)

  it("limits the time and the memory of an expression", function()
    for _, text in ipairs {
      "while true do end", "while true do pcall(function() while true do end end) end",
      "coroutine.wrap(function() while true do end end)()",
      "(function() local x = sr.ones(400, 400); while true do x = x:matmul(x) end end)()",
    } do
      program.exits(1, "^stopped after 1 s; raise it with seqrun attach %-%-timeout SECONDS, at most 60\n",
        run:attach("", "-e", text, "--timeout", "1"))
    end
    for text, words in pairs {
      ["sr.zeros(1000000, 1000000)"] = "^cannot allocate 4398046511104 bytes: the limit leaves %d+",
      ["('x'):rep(1 << 40)"] = "too large",
      ["('x'):rep(600 << 20)"] = "^not enough memory: an expression may use 512.0 MiB here, and ",
    } do
      local code, _, err = run:attach("", "-e", text)
      assert.equal(text:find "zeros" and 4 or 1, code)
      assert.matches(words, err)
    end
    assert.matches("\n%.%.%. %(the output was cut at 1 MiB%)$", run:ask "print(('x\\n'):rep(1000000))")
  end)

  it("edits lines at a terminal, completes names from the run, and detaches on Ctrl-D", function()
    if terminal.missing() then return pending(terminal.missing()) end
    local script = "? attached to\n? detaches\n> confi\\t.see\\t + 1\\r\n? 43\n> stat\\t()\\r\n? : step\n> \\x04\n"
    local code, shown, err = terminal.run(script, { words = "attach " .. run.dir })
    assert.same({ 0, "" }, { code, err })
    assert.matches("\n> config.seed %+ 1\n43\n> status%(%)\n[^\n]+: step %d+ of 100%d+", shown)
    assert.equal("1", run:ask "1")
  end)

  it("limits the time of a completion", function()
    if terminal.missing() then return pending(terminal.missing()) end
    local script = "? attached to\n> loop = setmetatable({}, { __index = function() while true do end end })\\r\n"
      .. "> loop.x.\\t\n? \\x07\n> \\x03\n> 1 + 6\\r\n? \\n7\\r\n> \\x04\n"
    local code, _, err = terminal.run(script, { words = "attach " .. run.dir })
    assert.same({ 0, "" }, { code, err })
    assert.equal("1", run:ask "1")
  end)

  it("ends an expression on Ctrl-C, and leaves with exit code 1", function()
    local script = program.write(folder, "interrupt.sh", ([[
      %s attach %s -e 'while 1 do end' --timeout 60 2>&1 & p=$!
      until grep -q 'attached: while 1 do end' %s/run.log; do sleep 0.05; done
      kill -INT $p; wait $p; echo $?]]):format(program.path, run.dir, run.dir))
    local pipe <close> = assert(io.popen("bash " .. script))
    assert.equal("interrupted\n1\n", pipe:read("a"))
  end)

  it("says why nothing can be attached to", function()
    local function refused(words, where)
      assert.equal("", (fails.exiting(3, words, { "attach", where, "-e", "1" })))
    end
    refused("no such directory; give the directory of a run", folder .. "/quite-another")
    refused("no such directory; did you mean '" .. folder .. "/run'%?", folder .. "/rum")
    refused("is not a run: it has no config.yaml", folder)
    local dir = folder .. "/other"
    sys.make_dirs(dir)
    program.write(dir, "config.yaml", "")
    refused("is not running, or was started with attach=false", dir)
    program.write(dir, "attach.json", '{"socket":"/tmp/x.sock","pid":1,"host":"elsewhere"}')
    refused("runs on host elsewhere, and this is ", dir)
    program.write(dir, "attach.json", ('{"socket":"%s/x.sock","pid":1,"host":"%s"}'):format(folder, sys.machine().host))
    refused("process 1 ended without a message; resume it", dir)
    fails.exiting(2, "'100' is not an integer from 1 to 60", { "attach", dir, "--timeout", "100" })
  end)
end)

describe("a run #slow", function()
  local function connect()
    local facts = require("seqrun.core.json").decode(assert(sys.read_file(run.dir .. "/attach.json")))
    return assert(socket.connect(facts.socket)), facts.socket
  end

  ---All that a connection receives until it is closed, or until it has received some words.
  local function heard(connection, words)
    local text, last = "", sys.now() + 300
    while sys.now() < last and not (words and text:find(words, 1, true)) do
      local bytes = connection:read()
      if not bytes then return text, true end
      text = text .. bytes
      connection:wait(0.1)
    end
    return text, false
  end

  it("survives prompts that send rubbish, too much or half a line, vanish, or do not read", function()
    for sent, words in pairs {
      ["GET / HTTP/1.1\r\nHost: x\r\n\r\n"] = "not a message of seqrun attach", ["\0\255\n"] = "not a message",
      [("x"):rep(100000)] = "not a message", ["eval 1 99999999\n"] = "99999999 bytes; the maximum is 1048576",
      ["eval 1 2 80 5\n11eval 2 1 80 5\n2"] = "before the last one was answered",
    } do
      local connection <close> = connect()
      connection:write(sent)
      local text, closed = heard(connection)
      assert.is_true(closed, sent)
      assert.truthy(text:find(words, 1, true), text)
    end
    local half <close> = connect()
    half:write("eval 1 20 80 5\nwhile true ")
    local gone = connect()
    gone:write("eval 1 17 80 60\nwhile true do end")
    gone:close()
    local deaf <close> = connect()
    deaf:write("eval 1 26 80 5\n('x'):rep(1000000, '\\n') ")
    assert.equal("1", run:ask "1")
    local slow = connect()
    slow:write("eval 1 17 80 60\nwhile true do end")
    repeat sys.sleep(0.05) until sys.read_file(run.dir .. "/run.log"):find("attached: while true do end\n$")
    slow:close() -- ends the loop
    assert.equal("1", run:ask "1")
  end)

  it("interrupts an expression that the prompt stops", function()
    local connection <close> = connect()
    connection:write("eval 7 18 80 60\nwhile true do  end")
    repeat sys.sleep(0.05) until sys.read_file(run.dir .. "/run.log"):find("attached: while true do  end", 1, true)
    connection:write("stop 7 0\n")
    local text = heard(connection, "done 7 1\n1")
    assert.truthy(text:find("err 7 12\ninterrupted\ndone 7 1\n1", 1, true), text)
    connection:write("eval 8 3 80 60\n4+4")
    assert.matches("out 8 2\n8\ndone 8 1\n0", (heard(connection, "done 8 1\n0")))
  end)

  it("serves several prompts, each with names of its own, and refuses a ninth", function()
    local list = {}
    for i = 1, 8 do
      list[i] = connect()
      list[i]:write(("eval 1 5 80 5\nx = %d"):format(i))
    end
    for i = 1, 8 do
      heard(list[i], "done 1")
      list[i]:write("eval 2 1 80 5\nx")
    end
    for i = 1, 8 do assert.matches(("out 2 2\n%d\n"):format(i), (heard(list[i], "done 2"))) end
    local ninth <close> = connect()
    assert.matches("8 prompts are attached already", (heard(ninth)))
    for i = 1, 8 do list[i]:close() end
    assert.equal("1", run:ask "1")
  end)

  it("listens at a socket that only its user can reach, as long as it runs", function()
    local connection, path = connect()
    connection:close()
    local pipe <close> = assert(io.popen(("stat -c %%a %s $(dirname %s)"):format(path, path)))
    assert.equal("600\n700\n", pipe:read("a"))
    local other = start("killed")
    local facts = sys.read_file(other.dir .. "/attach.json")
    os.execute("kill -9 " .. other.pid)
    other:wait()
    assert.equal(facts, sys.read_file(other.dir .. "/attach.json"))
    program.exits(3, "is not running: process %d+ ended without a message; resume it with %-%-resume=",
      other:attach("1\n"))
    other = start("killed", { words = { "--resume" } })
    assert.equal("3", other:ask "1 + 2")
    other:finish()
    assert.is_false(sys.exists(other.dir .. "/attach.json"))
  end)

  it("reports to its prompts why it ends", function()
    local other = start("ending")
    local facts = require("seqrun.core.json").decode(assert(sys.read_file(other.dir .. "/attach.json")))
    local connection <close> = assert(socket.connect(facts.socket))
    assert.equal("1", other:ask "1")
    connection:write("eval 1 17 80 60\nwhile true do end")
    repeat sys.sleep(0.05) until sys.read_file(other.dir .. "/run.log"):find("attached: while", 1, true)
    other:finish()
    local text = heard(connection)
    assert.matches("interrupted: the run has received a signal", text)
    assert.matches("bye 0 %d+\nstopped by signal TERM at step %d+ of 100%d+; resume with %-%-resume=", text)
    assert.is_false(sys.exists(facts.socket))
  end)

  it("does not listen with attach=false", function()
    local out = folder .. "/off"
    program.ok(small.words(corpus, "--out", out, "--max-steps", "2", "attach=false"))
    assert.is_false(sys.exists(out .. "/attach.json"))
  end)
end)

it("a run that is only looked at #slow has the same bits", function()
  local straight = folder .. "/straight"
  local words = { "--max-steps", "300", "rate.total=1000000", "log.every=20" }
  assert.equal(0, (program.run(small.words(corpus, "--out", straight, table.unpack(words)))))
  local looked = start("looked", { words = { "--max-steps", "300" } })
  local answered = 0
  repeat
    local code = looked:attach("loss, sr.randn(3)\nmodel.params:get 'cls.predictions.bias'\nstatus()\n"
      .. "sr.use('ref'); model.training = false\nloader:summary()\n")
    if code == 0 then answered = answered + 1 end
  until code ~= 0 or answered == 5
  assert.is_true(answered > 0)
  assert.equal(0, (looked:wait()))
  assert.same(small.weights(straight, 300), small.weights(looked.dir, 300))
  assert.same(small.metrics(straight), small.metrics(looked.dir))
  assert.same({}, looked:events())
end)

describe("a change #slow", function()
  it("of the rate is recorded, and a resume continues with it, to the same bits", function()
    local changed = start("changed")
    local said = changed:ask "scale_rate(0.5); save()"
    assert.matches("^from step %d+ on, the rate is that of the schedule times 0.5\nsaved .*step%-%d+$", said)
    local step = newest_step(changed.dir)
    assert.matches("the rate is scaled by 0.5", changed:ask "status()")
    assert.matches("^stopping at step %d+ of 100%d+$", changed:ask "stop()")
    program.exits(75, "stopped by an attached prompt at step %d+ of 100%d+; resume with", changed:wait())
    local last = newest_step(changed.dir)
    assert.is_true(last > step)
    local events = changed:events()
    assert.same({ "rate", step + 1, 0.5 }, { events[1].event, events[1].step, events[1].factor })
    assert.same({ "save", "stop" }, { events[2].event, events[3].event })

    local again = resumed(changed.dir, step, last)
    assert.same(small.weights(changed.dir, last), small.weights(again, last))
    local log = sys.read_file(again .. "/run.log")
    assert.matches("the rate is that of the schedule times 0.5, as an attached prompt set it at step " .. step + 1, log)
    assert.equal(step + 1, small.metrics(again, "event")[1].step)
  end)

  it("after the newest checkpoint is undone by a resume, which says so", function()
    local undone = start("undone")
    undone:ask "save()"
    undone:ask "set_rate(rate / 4)"
    undone:ask "model.params:get('cls.predictions.bias'):fill_(0)"
    assert.same({ "save", "rate", "weights" }, (function()
      local names = {}
      for i, event in ipairs(undone:events()) do names[i] = event.event end
      return names
    end)())
    os.execute("kill -9 " .. undone.pid)
    undone:wait()
    local step = newest_step(undone.dir)
    local words = small.words(corpus, "--resume=" .. undone.dir, "--max-steps", tostring(step + 1), "log.every=20")
    words[#words + 1] = "rate.total=1000000"
    local _, err = program.ok(words)
    assert.matches("an attached prompt changed the rate at step %d+, after this checkpoint: that is undone", err)
    assert.matches("changed the weights at step", err)
  end)

  it("is made on all ranks", function()
    local mpi = require("tests.support.mpi")
    if mpi.missing() then return pending(mpi.missing()) end
    local before = "env " .. mpi.settings .. "OMPI_MCA_mpi_yield_when_idle=1 OMPI_ALLOW_RUN_AS_ROOT=1 "
      .. "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2"
    local ranks = start("ranks", { before = before, words = { "batch.shares=2" } })
    ranks:ask "scale_rate(0.25); save()"
    local step = newest_step(ranks.dir)
    ranks:ask "evaluate()"
    assert.equal(0, (ranks:attach("", "-e", "stop()")))
    ranks:wait()
    local last = newest_step(ranks.dir)
    local one = resumed(ranks.dir, step, last)
    assert.same(small.weights(ranks.dir, last), small.weights(one, last))
  end)
end)

-- The live view of runs: what it reads of a run that grows, its pictures, and the view in a pseudo-terminal.

local follow = require("seqrun.watch.follow")
local frame = require("seqrun.watch.frame")
local grid = require("seqrun.draw.grid")
local json = require("seqrun.core.json")
local lines = require("seqrun.history.lines")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")
local terminal = require("tests.support.terminal")
local train = require("seqrun.core.train")

local exits, works = program.exits, program.works

local dir
before_each(function() dir = program.folder() end)
after_each(function() sys.remove(dir) end)

---Appends text to a file of a run.
local function append(path, text)
  local file <close> = assert(io.open(path, "ab"))
  file:write(text)
end

local function train_line(step, loss, more)
  local line = { type = "train", step = step, loss = loss, lr = 1e-3, grad_norm = 1, real_tokens_per_s = 1000 + step,
    seconds = 2 * step, real_tokens = 100 * step, skipped = 0 }
  for key, value in pairs(more or {}) do line[key] = value end
  return json.encode(line) .. "\n"
end

---A run with some lines; `ended` is how it ended.
local function made(name, options)
  local path = dir .. "/" .. name
  sys.make_dirs(path)
  program.write(path, "config.yaml", "seed: 1\n")
  program.write(path, "run.log", "step 1/100  loss 5.000\n")
  program.write(path, "environment.json", json.encode { pid = options.pid or 1, machine = options.machine
    or sys.machine() })
  local text = {}
  for step = 1, options.steps or 20 do text[step] = train_line(step, 5 - step / 10) end
  program.write(path, "metrics.jsonl", table.concat(text) .. (options.more or ""))
  if options.ended then program.write(path, "ended.json", json.encode(options.ended)) end
  return path
end

local FINISHED = { state = "finished", step = 20, seconds = 40 }

local function picture(paths, view)
  local watched = follow.runs(paths)
  watched:look()
  local shown = { width = 79, height = 30 }
  for key, value in pairs(view or {}) do shown[key] = value end
  local list = frame.lines(watched, shown)
  for _, line in ipairs(list) do
    assert.is_true(grid.width((line:gsub("\27%[%d+m", ""))) <= shown.width, line)
  end
  assert.is_true(#list <= shown.height)
  return table.concat(list, "\n"), watched
end

describe("lines of a file that grows", function()
  it("are taken once, when they are whole, and anew when a resume has cut the file", function()
    local path, found = dir .. "/metrics.jsonl", lines.new()
    assert.is_false(lines.follow(found, path))
    append(path, train_line(1, 5) .. train_line(2, 4):sub(1, 30))
    assert.is_true(lines.follow(found, path))
    assert.is_false(lines.follow(found, path))
    assert.equal(1, #found.train)
    append(path, train_line(2, 4):sub(31) .. "damaged\n" .. '{"type":"eval","step":2,"mlm_loss":4.5}\n')
    assert.is_true(lines.follow(found, path))
    assert.same({ 2, 1, 1 }, { #found.train, #found.evals, found.damaged })
    local whole = lines.new()
    lines.read(whole, path)
    assert.same(whole.train, found.train)
    program.write(dir, "metrics.jsonl", train_line(1, 5) .. train_line(2, 3) .. train_line(3, 2) .. train_line(4, 1))
    lines.follow(found, path)
    assert.same({ 5, 3, 2, 1 }, { found.train[1].loss, found.train[2].loss, found.train[3].loss, found.train[4].loss })
    assert.equal(0, #found.evals)
  end)
end)

describe("a picture", function()
  it("of one run has its state, figures, curves and alerts within 80 columns and any rows", function()
    local event = '{"type":"event","event":"alert","alert":"loss","step":12,"message":"the loss is 9"}\n'
    local run = made("run", { ended = FINISHED, more = '{"type":"eval","step":20,"mlm_loss":3.25}\n' .. event })
    local text = picture { run }
    for _, part in ipairs {
      "/run  finished\n", "step 20/100  20.0%%", "loss 3.0000  held%-out mlm loss 3.2500 at step 20",
      "1.02k tok/s", "loss by step", "\nalerts: 1:\n  step 12: loss: the loss is 9",
    } do
      assert.matches(part, text)
    end
    assert.is_nil(text:find("eta", 1, true))
    for _, height in ipairs { 1, 5, 9, 12, 60 } do picture({ run }, { height = height }) end
    for _, width in ipairs { 30, 50, 200 } do picture({ run }, { width = width, height = 20 }) end
    assert.matches("lr by step", (picture({ run }, { key = "lr" })))
    assert.matches("no line has f1 yet; choose loss, mlm_loss, lr", (picture({ run }, { key = "f1", width = 200 })))
    assert.matches("loss by step, logarithmic", (picture({ run }, { log = true })))
    local scored = dir .. "/scored" -- a run that ended before its first line of training
    sys.make_dirs(scored)
    program.write(scored, "config.yaml", "seed: 1\n")
    program.write(scored, "metrics.jsonl", '{"type":"eval","step":2,"mlm_loss":3.5}\n')
    assert.same({ "mlm_loss" }, frame.metrics(select(2, picture { scored }).runs))
    assert.same({ "loss", "mlm_loss", "lr", "grad_norm", "real_tokens_per_s", "skipped" }, frame.metrics(select(2,
      picture { run }).runs))
  end)

  it("says that a run waits, was stopped, failed, or lost its process", function()
    assert.matches("nothing  waiting\n.*waiting: the directory does not exist yet", (picture { dir .. "/nothing" }))
    sys.make_dirs(dir .. "/empty")
    assert.matches("it has not started yet", (picture { dir .. "/empty" }))
    assert.matches("does not exist yet; did you mean '%S+/empty'%?", (picture({ dir .. "/emty" }, { width = 200 })))
    local stopped = made("stopped", { ended = { state = "stopped", step = 20, seconds = 40, message = "signal INT" } })
    assert.matches("stopped: signal INT", (picture { stopped }))
    assert.matches("failed: the run ended without a message: it was killed, or the machine went\n +down",
      (picture { made("killed", {}) }))
    local far = made("far", { machine = { host = "elsewhere" } })
    assert.matches("running on elsewhere", (picture { far }))
  end)

  it("of a run that goes on has its speed, memory and the time left; and silence is said", function()
    local run = made("run", { pid = sys.pid() })
    local held <close> = assert(train.run_dir(run)) -- luacheck: ignore 211
    local text, watched = picture { run }
    assert.matches("run  running", text)
    assert.matches("eta 2m40", text) -- 2 s a step, 80 steps
    assert.matches("memory [%d.]+ [MG]iB %(most [%d.]+ [MG]iB%)", text)
    assert.is_nil(watched.runs[1]:silent())
    watched.runs[1].age = 500
    assert.equal(500, watched.runs[1]:silent())
  end)

  it("of several runs is a table with their curves", function()
    local a, b = made("group/a", { ended = FINISHED }), made("group/b", {})
    local text = picture { a, b }
    assert.matches("run +state +step +loss", text)
    assert.matches("\na +finished +20/100 +3.000", text)
    assert.matches("\nb: the run ended without a message", text)
    assert.matches("\n +a  a\n +b  b", text) -- without colours, letters
    assert.matches("\27%[94m", (picture({ a, b }, { colours = true })))
    assert.equal(text, (picture { dir .. "/group" }))
    for i = 1, 15 do made("many/run-" .. i, { steps = 2, ended = FINISHED }) end
    assert.matches("and 3 runs that changed earlier", (picture({ dir .. "/many" }, { height = 40 })))
  end)
end)

describe("seqrun watch #slow", function()
  it("prints one picture where the output is no terminal, and refuses what is no run", function()
    local run = made("run", { ended = FINISHED })
    local code, out, err = program.run { "watch", run }
    assert.same({ 0, "" }, { code, err })
    assert.matches("run  finished\n.*loss by step", out)
    assert.is_nil(out:find("\27", 1, true))
    exits(3, "rum: no such directory", program.run { "watch", dir .. "/rum" })
    local refused, _, told = program.run { "watch", program.write(dir, "file", "x") }
    assert.is_true(refused ~= 0)
    assert.matches("file is not a run", told)
    exits(2, "'0' is not a number of seconds from 0.2 to 3600", program.run { "watch", run, "--every", "0" })
  end)

  it("shows what a run writes, obeys keys, follows the size, and leaves the terminal and the run alone", function()
    if terminal.missing() == "no terminal here" then return pending("no terminal here") end
    local run = made("run", { ended = FINISHED })
    local before = sys.list(run)
    local code, shown, err = terminal.run("? loss by step\n! \\t\n? lr by step\n! l\n? logarithmic\nsize 60\n"
      .. "? q quit\n! \\x1a\ncontinue\n? lr by step\n! q\n? step 20/100\n", { words = "watch " .. run, raw = true })
    assert.equal("0 ", code .. " " .. err)
    assert.matches("\27%[%?1049h", shown)
    assert.matches("\27%[%?25h\27%[%?1049l[^\n]*finished", shown) -- and the last figures below
    assert.same(before, sys.list(run))
    code, shown = terminal.run("? loss by step\n! \\tlq\n? step 20/100\n", { words = "watch " .. run, raw = true })
    assert.equal(0, code) -- three keys at once
    assert.matches("lr by step", shown)
    exits(75, "", terminal.run("? waiting\nterm\n", { words = "watch " .. dir .. "/later", raw = true }))
    works(terminal.run("? waiting\n! \\x03\n", { words = "watch " .. dir .. "/later" }))
    assert.equal(0, (terminal.run("? loss by step\nclose\n", { words = "watch " .. run })))
  end)
end)

-- The command line: commands, exit codes, and what is written to which stream.

local fails = require("tests.support.fails")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local folder = program.folder()
local run = program.run

local function script(text) return program.write(folder, "script.lua", text) end

describe("the command line", function()
  it("runs a Lua file with its arguments in arg, like lua", function()
    local path = script("io.write(arg[0], '|', arg[1], '|', arg[2], '|', select('#', ...))")
    local out = program.ok { path, "a=1", "--b" }
    assert.equal(path .. "|a=1|--b|2", out)
  end)

  it("accepts run options before the recipe", function()
    local out = program.ok { "--max-steps", "3", "--quiet", script("io.write(table.concat(arg, ' '))"), "x=1" }
    assert.equal("--max-steps 3 --quiet x=1", out)
  end)

  it("finds the shipped recipes from any directory", function()
    local out = program.ok({ "recipes/prepare.lua", "--dry-run" }, { before = "cd " .. folder .. " && " })
    assert.matches("^would write runs/data/novels.sqr from /.*/recipes/data/emma.txt, ", out)
    for _, word in ipairs { "recipes/pretrian.lua", "pretrain.lua" } do
      fails.exiting(2, "did you mean 'recipes/pretrain.lua'?", { word }, { before = "cd " .. folder .. " && " })
    end
  end)

  it("finds them from a recipe with dofile and loadfile, and as a config", function()
    program.write(folder, "own.lua", 'assert(loadfile("recipes/pretrain.lua"))\ndofile "recipes/pretrain.lua"\n')
    local function own(...)
      return run({ "own.lua", ... }, { before = "cd " .. folder .. " && " })
    end
    local out = program.works(own("config=recipes/pretrain.yaml", "--explain"))
    assert.matches("rate.peak +0.002", out)
    assert.equal("", (program.exits(2, "tyni.yaml: cannot open", own("config=recipes/tyni.yaml", "--explain"))))
    program.write(folder, "mine.yaml", "seed: 1\n")
    assert.matches("did you mean 'mine.yaml'", select(3, own("config=mien.yaml", "--explain")))
  end)

  it("exits with 5 when a file of a recipe cannot be read, and with 1 when it is not there", function()
    local code, out, err = run { script(("dofile(%q)"):format(folder)) }
    assert.same({ 5, "", ("seqrun: cannot read %s: Is a directory\n"):format(folder) }, { code, out, err })
    program.refuses(1, "cannot open nowhere.lua", run { script("dofile('nowhere.lua')") })
    assert.equal("2\tnil\t2\n", (program.ok { script("print(select('#', dofile(arg[1])), dofile(arg[1]))"),
      program.write(folder, "x.lua", "return nil, 2") }))
  end)

  it("exits with 1 and a traceback when a recipe raises", function()
    program.refuses(1, "too bad.*stack traceback", run { script("local function f() error('too bad') end f()") })
  end)

  it("exits with 4 if a device is missing, and with 2 if there is no such device", function()
    assert.equal(4, (run { "-e", "sr.use('cuda:9')" }))
    assert.equal(4, (run { script("require('seqrun').use('cuda:9')") }))
    for _, words in ipairs {
      { "recipes/pretrain.lua", "device=gpu", "--dry-run" }, { "encode", "--device", "gpu", folder },
      { "analyze", "x.sqr", "--metric", "loss", "--device", "gpu" },
    } do
      fails.exiting(2, "'gpu' is not a device; did you mean 'cuda'?", words)
    end
  end)

  it("exits with 2 if a recipe is invalid Lua, precompiled or missing", function()
    assert.equal(2, (run { script("local = 3") }))
    assert.equal(2, (run { script(string.dump(function() end)) }))
    fails.exiting(2, "none.lua", { folder .. "/none.lua" })
    fails.exiting(2, "is a config, not a recipe; run seqrun RECIPE.lua config=recipes/pretrain.yaml",
      { "recipes/pretrain.yaml" })
    fails.exiting(2, "is a config, not a recipe", { folder .. "/none.yaml" })
  end)

  it("says what a file is for that is not a recipe, and guesses the ending", function()
    local function refused(path, pattern)
      local _, err = fails.exiting(2, pattern, { path })
      assert.is_nil(err:find("\n.", 1, false))
    end
    refused(program.write(folder, "set.sqr", "\x89SQR\r\n"), "set.sqr is not Lua; seqrun info .*set.sqr describes")
    refused(program.write(folder, "vocab.txt", "[PAD]\n[UNK]\n"), "vocab.txt is not Lua; seqrun info")
    refused(folder, "is a directory, not a recipe; seqrun info")
    refused("recipes/pretrain", "recipes/pretrain does not exist; did you mean 'recipes/pretrain.lua'%?")
    refused("recipes/none", "unknown command 'recipes/none'")
  end)

  it("exits with 1 for a mistyped name that is nil", function()
    local code, out, err = run { "-e", "sr.pack.regster" }
    assert.same({ 1, "nil\n", "no 'regster'; did you mean 'register'?\n" }, { code, out, err })
    assert.equal(0, (run { "-e", "nil" }))
  end)

  it("maps the code of a failure to an exit code and a message", function()
    local codes = { config = 2, data = 3, missing = 3, device = 4, memory = 4, storage = 5, lock = 5, numeric = 1,
      stopped = 75, internal = 70, peer = 8, ok = 0 }
    for name, expected in pairs(codes) do
      local text = ("require('seqrun').must(nil, 'a sentence', %q)"):format(name)
      assert.same({ expected, "", "seqrun: a sentence\n" }, { run { script(text) } }, name)
    end
  end)

  it("rejects an unknown command, option or part with a suggestion and 2", function()
    fails.exiting(2, "did you mean 'version'?", { "verison" })
    fails.exiting(2, "did you mean '--json'?", { "version", "--jsno" })
    fails.exiting(2, "did you mean '--dry-run'?", { "--dry-rum" })
    fails.exiting(2, "go after it: seqrun version --json", { "--json", "version" })
    fails.exiting(1, "did you mean 'optim'?", { "-e", "sr.optm" })
  end)

  it("prints its version as text or JSON", function()
    local facts = program.json { "version", "--json" }
    for _, key in ipairs { "version", "git", "compiler", "instructions", "libyaml" } do
      assert.truthy(facts[key], key)
    end
    assert.equal(0, (run { "--version" }))
  end)

  it("has help for itself and for every command", function()
    local out = program.ok { "help" }
    for _, name in ipairs(require("seqrun.cli.commands").names()) do
      assert.truthy(out:find("\n  " .. name .. " ", 1, true), name)
      assert.equal(0, (run { "help", name }), name)
      if name ~= "help" then assert.equal(0, (run { name, "--help" }), name) end
    end
    assert.equal(2, (run { "help", "qwertyuiop" }))
  end)

  it("evaluates an expression or statements", function()
    local out = program.ok { "-e", "1 + 1, 'a', { b = { 1, 2 } }" }
    assert.equal('2\n"a"\n{ b = { 1, 2 } }\n', out)
    assert.equal("3\n", select(2, run { "-e", "local x = 3 print(x)" }))
    assert.equal(1, (run { "-e", "error('no')" }))
    assert.equal(1, (run { "-e", "1 +" }))
    assert.equal(2, (run { "-e" }))
  end)

  it("says that its output is closed, and exits quietly when its reader has left", function()
    fails.exiting(5, "cannot write to standard output: it is closed", { "help" }, { shell = ">&-" })
    local _, _, code = os.execute(("bash -c '%s help | true; exit ${PIPESTATUS[0]}'"):format(program.path))
    assert.equal(0, code)
  end)

  it("exits with 5 if its output cannot be written", function()
    for _, words in ipairs { { "help" }, { "version", "--json" }, { "-e", "for i = 1, 1e4 do print(i) end" } } do
      fails.exiting(5, "^seqrun: cannot write to standard output.*full", words, { shell = ">/dev/full" })
    end
  end)

  it("exits with 4 when a recipe runs out of memory", function()
    local text = "dofile('tests/support/fault.lua').lua_limit(1 << 20) local t = {} for i = 1, 1e8 do t[i] = i end"
    program.exits(4, "^seqrun: out of memory\n$", run { script(text) })
  end)
end)

describe("the prompt", function()
  local function prompt(input) return run({}, { input = input }) end

  it("echoes values, accepts =, continues lines, keeps the last value", function()
    local out = program.works(prompt("1 + 1\n=_ * 3\nfor i = 1, 2 do\n  print(i)\nend\nx = 5\nx\n'a' ..\n'b'\n"))
    assert.equal('2\n6\n1\n2\n5\n"ab"\n', out)
  end)

  it("reports an error and continues", function()
    local out, err = program.works(prompt("error('first')\nx=)\n7\n"))
    assert.equal("7\n", out)
    assert.truthy(err:find("first", 1, true) and err:find("unexpected symbol", 1, true))
  end)

  it("reports the position of an error, with a traceback only if it adds something", function()
    local _, _, err = prompt("sr.zeros({ -1 })\nsr.ones(3) < 2\n")
    assert.matches("^prompt:1: a tensor of size %-1 [^\n]*\nprompt:1: [^\n]*t:lt%(u%)[^\n]*\n$", err)
    _, _, err = prompt("function f() error('deep') end\nf()\n")
    assert.matches("deep\nstack traceback:.* 'f'\n", err)
  end)

  it("lists the available names", function()
    local _, out, err = prompt("sr\nsr.pack\n")
    assert.equal("", err)
    assert.truthy(out:find("sr.pack", 1, true) and out:find("sr.zeros", 1, true) and out:find("compare = ", 1, true))
  end)

  it("survives lines of a megabyte and code that is nested too deeply", function()
    local _, out, err = prompt(("x = '%s'\n#x\n%s\n7\n"):format(("a"):rep(1 << 20), ("("):rep(1 << 20)))
    assert.equal("1048576\n7\n", out)
    assert.equal("the code is nested too deeply (C stack overflow)\n", err)
  end)

  it("does not leak the names it sets", function()
    assert.equal("true\n", (select(2, prompt("x = 1\n_G.x == nil\n"))))
  end)

  ---A line by which `await` sees that the prompt listens.
  local function ready() return ("_ = io.open('%s/ready', 'w'):close()"):format(folder) end

  ---Shell words that wait until that line has run.
  local function await()
    os.remove(folder .. "/ready")
    return ("until [ -e %s/ready ]; do sleep 0.02; done"):format(folder)
  end

  ---Types a line, Ctrl-C while it runs, and another line.
  local function interrupt(text)
    local input = program.write(folder, "in", ready() .. "; " .. text .. "\n'still here'\n")
    local line = "%s <%s >%s/out 2>%s/err & p=$!\n%s\nkill -INT $p; wait $p"
    local typed = program.write(folder, "interrupt.sh", line:format(program.path, input, folder, folder, await()))
    assert.is_true((os.execute("bash " .. typed)))
    assert.equal('"still here"\n', sys.read_file(folder .. "/out"))
    local err = sys.read_file(folder .. "/err"):gsub("^seqrun: busy[^\n]*\n", "") -- on a machine that is
    assert.equal("interrupted\n", err)
  end

  it("stops running code on Ctrl-C and continues with the next line", function()
    interrupt("while true do end")
  end)

  it("discards the current input on Ctrl-C and continues with the next line", function()
    local typed = program.write(folder, "typed.sh", ([[
      mkfifo %s/typed; %s <%s/typed >%s/out 2>%s/err & p=$!
      exec 3>%s/typed; printf "%%s\nfor i = 1, 2 do\n" "%s" >&3
      %s
      until grep -q ") S" /proc/$p/stat; do sleep 0.02; done # it waits for the next line
      kill -INT $p
      until grep -q "^ShdPnd:.*0$" /proc/$p/status; do sleep 0.02; done # the signal has reached it
      printf '"still here"\n' >&3; exec 3>&-; wait $p
    ]]):format(folder, program.path, folder, folder, folder, folder, ready(), await()))
    assert.is_true((os.execute("bash " .. typed)))
    assert.equal('"still here"\n', sys.read_file(folder .. "/out"))
    assert.equal("", sys.read_file(folder .. "/err"))
  end)

  it("stops a long matrix product", function()
    -- 10 TFLOP over operands of one element, in blocks of 6 GFLOP: the flag is read between blocks
    interrupt("x = sr.zeros(1, 1):expand(64, 1 << 18):matmul(sr.zeros(1, 1):expand(1 << 18, 307200))")
  end)
end)

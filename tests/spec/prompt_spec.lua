-- Sessions at the prompt, in a pseudo-terminal.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")
local terminal = require("tests.support.terminal")

local works = program.works

local READY = "? Ctrl-D exits\n? > \n"

---What a session shows for these lines of a script, ended by Ctrl-D; it must end well.
local function session(script, options)
  script = READY .. script
  if not script:find("%? > \n$") then script = script .. "? > \n" end
  local code, shown, err = terminal.run(script .. (options and options.last or "> ") .. "\\x04\n", options)
  if err ~= "" then error(err .. " after:\n" .. shown, 2) end
  assert.equal(0, code)
  return shown
end

describe("a session at the prompt", function()
  local folder = program.folder()
  before_each(function()
    if terminal.missing() then pending(terminal.missing()) end
  end)

  it("begins with two lines: version and device, and how to get help", function()
    local shown = session("")
    assert.matches("^seqrun [%d.]+ on cpu[^\n]+\n[^\n]*Tab[^\n]*Ctrl%-D[^\n]*\n> ", shown)
  end)

  it("prints values, continues lines and keeps the last nine values", function()
    local shown = session("> 1 + 1\\r\n? 2\n> 'a' ..\\r\n? >>\n> 'b'\\r\n? \"ab\"\n> _2 * 21, _1\\r\n? 42\n"
      .. "> 5;\\r\n> _ + 1\\r\n? 6\n")
    assert.matches('\n42\n"ab"\n', shown)
    assert.is_nil(shown:find("\n5\n", 1, true))
  end)

  it("remembers lines across sessions, in a file that only its owner may read", function()
    local state = folder .. "/state"
    session("> 40 + 2\\r\n? 42\n> 'é'\\r\n? \"é\"\n", { state = state })
    local path = state .. "/seqrun/history"
    assert.equal("40 + 2\n'é'\n", sys.read_file(path))
    local pipe <close> = assert(io.popen("stat -c %a " .. path))
    assert.equal("600", pipe:read("l"))
    local shown = session("> \\e[A\\e[A\\r\n? 42\n> \\x12" .. "40\\r\n? 42\n", { state = state })
    assert.equal(2, select(2, shown:gsub("\n42\n", "")))
  end)

  it("keeps a bounded history", function()
    local state = folder .. "/long"
    sys.make_dirs(state .. "/seqrun")
    local lines = {}
    for i = 1, 5000 do lines[i] = "line " .. i end
    sys.write_file(state .. "/seqrun/history", table.concat(lines, "\n") .. "\n\xff\xfe\n")
    session("> 'last'\\r\n? \"last\"\n", { state = state })
    local kept = {}
    for line in io.lines(state .. "/seqrun/history") do kept[#kept + 1] = line end
    assert.equal(2001, #kept)
    assert.equal("line 3001", kept[1])
    assert.equal("'last'", kept[2001])
  end)

  it("completes globals, fields, methods, names of parameters and files", function()
    program.write(folder, "weights-of-mine.txt", "x")
    local model = "sr.nn.encoder { hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, vocab_size = 99 }"
    local shown = session(table.concat({
      "> tostr\\t(12)\\r", "? \"12\"",
      "> sr.sched\\t.poly\\r", "? polynomial",
      "> t = sr.ones(2)\\r", "> t:num\\t()\\r", "? 2",
      "> m = " .. model .. "\\r",
      "> m.params:has('bert.encoder.layer.0.attention.output.d\\tw\\t)\\r", "? true",
      "> #'" .. folder .. "/weights\\t\\r", "? " .. #(folder .. "/weights-of-mine.txt"),
      "> sr.n\\t", "? no_grad", "> n.dens\\t\\r", "? reference", "",
    }, "\n"))
    assert.matches("nn +no_grad", shown)
  end)

  it("suggests the name that was meant, at every depth", function()
    local shown = session(table.concat({
      "> prnt(1)\\r", "? mean 'print'?",
      "> sr.pack.pakc({})\\r", "? mean 'pack'?",
      "> sr.nn.heads.clasify\\r", "? mean 'classify'?",
      "> t = { inner = { value = 1 } }\\r", "> t.inner.valeu.x = 1\\r", "? mean 'value'?",
      "> sr.ones(2):summ()\\r", "? mean 'sum'?",
      "> sr.tesnor(2)\\r", "? mean 'tensor'?", "",
    }, "\n"))
    assert.is_nil(shown:find("stack traceback", 1, true))
  end)

  it("is left by exit and quit, as by Ctrl-D", function()
    for _, word in ipairs { "exit", "quit()" } do
      assert.same({ 0, "" }, { (terminal.run(READY .. "> " .. word .. "\\r\n")), "" })
    end
  end)

  it("names the lines of the person's own code in an error", function()
    local path = program.write(folder, "mine.lua",
      "local function inner(n)\n local t = sr.zeros({ n })\n  return t\nend\n"
      .. "function outer(n)\n  local t = inner(n)\n  return t\nend\n")
    local shown = session(("> run '%s'\\r\n> outer(-1)\\r\n? traceback\n"):format(path))
    assert.matches("mine.lua:2: a tensor of size %-1[^\n]*\nstack traceback:\n[^\n]*mine.lua:2 in [^\n]*inner"
      .. "[^\n]*\n[^\n]*mine.lua:6 in [^\n]*'outer'[^\n]*\n> ", shown)
  end)

  it("stops loops, coroutines and caught loops on Ctrl-C, and goes on", function()
    local script = ""
    for i, code in ipairs {
      "while true do end", "coroutine.wrap(function() while true do end end)()",
      "while true do pcall(function() while true do end end) end",
      "x = sr.randn(600, 600) for i = 1, 1e9 do local y <const> = x:matmul(x) end",
    } do
      script = script .. ("> print(%d * 11) %s\\r\n? \\r\n? %d\n! \\x03\n? interrupted\n? > \n"):format(i, code, 11 * i)
    end
    local shown = session(script .. "> 6 * 7\\r\n? 42\n")
    assert.is_nil(shown:find("traceback", 1, true))
  end)

  it("clears the line on Ctrl-C", function()
    local shown = session("> junk(\n? junk(\n> \\x03\n? > \n> 6 * 7\\r\n? 42\n")
    assert.is_nil(shown:find("unexpected", 1, true))
  end)

  it("says in one line what is wrong with bad input", function()
    local shown = session(table.concat({
      "> \\xff\\xfe\\r", "? unexpected symbol",
      "> error(setmetatable({}, {}))\\r", "? error value that is a table",
      "> sr.pack.load('missing')\\r", "? missing: cannot open", "",
    }, "\n"))
    assert.is_nil(shown:find("traceback", 1, true))
  end)

  it("ends quietly when its terminal goes away", function()
    works(terminal.run(READY .. "> x = 1\\r\nclose\n"))
    works(terminal.run(READY .. "> while true do end\\r\n? end\nclose\n"))
  end)

  it("stops on Ctrl-Z and goes on, with the terminal as the shell needs it", function()
    session("> 6 *\n? 6 *\n> \\x1a\ncontinue\n>  7\\r\n? 42\n")
  end)

  it("leaves the terminal as it was when it is terminated", function()
    local code = terminal.run(READY .. "> x = 1\nterm\n")
    assert.equal(128 + 15, code)
  end)

  it("follows the terminal's width", function()
    local shown = session("size 40\n> sr.randn(9, 50)\\r\n? …\n")
    for line in shown:match("cpu · [^\n]*\n(.*)"):gmatch("[^\n]+") do assert.is_true(utf8.len(line) <= 40, line) end
  end)

  it("edits and runs a file, and times a call", function()
    local path = folder .. "/made.lua"
    local editor = program.write(folder, "editor.sh", "shift; echo 'made = 6 * 7' > \"$1\"")
    local script = "> edit '%s'\\r\n? run\n> run '%s'\\r\n> made\\r\n? 42\n> time(math.sin, 0)\\r\n? µs\n? > \n"
    session(script:format(path, path),
      { before = "EDITOR='sh " .. editor .. "'" })
  end)

  it("prints tensors within the width of the terminal", function()
    for _, columns in ipairs { 50, 80, 200 } do
      local shown = session("> sr.randn(20, 50)\\r\n? …\n", { columns = columns })
      local most = 0
      for line in shown:match("cpu · [^\n]*\n(.*)"):gmatch("[^\n]+") do most = math.max(most, utf8.len(line)) end
      assert.is_true(most <= columns and most > columns / 3, most)
    end
  end)

  it("explains, draws, and completes what it explains", function()
    local shown = session(table.concat({
      "> help()\\r", "? sr.pack", "? > ", "> help \"atten\\t\\r", "? heads: integer", "? > ",
      "> apropos \"dropout\"\\r", "? sr.ops.dropout", "? > ", "> examples()\\r", "? pretrain.lua", "? > ",
      "> plot({ 1, 4, 9 })\\r", "? 9 │", "? └──", "? > ", "> sample.batch\\r", "? sequences", "? > ",
      "> sr.pack.pack\\r", "? sr.pack.pack(source, options?)", "",
    }, "\n"))
    for line in shown:gmatch("[^\n]+") do assert.is_true((utf8.len(line) or 0) < 200, line) end
  end)

  it("takes plain lines from a dumb terminal", function()
    local shown = session("! 6 * 7\\n\n? 42\n", { before = "env TERM=dumb", last = "! " })
    assert.is_nil(shown:find("\27", 1, true))
  end)
end)

describe("a text of several lines", function()
  it("is printed as it is, other strings are quoted", function()
    local _, out = program.run({}, { input = [['a\nb']] .. "\n" .. [['a\n']] .. "\n" .. [['\27[2Jx\ny']] .. "\n" })
    assert.equal('a\nb\n"a\\n"\n"\\27[2Jx\\ny"\n', out)
  end)
end)

it("habits from elsewhere are answered with what does the same here", function()
  for line, wanted in pairs {
    ["sr.ones(2):numpy()"] = "a tensor has no 'numpy'; use totable%(%)",
    ["sr.nn.Linear(3, 4)"] = "'Linear'%); use sr.ops.linear",
    ["sample.model:eval()"] = "'eval'%); use training = false",
    ["sr.seed(1)"] = "sr has no 'seed'; use sr.manual_seed%(n%)",
    ["help attention"] = 'write help "attention"',
    ["?sr.pack"] = "write help%(sr.pack%)",
    ["x @ y"] = "a matrix product is a:matmul%(b%)",
    ["1 != 2"] = "not equal is ~=",
    ["!ls"] = 'write os.execute "ls"',
    ["import torch"] = "Lua imports by require",
    ["sr.randm()"] = "did you mean 'rand",
    ["sr.pack.plan {}"] = "nil value %(field 'plan'%); sr.pack has assign, .*pack, parse",
    ["p = sr.pack.pack({ 1 }, { size = 8 })"] = "^prompt:1: pack: unknown option 'size'",
    ["t = {}; t.file = io.open('none') x = io.open('none')"] = "^$",
    ["file = io.open('none')"] = "^none: No such file or directory\n$",
  } do
    local _, _, err = program.run({}, { input = line .. "\n" })
    assert.matches(wanted, err, line)
  end
end)

it("a line of a megabyte is read, and its messages are short", function()
  local long = ("a"):rep(1 << 20)
  local out, err = works(program.run({}, { input = "'" .. long .. "'\n'x' '" .. long .. "'\n#_\n" }))
  assert.is_true(#out < 3000 and #err < 1000)
  assert.matches("%(1048576 bytes%)\n1048576\n", out)
end)

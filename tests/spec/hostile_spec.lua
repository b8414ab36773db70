-- Names and texts that are meant to do harm: in reports, in completion, in attached prompts, on the terminal.

local files = require("tests.support.task_files")
local frames = require("seqrun.attach.frames")
local json = require("seqrun.core.json")
local one_line = require("seqrun.base.one_line")
local page = require("seqrun.report.page")
local printable = require("seqrun.base.printable")
local program = require("tests.support.program")
local socket = require("seqrun.core.socket")
local summary = require("seqrun.report.summary")
local sys = require("seqrun.core.sys")

local folder = program.folder()

---Ends a script or a style, opens elements and entities, quotes, colours, moves the cursor, is not UTF-8.
local NAMES = {
  "</script><script>alert(1)</script>", "</style><img src=x onerror=alert(1)>", "\"' onmouseover='alert(1)\" &lt;",
  "\27[31mred\27[0m\27]0;title\7", "line\nbreak\ttab\rreturn", "\xff\xfe\xc0\x80", "\u{202e}gpj.exe", "\u{9b}31m",
  "$(touch x)", "`touch x`", "; touch x", "-rf", "--help", "a b  c", "%s%d%n", "{{7*7}}", "*", "~", "\\",
}

---Whether a text has what moves the cursor or changes the terminal.
local function check_plain(text, what)
  assert.is_nil(text:find("[%z\1-\8\11-\31\127]"), what .. ": a control character")
  assert.is_nil(text:find("\xC2[\x80-\x9F]"), what .. ": a control character of two bytes")
  assert.is_truthy(utf8.len(text), what .. ": not UTF-8")
end

describe("printable text", function()
  it("has no control characters, no invalid bytes and no marks of direction", function()
    assert.equal("a\\x1b[31mb\\x07\\x7f", printable("a\27[31mb\7\127"))
    assert.equal("\\xc2\\x9b31m \\xe2\\x80\\xae \\xff\\xc0\\x80 \\xed\\xa0\\x80",
      printable("\u{9b}31m \u{202e} \xff\xc0\x80 \xed\xa0\x80"))
    assert.equal("a\nb\tc", printable("a\nb\tc"))
    assert.equal("a\\x0ab\\x09c", printable("a\nb\tc", true))
    assert.equal("naïve 日本 \u{1F600}", printable("naïve 日本 \u{1F600}"))
    for _, name in ipairs(NAMES) do check_plain(printable(name), name) end
    for _, name in ipairs(NAMES) do check_plain(one_line(name), name) end
  end)

  it("stays what it was when it is cut", function()
    assert.equal(("é"):rep(30) .. "...", one_line(("é"):rep(40)))
  end)
end)

it("JSON that is written is valid whatever the strings hold, and changes nothing that is UTF-8", function()
  for _, name in ipairs(NAMES) do
    local text = json.encode { name }
    check_plain(text, name)
    local back = assert(json.decode(text))[1]
    if utf8.len(name) then assert.equal(name, back) else assert.matches("\u{FFFD}", back, 1, true) end
  end
  local all = {}
  for cp = 1, 0x2FFF do all[#all + 1] = utf8.char(cp) end
  local whole = table.concat(all)
  assert.equal(whole, json.decode(json.encode { whole })[1])
end)

-- ---- reports -----------------------------------------------------------------------------------------

local VOID = { meta = true, br = true }

---Fails unless a page is well formed, without scripts, handlers and what comes from elsewhere.
local function check_page(text)
  check_plain(text, "the page")
  local open = {}
  for closing, name, attributes, empty in text:gsub("<style>.-</style>", ""):gmatch("<(/?)([%a][%w]*)([^<>]-)(/?)>") do
    assert.is_false(name == "script" or name == "img" or name == "iframe" or name == "object", name)
    assert.is_nil(attributes:gsub('"[^"]*"', ""):find("%f[%a]on%a+%s*="), attributes)
    if closing == "/" then
      assert.equal(table.remove(open), name)
    elseif empty == "" and not VOID[name] then
      open[#open + 1] = name
    end
  end
  assert.same({}, open)
  assert.equal(1, select(2, text:gsub("<style>", "")))
end

---A run whose every name and text is hostile.
local function hostile_run(name)
  local dir = folder .. "/runs/" .. name
  assert(sys.make_dirs(dir))
  local function text(value) return json.encode(value) end
  local heads = { { classes = { { name = name }, { name = name .. "2" } }, confusion = { { 1, 2 }, { 3, 4 } },
    mistakes = { { text = name, label = name, predicted = name, place = name, badness = 1 } } },
    { spans = { types = { [name] = { precision = 1, recall = 1, f1 = 1 } } } } }
  program.write(dir, "metrics.jsonl", table.concat({
    text { type = "train", step = 1, loss = 2, [name .. "_loss"] = 3 },
    text { type = "eval", step = 1, loss = 2, [name] = 3, [name .. "_accuracy"] = 0.5 },
    text { type = "event", step = 1, event = name, alert = name, message = name },
  }, "\n") .. "\n")
  program.write(dir, "config.yaml", ("name: %s\nsave:\n  best: %s\n"):format(text(name), text(name)))
  program.write(dir, "environment.json", text { command = name, device = name, instructions = name,
    machine = { host = name, processor = name }, build = { version = name } })
  program.write(dir, "ended.json", text { state = name, message = name, step = 1, seconds = 1 })
  program.write(dir, "scores.json", text { heads = heads })
  program.write(dir, "run.log", "resumed from " .. name .. " at step 3\n")
  return dir
end

describe("hostile names and texts", function()
  it("do no harm in the page of a report, alone and beside others", function()
    local dirs = {}
    for _, name in ipairs(NAMES) do
      local dir = hostile_run((name:gsub("/", "")))
      check_page(page(summary.gather({ dir }, { samples = 0 }), "step"))
      if #dirs < 12 then dirs[#dirs + 1] = dir end
    end
    check_page(page(summary.gather(dirs, { samples = 0 }), "step"))
  end)

  it("do no harm on the terminal: runs, compare, info, report and errors #slow", function()
    for _, name in ipairs(NAMES) do hostile_run((name:gsub("/", ""))) end
    local some = hostile_run("\27[31m\xff\u{9b}")
    for _, words in ipairs { { "runs", folder .. "/runs" }, { "runs", folder .. "/runs", "--json" }, { "info", some },
      { "info", some, "--json" }, { "compare", some, hostile_run("b\7") }, { "report", some },
      { "report", some, "--json" }, { "runs", folder .. "/\27[31m\xff" }, { "info", folder .. "/\27[31m\n\xff" },
      { "encode", some }, { "verify", some }, { "attach", some, "-e", "1" }, { "\27[31m" }, { "recipes/\27.lua" },
      { "recipes/pretrain.lua", "\27[31m=\xff", "rate.\27=1" }, { "recipes/pretrain.lua", "--resume=" .. some },
      { "recipes/pretrain.lua", "config=" .. some .. "/config.yaml" }, { "pack", "--hist", some .. "/run.log" } } do
      local _, out, err = program.run(words)
      check_plain(out .. err, words[1] .. " " .. (words[2] or ""))
    end
  end)

  it("do no harm on the terminal: labels and texts of data, from reading to prediction #slow", function()
    local rows, base = { "text\tlabel" }, files.encoder(folder .. "/base")
    for i = 1, 8 do
      rows[#rows + 1] = ("the cat \27[31m %d\u{9b}\t%s"):format(i, i % 2 == 0 and "\27[31mno\u{9b}" or "yes")
    end
    local data = program.write(folder, "train.tsv", table.concat(rows, "\n") .. "\n")
    local words = { "recipes/finetune.lua", "task=classify", "data.train=" .. data, "data.held=0.25", "epochs=1",
      "batch.sequences=2", "init.from=" .. base, "data.folder=" .. folder .. "/sets", "--out", folder .. "/tuned" }
    for _, more in ipairs { { "--dry-run" }, { "--explain" }, {} } do
      local out, err = program.ok(table.move(more, 1, #more, #words + 1, table.move(words, 1, #words, 1, {})))
      check_plain(out .. err, "finetune")
    end
    check_plain(sys.read_file(folder .. "/tuned/run.log"), "run.log")
    for _, verb in ipairs { { "eval", folder .. "/tuned", data }, { "info", folder .. "/tuned" },
      { "predict", folder .. "/tuned" }, { "info", folder .. "/tuned", "--json" },
      { "export", folder .. "/tuned", folder .. "/hf" }, { "import", folder .. "/hf", folder .. "/imported" } } do
      local code, out, err = program.run(verb, { input = "the \27[31m cat\u{9b}\nthe \xff\n" })
      assert.equal(verb[1] == "predict" and 3 or 0, code, err)
      check_plain(out .. err, verb[1])
    end
  end)

  it("of a directory's files are listed by Tab as they are, without running anything #slow", function()
    local here = folder .. "/tab"
    assert(sys.make_dirs(here))
    for _, name in ipairs(NAMES) do
      if not name:find("/", 1, true) then program.write(here, name .. ".lua", "") end
    end
    local script = program.ok { "completion", "bash" }
    program.write(folder, "bash", script)
    local harness = program.write(folder, "harness", [[
      source "$1"; shift; cd "$1"; shift
      compopt() { :; }
      COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _seqrun; printf '%s\n' "${COMPREPLY[@]}" | wc -l
    ]])
    for _, words in ipairs { { "" }, { "info", "" }, { "info", "$(touch x)" }, { "info", "`touch x`" },
      { "info", "; touch x" }, { "recipes/pretrain.lua", "$(touch x)" },
      { "recipes/pretrain.lua", "rate.peak", "=", "$(touch x)" }, { "recipes/pretrain.lua", "$(touch x)", "=", "" },
      { "$(touch x)", "" }, { "pack", "--hist", "`touch x`" } } do
      local quoted = {}
      for i, word in ipairs(words) do quoted[i] = "'" .. word .. "'" end
      assert(os.execute(("bash '%s' '%s/bash' '%s' seqrun %s >/dev/null 2>&1"):format(harness, folder, here,
        table.concat(quoted, " "))))
      for _, place in ipairs { here, folder, "." } do
        assert.is_false(sys.exists(place .. "/x"), table.concat(words, " "))
      end
    end
    if os.execute("command -v fish >/dev/null 2>&1") then
      program.write(folder, "fish", select(2, program.run { "completion", "fish" }))
      local line = "cd '%s' && fish --no-config -c 'source %s/fish; complete -C \"seqrun info \"' >/dev/null 2>&1"
      os.execute(line:format(here, folder))
      assert.is_false(sys.exists(here .. "/x"))
    end
  end)
end)

-- ---- attached prompts --------------------------------------------------------------------------------

describe("the socket of a run", function()
  it("ends the connection of whoever sends something else, and reads no more than an expression", function()
    local random = require("tests.support.draws")(7)
    local function garbage(size)
      local bytes = {}
      for i = 1, size do bytes[i] = string.char(random(256)) end
      return table.concat(bytes)
    end
    local fixed = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n", ("x"):rep(100), "eval 1 99999999999999\n", "eval -1 3\nabc", "eval 1 0x10\n",
      "eval 1 3 80\nabc", "eval 1 3 80 5 6\nabc", "\0\0\0\0\n", "\n\n\n", "EVAL 1 1\na", "eval 1e3 1\na",
      ("eval 1 %d\n"):format(frames.LONGEST + 1), "eval 1 1000000000000000000000\n", "eval  1 1\na",
    }
    for i = 1, 300 do fixed[#fixed + 1] = garbage(1 + random(300)) .. (i % 2 == 0 and "\n" or "") end
    for _, bytes in ipairs(fixed) do
      local reader = frames.reader(frames.LONGEST)
      reader:feed(bytes)
      for _ = 1, 4 do
        local frame, problem = reader:next()
        if problem then break end
        assert.is_true(not frame or #frame.text <= frames.LONGEST)
      end
      assert.is_true(#reader.rest <= #bytes)
    end
  end)

  it("named by somebody else's directory is no way in: only a process of this user is spoken to", function()
    local dir = folder .. "/lure"
    assert(sys.make_dirs(dir))
    for _, path in ipairs { "/dev/null", folder .. "/none.sock", ("x"):rep(300), "", "a\0b", "/proc/self/environ" } do
      program.write(dir, "attach.json", json.encode { socket = path, pid = 1, host = sys.machine().host })
      program.write(dir, "config.yaml", "seed: 1\n")
      local code, out, err = program.run { "attach", dir, "-e", "1" }
      assert.is_true(code == 3 or code == 5, code .. err)
      assert.equal("", out)
      check_plain(err, path)
      assert.equal(1, select(2, err:gsub("\n", "")))
    end
  end)

  it("cleans what a run with a hostile name says", function()
    local path = folder .. "/s.sock"
    local listener = assert(socket.listen(path))
    local dir = folder .. "/said"
    assert(sys.make_dirs(dir))
    program.write(dir, "attach.json", json.encode { socket = path, pid = 1, host = sys.machine().host })
    local out = folder .. "/said.txt"
    assert(os.execute(("'%s' attach '%s' -e 1 >'%s' 2>&1 &"):format(program.path, dir, out)))
    local connection
    for _ = 1, 6000 do
      connection = listener:accept()
      if connection then break end
      sys.sleep(0.05)
    end
    assert.is_truthy(connection)
    connection:write(frames.pack("hello", 0, "run \27[31m\7\xff"))
    sys.sleep(0.2)
    connection:write(frames.pack("out", 1, "\27]0;x\7 out\n") .. frames.pack("bye", 0, "gone \27[2J\xff"))
    local said = ""
    for _ = 1, 6000 do
      sys.sleep(0.05)
      said = sys.read_file(out) or ""
      if said:find("gone", 1, true) then break end
    end
    connection:close()
    listener:close()
    assert.matches("gone \\x1b[2J\\xff", said, 1, true)
    check_plain(said, "attach")
  end)
end)

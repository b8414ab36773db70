-- Standard output that nobody reads or that cannot be written: reports end, training continues.

local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local exits = program.exits

local folder = program.folder()

---Runs a line of bash; SEQRUN is the program, FOLDER a directory.
---@return integer code of the first program of the line's last pipe, 124 if it does not end within five minutes
---@return string out
---@return string err
local function bash(line)
  local script = program.write(folder, "line.sh", line:gsub("SEQRUN", "timeout 300 " .. program.path)
    :gsub("FOLDER", folder) .. "\nexit ${PIPESTATUS[0]}\n")
  local _, _, code = os.execute(("bash %s >%s/out 2>%s/err </dev/null"):format(script, folder, folder))
  return code, assert(sys.read_file(folder .. "/out")), assert(sys.read_file(folder .. "/err"))
end

it("writing raises at the line of the mistake", function()
  local function says(text, message)
    local _, _, err = program.run { "-e", text }
    assert.matches("^seqrun: prompt:1: " .. message, err)
  end
  says("io.write('a', {})", "bad argument #2 to 'write' %(string expected, got table%)")
  says("io.stdout:write(nil)", "bad argument #1 to 'write' %(string expected, got nil%)")
  says("io.stdout.write('a')", "bad argument #1 to 'write' %(FILE%* expected, got string%)")
  says("local f = io.tmpfile() f:close() f:write('a')", "attempt to use a closed file")
end)

it("writing prints what Lua's print prints", function()
  local _, out = program.run { "-e", "print(1, nil, 'a', 2.5) print() io.write(1, 'b'):write('c\\n') print(true)" }
  assert.equal("1\tnil\ta\t2.5\n\n1bc\ntrue\n", out)
end)

local LOOP = "for i = 1, 1e9 do print(i) end"

describe("a program whose reader leaves", function()
  local function ends_quietly(line)
    local code, out, err = bash(line)
    assert.same({ 0, "" }, { code, err }, line)
    return out
  end

  it("ends quietly, whatever it writes with", function()
    assert.equal("1\n", ends_quietly("SEQRUN -e '" .. LOOP .. "' | head -1"))
    assert.equal("123", ends_quietly("SEQRUN -e 'for i = 1, 1e9 do io.write(i) end' | head -c 3"))
    assert.equal("x", ends_quietly("SEQRUN -e 'while true do io.stdout:write(\"x\") end' | head -c 1"))
  end)

  it("ends as a script, and if it catches errors", function()
    program.write(folder, "loop.lua", LOOP)
    assert.equal("1\n", ends_quietly("SEQRUN FOLDER/loop.lua | head -1"))
    assert.equal("1\n", ends_quietly("SEQRUN -e 'while true do pcall(print, 1) end' | head -1"))
  end)

  it("ends at the prompt", function()
    program.write(folder, "typed", LOOP .. "\nio.stderr:write('still here')\n")
    assert.equal("1\n", ends_quietly("SEQRUN <FOLDER/typed | head -1"))
  end)

  it("ends as a command, also in its help", function()
    ends_quietly("SEQRUN help --html | head -1")
    ends_quietly("SEQRUN help | true")
    ends_quietly("SEQRUN pack --help | true")
    ends_quietly("SEQRUN version --json | true")
    ends_quietly("SEQRUN recipes/pretrain.lua --help | head -1")
    ends_quietly("SEQRUN recipes/pretrain.lua --explain | head -1")
  end)

  it("still writes its files", function()
    ends_quietly("SEQRUN new FOLDER/made | true")
    for _, ending in ipairs { ".lua", ".yaml", ".schema.json" } do
      assert.is_true(sys.exists(folder .. "/made/train" .. ending), ending)
    end
    ends_quietly("SEQRUN recipes/prepare.lua --out FOLDER/data vocab.size=500 | true")
    assert.is_true(sys.exists(folder .. "/data/novels.sqr"))
  end)
end)

it("a program whose output cannot be written ends with 5 and a message", function()
  program.write(folder, "loop.lua", LOOP)
  program.write(folder, "typed", "1\n2\nwhile true do print(3) end\n")
  for _, words in ipairs {
    "help", "pack --help", "version --json", "-e '" .. LOOP .. "'", "FOLDER/loop.lua", "<FOLDER/typed",
  } do
    exits(5, "^seqrun: cannot write to standard output[^\n]*full%?\n$", bash("SEQRUN " .. words .. " >/dev/full"))
  end
end)

describe("a run #slow", function()
  local words
  setup(function()
    local list = small.words(small.corpus(folder), "--max-steps", "3")
    local source = assert(sys.read_file("recipes/pretrain.lua"))
    local recipe, changed = source:gsub("\n  run:log", '\n  print("step", step)%0')
    assert.equal(1, changed)
    list[1] = program.write(folder, "loud.lua", recipe)
    words = "SEQRUN " .. table.concat(list, " ") .. " config=recipes/pretrain.yaml --out FOLDER/"
  end)

  ---A run that went to its end, and says so in its log.
  local function is_whole(name)
    assert.is_true(sys.exists(("%s/%s/step-000000003/model.safetensors"):format(folder, name)))
    assert.matches("3 steps", assert(sys.read_file(("%s/%s/run.log"):format(folder, name))))
  end

  it("trains on when nobody reads its output", function()
    assert.equal(0, (bash(words .. "gone 2>&1 | true")))
    is_whole("gone")
  end)

  it("trains on when its output cannot be written, and warns", function()
    exits(5, "seqrun: warning: cannot write to standard output[^\n]* The run continues%.\n",
      bash(words .. "full >/dev/full"))
    is_whole("full")
  end)

  it("trains on after its terminal has closed", function()
    local code = bash(words .. [[hung & p=$!
      until [ -s FOLDER/hung/run.log ]; do sleep 0.05; done
      kill -HUP $p; wait $p]])
    assert.equal(0, code)
    is_whole("hung")
  end)
end)

describe("the prompt", function()
  it("ends with 0 when its terminal closes, also while code runs", function()
    for _, typed in ipairs { "", "while true do end" } do
      sys.remove(folder .. "/ready")
      local code = bash(([[rm -f FOLDER/typed; mkfifo FOLDER/typed; %s <FOLDER/typed & p=$!
        exec 3>FOLDER/typed; echo "io.open('FOLDER/ready', 'w'):close() %s" >&3
        until [ -e FOLDER/ready ]; do sleep 0.05; done
        kill -HUP $p; wait $p]]):format(program.path, typed))
      assert.equal(0, code)
    end
  end)
end)

-- A Lua file that cannot be read, a recipe's or the program's own: one sentence with its path and the reason.

local program = require("tests.support.program")

local exits, works = program.exits, program.works

local folder, lua, installed

local function shell(line) assert(os.execute(line)) end

---The exit code of the installed program and what it says.
local function run(words, before)
  local path = program.path
  program.path = installed
  local code, out, err = program.run(words, { before = before })
  program.path = path
  return code, out .. err
end

setup(function()
  folder = program.folder()
  installed, lua = program.install(folder)
end)

it("a recipe without read permission", function()
  local path = program.write(folder, "secret.lua", "print(1)")
  shell("chmod 000 '" .. path .. "'")
  assert.same({ 5, ("seqrun: cannot open %s: Permission denied; its owner permits it with chmod a+r\n"):format(path) },
    { run({ path }, program.as_nobody()) })
end)

it("a module of the program without read permission, or that is missing, or a directory", function()
  local path = lua .. "/seqrun/base/guess.lua"
  local function says(why, before)
    local sentence = "seqrun: cannot load module 'seqrun.base.guess': %s: %s; install seqrun again\n"
    assert.same({ 5, sentence:format(path, why) },
      { run({ "version" }, before) })
  end
  assert.equal(0, (run { "version" }))
  shell("chmod 000 '" .. path .. "'")
  says("Permission denied", program.as_nobody())
  shell(("mv '%s' '%s.away'"):format(path, path))
  says("No such file or directory")
  shell(("mkdir '%s'"):format(path))
  says("it cannot be read")
  shell(("rmdir '%s' && mv '%s.away' '%s' && chmod 644 '%s'"):format(path, path, path, path))
  assert.equal(0, (run { "version" }))
end)

it("a module that only some of the program needs, and all of them", function()
  shell(("mv '%s/seqrun/tensor/devices.lua' '%s/away'"):format(lua, folder))
  local said = exits(5, "", run { "doctor" })
  local lost = "^seqrun: cannot load module 'seqrun.tensor.devices': [^\n]+: No such file or directory; [^\n]+\n$"
  assert.matches(lost, said)
  assert.equal(0, (run { "version" }))
  shell(("mv '%s/away' '%s/seqrun/tensor/devices.lua' && mv '%s' '%s/away'"):format(folder, lua, lua, folder))
  said = exits(5, "", run { "version" })
  assert.matches("^seqrun: cannot load module 'seqrun.cli': [^\n]+: No such file or directory; [^\n]+\n$", said)
  shell(("mv '%s/away' '%s'"):format(folder, lua))
end)

it("but a module that a recipe mistypes is the recipe's error", function()
  local said = exits(1, "", run { program.write(folder, "typing.lua", "require('seqrun.optimm')") })
  assert.matches("typing.lua:1: module 'seqrun.optimm' not found", said)
end)

it("a working directory that is closed to the user has nothing of the name of a command", function()
  local closed = folder .. "/closed"
  shell(("mkdir '%s' && chmod 700 '%s'"):format(closed, closed))
  local said = exits(2, "", run({ "trane" }, ("cd '%s' && %s"):format(closed, program.as_nobody())))
  assert.matches("unknown command 'trane'", said)
end)

it("a directory among those of a pattern", function()
  local texts = folder .. "/texts"
  for _, name in ipairs { "a", "b", "c" } do
    shell(("mkdir -p '%s/%s'"):format(texts, name))
    program.write(texts .. "/" .. name, "text.txt", "the cat sleeps\n")
  end
  local vocab = program.write(folder, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsleeps\n")
  local words = { "tokenize", "--vocab", vocab, texts .. "/*/text.txt" }
  works(run(words, program.as_nobody()))
  if program.as_nobody() == "" then return end
  shell(("chmod 700 '%s/b'"):format(texts))
  local sentence = "seqrun: %s/b/text.txt: cannot examine: Permission denied; check its permissions\n"
  assert.same({ 5, sentence:format(texts) }, { run(words, program.as_nobody()) })
end)

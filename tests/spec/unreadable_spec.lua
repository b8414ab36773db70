-- A Lua file that cannot be read, a recipe's or the program's own: one sentence with its path and the reason.

local program = require("tests.support.program")

local exits, works = program.exits, program.works

local folder, lua, installed

local function shell(line) assert(os.execute(line)) end

---The exit code of the installed program and what it says.
local function run(words, before)
  local path = program.path
  program.path = installed
  local code, text = program.all(words, { before = before })
  program.path = path
  return code, text
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
  local lost = "^seqrun: cannot load module '%s': [^\n]+: No such file or directory; [^\n]+\n$"
  exits(5, lost:format("seqrun.tensor.devices"), run { "doctor" })
  assert.equal(0, (run { "version" }))
  shell(("mv '%s/away' '%s/seqrun/tensor/devices.lua' && mv '%s' '%s/away'"):format(folder, lua, lua, folder))
  exits(5, lost:format("seqrun.cli"), run { "version" })
  shell(("mv '%s/away' '%s'"):format(folder, lua))
end)

it("but a module that a recipe mistypes is the recipe's error", function()
  exits(1, "typing.lua:1: module 'seqrun.optimm' not found",
    run { program.write(folder, "typing.lua", "require('seqrun.optimm')") })
end)

it("a working directory that is closed to the user has nothing of the name of a command", function()
  local closed = folder .. "/closed"
  shell(("mkdir '%s' && chmod 700 '%s'"):format(closed, closed))
  exits(2, "unknown command 'trane'", run({ "trane" }, ("cd '%s' && %s"):format(closed, program.as_nobody())))
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

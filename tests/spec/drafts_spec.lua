-- A file or a directory gets its name only when it is whole, also when two programs write it.

local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")
local vector_file = require("seqrun.predict.vector_file")

local folder = program.folder()

setup(function()
  program.ok(small.words(small.corpus(folder, 40), "--out", folder .. "/run", "--max-steps", "1"))
end)

---Names in the folder that begin so.
local function names(pattern)
  local list = {}
  for _, name in ipairs(sys.list(folder)) do
    if name:find(pattern) then list[#list + 1] = name end
  end
  return list
end

describe("vectors of encode", function()
  it("stand under their name only when all are there", function()
    local path = program.write(folder, "v.safetensors", "of before")
    local file = assert(vector_file.open(path, 2))
    assert(file:add(string.pack("<ff", 1, 2), "the text"))
    assert.equal("of before", sys.read_file(path))
    assert.same(2, #names("^%.v%.safetensors")) -- vectors, and texts
    file:close()
    assert.same({}, names("^%.v%.safetensors"))
    assert.equal("of before", sys.read_file(path))
    file = assert(vector_file.open(path, 2))
    assert(file:add(string.pack("<ff", 1, 2), "the text"))
    assert(file:commit())
    assert.equal(8 + 1016 + 8 + 16 + 8, sys.stat(path).size)
    assert.same({}, names("^%.v%.safetensors"))
  end)

  it("do not stand under it when the command is killed #slow", function()
    local out, pipe = folder .. "/killed.safetensors", folder .. "/pipe"
    assert(os.execute(("mkfifo '%s' && (exec 3>'%s'; seq 2000 >&3; sleep 4) &"):format(pipe, pipe)))
    local code = program.run({ "encode", folder .. "/run", pipe, "--out", out }, { before = "timeout -s KILL 2" })
    assert.equal(137, code)
    assert.is_false(sys.exists(out))
    local text = program.write(folder, "few.txt", "the cat\n")
    assert.equal(0, (program.run { "encode", folder .. "/run", text, "--out", out }))
    assert.is_true(sys.exists(out))
  end)
end)

it("exports into one place at the same time leave one that is whole #slow", function()
  assert.equal(0, (program.run { "export", folder .. "/run", folder .. "/alone" }))
  local wanted = sys.list(folder .. "/alone")
  for round = 1, 3 do
    local both = folder .. "/both" .. round
    local one = ("'%s' export '%s/run' '%s' --force"):format(program.path, folder, both)
    assert(os.execute(("(%s & %s & wait) >'%s/said' 2>&1"):format(one, one, folder)))
    assert.same(wanted, sys.list(both))
    for _, name in ipairs(wanted) do
      local same = sys.hash_file(folder .. "/alone/" .. name) == sys.hash_file(both .. "/" .. name)
      assert.is_true(same or name == "README.md", name) -- which names its directory
    end
  end
  assert.same({}, names("^%.both"))
end)

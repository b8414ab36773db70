-- Start-up, files and faults, as seen from a Lua program.

local fails = require("tests.support.fails")
local fault = require("tests.support.fault")
local program = require("tests.support.program")
local sys = require "seqrun.core.sys"

local scratch = program.folder()

describe("precompiled chunks", function()
  local bytes = string.dump(function() return 1 end)

  it("are rejected by load in every mode", function()
    for _, mode in ipairs { "t", "b", "bt" } do
      fails.returning(nil, mode == "b" and "not allowed; load the source" or "attempt to load a binary chunk",
        load(bytes, "x", mode))
    end
    assert.is_nil((load(bytes)))
    local once = true
    assert.is_nil((load(function()
      if once then once = false return bytes end
    end)))
  end)

  it("are rejected by loadfile, dofile and require", function()
    assert(sys.write_file(scratch .. "/chunk.lua", bytes))
    assert.is_nil((loadfile(scratch .. "/chunk.lua")))
    assert.is_nil((loadfile(scratch .. "/chunk.lua", "b")))
    assert.has_error(function() dofile(scratch .. "/chunk.lua") end)
    local before = package.path
    package.path = scratch .. "/?.lua"
    local ok, message = pcall(require, "chunk")
    package.path = before
    assert.is_false(ok)
    assert.matches("error loading module 'chunk'", message)
  end)

  it("do not affect loading source text, with or without an environment", function()
    assert.equal(7, load("return x", "x", "bt", { x = 7 })())
    assert.equal(math.pi, load("return math.pi")())
    assert(sys.write_file(scratch .. "/source.lua", "return ..., y"))
    assert.equal(8, select(2, loadfile(scratch .. "/source.lua", nil, { y = 8 })()))
    assert(sys.write_file(scratch .. "/source.lua", "return coroutine.yield(5)"))
    local resume = coroutine.wrap(function() return dofile(scratch .. "/source.lua") end)
    assert.equal(5, resume())
    assert.equal(6, resume(6))
  end)
end)

describe("the program", function()
  local function run(script, before)
    return program.all({ program.write(scratch, "script.lua", script) }, { before = before })
  end

  it("ignores search paths and start-up code in the environment", function()
    local text = program.works(run("print(package.path, package.cpath)",
      "LUA_PATH=/evil/?.lua LUA_PATH_5_4=/evil/?.lua LUA_CPATH=/evil/?.so LUA_INIT='os.exit(9)'"))
    assert.is_nil(text:find("evil", 1, true))
    assert.is_nil(text:find("./?", 1, true))
  end)

  it("exits with the code given to os.exit, after closing variables marked <close>", function()
    assert.same({ 7, "unflushed collected\n" }, { run([[
      local box = setmetatable({}, { __gc = function() print("collected") end })
      io.write("unflushed ")
      os.exit(7)
      return box
    ]]) })
    assert.equal(0, (run("os.exit(true)")))
    assert.equal(1, (run("os.exit(false)")))
  end)

  it("runs with standard streams closed", function()
    assert.equal(0, (run("io.stderr:write('lost') assert(io.open('/dev/null'))", "exec <&- 2>&-;")))
  end)

  it("reports a closed pipe as an error of write", function()
    local code = os.execute(("%s -e 'for i = 1, 1e5 do io.write(\"line\\n\") end' 2>/dev/null | head -n 1 >/dev/null")
      :format(program.path))
    assert.is_true(code)
  end)
end)

describe("a full or read-only disk", function()
  it("is reported with a remedy and exit code 5, and leaves the old file intact", function()
    local path, script = scratch .. "/kept", scratch .. "/fill.lua"
    assert(sys.write_file(path, "old"))
    assert(sys.write_file(script, ([[
      local sr = require "seqrun"
      sr.must(require("seqrun.core.sys").write_file(%q, ("x"):rep(1 << 20)))
    ]]):format(path)))
    fails.exiting(5, "^seqrun: .*File too large; raise the limit on file sizes", { script },
      { before = "ulimit -f 100;" })
    assert.equal("old", sys.read_file(path))
    for _, name in ipairs(sys.list(scratch)) do assert.is_nil(name:find("tmp", 1, true), name) end
  end)

  it("is named if writing is not permitted", function()
    local folder, script = scratch .. "/theirs", scratch .. "/write.lua"
    assert(sys.make_dirs(folder))
    assert(sys.write_file(script, ([[
      local sys = require "seqrun.core.sys"
      local _, message, code = sys.write_file(%q, "x")
      print(code, message)
      print(select(3, sys.make_dirs(%q)))
    ]]):format(folder .. "/file", folder .. "/deep/deeper")))
    os.execute(("chmod 755 %s; chmod 644 %s; chmod 555 %s"):format(scratch, script, folder))
    local line = ("%s%s %s 2>&1"):format(program.as_nobody(), program.install(scratch .. "/installed"), script)
    local pipe <close> = assert(io.popen(line))
    local text = pipe:read("a")
    os.execute("chmod 755 " .. folder)
    assert.matches("^storage\t.*Permission denied; choose a writable directory", text)
    assert.matches("\nstorage\n$", text)
  end)
end)

it("writing a file replaces files only", function()
  fails.returning("storage", "/dev/null: not a regular file; write to a regular file",
    sys.write_file("/dev/null", "x"))
  assert.is_nil((sys.check_writable("/dev/null")))
end)

describe("a failed allocation", function()
  after_each(function()
    fault.memory(0)
    fault.lua_limit(0)
  end)

  it("raises or is reported, wherever it occurs, and leaks nothing", function()
    local path = scratch .. "/memory"
    assert(sys.write_file(path, ("x"):rep(5000)))
    local function use(n, sticky)
      fault.memory(n, sticky) -- inside: calling a function may itself allocate
      local bytes = assert(sys.read_file(path))
      local names = assert(sys.list(scratch))
      return #bytes + #names + #sys.hash(bytes) + sys.stat(path).size
    end
    use(0)
    for _, sticky in ipairs { false, true } do
      local n, ok, made = 0
      repeat
        n = n + 1
        collectgarbage()
        ok = pcall(use, n, sticky)
        made = fault.allocations()
        fault.memory(0)
      until ok and made < n or n > 500
      assert.is_true(n <= 500)
    end
    collectgarbage()
    collectgarbage()
    local before = fault.held()
    for _ = 1, 500 do pcall(use, 0) end
    collectgarbage()
    collectgarbage()
    assert.is_true(fault.held() < before + 100) -- Lua's own stacks vary; a leak would be 500
  end)

  it("is an ordinary error when a script exceeds its memory limit", function()
    collectgarbage()
    fault.lua_limit(fault.lua_limit(0) + (32 << 20))
    fails.raising("not enough memory", string.rep, "x", 1 << 26)
    fails.raising("not enough memory", function()
      local t = {}
      for i = 1, math.huge do t[i] = { i } end
      return t
    end)
  end)
end)

describe("a temporary directory", function()
  local make = require("seqrun.base.scratch")

  it("is new, of this user alone, where TMPDIR says, and goes when it is closed", function()
    local one, other = make(), make()
    assert.not_equal(one.path, other.path)
    local pipe <close> = assert(io.popen(("stat -c %%a '%s'"):format(one.path)))
    assert.equal("700", pipe:read("l"))
    assert(sys.write_file(one.path .. "/file", "text"))
    for _, place in ipairs { one, other } do
      do local closed <close> = place end -- luacheck: ignore
      assert.is_false(sys.exists(place.path))
    end
    local asks = scratch .. "/asks.lua"
    assert(sys.write_file(asks, 'print(require("seqrun.core.sys").temporary_dir())'))
    local _, told = program.run({ asks }, { before = ("TMPDIR=%s/none"):format(scratch) })
    assert.matches("^nil", told)
    assert.matches("none/seqrun%-[^\n]*its directory does not exist[^\n]*storage", told)
  end)
end)

describe("system facts", function()
  it("cover the machine, the build and the process", function()
    local machine, build = sys.machine(), sys.build()
    assert.is_true(machine.processors >= 1 and machine.memory > 0 and #machine.cpu > 0)
    assert.matches("^%d+%.%d+%.%d+$", build.version)
    local resident, peak = sys.memory()
    assert.is_true(resident > 0 and peak >= resident)
    assert.is_true(sys.free_space(scratch) > 0)
  end)

  it("include XXH3-128 of bytes and of files", function()
    assert.equal("99aa06d3014798d86001c324468d497f", sys.hash(""))
    local bytes = ("0123456789abcdef"):rep(10000)
    assert(sys.write_file(scratch .. "/hash", bytes))
    assert.equal(sys.hash(bytes), sys.hash_file(scratch .. "/hash"))
    fails.returning("missing", "none", sys.hash_file(scratch .. "/none"))
  end)
end)

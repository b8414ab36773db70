-- Plug-ins: devices from a shared library, and what is said when one cannot be used.

local sr = require("seqrun")
local program = require("tests.support.program")

local late = require("tests.support.devices").plugin("late")
local odd = require("tests.support.devices").plugin("odd")
local none = require("tests.support.none")

local exits, works = program.exits, program.works

---Runs an expression in a program of its own with these plug-ins; `way` is what odd.so is to do.
local function evaluate(expression, plugins, way)
  local before = ("SEQRUN_PLUGINS='%s' SEQRUN_ODD='%s'"):format(plugins or "", way or "")
  return program.run({ "-e", expression }, { before = before })
end

local DEVICES = 'table.concat(sr.devices(), " ")'

it("SEQRUN_PLUGINS adds devices after those of the program, in the order of the list", function()
  local out = works(evaluate(DEVICES, odd .. ":" .. late))
  assert.equal("ref cpu odd late\n", (out:gsub('"', "")))
end)

it("SEQRUN_PLUGINS ends the program when a library is missing", function()
  local _, err = exits(3, "", evaluate(DEVICES, "/nowhere/cuda.so"))
  assert.equal("seqrun: plugin: /nowhere/cuda.so: no such file (listed in SEQRUN_PLUGINS)\n", err)
end)

describe("a plug-in that cannot be used", function()
  ---Exit code 4, one sentence with these words, nothing else.
  local function refuses(way, words)
    local _, err = program.refuses(4, "", evaluate(DEVICES, odd, way))
    assert.is_truthy(err:find(words, 1, true), err)
    assert.is_nil(err:find("\n.")) -- one line
  end

  it("was built for another interface", function() refuses("abi", "rebuild it against the headers of this program") end)
  it("was built with another table", function() refuses("bytes", "rebuild it against the headers of this program") end)
  it("leaves out what every device has", function() refuses("empty", "its table has no name, alloc,") end)
  it("brings a name that is taken", function() refuses("taken", "duplicate device 'cpu'") end)
  it("brings a name with a colon", function() refuses("colon", "'odd:1' is not a device name") end)
  it("counts devices, but does not describe them", function() refuses("lonely", "count and describe") end)
  it("lays out weights, but does not free them", function() refuses("half", "set both or neither") end)
  it("brings ranks that lack a function", function() refuses("lone", "its communication table has no name, or") end)
  it("fails and says why", function() refuses("fails", "odd.so cannot be used: the driver is missing") end)
  it("fails and does not say why", function() refuses("silent", "it reported no reason") end)

  it("leaves no device behind", function()
    local try = ("(sr.plugin('%s')), %s"):format(odd, DEVICES)
    local out = works(program.run({ "-e", try }, { before = "SEQRUN_ODD=fails" }))
    assert.is_truthy(out:find("ref cpu", 1, true))
    assert.is_nil(out:find("odd", 1, true))
  end)

  it("is not a library", function()
    local folder = program.folder()
    local path = program.write(folder, "text.so", "not a library")
    local done, message, code = sr.plugin(path)
    assert.is_nil(done)
    assert.equal("device", code)
    assert.is_truthy(message:find("plugin: cannot load " .. path, 1, true))
  end)

  it("exports no init function", function()
    local path = program.write(program.folder(), "x.c", "int seven(void) { return 7; }\n")
    local library = path:gsub("x%.c$", "x.so")
    if not os.execute(("gcc -shared -fPIC -o '%s' '%s' 2>/dev/null"):format(library, path)) then return end
    none("device", "exports no sr_plugin_init", sr.plugin(library))
  end)
end)

describe("a backend with several devices", function()
  it("numbers them from 0", function()
    local out = works(evaluate('sr.use("odd:1"), sr.device(), sr.zeros(2):device()', odd, "two"))
    assert.equal('nil "odd:1" "odd:1"', (out:gsub("%s+", " "):gsub(" $", "")))
    assert.matches("^ref cpu odd odd:1", (select(2, evaluate(DEVICES, odd, "two")):gsub('"', "")))
  end)

  it("keeps their memory apart", function()
    local out = works(evaluate('sr.zeros(9, { device = "odd:1" }):device(), sr.memory("odd:0").used, '
      .. 'sr.memory("odd:1").used', odd, "two"))
    assert.matches('"odd:1"%s+0%s+64', out)
  end)

  it("says how many there are", function()
    exits(4, "this machine has 2 odd devices, numbered from 0", evaluate('sr.use("odd:2")', odd, "two"))
  end)

  it("describes them, also those that cannot be used", function()
    local expression = 'sr.describe("odd").model, sr.describe("odd").memory, sr.describe("odd:1").problem'
    local out = works(evaluate(expression, odd, "two"))
    assert.matches('"Odd 1000"%s+1610612736%s+"it has no memory"', out)
  end)

  it("says why there is none", function()
    assert.matches("^ref cpu\n", (select(2, evaluate(DEVICES, odd, "none")):gsub('"', "")))
    local _, _, err = evaluate('sr.use("odd")', odd, "none")
    assert.is_truthy(err:find("odd: the driver is missing", 1, true), err)
  end)
end)

describe("a device that is not loaded", function()
  ---The program installed in a directory of its own, with late.so as a plug-in at this path.
  local function installed(plugin)
    local folder = program.folder()
    local source = assert(require("seqrun.core.sys").real_path("lua"))
    assert(os.execute(("cd '%s' && mkdir -p bin lib/seqrun share/seqrun && cp '%s' bin/seqrun && ln -s '%s' "
      .. "share/seqrun/lua && cp '%s' '%s'"):format(folder, program.path, source, late, plugin)))
    return function(expression)
      local out = folder .. "/out"
      local done = os.execute(("'%s/bin/seqrun' -e '%s' >'%s' 2>&1"):format(folder, expression, out))
      return done, assert(require("seqrun.core.sys").read_file(out))
    end
  end

  for _, place in ipairs { "bin/seqrun_late.so", "lib/seqrun/seqrun_late.so" } do
    it("is loaded from " .. place, function()
      local run = installed(place)
      local done, out = run('sr.zeros(2, { device = "late" }):sum():item(), sr.device()')
      assert.is_true(done, out)
      assert.matches('^0%.?0?%s+"cpu"', out)
      assert.is_true((run('sr.ones(1):to("late")')))
    end)
  end

  it("is named by a path of a plug-in only", function()
    for _, name in ipairs { "../late", "a/b", "late.so", "", ":1", "cpu:", "cpu:x", "cpu:1000" } do
      assert.error_matches(function() sr.use(name) end, "is not available")
    end
  end)

  it("is not part of a build without it", function()
    local built = require("seqrun.core.sys").build()
    local done, message = pcall(sr.use, "cuda")
    sr.use("cpu")
    if built.cuda then
      assert.is_nil(tostring(message):find("built without CUDA", 1, true))
    else
      assert.is_false(done)
      assert.is_truthy(tostring(message):find("built without CUDA", 1, true), tostring(message))
    end
  end)
end)

it("a run on a device that is too small names its memory, the largest owners and three ways out", function()
  local loader = "{ summary = function() return { micro_packs = 4, max_len = 128, packs = 16 } end }"
  local model = "{ recompute = false, activation_bytes = function() return 3 << 29 end, "
    .. "params = { precision = 'bf16', count = function() return 1 << 26 end, "
    .. "layout_bytes = function() return 0 end } }"
  local call = "(function() sr.use('odd') local check = require('seqrun.run.checks.memory').check "
    .. "return tostring(select(2, pcall(check, { model = %s, loader = %s }))) end)()"
  local _, out = evaluate(call:format(model, loader), odd, "two")
  local needs = "a micro-batch of 4 packs of 128 tokens needs at least 3.1 GiB, but odd (Odd 1000) has 1.5 GiB: "
  assert.is_truthy(out:find(needs .. "activations 1.5 GiB, ", 1, true), out)
  local ways = "lower batch.micro_packs (now 4), set model.recompute=true or lower data.max_len (now 128)"
  assert.is_truthy(out:find(ways, 1, true), out)
end)

it("a run on a device that cannot be used ends with one sentence and exit code 4", function()
  for _, device in ipairs { "cuda", "cuda:7" } do
    if not sr.describe(device) then
      local _, err = program.refuses(4, "^seqrun: [^\n]+\n$",
        program.run { "recipes/pretrain.lua", "device=" .. device, "--dry-run" })
      assert.is_truthy(err:find("cpu", 1, true), err) -- the way out
    end
  end
end)

it("a run on a device that cannot be used is chosen by auto only if it can be used", function()
  local _, out = evaluate('sr.use("auto"), sr.device()', odd, "cuda")
  assert.equal('nil "cuda"', (out:gsub("%s+", " "):gsub(" $", "")))
  local before = sr.device()
  sr.use("auto")
  local chosen = sr.device()
  sr.use(before)
  assert.equal(sr.describe("cuda") and "cuda" or "cpu", chosen)
end)

it("engines of ranks are a world of one, and those of plug-ins", function()
  assert.same({ "self" }, sr.comms())
  local out = works(evaluate('table.concat(sr.comms(), ", ")', odd, "ranks"))
  assert.equal("self, odd ranks\n", (out:gsub('"', "")))
end)

it("a device of a plug-in is loaded once", function()
  assert(sr.plugin(late))
  assert.same({}, sr.plugin(late))
end)

it("a device of a plug-in says which op it lacks", function()
  exits(4, "binary is not implemented for odd", evaluate('sr.zeros(2, { device = "odd" }) + 1', odd))
end)

describe("the late device", function()
  setup(function() assert(sr.plugin(late)) end)
  before_each(function() sr.use("late") end)
  after_each(function()
    pcall(sr.synchronize, "late")
    sr.use("cpu")
  end)

  it("runs nothing before the wait", function()
    local x = sr.zeros(3)
    local y = x + 1
    x:fill_(5) -- queued behind the sum
    assert.same({ 1, 1, 1 }, y:totable())
    assert.same({ 5, 5, 5 }, x:totable())
  end)

  it("reports a bad index at the next wait, with the op and the row, once", function()
    local x = sr.tensor { { 1, 2 }, { 3, 4 } }
    local y = sr.ops.gather_rows(x, sr.tensor({ 0, 2 }, { dtype = "i32" }))
    assert.error_matches(function() sr.synchronize() end, "gather_rows: rows%[1%] is 2, but there are 2 rows")
    sr.synchronize()
    assert.same({ 2, 2 }, y:shape())
  end)

  it("reports it when a result is read, too", function()
    local x = sr.tensor { { 1, 2 }, { 3, 4 } }
    local y = sr.ops.gather_rows(x, sr.tensor({ 9 }, { dtype = "i32" }))
    assert.has_error(function() y:totable() end)
  end)

  it("takes back memory in the order of its queue", function()
    local held = {}
    for i = 1, 20 do
      local scope <close> = sr.scope()
      local x = sr.full({ 1000 }, i)
      held[i] = (x * 2):sum():keep() -- its input goes back to the pool before it runs
    end
    for i = 1, 20 do assert.equal(2000 * i, held[i]:item()) end
  end)
end)

it("synchronize costs nothing where work is done at once", function()
  sr.synchronize()
  sr.synchronize("ref")
end)

it("an op of a plug-in is built against the installed headers and has a gradient", function()
  ---swish.c of recipes/plugin as its head says, against the installed headers; nil where there is no compiler.
  local function built()
    local folder = program.folder()
    local headers, library = folder .. "/include", folder .. "/swish.so"
    local install = "for f in core/*.h core/*/*.h core/*/*/*.h; do install -D -m 644 $f '%s'/$f; done"
    assert(os.execute(install:format(headers)))
    local compile = "${CC:-cc} -O2 -shared -fPIC -Wall -Werror -I'%s' -o '%s' recipes/plugin/swish.c -lm 2>'%s/out'"
    if not os.execute("command -v ${CC:-cc} >/dev/null") then return nil end
    assert(os.execute(compile:format(headers, library, folder)), io.open(folder .. "/out"):read("a"))
    return library
  end

  local library = built()
  if not library then return end
  local out = works(program.run { "recipes/plugin/swish.lua", "plugin=" .. library })
  local y, dx = out:match("^largest difference: ([%d.e+-]+) of y, ([%d.e+-]+) of its gradient\n$")
  assert.is_true(tonumber(y) < 1e-6 and tonumber(dx) < 1e-5, out)
  assert(sr.plugin(library))
  local x, z = sr.ones(3), sr.zeros(3)
  local function fails(words, ...)
    local done, message = pcall(sr.ops.call, ...)
    assert.is_false(done)
    assert.is_truthy(tostring(message):find(words, 1, true), tostring(message))
  end
  fails("swish: takes 1 outputs, 1 inputs and 1 numbers, but was given 1, 1 and 0", "swish", { z }, { x })
  fails("swish: expected contiguous f32 tensors of one size", "swish", { z }, { sr.ones(4) }, { 1 })
  fails("tensors on cpu and ref", "swish", { z }, { x:to("ref") }, { 1 })
  fails("swish is not implemented for ref", "swish", { z:to("ref") }, { x:to("ref") }, { 1 })
  fails("no plug-in has added a function 'swich'", "swich", { z }, { x }, { 1 })
  local before = z:version()
  sr.ops.call("swish", { z }, { x }, { 1 })
  assert.is_true(z:version() > before)
end)

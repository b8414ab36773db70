-- Checkpoints that a thread writes while training continues: the same files, guarantees and messages as others.

local checkpoint = require("seqrun.checkpoint")
local fails = require("tests.support.fails")
local fault = require("tests.support.fault")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local dir
before_each(function() dir = program.folder() end)
after_each(function()
  fault.storage(0)
  fault.memory(0)
  sys.remove(dir)
end)

---Small parameters with values by step, and an optimizer with moments.
local function model()
  local params = sr.params.new { { name = "w", shape = { 64, 32 } }, { name = "b", shape = { 64 }, init = "zeros" } }
  return params:initialise(1), sr.optim.adamw(params)
end

local function parts(step, params, opt)
  params:initialise(step)
  return { step = step, model = params, opt = opt, config = { hidden_size = 32 }, state = { step = step } }
end

---The names and checksums of the files of a checkpoint.
local function contents(path)
  local found = {}
  for _, name in ipairs { "model.safetensors", "config.json", "MANIFEST", "trainer/state.json",
    "trainer/optim.safetensors" } do
    found[name] = sys.hash_file(path .. "/" .. name)
  end
  return found
end

---The checkpoints of `dir`, all intact; fails if there is anything else.
local function steps()
  local list = {}
  for _, name in ipairs(sr.must(sys.list(dir))) do
    local step = math.tointeger(tonumber(name:match("^step%-(%d+)$")))
    assert.is_truthy(step, name)
    assert.equal(step, sr.must(checkpoint.verify(dir .. "/" .. name)))
    list[#list + 1] = step
  end
  table.sort(list)
  return list
end

describe("a checkpoint in the background #bindings", function()
  it("is that of the moment when it was begun", function()
    local params, opt = model()
    local saver = checkpoint.saver(dir .. "/a")
    sr.must(sys.make_dirs(dir .. "/a"))
    sr.must(sys.make_dirs(dir .. "/b"))
    assert.is_true(saver:begin(parts(3, params, opt)))
    assert.same({ false, true, true }, { saver:lacks(3), saver:lacks(4), saver:is_writing() })
    params:initialise(99)
    local path, message = saver:wait()
    assert.same({ dir .. "/a/step-000000003" }, { path, message })
    assert.same({ false, 3, nil }, { saver:is_writing(), saver:newest(), (saver:wait()) })
    local wanted = sr.must(checkpoint.save(dir .. "/b", parts(3, params, opt)))
    assert.same(contents(wanted), contents(path))
  end)

  it("removes old ones like others", function()
    local params, opt = model()
    local saver = checkpoint.saver(dir, { keep = 2 })
    for step = 1, 4 do
      assert.is_true(saver:begin(parts(step, params, opt)))
      assert.is_string((saver:wait()))
    end
    assert.same({ 3, 4 }, steps())
  end)

  it("whose storage fails at any call says so, keeps the older one and leaves no files", function()
    local params, opt = model()
    sr.must(checkpoint.save(dir, parts(1, params, opt)))
    local failed = 0
    for n = 1, 1000 do
      local saver = checkpoint.saver(dir)
      saver:resumed(1, dir .. "/step-000000001")
      fault.storage(n, "ENOSPC")
      assert.is_true(saver:begin(parts(2, params, opt)))
      local path, message, code = saver:wait()
      local enough = fault.storage_calls() < n
      fault.storage(0)
      if enough then break end
      assert.is_nil(code)
      if not path then
        failed = failed + 1
        assert.matches("%(step 2 is not saved; 1 step is at risk%)$", message)
        local kept = steps()
        assert.is_true(kept[1] == 1 and (#kept == 1 or kept[2] == 2)) -- named, but its directory was not synced
      end
      sys.remove(dir .. "/step-000000002")
    end
    assert.is_true(failed >= 20)
    assert.same({ 1, 2 }, steps())
  end)

  it("that memory does not hold is left to a save that waits", function()
    local params, opt = model()
    local saver = checkpoint.saver(dir)
    saver.copy = setmetatable({ begin = function() return train.background(dir):begin(1, 1 << 50) end }, {})
    fails.returning(nil, "a copy of 1073741824 MiB does not fit in the %d+ MiB of memory",
      saver:begin(parts(1, params, opt)))
    assert.is_false(saver:is_writing())
    assert.is_string((saver:save(parts(1, params, opt))))
  end)

  it("survives each failing allocation", function()
    local params, opt = model()
    local whole, failures = parts(1, params, opt), 0
    for n = 1, 2000 do
      local saver = checkpoint.saver(dir)
      fault.memory(n)
      local ok, begun = pcall(saver.begin, saver, whole)
      local path = ok and begun and saver:wait()
      local enough = fault.allocations() < n
      fault.memory(0)
      collectgarbage()
      failures = failures + (path and 0 or 1) -- Lua's own allocations are tried again
      assert.same(path and { 1 } or {}, steps())
      sys.remove(dir .. "/step-000000001")
      if enough then break end
    end
    assert.is_true(failures > 10)
  end)

  it("has no more bytes than announced, and is finished before its handle goes", function()
    local copy = train.background(dir)
    sr.must(copy:begin(7, 5))
    assert.is_true(copy:done())
    sr.must(copy:file("a.txt", "12345"))
    assert.equal("checkpoint: files have more bytes than announced", (select(2, copy:file("b.txt", "x"))))
    sr.must(copy:begin(8, 5))
    sr.must(copy:file("a.txt", "1234"))
    sr.must(copy:start(2))
    assert.matches("started twice", (select(2, copy:start(2))))
    assert.matches("begun while another is written", (select(2, copy:begin(9, 1))))
    assert.matches("comes after the start", (select(2, copy:file("b.txt", ""))))
    copy:finish()
    assert.same({ 8 }, steps())
    assert.error_matches(function() copy:wait() end, "the save has ended")
  end)
end)

describe("a run that saves in the background", function()
  ---Runs the recipe with a line after each step; returns exit code, output, messages.
  local function run(line, ...)
    local corpus = small.corpus(dir)
    local words = small.words(corpus, "save.every=2", "threads=1", "--out", dir .. "/out", ...)
    local recipe, changed = sr.must(sys.read_file("recipes/pretrain.lua"))
      :gsub("  run:log%(step, optimizer%)\n", function(log) return log .. line .. "\n" end)
    assert.equal(1, changed)
    words[1] = program.write(dir, "own.lua", recipe)
    program.write(dir, "own.yaml", sr.must(sys.read_file("recipes/pretrain.yaml")))
    return program.run(words)
  end
  ---The disk is full for the checkpoint of step 4, which must have come so far before the second fault is set, and 8.
  local FULL = [[
  if step == 4 or step == 8 then
    local fault = dofile("tests/support/fault.lua")
    while step == 8 and fault.storage_calls() == 0 do end
    fault.storage(1, "ENOSPC", "mkdir")
  end
]]

  it("writes the same checkpoints as one that waits", function()
    assert.equal(0, (run("", "--max-steps", "6")))
    local weights, metrics = small.weights(dir .. "/out", 6), small.metrics(dir .. "/out")
    sys.remove(dir .. "/out")
    assert.equal(0, (run("", "--max-steps", "6", "save.background=false")))
    assert.same(weights, small.weights(dir .. "/out", 6))
    assert.same(metrics, small.metrics(dir .. "/out"))
  end)

  it("says at once that the disk was full, goes on, and ends when that has happened too often", function()
    local _, err = program.works(run(FULL, "--max-steps", "10", "save.every=4"))
    assert.matches("warning: [^\n]*No space left on device[^\n]*%(step 4 is not saved; 4 steps are at risk%)", err)
    assert.matches("warning: [^\n]*No space left on device[^\n]*%(step 8 is not saved; 8 steps are at risk%)", err)
    assert.equal(10, (select(2, checkpoint.latest(dir .. "/out"))))
    sys.remove(dir .. "/out")
    program.exits(5, "seqrun: [^\n]*No space left on device[^\n]*%(step 8 is not saved; 8 steps are at risk%)",
      run(FULL, "--max-steps", "10", "save.every=4", "save.max_failures=2"))
  end)

  it("waits for the checkpoint before it exits with 75, and leaves the older one at a second interrupt", function()
    local slow = '  if step == 4 then os.execute("kill -TERM $PPID") end'
    local code, _, err = run(slow, "--max-steps", "10")
    assert.equal(75, code, err)
    local path, step = checkpoint.latest(dir .. "/out")
    assert.is_string(path)
    assert.is_true(step >= 4)
    for _, name in ipairs(sr.must(sys.list(dir .. "/out"))) do assert.is_nil(name:find("^%.tmp")) end
    sys.remove(dir .. "/out")
    code = run('  if step == 5 then io.popen("kill -INT $PPID; kill -INT $PPID"):close() end', "--max-steps", "10")
    assert.is_true(code == 130 or code == 75)
    assert.is_true((select(2, checkpoint.latest(dir .. "/out"))) >= 2)
    assert.equal(0, (run("", "--max-steps", "10", "--resume")))
  end)
end)

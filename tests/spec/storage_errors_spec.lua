-- A file that the system cannot read or examine is reported as such, not as missing or ending there.
-- Nor is lack of memory taken for a damaged file or a plan that does not exist.

local fault = require("tests.support.fault")
local files = require("tests.support.task_files")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local trace = require("tests.faults.support.trace")

local exits, works = program.exits, program.works

local folder

setup(function()
  folder = program.folder()
  local words = small.words(small.corpus(folder, 40), "--out", folder .. "/run", "--max-steps", "1")
  assert.equal(0, (program.run(words)))
end)

---Runs a command while calls on a path fail, from the n-th on.
local function fails_at(words, path, call, n, error)
  local why = trace.missing()
  if why then return pending(why) end
  -- leak checks do not work under a tracer
  local how = "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 strace -f -qq -o /dev/null "
    .. "-P '%s' -e trace=%s -e inject=%s:error=%s:when=%d+"
  return program.all(words, { before = how:format(path, call, call, error, n) })
end

---The same for a file of the folder, with EIO.
local function fails(words, file, call, n) return fails_at(words, folder .. "/" .. file, call, n or 1, "EIO") end

describe("a call that fails with EIO", function()
  it("does not end a run's metrics early", function()
    for _, file in ipairs { "metrics.jsonl", "run.log" } do
      exits(3, file .. " cannot be read: Input/output error",
        fails({ "compare", folder .. "/run", folder .. "/run" }, "run/" .. file, "read", 3))
    end
  end)

  it("does not make a run's config, environment or a tokenizer's files missing", function()
    for file, words in pairs {
      ["run/config.yaml"] = { "report", folder .. "/run", "--out", folder .. "/page.html" },
      ["run/environment.json"] = { "report", folder .. "/run", "--out", folder .. "/page.html" },
      ["vocab.txt"] = { "tokenize", "--vocab", folder },
      ["tokenizer_config.json"] = { "tokenize", "--vocab", folder },
    } do
      for _, name in ipairs { "vocab.txt", "tokenizer_config.json" } do
        program.write(folder, name, assert(sys.read_file(folder .. "/run/step-000000001/" .. name)))
      end
      local code, said = fails(words, file, "read")
      assert.is_true(code == 3 or code == 5, said)
      assert.matches("Input/output error", said)
    end
  end)

  it("does not make a plan missing in a report", function()
    local page = folder .. "/page.html"
    local plan = "run/step-000000001/trainer/plan.txt"
    works(fails({ "report", folder .. "/run", "--out", page }, plan, "read"))
    assert.matches("plans are left out: [^\n]*plan.txt: cannot read: Input/output error", assert(sys.read_file(page)))
  end)

  it("does not make a trial of a sweep fail", function()
    local words = { "sweep" }
    for _, word in ipairs(small.words(folder .. "/corpus.sqr", "--out", folder .. "/sweep", "--max-steps", "1",
      "rate.peak=1e-3,1e-2", "attach=false")) do
      if word ~= "--quiet" and word ~= "rate.peak=3e-3" then words[#words + 1] = word end
    end
    assert.equal(0, (program.run(words)))
    exits(3, "seqrun: [^\n]*seed%-1: metrics.jsonl cannot be read: Input/output error",
      fails(words, "sweep/rate.peak=1e-3/seed-1/metrics.jsonl", "read", 3))
  end)

  it("does not make a path missing", function()
    local code, said = fails({ "info", folder .. "/run" }, "run", "newfstatat")
    assert.same({ 5, "seqrun: cannot examine " .. folder .. "/run: Input/output error\n" }, { code, said })
  end)

  it("does not make another checkpoint the newest", function()
    local run = small.words(folder .. "/corpus.sqr", "--out", folder .. "/two", "--max-steps", "2", "save.every=1")
    assert.equal(0, (program.run(run)))
    local newest = "two/step-000000002/model.safetensors"
    for _, words in ipairs {
      { "export", folder .. "/two", folder .. "/exported" },
      table.move({ "--resume" }, 1, 1, #run + 1, run),
      { "info", folder .. "/two" },
    } do
      local said = exits(5, "/two/step%-000000002/model%.safetensors: cannot open: Input/output error",
        fails(words, newest, "openat"))
      assert.is_nil(said:find("skipping", 1, true), said)
    end
    assert.is_false(sys.exists(folder .. "/exported"))
  end)

  it("does not leave out the checks of init.from, a config's keys or which data a run had", function()
    local run, corpus = folder .. "/run", folder .. "/corpus.sqr"
    local step = "run/step-000000001/"
    local started = small.words(corpus, "--out", folder .. "/started", "init.from=" .. run, "--max-steps", "1")
    for _, case in ipairs {
      { started, step .. "MANIFEST", 1 }, { { "eval", run, corpus }, "corpus.sqr", 3 },
    } do
      for n = case[3], case[3] + 2 do
        exits(5, folder .. "[^\n]*: Input/output error", fails(case[1], case[2], "openat", n))
      end
    end
  end)

  it("of a config is reported as one", function()
    local config = "config=" .. folder .. "/run/config.yaml"
    local words = small.words(folder .. "/corpus.sqr", "--out", folder .. "/other", config)
    exits(5, "run/config.yaml: cannot read: Input/output error", fails(words, "run/config.yaml", "read"))
  end)

  it("does not make a text a directory", function()
    local text = program.write(folder, "some.txt", "the cat\n")
    local told = 0
    for n = 1, 3 do
      local code, said = fails({ "tokenize", "--vocab", folder .. "/corpus.vocab.txt", text }, "some.txt",
        "fstat,newfstatat", n)
      assert.is_nil(said:find("is a directory", 1, true), said)
      if code ~= 0 then
        assert.equal(5, code)
        assert.matches("some.txt: cannot [^\n]*Input/output error", said)
      end
      told = told + (said:find("cannot examine: Input/output error", 1, true) and 1 or 0)
    end
    assert.is_true(told > 0)
  end)

  it("does not make the library or a model of a run differ", function()
    local origin = require("seqrun.run.directory.origin")
    local hash_file = sys.hash_file
    local function failing(call)
      sys.hash_file = function(path) return nil, path .. ": cannot read: Input/output error", "storage" end
      local good, problem = pcall(call)
      sys.hash_file = hash_file
      assert.is_false(good)
      assert.matches("cannot read: Input/output error", tostring(problem))
      assert.equal("storage", problem.code)
    end
    failing(origin.library)
    local model = folder .. "/model"
    assert(sys.make_dirs(model))
    for _, name in ipairs { "config.json", "model.safetensors", "vocab.txt" } do
      assert(sys.write_file(model .. "/" .. name, assert(sys.read_file(folder .. "/run/step-000000001/" .. name))))
    end
    failing(function() return origin.hash(model) end)
    assert.is_string(origin.hash(model))
  end)
end)

it("a library that is missing is named, with the way out", function()
  local path = assert(package.searchpath("argparse", package.path))
  exits(5, "seqrun: the Lua library argparse is missing or cannot be read; install lua%-argparse\n$",
    fails_at({ "info", folder }, path, "openat", 1, "ENOENT"))
end)

it("a flipped bit of a checkpoint's vocabulary is found when it is read as a tokenizer", function()
  local path = folder .. "/run/step-000000001"
  assert.equal(0, (program.run({ "tokenize", "--vocab", path }, { input = "the cat\n" })))
  local text = assert(sys.read_file(path .. "/vocab.txt"))
  assert(sys.write_file(path .. "/vocab.txt", text:sub(1, -3) .. string.char(text:byte(-2) ~ 1) .. "\n"))
  local code, out, err = program.run({ "tokenize", "--vocab", path }, { input = "the cat\n" })
  assert(sys.write_file(path .. "/vocab.txt", text))
  assert.same({ 3, "" }, { code, out })
  assert.matches("vocab.txt", err)
end)

describe("what a run writes at its end", function()
  ---A recipe that finds no room for one of its files.
  local function full(recipe, name)
    return program.write(folder, "full.lua", ([[
      local sys = require("seqrun.core.sys")
      local write = sys.write_file
      sys.write_file = function(path, text, ...)
        if path:find("%s", 1, true) and not text:find("running", 1, true) then
          return nil, path .. ": No space left on device", "storage"
        end
        return write(path, text, ...)
      end
      arg[0] = "recipes/%s.lua"
      dofile(arg[0])
    ]]):format(name, recipe))
  end

  it("is reported where the scores could not be written", function()
    local data = files.write(folder, "classify")
    local words = files.finetune(folder, "classify", data, files.encoder(folder .. "/base"), "--quiet", "--max-steps",
      "2", "--out", folder .. "/scored")
    words[1] = full("finetune", "scores.json")
    local _, err = works(program.run(words))
    assert.matches("warning: the scores were not written: [^\n]*scores.json: No space left", err)
    assert.is_false(sys.exists(folder .. "/scored/scores.json"))
  end)

  it("is reported where it could not be written", function()
    local words = small.words(folder .. "/corpus.sqr", "--out", folder .. "/untold", "--max-steps", "1")
    words[1] = full("pretrain", "ended.json")
    local _, err = works(program.run(words))
    assert.matches("warning: ended.json was not written: [^\n]*ended.json: No space left", err)
  end)
end)

describe("lack of memory", function()
  after_each(function() fault.memory(0) end)

  ---Each allocation of a call fails once: it is passed over, or raised.
  local function each_fails(call)
    local wanted = call()
    for n = 1, 100000 do
      fault.memory(n)
      local good, found = pcall(call)
      local made = fault.allocations()
      fault.memory(0)
      if good then assert.same(wanted, found) else assert.matches("memory", tostring(found)) end
      if made < n then return n end
    end
  end

  it("is raised by json.decode", function()
    assert.is_true(each_fails(function() return json.decode('{"a":[1,2.5,"b"],"c":{"d":null}}') end) > 5)
  end)

  it("does not make the efficiency of a depth missing", function()
    local depths = require("seqrun.pack.draw").depths
    local histogram = require("seqrun.core.pack").count({ 10, 20, 30, 12, 7 }, 64)
    assert.is_true(each_fails(function() return depths(histogram, sr.pack, {}) end) > 20)
  end)
end)

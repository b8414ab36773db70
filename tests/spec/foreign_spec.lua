-- Directories of somebody else's: nothing in them is executed, whatever verb or recipe they are given to.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local with = require("tests.support.with")

local folder, corpus = small.folder()
local canary = folder .. "/executed"
local csv = program.write(folder, "train.csv", "text,label\nthe cat,yes\nthe dog,no\na song,yes\nhorse,no\n")

---Fails if code of a directory has run.
local function check_quiet(what)
  assert.is_false(sys.exists(canary), what .. " has executed something")
end

---Text of a file, changed.
local function change(path, from, to)
  local text, count = sr.must(sys.read_file(path)):gsub(from, to)
  assert.equal(1, count, path .. ": " .. from)
  sr.must(sys.write_file(path, text))
end

---A copy of the run, whose config says something else.
local function foreign(name, from, to)
  local place = folder .. "/" .. name
  assert(os.execute(("cp -r '%s/run' '%s'"):format(folder, place)))
  if from then change(place .. "/config.yaml", from, to) end
  return place
end

local function run(...) return program.run(small.words(corpus, "--max-steps=3", ...)) end

---Words of a recipe without those that the config of a run has.
local function resume(place, ...)
  return program.run { "recipes/pretrain.lua", "--resume=" .. place, "--max-steps=3", "--quiet", ... }
end

local function executes() return ("os.execute(\"touch '%s'\")\n"):format(canary) end

local evil = program.write(folder, "evil.lua", executes() .. "return function() return 0.1 end\n")

setup(function()
  program.ok(small.words(corpus, "--max-steps=2", "--out", folder .. "/run", "verify.every=2", "save.every=1"))
end)
before_each(function() os.remove(canary) end)

local COMMAND, FILE = "'alert.run' is a command; only the command line", "'token_drop.keep.fn' names a file of code"

describe("the config of a run #slow", function()
  it("names no command: resumed, or given with config=, it is refused until the user repeats it", function()
    local touch = "touch '" .. canary .. "'"
    local place = foreign("command", "\n  run: none\n", '\n  run: "' .. touch .. '"\n')
    for _, words in ipairs { { "--resume=" .. place }, { "--resume=" .. place, "--dry-run" },
      { "config=" .. place .. "/config.yaml", "--out", folder .. "/new" } } do
      local _, err = fails.exiting(2, COMMAND, { "recipes/pretrain.lua", "--quiet", table.unpack(words) })
      assert.matches("repeat 'alert.run=touch", err, 1, true)
    end
    check_quiet("a config")
    assert.equal(0, (resume(place, "alert.run=" .. touch)))
    place = foreign("without", "\n  run: none\n", '\n  run: "' .. touch .. '"\n')
    program.works(resume(place, "alert.run=none"))
    check_quiet("a run without alerts")
  end)

  it("names no file of code", function()
    local place = foreign("code", "\n  keep: none\n", ("\n  keep:\n    type: custom\n    fn: '%s'\n"):format(evil))
    for _, words in ipairs { { "--resume=" .. place },
      { "config=" .. place .. "/config.yaml", "--out", folder .. "/c" } } do
      fails.exiting(2, FILE, { "recipes/pretrain.lua", "--quiet", table.unpack(words) })
    end
    check_quiet("a schedule")
    local out = program.ok { "recipes/pretrain.lua", "config=" .. place .. "/config.yaml", "--explain" }
    assert.matches("token_drop.keep.fn", out, 1, true)
    check_quiet("--explain")
  end)

  it("names neither in its phases", function()
    local touch = "touch " .. canary
    for i, phase in ipairs { "a alert.run='" .. touch .. "'", "a token_drop.keep.fn=" .. evil, "a task=" .. evil } do
      local place = foreign("phases" .. i, "\nphases: none\n", ('\nphases: ["%s"]\n'):format(phase))
      for _, words in ipairs { { "recipes/pretrain.lua", "--quiet", "--resume=" .. place },
        { "recipes/pretrain.lua", "--quiet", "config=" .. place .. "/config.yaml", "--out", folder .. "/p" },
        { "verify", place }, { "repro", place, "--out", folder .. "/again" .. i } } do
        local code, out, err = program.run(words)
        assert.is_true(code ~= 0, table.concat(words, " ") .. ": " .. out .. err)
        check_quiet(table.concat(words, " "))
      end
    end
  end)

  it("names no task that is a file", function()
    local place = foreign("task")
    change(place .. "/config.yaml", "^", "task: " .. evil .. "\n")
    for _, words in ipairs { { "--resume=" .. place }, { "config=" .. place .. "/config.yaml" } } do
      fails.exiting(2, "names the task .*evil.lua, a file of code; if you trust it, repeat task=",
        { "recipes/finetune.lua", "--quiet", table.unpack(words) })
    end
    check_quiet("a task")
  end)

  it("may name them where the user has written them: beside the recipe", function()
    local recipe = program.write(folder, "own.lua", sr.must(sys.read_file("recipes/pretrain.lua")))
    local fn = program.write(folder, "rate.lua", "return function() return 0.5 end\n")
    program.write(folder, "own.yaml", sr.must(sys.read_file("recipes/pretrain.yaml"))
      .. ("\nalert:\n  run: 'true'\ntoken_drop:\n  keep:\n    type: custom\n    fn: %s\n"):format(fn))
    local words = small.words(corpus, "--max-steps=1", "--out", folder .. "/own", "model.num_hidden_layers=3")
    words[1] = recipe
    program.ok(words)
    program.ok { recipe, "--resume=" .. folder .. "/own", "--max-steps=2", "--quiet" }
  end)
end)

describe("seqrun verify #slow", function()
  it("runs no recipe and no task of a run without --trust", function()
    for what, words in pairs { recipe = { evil }, task = { "recipes/pretrain.lua", "task=" .. evil } } do
      local place = foreign("verify-" .. what)
      local facts = json.decode(sr.must(sys.read_file(place .. "/environment.json")))
      facts.words = words
      sr.must(sys.write_file(place .. "/environment.json", json.encode(facts)))
      fails.exiting(3, ("names the %s .*evil.lua, which does not ship with seqrun; .*%%-%%-trust"):format(what),
        { "verify", place, "--last" })
      check_quiet("verify")
      if what == "recipe" then
        program.run { "verify", place, "--last", "--trust" }
        assert.is_true(sys.exists(canary))
        os.remove(canary)
      end
    end
  end)

  it("runs no command of alerts", function()
    local place = foreign("verify-alert", "\n  run: none\n", ('\n  run: "touch \'%s\'"\n'):format(canary))
    change(place .. "/config.yaml", "\n  stall: %d+", "\n  stall: 0.000001")
    program.ok { "verify", place, "--last" }
    sys.sleep(0.3)
    check_quiet("verify")
  end)
end)

---A Hugging Face directory with everything that other programs would execute.
local function bait(name)
  local place = folder .. "/" .. name
  program.ok { "export", folder .. "/run", place }
  local config = json.decode(sr.must(sys.read_file(place .. "/config.json")))
  config.auto_map = { AutoModel = "modeling.Evil", AutoConfig = "modeling.Config" }
  config.trust_remote_code = true
  sr.must(sys.write_file(place .. "/config.json", json.encode(config)))
  for _, file in ipairs { "seqrun.lua", "init.lua", "recipe.lua", "argparse.lua", "lua/seqrun/init.lua",
    "seqrun/init.lua", "seqrun/commands/info.lua", "seqrun/tasks/classify.lua", "recipes/pretrain.lua" } do
    sys.make_dirs((place .. "/" .. file):match("^(.*)/"))
    program.write(place, file, executes())
  end
  for _, file in ipairs { "modeling.py", "setup.py", "seqrun_cuda.so", "seqrun_mpi.so", "libcublasLt.so.13" } do
    program.write(place, file, "import os; os.system('touch " .. canary .. "')\n")
  end
  -- a pickle that calls posix.system
  program.write(place, "pytorch_model.bin", "cposix\nsystem\n(S'touch " .. canary .. "'\ntR.")
  program.write(place, "training_args.bin", "cposix\nsystem\n(S'touch " .. canary .. "'\ntR.")
  return place
end

describe("a Hugging Face directory #slow", function()
  it("with code, plug-ins and pickles is read as data by every verb, also from inside it", function()
    local place = bait("bait")
    local inside = { before = ("cd '%s' &&"):format(place), input = "the [MASK] cat\n" }
    for _, words in ipairs { { "info", "." }, { "fill", "." }, { "encode", "." }, { "score", ".", "-" }, { "version" },
      { "export", ".", folder .. "/again" }, { "import", ".", folder .. "/imported" }, { "doctor" } } do
      program.ok(words, inside)
      check_quiet(words[1])
    end
    assert.equal(0, (run("--out", folder .. "/from", "init.from=" .. place)))
    check_quiet("init.from")
  end)

  it("whose weights are a pickle only is refused", function()
    local place = bait("pickle")
    os.remove(place .. "/model.safetensors")
    for _, words in ipairs { { "import", place, folder .. "/none" }, { "fill", place }, { "encode", place } } do
      local code, _, err = program.run(words, { input = "the [MASK] cat\n" })
      assert.equal(3, code, err)
      check_quiet(words[1])
    end
  end)

  it("with tasks, families and heads that are paths finds no code by them", function()
    local place = bait("paths")
    local path = place .. "/config.json"
    local plain = json.decode(sr.must(sys.read_file(path)))
    local name = evil:gsub("%.lua$", "")
    for _, more in ipairs {
      { model_type = name }, { model_type = "../../evil" }, { seqrun_heads = { { kind = name, name = "x" } } },
      { seqrun_heads = { { kind = evil, name = "x" } } }, { architectures = { evil } }, { problem_type = evil },
    } do
      sr.must(sys.write_file(path, json.encode(with(plain, more))))
      program.run({ "encode", place }, { input = "the cat\n" })
      program.run({ "predict", place }, { input = "the cat\n" })
      check_quiet("config.json")
    end
  end)
end)

describe("a fine-tuned run of somebody else's #slow", function()
  it("is evaluated, predicted with and reported without what its config names", function()
    local out = folder .. "/tuned"
    program.ok { "recipes/finetune.lua", "task=classify", "data.train=" .. csv, "data.held=0",
      "epochs=1", "batch.sequences=2", "init.from=" .. folder .. "/run", "--quiet", "--out", out }
    local checkpoint = out .. "/" .. "step-000000002"
    for _, path in ipairs { out .. "/config.yaml", checkpoint .. "/trainer/config.yaml" } do
      change(path, "\n  run: none\n", ('\n  run: "touch \'%s\'"\n'):format(canary))
    end
    os.remove(checkpoint .. "/MANIFEST") -- else the change is damage
    for _, words in ipairs { { "predict", checkpoint }, { "eval", checkpoint, csv }, { "report", out }, { "runs", out },
      { "compare", out, folder .. "/run" }, { "info", out }, { "info", checkpoint },
      { "export", checkpoint, out .. "-hf" } } do
      program.run(words, { input = "the cat\n" })
      check_quiet(words[1])
    end
  end)
end)

-- Runs that are run again: to the same bits, or what differs is named.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local dir, corpus
before_each(function()
  dir = program.folder()
  corpus = small.corpus(dir)
end)
after_each(function() sys.remove(dir) end)

local function train(...)
  local code, _, err = program.run(small.words(corpus, "--out", dir .. "/run", ...))
  assert.equal("0 ", code .. " " .. err)
end

local function repro(...) return program.run { "repro", dir .. "/run", ... } end

---What a check says, by its name.
local function checks_of(object)
  local found = {}
  for _, check in ipairs(object.checks) do found[check.name] = check end
  return found
end

---Replaces text in a file.
local function edit(path, pattern, with)
  local text = sr.must(sys.read_file(path))
  local changed, count = text:gsub(pattern, with)
  assert.is_true(count > 0, pattern)
  sr.must(sys.write_file(path, changed))
end

it("keys that change no bit are those that the schema marks so", function()
  local checks = require("seqrun.run.repro.checks")
  for _, key in ipairs {
    "threads", "attach", "budget", "save.every", "save.at.words", "alert.run", "log.every", "log.seconds",
    "verify.every", "ranks.engine", "ranks.bucket", "data.prefetch", "data.workers", "peak_flops",
  } do assert.is_true(checks.is_harmless(key), key) end
  for _, key in ipairs {
    "seed", "rate.peak", "data.file", "data.max_len", "ranks.reduce", "save", "thread", "threads.x", "deterministic",
    "instructions", "batch.sequences", "eval.every",
  } do assert.is_false(checks.is_harmless(key), key) end
end)

describe("seqrun repro #slow", function()
  it("runs a finished run again to the same bits on other threads, and leaves it alone", function()
    train("--max-steps", "6", "eval.every=2", "save.every=3", "threads=1")
    local before = sys.list(dir .. "/run")
    local code, out, err = repro("--threads", "3")
    assert.equal(0, code, out .. err)
    assert.matches("6 steps run again in " .. dir .. "/run%-repro, equal to the bit: %d+ lines of metrics, "
      .. "weights and moments of step 6", out)
    assert.same(small.weights(dir .. "/run", 6), small.weights(dir .. "/run-repro", 6))
    assert.same(before, sys.list(dir .. "/run"))
    local sweep = dir .. "/sweep"
    assert(os.execute(("cd %s && mkdir -p sweep/x && cp -r run sweep/x/seed-1 && echo '{}' >sweep/sweep.json"):format(
      dir)))
    out = works(program.run { "repro", sweep .. "/x/seed-1", "--steps", "2" })
    assert.matches("run again in " .. sweep .. "%-x%-seed%-1%-repro, equal", out)
    out = works(repro("--steps", "3", "--json", "--out", dir .. "/other"))
    local object = json.decode(out)
    assert.same({ true, 3, dir .. "/other", { step = 3, equal = true } },
      { object.equal, object.steps, object.again, object.checkpoint })
    local again = json.decode(sr.must(sys.read_file(dir .. "/other/ended.json")))
    assert.equal("finished", again.state)
    code, out, err = repro("--out", "/proc/none/x") -- where nothing can be written: nothing is wrong with the run
    assert.equal(5, code, out)
    assert.matches("free some space, or choose another directory with %-%-out", err)
  end)

  it("names the process before a resume that had other instructions", function()
    train("--max-steps", "2")
    edit(dir .. "/run/environment.json", '"instructions":"[^"]*"', '"instructions":"vax"')
    works(program.run(small.words(corpus, "--resume=" .. dir .. "/run")))
    local code, out = repro("--check")
    assert.equal(1, code)
    assert.matches("\ninstructions of session 1, [%w:-]+ differs, so the bits would", out)
  end)

  it("repeats a run that was stopped and resumed, and one with a curriculum", function()
    for _, words in ipairs {
      { "--max-steps=3", "curriculum.length.min=16", "curriculum.length.max=48", "curriculum.length.total=6" },
      { "--max-steps=6", "--resume" },
    } do
      words = small.words(corpus, "--out", dir .. "/run", table.unpack(words))
      words[1] = "recipes/curriculum.lua"
      local code, _, err = program.run(words)
      assert.equal("0 ", code .. " " .. err)
    end
    local out = works(repro("--json"))
    assert.equal(6, json.decode(out).checkpoint.step)
  end)

  it("with --check only says what the run was made from", function()
    train("--max-steps", "2")
    local out = works(repro("--check"))
    assert.matches("recipe recipes/pretrain.lua +%x+ +equal", out)
    assert.matches("data.file " .. corpus, out)
    assert.matches("can be repeated here up to step 2\n$", out)
    assert.is_false(sys.exists(dir .. "/run-repro"))
    for _, format in ipairs { "csv", "markdown" } do
      assert.matches("config.yaml", (select(2, repro("--check", "--format", format))))
    end
  end)

  it("names an edited recipe, other data, an edited config, another instruction set, and runs nothing", function()
    local recipe = program.write(dir, "own.lua", sr.must(sys.read_file("recipes/pretrain.lua")))
    local words = small.words(corpus, "--out", dir .. "/run", "config=recipes/pretrain.yaml", "--max-steps", "2")
    words[1] = recipe
    assert.equal(0, (program.run(words)))
    local function differs(name)
      local out = exits(1, "", repro("--json"))
      local found = checks_of(json.decode(out))
      for other, check in pairs(found) do assert.equal(other ~= name, check.equal ~= false, other) end
      assert.is_false(sys.exists(dir .. "/run-repro"))
      out = exits(1, "", repro())
      assert.matches("differs, so the bits would: nothing was run", out)
    end
    edit(recipe, "$", "\n-- more\n")
    differs("recipe " .. recipe)
    edit(recipe, "\n%-%- more\n$", "")
    edit(dir .. "/run/config.yaml", "seed: 42", "seed: 43")
    differs "config.yaml"
    edit(dir .. "/run/config.yaml", "seed: 43", "seed: 42")
    edit(dir .. "/run/environment.json", '"instructions":%s*"[^"]*"', '"instructions":"none"')
    differs "instructions"
    edit(dir .. "/run/environment.json", '"instructions":"none"', '"instructions":"'
      .. require("seqrun.core.tensor").instructions() .. '"')
    sys.remove(corpus)
    small.corpus(dir, 90)
    differs("data.file " .. corpus)
  end)

  it("names what of a checkpoint differs: the weights, or a moment", function()
    local saved = require("seqrun.run.repro.saved")
    train("--max-steps", "2")
    local a, b = dir .. "/run/step-000000002", dir .. "/b"
    assert(os.execute(("cp -r '%s' '%s'"):format(a, b)))
    assert.is_nil(saved(a, b))
    local function flip_last(path)
      local text = sr.must(sys.read_file(path))
      sr.must(sys.write_file(path, text:sub(1, -2) .. string.char(text:byte(-1) ~ 1)))
    end
    flip_last(b .. "/trainer/optim.safetensors")
    assert.matches("^[mv]%.%S+$", saved(a, b))
    flip_last(b .. "/model.safetensors")
    assert.equal("model.safetensors", saved(a, b))
  end)

  it("names the first step that differs", function()
    train("--max-steps", "4", "log.every=1")
    local lines = {}
    for _, line in ipairs(sr.must(sr.metrics.read(dir .. "/run"))) do
      if line.type == "train" and line.step == 3 then line.grad_norm = line.grad_norm * (1 + 2 ^ -52) end
      lines[#lines + 1] = json.encode(line) .. "\n"
    end
    sr.must(sys.write_file(dir .. "/run/metrics.jsonl", table.concat(lines)))
    local code, out = repro("--json")
    local object = json.decode(out)
    assert.equal(1, code)
    local found = object.difference
    assert.same({ 3, "train", "grad_norm" }, { found.step, found.type, found.field })
    out = exits(1, "", repro())
    assert.matches("step 3 differs: grad norm of training is [%d.]+, was [%d.]+; the second run is in", out)
  end)

  it("cannot repeat what is running, was changed on its way, or is no run", function()
    exits(3, "no such directory", repro())
    train("--max-steps", "2")
    train("--max-steps", "4", "--resume", "eval.updates=2")
    local found = json.decode((select(2, repro("--check", "--json"))))
    assert.equal("eval.updates was 1 before a resume", checks_of(found)["step 3"].was)
    assert.equal(0, (repro("--check", "--steps", "2")))
    exits(2, "%-%-steps 9: .* has 4 steps", repro("--steps", "9"))
    local held <close> = assert(require("seqrun.core.train").run_dir(dir .. "/run")) -- luacheck: ignore 211
    exits(3, "is running; a run is repeated when it has ended", repro())
  end)
end)

-- What a run refuses before it trains: parts that lack something, another vocabulary, data that has changed.

local contracts = require("seqrun.run.checks.contracts")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local none = require("tests.support.none")

local exits, works = program.exits, program.works

local folder, corpus = small.folder()
local first = folder .. "/first"

local function run(...) return program.run(small.words(corpus, ...)) end

---Runs a changed copy of recipes/pretrain.lua.
local function run_changed(name, pattern, replacement, ...)
  local recipe, changed = assert(sys.read_file("recipes/pretrain.lua")):gsub(pattern, replacement)
  assert.equal(1, changed, pattern)
  local out = folder .. "/" .. name
  local words = small.words(corpus, "config=recipes/pretrain.yaml", "--out", out, "--max-steps", "2", ...)
  words[1] = program.write(folder, name .. ".lua", recipe)
  return program.run(words)
end

setup(function()
  assert.equal(0, (run("--out", first, "--max-steps", "2")))
end)

describe("a start", function()
  it("names what a part lacks, and shows an example", function()
    local bert = sr.nn.bert { vocab_size = 20, hidden_size = 8, num_hidden_layers = 1, num_attention_heads = 1 }
    local function methods(...)
      local part = {}
      for _, name in ipairs { ... } do part[name] = print end
      return part
    end
    local loader = methods("next", "cursor", "seek", "summary", "plan", "plan_text")
    local optimizer = sr.optim.adamw(bert.params)
    local function start(changes)
      local parts = { model = bert, optimizer = optimizer, loader = loader }
      for key, value in pairs(changes) do parts[key] = value or nil end
      return function() contracts.check(parts) end
    end
    assert.has_no.errors(start {})
    assert.error_matches(start { loader = false }, "loader is missing; expected one like sr.data.loader")
    assert.error_matches(start { loader = methods("next", "seek", "summary", "plan") },
      "loader has no cursor%(%), plan_text%(%); see sr.data.loader %(seqrun/data/loader/init.lua%)")
    assert.error_matches(start { held = methods("next") }, "held has no cursor%(%), seek%(%)")
    assert.error_matches(start { model = { params = {} } }, "model has no losses%(%)")
    assert.error_matches(start { model = methods("losses") }, "model has no params")
    assert.error_matches(start { optimizer = methods("step") }, "optimizer has no read_results%(%)")
    assert.error_matches(start { rate = 1e-3 }, "rate is a number; expected a function")
    local other = sr.nn.bert { vocab_size = 20, hidden_size = 8, num_hidden_layers = 1, num_attention_heads = 1 }
    assert.error_matches(start { model = other }, "optimizer does not update the model's parameters")
  end)

  it("comes before any training, with the recipe's line", function()
    exits(1, "lacking.lua:%d+: run:start: loader has no next%(%), cursor%(%)",
      run_changed("lacking", "local train = loader%(\"train\"%)",
        "local train = { real = loader('train'), summary = function(l) return l.real:summary() end }"))
    assert.is_false(sys.exists(folder .. "/lacking"))
  end)

  it("rejects a model whose losses cannot be added up, at the first batch", function()
    exits(1, "bare.lua:%d+: run:tally: loss 1 of model:losses%(batch%) has no name, total or count",
      run_changed("bare", "local losses = run:losses%(batch%)",
        "local losses = { total = bert:losses(batch).total, { name = 'mlm' } }"))
  end)

  it("reports a loop without optimizer:step at its first step", function()
    exits(1, "stepless.lua:%d+: run:log: no optimizer step was made; call optimizer:step",
      run_changed("stepless", "\n  optimizer:step [^\n]*", ""))
  end)

  it("accepts keys that a recipe adds", function()
    local code, out, err = run_changed("keyed", "task = task }",
      'task = task, keys = { { "top_k", sr.config.integer { default = 3, doc = "kept" } } } }\nprint(run.config.top_k)',
      "top_k=7")
    assert.equal(0, code, err)
    assert.matches("^7\n", out)
    assert.matches("top_k: 7", assert(sys.read_file(folder .. "/keyed/config.yaml")))
    exits(1, "duplicate key 'seed' in the schema", run_changed("twice", "task = task }",
      'task = task, keys = { { "seed", sr.config.integer { default = 3 } } } }'))
  end)
end)

it("the directory of a run must have room for a checkpoint", function()
  local directory = require("seqrun.run.directory").new { out = folder .. "/not/yet/there" }
  directory:check_space(1000)
  local ok, problem = pcall(directory.check_space, directory, 1 << 60)
  assert.is_false(ok)
  assert.matches("/not/yet/there: a checkpoint needs 1048576.0 TiB, but only .* are free; free some space, or",
    tostring(problem))
  assert.equal("storage", problem.code)
end)

it("the directory of a run is no link to nothing, and has no runs of seeds in it", function()
  assert(os.execute(("ln -s nowhere %s/link"):format(folder)))
  exits(2, "/link is a link to something that does not exist; make its target", run("--out", folder .. "/link"))
  assert(sys.make_dirs(folder .. "/many/seed-3"))
  program.write(folder, "many/seed-3/environment.json", "{}")
  exits(2, "/many has a run for each seed, such as seed%-3; .* or resume one: %-%-resume=.*/many/seed%-3",
    run("--resume=" .. folder .. "/many"))
end)

describe("init.from", function()
  it("is refused where the tokenizer is another one, with both paths", function()
    local place = folder .. "/other"
    assert(sys.make_dirs(place))
    local text = assert(sys.read_file(folder .. "/corpus.txt")):gsub("teacher", "painter")
    local input = program.write(place, "other.txt", text)
    local other = place .. "/other.sqr"
    sr.must(sr.data.prepare { inputs = { input }, vocab = { size = 120 }, out = other })
    local words = small.words(other, "--out", place .. "/run", "--max-steps", "2", "init.from=" .. first)
    local _, err = exits(3, "120 and 120 tokens, first difference at id %d+: '", program.run(words))
    local from = "tokenizer of " .. first .. "/step-000000002"
    assert.truthy(err:find(from .. " differs from that of the data set " .. other, 1, true), err)
    assert.is_false(sys.exists(place .. "/run"))
  end)

  it("of a checkpoint without a tokenizer is a warning", function()
    local bare = folder .. "/bare-weights"
    assert(sys.make_dirs(bare))
    local weights = assert(sys.read_file(first .. "/step-000000002/model.safetensors"))
    assert(sys.write_file(bare .. "/model.safetensors", weights))
    local _, err = works(run("--out", folder .. "/from-bare", "--max-steps", "1", "init.from=" .. bare))
    assert.matches("bare%-weights has no tokenizer", err)
  end)

  it("refuses more layers than the checkpoint has, unless they are tiled", function()
    local words = { "--max-steps", "1", "init.from=" .. first, "model.num_hidden_layers=3" }
    exits(2, "model.num_hidden_layers is 3, .* has 2; leave the key out, or set init.tile=true for a larger model",
      run("--out", folder .. "/deeper", table.unpack(words)))
    assert.equal(0, (run("--out", folder .. "/tiled", "init.tile=true", table.unpack(words))))
  end)
end)

it("changed data is what a resume complains about, not the shape of a tensor", function()
  local place = folder .. "/changing"
  assert(sys.make_dirs(place))
  local data = place .. "/data.sqr"
  assert(sys.write_file(data, assert(sys.read_file(corpus))))
  assert.equal(0, (program.run(small.words(data, "--out", place .. "/run", "--max-steps", "2"))))
  local input = program.write(place, "new.txt", (assert(sys.read_file(folder .. "/corpus.txt")):gsub("cat", "lion")))
  local prepared = { inputs = { input }, vocab = { size = 90 }, out = data }
  none("config", "data.sqr exists and was made with source .*; choose another file", sr.data.prepare(prepared))
  prepared.overwrite = true
  sr.must(sr.data.prepare(prepared))
  exits(3, "data.sqr has changed since",
    program.run(small.words(data, "--out", place .. "/run", "--resume", "--max-steps", "4")))
end)

it("changed data is not overwritten by prepare, unless requested", function()
  local place = folder .. "/prepare"
  assert(sys.make_dirs(place))
  local out, text = place .. "/x.sqr", "W1 w2 w3. Another one.\n\nW4 of it.\n"
  local input, vocab = program.write(place, "a.txt", text), "tests/data/model/tiny/vocab.txt"
  local function prepare(changes)
    local given = { inputs = { input }, out = out, vocab = vocab }
    for key, value in pairs(changes or {}) do given[key] = value end
    return sr.data.prepare(given)
  end
  local function refused(changes, pattern)
    local before = assert(sys.hash_file(out))
    none("config", pattern, prepare(changes))
    assert.equal(before, sys.hash_file(out))
  end
  assert(prepare())
  assert(prepare()) -- the same again
  refused({ inputs = { program.write(place, "b.txt", text) } }, "was made with source 'a.txt', not 'b.txt'")
  refused({ lowercase = false }, "was made with lowercase 'true', not 'false'")
  refused({ format = "lines" }, "was made with format 'prose', not 'lines'")
  refused({ vocab = { size = 60 } }, "has another vocabulary")
  program.write(place, "a.txt", text .. "And more.\n")
  refused({}, "contains another text")
  program.write(place, "a.txt", (text:gsub("w2", "w9"))) -- as many tokens
  refused({}, "contains another text")
  assert(prepare { overwrite = true })
  program.write(place, "note", "mine")
  local done, message = sr.data.prepare { inputs = { input }, vocab = vocab, out = place .. "/note" }
  assert.is_nil(done)
  assert.matches("is not a data set that can be read", message)
end)

it("no key of a task is among the keys of every run", function()
  local plain = sr.run.schema()
  for _, name in ipairs { "mask", "model" } do assert.is_nil(plain.by_name[name]) end
end)

-- A config is parsed strictly, typed by its schema, and reports all errors at once.

local c = require("seqrun.config")
local fails = require("tests.support.fails")
local sys = require("seqrun.core.sys")
local yaml = require("seqrun.core.yaml")

local folder = require("tests.support.program").folder()

local function schema()
  return c.map {
    { "seed", c.integer { default = 1, min = 0, doc = "of all" } },
    { "name", c.string { default = "x" } },
    { "betas", c.list(c.number { min = 0 }, { default = { 0.9, 0.999 }, min = 2, max = 2 }) },
    { "budget", c.duration { optional = true, changeable = true } },
    { "bytes", c.size { default = 4096 } },
    { "kind", c.enum({ "adamw", "lamb" }, { default = "adamw" }) },
    { "nsp", c.boolean { default = true } },
    { "rate", c.map {
      { "peak", c.number { required = true } },
      { "warmup", c.integer { default = 3 } },
      { "total", c.integer { default = 10 } },
    } },
  }
end

local rules = {
  {
    keys = { "rate.warmup", "rate.total" },
    check = function(warmup, total)
      if warmup >= total then return ("the warm-up takes %d of %d steps"):format(warmup, total) end
    end,
  },
}

---Loads YAML text, arguments, or both.
local function load(text, arguments)
  local path
  if text then
    path = folder .. "/x.yaml"
    assert(sys.write_file(path, text))
  end
  return c.load { schema = schema(), rules = rules, file = path, arguments = arguments }
end

---The message of a config that must not load.
local function mistakes(text, arguments)
  return (fails.returning("config", "", load(text, arguments)):gsub(folder .. "/", ""))
end

it("a schema without some keys has the others, and no map that is left empty", function()
  local paths = {}
  local less = c.without(schema(), { "seed", "rate.peak", "betas" })
  c.each(less, function(path) paths[#paths + 1] = path end)
  assert.same({ "name", "budget", "bytes", "kind", "nsp", "rate.warmup", "rate.total" }, paths)
  assert.is_nil(c.without(schema(), { "rate.peak", "rate.warmup", "rate.total" }).by_name.rate)
  assert.has_error(function() c.without(schema(), { "rates.peak" }) end)
  assert.equal("integer", schema().by_name.seed.kind) -- the schema itself is as before
end)

describe("config", function()
  it("parses a value by the type of its key, not by its form", function()
    local text = "name: no\nseed: 1_000\nbetas: [9e-1, 99%]\nbudget: 1h30m\nbytes: 64k\nrate: {peak: 1e-4}\n"
    local values = assert(load(text)).values
    assert.same({ 0.9, 0.99 }, values.betas)
    assert.same({ "no", 1000, 5400, 65536, 1e-4 },
      { values.name, values.seed, values.budget, values.bytes, values.rate.peak })
    assert.equal("float", math.type(assert(load("rate: {peak: 1}")).values.rate.peak))
    assert.equal("integer", math.type(assert(load("rate: {peak: 1, total: 1e2}")).values.rate.total))
  end)

  it("accepts a key's special words in place of a number", function()
    local function read(text)
      local depth = c.integer { optional = true, min = 1, word = "auto" }
      local loaded, message = c.load { schema = c.map { { "depth", depth } }, arguments = { "depth=" .. text } }
      return loaded and loaded.values.depth, message, loaded
    end
    assert.equal(3, (read("3")))
    local value, _, loaded = read("auto")
    assert.equal("auto", value)
    assert.truthy(loaded:dump():find("depth: auto\n", 1, true))
    fails.returning(nil, "an integer, or auto", read("autos"))
  end)

  it("rejects hexadecimal, infinite and fractional numbers for integers", function()
    for _, text in ipairs { "0x10", "inf", "nan", "1.5", "1e400", "ten", "", "1 0", "1__0" } do
      assert.truthy(mistakes(("seed: %s\nrate: {peak: 1}"):format(text)):find("'seed'", 1, true), text)
    end
  end)

  it("rejects shares above 100%, which would be counts, and times below 0", function()
    local all = { fields = { { "total", c.number {} }, { "budget", c.duration {} } } }
    local function told(word) return select(2, c.load { schema = c.map(all.fields), arguments = { word } }) end
    assert.matches("'total' is '150%%'; expected at most 100%%, as a share", told "total=150%")
    assert.matches("'budget' is '%-1'; expected a time of 0 or more", told "budget=-1")
  end)

  it("reports all errors of a file, each with line, column, caret and suggestion", function()
    local message = mistakes("seed: -1\nrate:\n  peak: high\n  warmpu: 4\nkid: lamb\nwarmup: 1\n")
    assert.equal([[
x.yaml:1:7: 'seed' is '-1'; expected at least 0
    1 | seed: -1
      |       ^~
x.yaml:3:9: 'peak' is 'high'; expected a number such as 0.01, 1e-4 or 10%
    3 |   peak: high
      |         ^~~~
x.yaml:4:3: unknown key 'warmpu'; did you mean 'warmup'?
    4 |   warmpu: 4
      |   ^~~~~~
x.yaml:5:1: unknown key 'kid'; did you mean 'kind'?
    5 | kid: lamb
      | ^~~
x.yaml:6:1: unknown key 'warmup'; that key exists under 'rate'
    6 | warmup: 1
      | ^~~~~~
5 errors; nothing was started]], message)
  end)

  it("has bounds that are values, and bounds that are none, as the model has them", function()
    local model = c.map(require("seqrun.tasks.pretraining").keys).by_name.model
    local numbers = { model.by_name.hidden_dropout_prob }
    for _, name in ipairs(require("seqrun.nn.families").names()) do
      for _, rule in pairs(require("seqrun.nn.families").find(name).keys) do numbers[#numbers + 1] = rule end
    end
    for _, rule in ipairs(numbers) do
      local numeric = rule.kind == "number" or rule.kind == "integer"
      for _, text in ipairs(numeric and { "-1", "0", "0.5", "0.95", "0.999", "1", "2", "10000", "1e10" } or {}) do
        local held = rule:parse(text) ~= nil
        assert.equal(held, rule:fault(tonumber(text)) == nil, text)
        if rule.below == 1 then assert.equal(held, tonumber(text) >= 0 and tonumber(text) < 1, text) end
      end
    end
    local share = c.number { above = 0, below = 1 }
    assert.same({ nil, "more than 0" }, { share:parse("0") })
    assert.same({ nil, "less than 1" }, { share:parse("1") })
    assert.equal("a number in (0, 1)", share:fault(1))
    assert.equal("a number in [0, 1)", numbers[1]:fault("0.5"))
  end)

  for name, case in pairs {
    ["positions the caret by characters, not bytes"] = { "rate: {peak: 1}\nname: \"é\"\n'kind': é # x\n",
      "      |         ^\n?" },
    ["names a missing key and where it belongs"] = { "seed: 1\n", "key 'peak' is missing in 'rate'" },
    ["lists the keys to choose from if none is similar"] = { "zzzzzz: 1\nrate: {peak: 1}",
      "unknown key 'zzzzzz'; choose one of: " },
    ["reports the expected length of a list"] = { "betas: [1]\nrate: {peak: 1}", "'betas' has 1 entry; expected 2" },
    ["checks rules across keys, and shows the arithmetic"] = { "rate: {peak: 1, warmup: 12}",
      "x.yaml:1:25: the warm-up takes 12 of 10 steps" },
    ["checks unused presets too"] = { "rate: {peak: 1}\npresets:\n  p: {sede: 1}\n", "did you mean 'seed'?" },
  } do
    it(name, function()
      local message = mistakes(case[1])
      assert.truthy(message:find(case[2]) or message:find(case[2], 1, true), message)
    end)
  end

  it("rejects the pitfalls of YAML, all at once", function()
    local message = mistakes("seed: 1\nseed: 2\nrate: &a {peak: 1}\nname: !!str x\nkind: *a\n<<: {}\n")
    for _, part in ipairs { "'seed'; the first is on line 1", "anchors", "tags", "aliases", "merge keys" } do
      assert.truthy(message:find(part, 1, true), part)
    end
  end)

  it("does not report keys as missing that follow an error of syntax", function()
    local message = mistakes("seed: 1\n  name: x\nrate: {peak: 1}\n")
    assert.truthy(message:find("YAML: ", 1, true), message)
    assert.is_nil(message:find("is missing", 1, true), message)
  end)

  it("reports the errors of a training config when any key is missing or invalid #once", function()
    local all, ties = require("seqrun.keys")(require("seqrun.tasks").pretraining)
    local function told(text)
      local path = folder .. "/run.yaml"
      assert(sys.write_file(path, text))
      return fails.returning("config", "", c.load { schema = all, rules = ties, file = path })
    end
    assert.truthy(told(""):find("key 'total' is missing", 1, true))
    assert.truthy(told("hello"):find("a config must be keys and values", 1, true))
    assert.truthy(told("optimizer: adamw"):find("'optimizer' must be keys and values", 1, true))
    for _, field in ipairs(all.fields) do
      for _, value in ipairs { "", " [1, 2]", " nonsense", " {unheard: 1}" } do told(field.name .. ":" .. value) end
      for _, inner in ipairs(field.type.fields or {}) do
        for _, value in ipairs { "", " [x]", " {unheard: 1}", " -1e999" } do
          told(("%s: {%s:%s}"):format(field.name, inner.name, value))
        end
      end
    end
  end)

  it("merges the keys of two maps, and rejects a key that both declare", function()
    local file, pairs_key = { "file", c.string { default = "x" } }, { "pairs", c.boolean { default = true } }
    local one = c.map { { "a", c.integer { default = 1 } }, { "data", c.map { file } } }
    local two = c.map { { "data", c.map { pairs_key } }, { "b", c.number { default = 2 } } }
    assert.same({ a = 1, b = 2, data = { file = "x", pairs = true } }, c.load({ schema = c.merge(one, two) }).values)
    assert.has_error(function() c.merge(one, c.map { { "a", c.string() } }) end,
      "config: duplicate key 'a' in the schema; choose another name")
    assert.has_error(function() c.merge(one, c.map { { "data", c.string() } }) end)
  end)

  it("names a word of an enum that was removed, and what to choose", function()
    local keys = c.map { { "balance", c.enum({ "cost", "random" }, { removed = { lpt = "cost" } }) } }
    local path = folder .. "/removed.yaml"
    assert(sys.write_file(path, "balance: lpt\n"))
    fails.returning(nil, "'balance' is 'lpt'; expected one of cost, random; 'lpt' was removed, choose cost\n",
      c.load { schema = keys, file = path })
  end)

  it("checks arguments like files, with a caret into the argument", function()
    local values = assert(load("rate: {peak: 1}", { "rate.peak=2e-3", "betas=[0.5,0.6]", "name=a: b" })).values
    assert.equal(2e-3, values.rate.peak)
    assert.same({ 0.5, 0.6 }, values.betas)
    assert.equal("a: b", values.name)
    local message = mistakes("rate: {peak: 1}", {
      "rate.paek=3", "kind=lamp", "betas=[1,x]", "rate=3", "seed.x=1", "seed", "=3",
    })
    assert.truthy(message:find("unknown key 'paek'; did you mean 'peak'?\n    rate.paek=3\n         ^~~~", 1, true))
    assert.truthy(message:find("did you mean 'lamb'?\n    kind=lamp\n         ^~~~", 1, true))
    assert.truthy(message:find("    betas=[1,x]\n             ^", 1, true))
    assert.truthy(message:find("'rate' has keys", 1, true))
    assert.truthy(message:find("'seed' is an integer and has no keys", 1, true))
    for _, word in ipairs { "seed", "=3" } do
      assert.truthy(message:find(("'%s' is not key.path=value"):format(word), 1, true))
    end
  end)

  it("applies a preset over the file, and arguments over both", function()
    local text = "rate: {peak: 1, warmup: 2}\npresets:\n  big:\n    seed: 9\n    rate: {peak: 3}\n  small: {seed: 0}\n"
    local loaded = assert(load(text, { "preset=big", "seed=5" }))
    assert.same({ peak = 3.0, warmup = 2, total = 10 }, loaded.values.rate)
    assert.equal(5, loaded.values.seed)
    assert.equal("big", loaded.preset)
    assert.truthy(loaded.origins["rate.peak"]:find("x.yaml:5 (preset big)", 1, true))
    assert.truthy(loaded.origins["rate.warmup"]:find("x.yaml:1$"))
    assert.equal("command line", loaded.origins.seed)
    assert.equal("default", loaded.origins.name)
    assert.truthy(mistakes(text, { "preset=bog" }):find("unknown preset 'bog'; choose one of: big, small", 1, true))
    assert.equal(0, assert(load("preset: small\n" .. text)).values.seed)
  end)

  it("gives each config its own copy of a default, at any depth", function()
    local given = { 0.9, 0.999, more = { x = 1 } }
    local own = c.map { { "betas", c.list(c.number {}, { default = given }) } }
    local function betas() return assert(c.load { schema = own }).values.betas end
    local first = betas()
    first[1], first.more.x = 7, 8
    given[2], given.more.x = 9, 10
    assert.same({ 0.9, 0.999, more = { x = 1 } }, betas())
    assert.equal("betas: [0.9, 0.999]", assert(c.load { schema = own }):dump():match("betas:[^\n]*"))
  end)

  it("gives what a run wrote before a key came the value that the key stands for", function()
    local own = c.map { { "seed", c.integer { default = 1 } },
                        { "data", c.map { { "by", c.enum({ "new", "old" }, { default = "new", before = "old" }) } } } }
    local function by(text, ...)
      local file = folder .. "/before.yaml"
      assert(sys.write_file(file, text))
      return assert(c.load { schema = own, file = file, arguments = { ... } }).values.data.by
    end
    local written = assert(c.load { schema = own }):dump()
    local older = written:gsub("data:\n  by: new\n", "")
    assert.same({ "new", "old", "new" }, { by(written), by(older), by(older, "data.by=new") })
    assert.equal("new", by("seed: 3\n"))
  end)

  it("is written as YAML that reads back the same", function()
    local arguments = {
      "rate.peak=0.1", "betas=[0.333333333333333314829616256247390992939472198486328125, 1e-300]",
      "name=\"quoted\"\t: [x]", "budget=2h",
    }
    local loaded = assert(load(nil, arguments))
    local again = assert(load(loaded:dump()))
    assert.same(loaded.values, again.values)
    assert.equal(loaded:dump(), again:dump())
    for _, name in ipairs { "none", "null", "~", "", " x", "a\nb", "é", "1", "true", "- a", "#", "a: b", "\1" } do
      loaded = assert(load(nil, { "rate.peak=1", "name=x" }))
      loaded.values.name = name
      assert.equal(name, assert(load(loaded:dump())).values.name)
    end
  end)

  it("unsets an optional key with none, and reports a key without a value", function()
    assert.is_nil(assert(load("budget: 3h\nrate: {peak: 1}", { "budget=none" })).values.budget)
    assert.truthy(mistakes("seed:\nrate: {peak: 1}"):find("'seed' has no value", 1, true))
  end)

  it("reports which keys differ, and which of them a resumed run may change", function()
    local a = assert(load("rate: {peak: 1}"))
    local b = assert(load("rate: {peak: 2}\nbudget: 1h\n"))
    assert.same({
      { path = "budget", mine = "3600", theirs = "none", changeable = true },
      { path = "rate.peak", mine = "2", theirs = "1", changeable = false },
    }, b:differences(a))
  end)

  it("explains every key with value, origin and purpose", function()
    assert.truthy(assert(load("rate: {peak: 1}")):explain():find("seed%s+1%s+default%s+of all"))
  end)

  it("rejects hostile files with a message, in bounded time #once", function()
    local hostile = {
      ("["):rep(100000), ("{a: "):rep(5000), ("- "):rep(50000), "\0", "\255\254", "\239\187\191", "a: \"", "? ? ?",
      "%YAML 3.0\n---\n", "--- a\n--- b\n",
      ("x"):rep(70000) .. ": 1", ("a: 1\n"):rep(60000), ("#"):rep(1 << 20) .. "\n",
      "seed: 1\n...\nseed: 2", "- 1\n- 2", "just text", ("é"):rep(50), "\t- x", "a: |\n  " .. ("x"):rep(70000),
      "!", "&", "*",
    }
    for i, text in ipairs(hostile) do
      local loaded, message = load(text)
      assert.is_nil(loaded, i)
      assert.is_true(#message > 0 and #message < 20000, i)
    end
  end)

  it("survives every small change to a valid file #slow", function()
    local good = "rate: {peak: 1}\nname: \"x\"\nbetas: [0.1, 0.2]\n"
    for at = 1, #good do
      for _, byte in ipairs { "\0", "\255", "{", "]", ":", "\n", "&", '"', "-" } do
        local loaded, message = load(good:sub(1, at - 1) .. byte .. good:sub(at + 1))
        assert.is_true(loaded ~= nil or #message > 0)
      end
      load(good:sub(1, at))
    end
  end)

  it("reports a missing file", function()
    fails.returning("config", "none.yaml", c.load { schema = schema(), file = folder .. "/none.yaml" })
  end)
end)

describe("core.yaml", function()
  it("gives every node its position, and distinguishes plain from quoted", function()
    local root, problems = yaml.parse("a: 1\nb:\n  - 'x'\n")
    assert.same({}, problems)
    assert.equal("map", root.kind)
    assert.same({ 1, 4, false }, { root[1].value.line, root[1].value.column, root[1].value.quoted })
    local item = root[2].value[1]
    assert.same({ "x", 3, 5, true }, { item.value, item.line, item.column, item.quoted })
  end)

  it("frees its memory when an allocation fails", function()
    local fault = require("tests.support.fault")
    local text = "k: [a, b, {c: d}]\nl: {m: 'n'}\n"
    collectgarbage("stop") -- a finalizer that Lua has no memory to call is lost
    for n = 1, 120 do
      pcall(function()
        fault.memory(n, true) -- inside: calling pcall may itself allocate
        yaml.parse(text)
      end)
      fault.memory(0)
    end
    collectgarbage("restart")
    collectgarbage()
    assert.equal("map", yaml.parse("a: 1").kind)
  end)
end)

describe("names of other programs", function()
  local sr = require("seqrun")
  local synonyms = require("seqrun.config.synonyms")

  it("are answered with the key that this config has for them", function()
    local pretraining, classify = sr.run.schema(sr.tasks.pretraining), sr.run.schema(sr.tasks.classify)
    assert.equal("; use rate.peak", synonyms.hint("learning_rate", pretraining))
    assert.equal("; use rate.total", synonyms.hint("num_train_epochs", pretraining))
    assert.equal("; use epochs", synonyms.hint("num-train-epochs", classify))
    assert.equal("; use --out", synonyms.hint("output_dir", classify))
    local unknown = require("seqrun.config.tree").unknown
    assert.matches("; use model.num_hidden_layers$", unknown("layers", pretraining.by_name.model, pretraining))
    assert.equal("", synonyms.hint("xyzzy", classify))
    local function answer(option, keys)
      return select(2, require("seqrun.run.options").parse({ [0] = "r.lua", option }, keys))
    end
    assert.matches("'%-%-epochs'; use epochs=VALUE$", answer("--epochs", classify))
    assert.matches("'%-%-epochs'; use rate.total=VALUE$", answer("--epochs", pretraining))
    assert.matches("'%-%-output%-dir'; use %-%-out$", answer("--output-dir", pretraining))
    local known = {}
    for _, schema_of in ipairs { pretraining, classify } do
      require("seqrun.config.types").each(schema_of, function(key) known[key] = true end)
    end
    for _, key in ipairs(synonyms.keys()) do assert.truthy(key:find("^%-%-") or known[key], key) end
  end)
end)

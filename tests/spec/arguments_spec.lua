-- Public functions that get wrong arguments say so in a sentence at the caller's line; they never crash or hang.

local fails = require("tests.support.fails")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

---What a call raised; nil if it returned.
local function raised(fn, ...)
  local ok, message = pcall(fn, ...)
  return not ok and tostring(message) or nil
end

local WRONG = { {}, { "x", {}, 3 }, { { "a" }, { {} } }, { 1, -1, "x" }, { {}, {}, {} }, { 0 / 0, math.huge } }

---Checks that no wrong arguments raise an error of Lua's own, or one that blames a line of the library.
local function check_messages(what, functions)
  local checked = 0
  for name, fn in pairs(functions) do
    if type(fn) == "function" then
      for i, arguments in ipairs(WRONG) do
        local message = raised(fn, table.unpack(arguments))
        local call = ("%s.%s, case %d: %s"):format(what, name, i, message)
        if message then
          assert.is_nil(message:find("attempt to", 1, true), call)
          assert.is_nil(message:find("^[^\n]-lua/seqrun/[^\n]-:%d+: "), call)
          checked = checked + 1
        end
      end
    end
  end
  assert.is_true(checked > 20)
end

describe("wrong arguments #bindings", function()
  it("of sr.scores get a sentence", function() check_messages("scores", sr.scores) end)
  it("of sr.ops get a sentence", function() check_messages("ops", sr.ops) end)

  it("of scores that would take all memory are refused", function()
    assert.matches("at most 1048576 classes can be scored", raised(sr.scores.f1, { 3000000 }, { 0 }))
    assert.matches("at most 1048576 classes can be scored", raised(sr.scores.confusion, { 0 }, { 1 << 40 }))
    assert.matches("size must be an integer from 1 to 1048576", raised(sr.scores.confusion, { 0 }, { 0 }, 1 << 40))
    assert.matches("bins must be an integer from 1 to 10000", raised(sr.scores.calibration, { 0.5 }, { true }, 1e12))
    assert.matches("got inf", raised(sr.scores.calibration, { 0.5 }, { true }, math.huge))
  end)

  it("of sr.checkpoint.write_tensors do not crash", function()
    assert.matches("write_tensors: path must be a string, got nil", raised(sr.checkpoint.write_tensors))
    assert.matches("write_tensors: tensors must be a table, got nil", raised(sr.checkpoint.write_tensors, "x.st"))
    assert.matches("the values must be strings", raised(sr.checkpoint.write_tensors, "x.st", {}, { a = 1 }))
    local plan = require("seqrun.core.train").safetensors_plan
    assert.matches("table expected", raised(plan))
    assert.matches("the values must be strings", raised(plan, {}, { a = 1 }))
  end)

  it("of predictors are named, such as a list of texts where one is meant", function()
    local folder = program.folder()
    local label = sr.must(sr.predict.open(task_model.save(folder .. "/a",
      task_model.new(sr.nn.heads.classify { labels = { "no", "yes" } }))))
    local encode = sr.must(sr.encode.open(folder .. "/a"))
    local fill = sr.must(sr.fill.open(task_model.save(folder .. "/b", task_model.new("mlm"))))
    local words = " must be a string or { text = string[^}]* }, got "
    for what, one in pairs { predict = label, encode = encode, fill = fill } do
      local function given(item) return raised(one.one, one, item) end
      local begins = ("arguments_spec.lua:%%d+: %s: item 1%s"):format(what, words)
      assert.matches(begins .. "a list of strings; pass several texts to each%(%)$", given { "a", "b" })
      assert.matches(begins .. "5$", given(5))
      assert.matches(begins .. "an empty table$", given {})
      assert.matches(begins .. "{ text = 5 }$", given { text = 5 })
      assert.matches(what .. ": items must be a table, got 'x'", raised(one.each, one, "x"))
    end
    assert.equal("string", type(label:each { "the" }().label)) -- a string is a text there too
  end)

  it("of data.prepare are named: tables are no text", function()
    for _, name in ipairs { "a.json", "b.csv", "c.tsv.gz", "d.parquet.zst" } do
      fails.returning("config", name:gsub("%p", "%%%0") .. ": a table of records, not text; extract its texts",
        sr.data.prepare { inputs = { name }, out = "x.sqr", vocab = { size = 100 } })
    end
  end)

  it("of data.prepare may be directories, in which tables are no text either", function()
    local folder = program.folder()
    sys.make_dirs(folder .. "/texts/more")
    program.write(folder, "texts/a.txt", "The cat sat.\n")
    program.write(folder, "texts/.hidden.json", "{}")
    local function prepared()
      return sr.data.prepare { inputs = { folder .. "/texts/" }, out = folder .. "/x.sqr", vocab = { size = 100 } }
    end
    assert.is_truthy(prepared())
    program.write(folder, "texts/more/B.JSON.gz", "{}")
    fails.returning("config", "/texts/more/B.JSON.gz: a table of records, not text; move it out of the directory",
      prepared())
  end)

  it("of 5,000 letters are no work for the guess of a name", function()
    local long, before = ("loss"):rep(1250), os.clock()
    assert.matches("sr has no 'loss", raised(function() return sr[long] end))
    assert.matches("unknown option", raised(sr.data.loader, { [long] = 1 }))
    assert.is_true(os.clock() - before < 1)
  end)
end)

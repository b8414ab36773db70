-- The programs in the documentation run as they are printed.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local folder
setup(function()
  folder = program.folder()
  assert(sys.write_file(folder .. "/vocab.txt", assert(sys.read_file("tests/data/model/tiny/vocab.txt"))))
end)
teardown(function() sys.remove(folder) end)

---Runs the examples of a document in order, and returns their number.
local function run_examples(document)
  local count = 0
  for text in assert(sys.read_file(document)):gmatch("```lua\n(.-)```") do
    count = count + 1
    local path = program.write(folder, ("example%d.lua"):format(count), text)
    local code, _, err = program.run({ path }, { before = ("cd '%s' &&"):format(folder) })
    assert.equal(0, code, err)
  end
  return count
end

describe("the example in docs/finetuning.md", function()
  it("runs", function() assert.equal(1, run_examples("docs/finetuning.md")) end)

  it("comes with a line for each recipe", function()
    local text = assert(sys.read_file("docs/finetuning.md"))
    for _, name in ipairs(sys.list("recipes")) do
      local recipe = name:match("^(finetune[_%w]*)%.lua$")
      assert.truthy(not recipe or text:find(recipe, 1, true), recipe)
    end
  end)
end)

describe("the examples in docs/labelled.md", function()
  it("run in order", function() assert.equal(2, run_examples("docs/labelled.md")) end)
end)

describe("the examples in docs/data_efficiency.md", function()
  it("run in order", function() assert.is_true(run_examples("docs/data_efficiency.md") >= 1) end)
end)

describe("the examples in docs/data.md", function()
  it("run in order", function() assert.equal(3, run_examples("docs/data.md")) end)

  it("name every option of loaders, targets and stages", function()
    local text = assert(sys.read_file("docs/data.md"))
    local source = assert(sys.read_file("lua/seqrun/data/loader.lua"))
    local function check_class(name, from)
      local fields = from:match("%-%-%-@class " .. name .. "\n(.-)\n\n")
      for field in fields:gmatch("@field ([%w_]+)") do
        assert.truthy(text:find("`" .. field, 1, true) or field == "data", name .. ": " .. field)
      end
    end
    check_class("seqrun.LoaderOptions", source)
    check_class("seqrun.Stage", source)
    check_class("seqrun.TargetOptions", assert(sys.read_file("lua/seqrun/data/targets.lua")))
  end)
end)

-- The programs in the documentation run as they are printed.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local folder
setup(function()
  folder = program.folder()
  assert(sys.write_file(folder .. "/vocab.txt", assert(sys.read_file("tests/data/model/tiny/vocab.txt"))))
end)
teardown(function() sys.remove(folder) end)

describe("the examples in docs/data.md", function()
  it("run in order", function()
    local count = 0
    for text in assert(sys.read_file("docs/data.md")):gmatch("```lua\n(.-)```") do
      count = count + 1
      local path = program.write(folder, ("example%d.lua"):format(count), text)
      local code, _, err = program.run({ path }, { before = ("cd '%s' &&"):format(folder) })
      assert.equal(0, code, err)
    end
    assert.equal(3, count)
  end)

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

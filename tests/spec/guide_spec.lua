-- Guide and cookbook: every block of code runs as it is printed, and every link leads somewhere.

local blocks = require("tests.support.blocks")
local sys = require("seqrun.core.sys")

local PAGES = { "docs/cookbook.md" }

---Runs a document from nothing, as a reader would.
local function run(document)
  local folder <close> = setmetatable({ path = blocks.folder() }, { __close = function(f) sys.remove(f.path) end })
  return blocks.run(document, folder.path)
end

describe("the cookbook #slow", function()
  it("runs from its first block to its last", function() assert.is_true(run("docs/cookbook.md") > 12) end)
end)

describe("a page of the documentation", function()
  it("has no link to a file that does not exist", function()
    for _, page in ipairs(PAGES) do
      for target in assert(sys.read_file(page)):gmatch("%]%(([^)#]+)[^)]*%)") do
        assert.truthy(target:find("^https?:") or sys.exists("docs/" .. target), page .. ": " .. target)
      end
    end
  end)
end)

-- The programs in the documentation run as they are printed.

local annotations = require("seqrun.help.index")
local pages = require("seqrun.help.pages")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")
local tasks = require("seqrun.tasks")

local folder = program.folder()
assert(sys.write_file(folder .. "/vocab.txt", assert(sys.read_file("tests/data/model/tiny/vocab.txt"))))

local function read(name) return assert(sys.read_file(pages.find(name).path)) end

---Runs the examples of a page in order, and returns their number.
local function run_examples(name)
  local count = 0
  for text in read(name):gmatch("```lua\n(.-)```") do
    count = count + 1
    local path = program.write(folder, ("example%d.lua"):format(count), text)
    program.ok({ path }, { before = ("cd '%s' &&"):format(folder) })
  end
  return count
end

describe("the example in finetuning.md", function()
  it("runs", function() assert.equal(1, run_examples("finetuning")) end)

  it("comes with a line for each task", function()
    local text = read("finetuning")
    for _, name in ipairs(tasks.names) do
      assert.truthy(not tasks[name].head_class or text:find("\n| `" .. name .. "` |", 1, true), name)
    end
  end)
end)

it("the examples in labelled.md run in order", function() assert.equal(2, run_examples("labelled")) end)

describe("the examples in data_efficiency.md", function()
  it("run in order", function() assert.is_true(run_examples("data_efficiency") >= 1) end)
end)

describe("the examples in data.md", function()
  it("run in order", function() assert.equal(4, run_examples("data")) end)

  it("name every option of loaders, targets and stages", function()
    local text = read("data")
    for _, name in ipairs { "LoaderOptions", "Stage", "TargetOptions" } do
      for _, field in ipairs(annotations.options_named(name).fields) do
        assert.truthy(text:find("`" .. field.name, 1, true) or field.name == "data", name .. ": " .. field.name)
      end
    end
  end)
end)

---The anchors of the headings of a page, as on GitHub.
local function anchors(text)
  local found = {}
  for line in text:gsub("\n```.-\n```", ""):gmatch("[^\n]+") do
    local heading = line:match("^#+ (.*)$")
    if heading then found[heading:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-")] = true end
  end
  return found
end

describe("the documentation", function()
  local all = { { name = "README", path = "README.md" }, { name = "index", path = "docs/README.md" } }
  for _, page in ipairs(pages.all()) do all[#all + 1] = page end

  it("has links to what exists only", function()
    for _, page in ipairs(all) do
      local text, beside = assert(sys.read_file(page.path)), page.path:match("^(.-)[^/]*$")
      for target in text:gsub("\n```.-\n```", ""):gmatch("%]%(([^)%s]+)%)") do
        local file, place = target:match("^([^#]*)#?(.*)$")
        local path = file == "" and page.path or beside .. file
        if not file:find("^https?:") then
          assert.truthy(sys.exists(path), ("%s: %s"):format(page.path, target))
          local there = place == "" or anchors(assert(sys.read_file(path)))[place]
          assert.truthy(there, ("%s: %s"):format(page.path, target))
        end
      end
    end
  end)

  it("has an index with a line for each page, in its group", function()
    local index, at = assert(sys.read_file("docs/README.md")):lower(), 0
    for _, page in ipairs(pages.all()) do
      local link = ("](%s/%s.md)"):format(page.group, page.name)
      assert.truthy(index:find(link, 1, true), link)
    end
    for _, group in ipairs(pages.GROUPS) do
      at = assert(index:find("\n## [^\n]*" .. group, at + 1), group)
    end
  end)

  it("finds a page by name, in any group", function()
    local page = pages.find("guide")
    assert.equal("docs/learn/guide.md", page.label)
    assert.equal(page, pages.find("docs/guide.md"))
    assert.equal(page, pages.find("docs/learn/guide.md"))
    assert.is_nil(pages.find("nonsense"))
    local seen = {}
    for _, one in ipairs(pages.all()) do
      assert.is_nil(seen[one.name], one.name)
      seen[one.name] = true
    end
  end)

  it("has a README of one screen", function()
    local _, lines = assert(sys.read_file("README.md")):gsub("\n", "")
    assert.is_true(lines <= 90, lines)
  end)
end)

-- Guide, cookbook, terms and questions: every block of code runs as it is printed, and every config key exists.

local blocks = require("tests.support.blocks")
local pages = require("seqrun.help.pages")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local PAGES = { "guide", "cookbook", "terms", "questions" }

---Runs a document from nothing, as a reader would.
local function run(document)
  if sys.build().sanitizers then return pending("sanitizers: blocks of documents call what other specs do") end
  local folder <close> = setmetatable({ path = blocks.folder() }, { __close = function(f) sys.remove(f.path) end })
  return blocks.run(pages.find(document).path, folder.path)
end

describe("the blocks #slow", function()
  it("of the guide run from the first to the last", function() assert.is_true(run("guide") > 20) end)

  it("of the cookbook run from the first to the last", function() assert.is_true(run("cookbook") > 30) end)

  it("of the questions run", function() assert.is_true(run("questions") > 1) end)
end)

---All config keys of all tasks; true, or "any" for a group that takes any key.
local function all_keys()
  local keys = {}
  local function add(fields, prefix)
    for _, field in ipairs(fields) do
      local path = prefix .. field[1]
      keys[path] = field[2].others and "any" or keys[path] or true
      if field[2].fields then add(field[2].fields, path .. ".") end
    end
  end
  for _, name in ipairs { "pretraining", "curriculum", "classify", "choice", "squad" } do
    add(sr.run.schema(sr.tasks[name]).fields, "")
  end
  return keys
end

it("a page of the documentation names config keys that exist only", function()
  local keys = all_keys()
  for _, page in ipairs(PAGES) do
    local text = assert(sys.read_file(pages.find(page).path)):gsub("\n```.-\n```", "")
    for word in text:gmatch("`([a-z_]+%.[a-z_]+)[=:`]") do
      local group = word ~= "model.safetensors" and keys[word:match("^[^.]+")]
      assert.truthy(not group or group == "any" or keys[word], page .. ": " .. word)
    end
  end
end)

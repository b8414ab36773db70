-- pages.lua - the pages of the documentation, found by name in any group.

local shipped = require("seqrun.base.shipped")
local sys = require("seqrun.core.sys")

local pages = {}

---The groups, in reading order: folders of docs/.
pages.GROUPS = { "learn", "reference", "theory", "evidence" }

local list

---@class seqrun.HelpPage
---@field name string "guide"
---@field group string "learn"
---@field path string of the file
---@field label string "docs/learn/guide.md", wherever it is installed

---The folder of the documentation: of a checkout, or installed.
local function folder()
  for _, path in ipairs { shipped.root .. "/docs", shipped.root .. "/../doc/seqrun/docs" } do
    if sys.is_dir(path) then return sys.real_path(path) or path end
  end
end

---All pages, by group and name; none where the documentation is not installed.
---@return seqrun.HelpPage[]
function pages.all()
  if list then return list end
  list = {}
  local root = folder()
  for _, group in ipairs(root and pages.GROUPS or {}) do
    for _, file in ipairs(sys.list(root .. "/" .. group) or {}) do
      local name = file:match("^(.+)%.md$")
      local place = "/" .. group .. "/" .. file
      if name then list[#list + 1] = { name = name, group = group, path = root .. place, label = "docs" .. place } end
    end
  end
  return list
end

---The page of this name, as "guide", "guide.md", "docs/guide.md" or "docs/learn/guide.md".
---@param name string
---@return seqrun.HelpPage|nil
function pages.find(name)
  local wanted = name:match("([^/]*)$"):gsub("%.md$", "")
  for _, page in ipairs(pages.all()) do
    if page.name == wanted then return page end
  end
end

return pages

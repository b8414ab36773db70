-- elsewhere.lua - what help knows apart from functions: commands, config keys, and headings of the documents.

local hook = require("seqrun.base.hook")
local pages = require("seqrun.help.pages")
local sys = require("seqrun.core.sys")

---The list of commands: seqrun.cli.verbs.
---@type fun(): table
local verbs = hook "verbs"

local MOST = 12 -- lines of each kind

local elsewhere = {}

local headings

---Calls fn(line, level, heading) for each line of a document; level and heading only for headings.
local function each_line(path, fn)
  local inside = false -- of a block of code
  for line in ((sys.read_file(path) or "") .. "\n"):gmatch("([^\n]*)\n") do
    if line:find("^```") then inside = not inside end
    local marks, heading = line:match("^(#+) (.*)$")
    if inside or not marks then fn(line) else fn(line, #marks, heading) end
  end
end

---All headings of all documents: { name of the document, heading, level, page }.
local function read_headings()
  headings = {}
  for _, page in ipairs(pages.all()) do
    each_line(page.path, function(_, level, heading)
      if level and level > 1 then headings[#headings + 1] = { page.name, heading, level, page } end
    end)
  end
  return headings
end

---The files that a document shows, "```yaml small.yaml": { name, block }.
local function files_of(path)
  local files, text = {}, "\n" .. (sys.read_file(path) or "")
  for block, name in text:gmatch("\n(```%l+ ([%w_]+%.%l+)\n.-\n```)") do files[#files + 1] = { name, block } end
  return files
end

---A section with the files that it uses and other sections show.
local function complete(text, path)
  for _, file in ipairs(files_of(path)) do
    local name, block = file[1], file[2]
    if text:find("%f[%w_]" .. name:gsub("%p", "%%%0") .. "%f[%W]") and not text:find(block, 1, true) then
      text = ("%s\n\n%s, from another section:\n\n%s"):format(text, name, block)
    end
  end
  return text
end

---The lines of a section, without blank ones at its end.
local function section(one)
  local lines, level_inside = {}, nil
  each_line(one[4].path, function(line, level, heading)
    if level and level_inside and level <= level_inside then level_inside = nil end
    if level == one[3] and heading == one[2] then level_inside = level end
    if level_inside then lines[#lines + 1] = line end
  end)
  return (table.concat(lines, "\n"):gsub("%s+$", ""))
end

local function mentions(text, word) return text:lower():find(word, 1, true) ~= nil end

---Whether a section is the one wanted: its heading, without its number or not, or what is before its colon or point.
local function is_heading(heading, wanted)
  if heading == wanted or heading:gsub("^%w+[.:] +", "") == wanted then return true end
  return heading:sub(1, #wanted) == wanted and heading:find("^[:.]", #wanted + 1) ~= nil
end

---The headings of a document, and how to print a section.
local function contents(name)
  local list, example = {}, nil
  for _, one in ipairs(headings or read_headings()) do
    if one[1] == name then
      if #list == 0 then list[1] = one[4].path .. ":" end
      list[#list + 1] = ("  "):rep(one[3] - 1) .. one[2]
      example = example or (one[2]:match("^(%w+)[:.]") or one[2])
    end
  end
  if #list == 0 then return nil end
  return ("%s\nhelp \"%s %s\" prints a section"):format(table.concat(list, "\n"), name, example)
end

---A document's headings, or a section, by the beginning of its heading, with the document or without: "cookbook",
---"C4", "guide 2", "File formats"; with the document any words of it: "data targets".
---@param topic string
---@return string|nil
function elsewhere.document(topic)
  local wanted = topic:lower():gsub("^docs/", ""):gsub("^%l+/", ""):gsub("%.md%f[%W]", "")
  local list = contents(wanted)
  if list then return list end
  local document, rest = wanted:match("^(%S+) (.+)$")
  local found
  for _, one in ipairs(headings) do
    local heading, inside = one[2]:lower(), one[1] == document
    if inside and is_heading(heading, rest) or wanted:find("%a") and is_heading(heading, wanted) then
      found = one
      break
    end
    if inside and not found and rest:find("%a") and mentions(heading, rest) then found = one end
  end
  return found and ("%s\n\n%s"):format(found[4].path, complete(section(found), found[4].path))
end

---Sections whose headings mention a word, as topics of help: '"cookbook C1"     a learning rate schedule of your own'.
---@param word string
---@return string[]
function elsewhere.sections(word)
  local list = {}
  for _, one in ipairs(headings or read_headings()) do
    local short, rest = one[2]:match("^(%w+)[.:] +(.*)$")
    if #list < MOST and mentions(one[2], word) then
      local topic = ('"%s %s"'):format(one[1], short or one[2])
      list[#list + 1] = (("%-40s %s"):format(topic, rest or ""):gsub("%s+$", ""))
    end
  end
  return list
end

---The names of the documents: "cookbook", "guide", ...
---@return string[]
function elsewhere.documents()
  local names = {}
  for i, page in ipairs(pages.all()) do names[i] = page.name end
  return names
end

---The command of this name, as "runs" or "seqrun runs": its --help, and its line.
---@param topic string
---@return string|nil help
---@return string? line
function elsewhere.command(topic)
  local name = topic:gsub("^seqrun +", "")
  for _, verb in ipairs(verbs().all()) do
    if verb.name == name and name ~= "help" then
      return verbs().help(name), ("%-34s command: %s"):format("seqrun " .. name, verb.summary)
    end
  end
end

---All commands, a line each.
---@return string
function elsewhere.commands()
  local lines = {}
  for i, verb in ipairs(verbs().all()) do
    lines[i] = ("  %-20s %s"):format("seqrun " .. verb.name, verb.summary)
  end
  return table.concat(lines, "\n")
end

---Lines on commands, config keys and documents that mention a word, in lower case.
---@param word string
---@param width integer of a line
---@return string[]
function elsewhere.lines(word, width)
  local lines, keys = {}, 0
  local function add(format, ...)
    local line = format:format(...)
    if #line > width then line = line:sub(1, (utf8.offset(line, 0, width - 2) or width) - 1) .. "..." end
    lines[#lines + 1] = line
  end
  for _, verb in ipairs(verbs().all()) do
    if mentions(verb.name .. " " .. verb.summary, word) then
      add("%-34s command: %s", "seqrun " .. verb.name, verb.summary)
    end
  end
  for _, key in ipairs(verbs().keys()) do
    if key.name == word then
      lines[#lines + 1] = ("%-34s config key: %s"):format(key.name, key.doc)
    elseif keys < MOST and mentions(key.name .. " " .. key.doc, word) then
      keys = keys + 1
      add("%-34s config key: %s", key.name, key.doc)
    end
  end
  local found = 0
  for _, one in ipairs(headings or read_headings()) do
    if found < MOST and mentions(one[2], word) then
      found = found + 1
      add("%-34s %s", one[4].label, one[2])
    end
  end
  return lines
end

return elsewhere

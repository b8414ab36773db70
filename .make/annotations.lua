-- Writes annotations of the C modules from the comments of lua/bind, for help and editors:
--
--   build/seqrun .make/annotations.lua build/meta
--
-- A function of a module, or a method of a class, is described above its definition:
--
--   /* vocab:lookup(tokens: string[], unknown?: integer) -> integer[] ids | nil, message, code
--    * The ids of tokens.
--    *   unknown  stands for those that the vocabulary lacks */
--
-- Lines of a signature after the first are indented by four spaces, notes on parameters and results by two.
-- "| nil, message, code" closes the results of what may fail.  Vocab is the class whose name ends in vocab or Vocab; a
-- comment that begins with @class declares it.  The first comment of a file names the module.

local sys = require("seqrun.core.sys")

local folder = assert(arg[1], "expected the folder to write to")
local modules, classes, homes = {}, {}, {} -- homes: the module that declares a class

local function capital(name) return (name:gsub("^%l", string.upper)) end

---The parts of a list between commas that are outside of brackets.
local function split(list)
  local parts, depth, from = {}, 0, 1
  for at, c in (list .. ","):gmatch("()([%(%)%[%]{}<>,])") do
    if c:find("[%(%[{<]") then
      depth = depth + 1
    elseif c ~= "," then
      depth = depth - 1
    elseif depth == 0 then
      parts[#parts + 1] = list:sub(from, at - 1):match("^%s*(.-)%s*$")
      from = at + 1
    end
  end
  return parts
end

---The lines of a comment, without stars; one that is indented by four spaces or more continues the one before.
local function lines_of(comment)
  local lines = {}
  for line in (comment:gsub("\n %* ?", "\n"):gsub("%s+$", "") .. "\n"):gmatch("(.-)\n") do
    local rest = line:match("^    +(.*)$")
    if rest then lines[#lines] = lines[#lines] .. " " .. rest else lines[#lines + 1] = line end
  end
  return lines
end

---Types with the whole names of classes.
local function whole(text) return (text:gsub("%f[%w_.]%u%w+", classes)) end

local function parameters(list)
  local tags, names = {}, {}
  for _, part in ipairs(split(list)) do
    local name, optional, type = part:match("^([%w_.]+)(%??):%s*(.*)$")
    if name then
      tags[#tags + 1] = { name = name, text = ("@param %s%s %s"):format(name, optional, type) }
      names[#names + 1] = name
    elseif part ~= "" then -- of a function that returns several values
      local last = assert(tags[#tags], part .. " has no type")
      last.text = last.text .. ", " .. part
    end
  end
  return tags, table.concat(names, ", ")
end

local function results(list)
  local tags = {}
  if not list then return tags end
  local may_fail = list:match("^(.-) | nil, message, code$")
  for i, part in ipairs(split(may_fail or list)) do
    local type, name = part:match("^(.*%S)%s+([%w_.]+)$")
    type = type or part
    if may_fail and i == 1 then type = type .. (type:find("|", 1, true) and "|nil" or "?") end
    tags[i] = { name = name, text = "@return " .. type .. (name and " " .. name or "") }
  end
  for _, name in ipairs(may_fail and { "message", "code" } or {}) do
    tags[#tags + 1] = { name = name, text = "@return string? " .. name }
  end
  return tags
end

---Adds a note to the first tag of this name that has none.
local function add_note(tags, name, note)
  for _, tag in ipairs(tags) do
    if tag.name == name and not tag.noted then
      tag.text, tag.noted = tag.text .. " " .. note, true
      return
    end
  end
  error(("the note on %s belongs to nothing: %s"):format(name, note))
end

---Adds what a comment says of a function or method; other comments are passed over.
local function add_function(module, comment)
  local lines = lines_of(comment)
  local owner, name, list, rest = lines[1]:match("^([%w_]-):?([%w_]+)(%b())%s*(.*)$")
  if not name or rest ~= "" and not rest:find("^%->") then return end
  local tags, names = parameters(list:sub(2, -2))
  for _, tag in ipairs(results(rest:match("^%->%s*(.*)$"))) do tags[#tags + 1] = tag end
  local said = {}
  for i = 2, #lines do
    local noted, note = lines[i]:match("^  (%S+)%s+(.*)$")
    if noted then add_note(tags, noted, note) else said[#said + 1] = lines[i] end
  end
  for _, tag in ipairs(tags) do said[#said + 1] = whole(tag.text) end
  local class = owner ~= "" and capital(owner)
  local home = class and assert(homes[class], owner .. " is not a class: " .. lines[1]) or module
  table.insert(modules[home], ("---%s\nfunction %s%s(%s) end\n"):format(table.concat(said, "\n---"),
    class and class .. ":" or module .. ".", name, names))
end

---Notes the name of a class, so that types may use it.
local function note_class(module, comment)
  local name = comment:match("^@class (%S+)")
  if not name then return end
  local short = name == "seqrun.core." .. module and module or capital(name:match("[^.]*$"))
  classes[short], homes[short] = name, module
end

---Adds a class or an alias, as its comment has it: the tag in the first line, then text, then more tags.
local function add_declaration(module, comment)
  local lines = lines_of(comment)
  local name = lines[1]:match("^@class seqrun%.(%S+)")
  local last = #lines
  while lines[last]:find("^@") and last > 1 do last = last - 1 end
  if last > 1 then table.insert(lines, last, table.remove(lines, 1)) end
  for i, line in ipairs(lines) do lines[i] = "---" .. (line:find("^@class") and line or whole(line)) end
  local variable = name and (name == "core." .. module and module or capital(name:match("[^.]*$")))
  lines[#lines + 1] = variable and ("local %s = {}\n"):format(variable) or ""
  table.insert(modules[module], table.concat(lines, "\n"))
end

---Calls fn(module, comment) for each comment of lua/bind that begins a line.
local function each_comment(fn)
  for _, file in ipairs(sys.list("lua/bind")) do
    local source = "\n" .. sys.read_file("lua/bind/" .. file)
    local module = file:find("%.c$") and (source:match("^\n/%*.-%*/") or ""):match("seqrun%.core%.(%l+)")
    for comment in source:gmatch(module and "\n/%* (.-)%*/" or "^$") do fn(module, comment) end
  end
end

each_comment(note_class)
each_comment(function(module) modules[module] = {} end)
each_comment(function(module, comment)
  if comment:find("^@") then add_declaration(module, comment) end
end)
each_comment(add_function)
for module, parts in pairs(modules) do
  local head = homes[module] and "" or ("local %s = {}\n\n"):format(module)
  local text = ("---@meta\n\n%s%s\nreturn %s\n"):format(head, table.concat(parts, "\n"), module)
  assert(sys.write_file(("%s/core_%s.lua"):format(folder, module), text))
end

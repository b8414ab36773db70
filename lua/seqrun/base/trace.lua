-- trace.lua - an error as a person reads it: the message, a guess for a mistyped name, and the lines of their
-- own code that led to it.

local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local names = require("seqrun.base.names")
local sys = require("seqrun.core.sys")

local trace = {}

local LIBRARY = debug.getinfo(1, "S").source:gsub("base/trace%.lua$", "")
local MOST = 8 -- lines of a traceback

---Texts of chunks that are not files, by source.
local texts = {}

---Remembers the text of a chunk, for later messages.
---@param source string as given to load(), such as "=prompt"
---@param text string
function trace.remember(source, text) texts[source] = text end

---The source line of a frame; functions of earlier chunks of the same name have none.
local function line_of(info)
  local text, number = info.what == "main" and texts[info.source], 0
  local path = not text and info.source:match("^@(.*)")
  text = text or path and sys.read_file(path, 1 << 22)
  if not text then return nil end
  for line in text:gmatch("([^\n]*)\n?") do
    number = number + 1
    if number == info.currentline then return line end
  end
end

---Whether a frame is the person's code: neither C nor of this library.
local function is_own(info)
  return info.currentline > 0 and info.source:sub(1, #LIBRARY) ~= LIBRARY and not info.source:find("^=%[C%]")
    and not info.source:find("/argparse.lua$")
end

-- ---- guesses -----------------------------------------------------------------------------------

---The environment of a function.
local function environment_of(fn)
  for i = 1, 255 do
    local name, value = debug.getupvalue(fn, i)
    if not name then return _G end
    if name == "_ENV" then return value end
  end
  return _G
end

---A variable as the function of a frame sees it.
local function variable(level, name)
  local value
  for i = 1, 250 do
    local found, local_value = debug.getlocal(level, i)
    if not found then break end
    if found == name then value = local_value end
  end
  if value ~= nil then return value end
  local fn = debug.getinfo(level, "f").func
  for i = 1, 255 do
    local found, upvalue = debug.getupvalue(fn, i)
    if not found then break end
    if found == name then return upvalue end
  end
  return names.field(environment_of(fn), name)
end

---The names of all variables that the function of a frame can use.
local function variables(level)
  local list = {}
  for i = 1, 250 do
    local name = debug.getlocal(level, i)
    if not name then break end
    list[#list + 1] = name
  end
  local globals = names.of(environment_of(debug.getinfo(level, "f").func))
  return table.move(globals, 1, #globals, #list + 1, list)
end

---A table with more names is not listed.
local MOST_NAMES = 40

---"; did you mean 'NAME'?" or the names that exist, for an error at a nil global, field or method; `level` is the
---frame that raised it.
local function hint(message, level)
  local kind, name = message:match("a nil value %((%l+) '([^']+)'%)")
  if kind ~= "global" and kind ~= "field" and kind ~= "method" then return "" end
  local info = debug.getinfo(level, "Slf")
  if not info or info.currentline < 1 then return "" end
  if kind == "global" then return guess.hint(name, variables(level + 1)) end
  local line = line_of(info)
  for path in (line or ""):gmatch("([%a_][%w_%.]*)[.:]" .. name .. "%f[^%w_]") do
    local root, rest = path:match("^([^.]*)%.?(.*)")
    local value = variable(level + 1, root)
    if rest ~= "" then value = names.value("x." .. rest, function() return value end) end
    if value ~= nil and names.field(value, name) == nil then
      local text, all = names.hint(name, value), names.of(value)
      if text ~= "" then return text end
      if kind == "field" and all[1] and #all <= MOST_NAMES then
        return ("; %s has %s"):format(path, table.concat(all, ", "))
      end
    end
  end
  return ""
end

-- ---- tracebacks ----------------------------------------------------------------------------------

local function called(info)
  if info.what == "main" then return " at its top level" end
  if info.name then return (" in %s '%s'"):format(info.namewhat == "method" and "method" or "function", info.name) end
  return " in a function"
end

---The person's lines from the innermost up to the prompt, without `first`, which the message names already.
local function own_lines(level, first)
  local list = {}
  repeat
    local info = debug.getinfo(level, "Sln")
    level = level + 1
    local done = not info or info.what == "main" and texts[info.source] ~= nil
    if info and is_own(info) then
      local place = ("%s:%d"):format(info.short_src, info.currentline)
      local line = line_of(info)
      local shown = line and ": " .. line:match("^%s*(.-)%s*$"):sub(1, 100) or ""
      local known = info.what == "main" and (texts[info.source] or #list == 0 and place == first)
      if not known then list[#list + 1] = ("  %s%s%s"):format(place, called(info), shown) end
    end
  until done or #list > MOST
  if #list > MOST then list[#list] = "  ..." end
  return list
end

-- ---- errors inside the library ----------------------------------------------------------------------

---What an error says whose place is a line of the library, or which has none, as of a function of C that the library
---called; nil if it is another one.  A long place begins with "...", so it is looked for among the frames.
local function in_library(problem, level)
  if problem:find("^attempt to ") then return problem end
  local path, rest = problem:match("^([^\n]-):%d+: (.*)$")
  local info = path and debug.getinfo(level, "S")
  while info do
    if info.short_src == path then return info.source:sub(1, #LIBRARY) == LIBRARY and rest or nil end
    level = level + 1
    info = debug.getinfo(level, "S")
  end
  return path and path:sub(1, #LIBRARY - 1) == LIBRARY:sub(2) and rest or nil
end

---The outermost frame of the library, and the place of the person's call.
local function call_of(level)
  local last
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    if is_own(info) then return last and last - 1, ("%s:%d: "):format(info.short_src, info.currentline) end
    if info.currentline > 0 then last = level end
    level = level + 1
  end
end

---An error of the library as one of the call that led to it, which is named where the error is one of Lua's own; nil
---if no person's code has called it.
local function as_callers(rest, level)
  local call, place = call_of(level + 1)
  if not call then return nil end
  local raw = rest:find("^attempt to ") or rest:find("^bad argument #") or rest:find("^table index is ")
  local name = raw and debug.getinfo(call, "n").name
  return place .. (name and name .. ": " or "") .. rest
end

---The handler of xpcall for code of a person: Failures stay as they are; other errors become text.
---@param problem any
---@return any
function trace.handler(problem)
  if failure.of(problem) then return failure.of(problem) end
  if type(problem) ~= "string" then
    local meta = getmetatable(problem)
    if type(meta) == "table" and meta.__tostring then return tostring(problem) end
    return problem == nil and "an error without a message"
      or ("an error value that is a %s, not a message"):format(type(problem))
  end
  if problem == "interrupted" or problem:find(": interrupted$") then return "interrupted" end
  if problem:find("not enough memory", 1, true) then return problem end
  if os.getenv("SEQRUN_TRACE") == "full" then return debug.traceback(problem, 2) end
  local rest = in_library(problem, 3)
  local callers = rest and as_callers(rest, 3)
  if rest and not callers then return debug.traceback(problem, 2) end
  local message = callers or problem .. hint(problem, 3)
  local lines = own_lines(3, problem:match("^([^\n]-:%d+):"))
  if #lines == 0 then return message end
  return message .. "\nstack traceback:\n" .. table.concat(lines, "\n")
end

return trace

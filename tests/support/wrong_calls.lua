-- wrong_calls.lua - calls every public function of sr, and every method of the objects that the examples of help make,
-- with arguments of wrong types, as a recipe.  Prints what was wrong with their messages, as JSON.
--
-- Some calls make files: run it in a directory that is removed.

local index = require("seqrun.help.index")
local json = require("seqrun.core.json")
local repl = require("seqrun.repl")
local sr = require("seqrun")
local trace = require("seqrun.base.trace")

local MOST_INSTRUCTIONS = 300 -- millions, of a call

---Nothing can be made below it, by root neither.
local PATH = "/proc/none/x"

local WRONG = {
  { "nothing" }, { "a path", PATH }, { "a number", 5 }, { "a fraction", 0.5 }, { "a huge number", 1e300 },
  { "NaN", 0 / 0 }, { "a negative number", -7 }, { "a boolean", true }, { "a function", function() end },
  { "an empty table", {} },
  { "a list", { 1, 2 } }, { "a list of texts", { "a", "b" } }, { "an unknown option", { no_such_option = 1 } },
  { "a nested list", { { {} } } }, { "a tensor", sr.ones(2, 3) }, { "a file", io.stdout },
}

---What a call raised; nil if it returned.
local function raised(fn, ...)
  debug.sethook(function() error("too many instructions", 0) end, "", MOST_INSTRUCTIONS * 1000000)
  local good, problem = xpcall(fn, trace.handler, ...)
  debug.sethook()
  return not good and tostring(problem) or nil
end

---What is wrong with a message about a call of this entry: an error of Lua's own, or of an object that is
---used as one of another kind, has the line of the call; others name the function or an argument; nil if nothing is.
local function fault(message, entry)
  if message == "too many instructions" then return "it hangs" end
  local first = message:match("^[^\n]*")
  if first:find("lua/seqrun/%S-:%d+: ") then return "it blames a line of the library" end
  local said = first:gsub("^[^\n:]+:%d+: ", "")
  for _, own in ipairs { "attempt to ", "bad argument #", "table index is ", "^an? %l+ has no '", "^an? %l+'s ",
    "^tensors cannot be ", "^select: position " } do
    if said:find(own) then return nil end
  end
  local words = { entry.name:match("[^.:]*$"), "argument", "expected", "must be", "option", "unknown key", "; give ",
    "got " }
  for _, parameter in ipairs(entry.parameters or {}) do words[#words + 1] = parameter.name end
  for _, word in ipairs(words) do
    if said:lower():find(word:lower(), 1, true) then return nil end
  end
  return "it names neither the function nor an argument"
end

---Calls an entry with each wrong value, as the first, the first two and the first three arguments.
local function try(entry, fn, object, found)
  for _, case in ipairs(WRONG) do
    for count = case[2] == nil and 0 or 1, case[2] == nil and 0 or 3 do
      local arguments = object and { object } or {}
      for _ = 1, count do arguments[#arguments + 1] = case[2] end
      local message = raised(fn, table.unpack(arguments))
      local why = message and fault(message, entry)
      if why then
        found[#found + 1] = ("%s(%s x %d): %s: %s"):format(entry.name, case[1], count, why, message:match("^[^\n]*"))
        return
      end
    end
  end
end

---Calls that are about something else: they take what others use, raise what they are given, are about the words of a
---command line, or about when they are made.
local LEFT_OUT = {
  ["sr.plugin"] = true, ["sr.use"] = true, ["sr.must"] = true, ["sr.tasks.choose"] = true, close = true,
  release = true,
  ["Params:end_share"] = true,
}

---The value of an example; nil if it gives none.
local function value_of(example, env)
  local code = example:gsub("%s+$", "")
  local before, last = code:match("^(.*)\n([^\n]*)$")
  local chunk = load((before or "") .. "\nreturn " .. (last or code), "=example", "t", env)
  if not chunk then return nil end
  local good, value = pcall(chunk)
  return good and (type(value) == "table" or type(value) == "userdata") and value or nil
end

---An object of each class that the examples of help make, by its entry.
local function objects()
  local env = setmetatable({ print = function() end, plot = function() end }, { __index = repl.environment() })
  local found, sample = {}, env.sample
  local function add(value)
    local entry = value and index.class_of(value)
    if entry and entry.methods then found[entry] = found[entry] or value end
  end
  for _, name in ipairs(getmetatable(sample).__names()) do
    local value = sample[name]
    add(type(value) ~= "string" and value or nil)
  end
  for _, name in ipairs(index.names()) do
    local example = index.entries()[name].example
    add(example and value_of(example, env))
  end
  return found
end

local function functions()
  local found, count = json.array(), 0
  for _, name in ipairs(index.names()) do
    local entry = index.entries()[name]
    if entry.value and not LEFT_OUT[name] then
      count = count + 1
      try(entry, entry.value, nil, found)
    end
  end
  return { found = found, count = count }
end

local function methods()
  local found, classes, count = json.array(), 0, 0
  for entry, object in pairs(objects()) do
    classes = classes + 1
    for _, method in ipairs(entry.methods) do
      local name = method.name:match("[^:]*$")
      local good, fn = pcall(function() return object[name] end)
      if good and type(fn) == "function" and not LEFT_OUT[method.name] and not LEFT_OUT[name] then
        count = count + 1
        -- no tail call, so that a message has the name of the method
        local call = load(("local o = ... local r = o:%s(select(2, ...)) return r"):format(name), "=call")
        try(method, call, object, found)
      end
    end
  end
  table.sort(found)
  return { found = found, count = count, classes = classes }
end

print(json.encode { functions = functions(), methods = methods() })

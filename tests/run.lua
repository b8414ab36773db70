--- Runs specs inside the program:
---
---     build/seqrun tests/run.lua [gc=eager|full|generational] [without=TAG] [children=no] [tally=FILE]
---                                [only=PATTERN] [FILE...]
---
--- Runs all of tests/spec by default.  Prints a line for each test that failed or was skipped and ends
--- with `N passed, N failed, N skipped`; exits with 1 if any failed.  `gc=eager` runs the collector
--- constantly (`gc=full`: at every step; `gc=generational`: Lua's other collector), `without=slow`
--- excludes tests whose names contain #slow, `children=no` ends a test, uncounted, where it starts the
--- program, `only=PATTERN` (a Lua pattern) selects tests by full name, and `tally=FILE` receives the counts
--- and the reasons of skips, for tests/run.sh.  Tests whose names contain #long run where LONG=1 is set; those with
--- #once do not run with `gc`: they make many small objects of Lua.

--- Parses the command line.
local function arguments()
  local first = 1
  for i, word in ipairs(arg) do
    if word:find("run%.lua$") then first = i + 1 break end
  end
  local options, files = {}, {}
  for i = first, #arg do
    local key, value = arg[i]:match("^(%l+)=(.*)$")
    if key then options[key] = value else files[#files + 1] = arg[i] end
  end
  return options, files
end

local options, files = arguments()
local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
package.path = here .. "/../?.lua;" .. package.path

local busted = require "busted.core"()
require "busted"(busted)

--- busted looks a global name up in each enclosing block, by functions in Lua, at every access: nine tenths
--- of a spec that computes.  These names no spec replaces, so they are put where the access finds them.
local function quick_globals()
  local environment = load "return _ENV"
  busted.wrap(environment)
  local names = environment()
  local plain = [[assert error getmetatable ipairs math next pairs pcall rawequal rawget rawlen rawset select
    setmetatable string table tonumber tostring type utf8]]
  for name in plain:gmatch("%S+") do rawset(names, name, names[name]) end
end
quick_globals()

--- The full name of a test: "outer describe inner describe name".
local function full_name(element)
  local names = {}
  while element and element.descriptor ~= "file" and (element.name or element.descriptor) do
    table.insert(names, 1, element.name or element.descriptor)
    element = busted.context.parent(element)
  end
  return table.concat(names, " ")
end

local tally = { passed = 0, failed = 0, skips = {} }
local reasons = {} -- of running tests, by element

local function one_line(text)
  return (tostring(text):gsub("%s+", " "))
end

local CHILD = "children=no: this test starts the program"

local function fail(name, message)
  if tostring(message):find(CHILD, 1, true) then return end
  tally.failed = tally.failed + 1
  print(("FAILED  %s\n        %s"):format(name, tostring(message):gsub("\n", "\n        ")))
end

local function skip(name, reason)
  tally.skips[#tally.skips + 1] = one_line(reason)
  print(("skipped %s: %s"):format(name, one_line(reason)))
end

busted.subscribe({ "failure" }, function(element, _, message)
  fail(full_name(element), message)
  return nil, true
end)

busted.subscribe({ "error" }, function(element, _, message)
  fail(full_name(element), message)
  return nil, true
end)

busted.subscribe({ "pending" }, function(element, _, message)
  reasons[element] = tostring(message):gsub("^[^\n]-%.lua:%d+: ", "")
  return nil, true
end)

local within = require("tests.support.within")
busted.subscribe({ "test", "start" }, function(element)
  within.test = full_name(element)
  return nil, true
end)

busted.subscribe({ "test", "end" }, function(element, _, status)
  if status == "success" then
    tally.passed = tally.passed + 1
  elseif status == "pending" then
    skip(full_name(element), reasons[element] or element.name)
  end
  return nil, true
end)

--- Removes the tests that the options exclude, before they run.
local function select_tests(descriptor)
  busted.subscribe({ "register", descriptor }, function(name)
    local whole = (full_name(busted.context.get()) .. " " .. tostring(name)):gsub("^ ", "")
    local out = options.without and (" " .. whole .. " "):find("#" .. options.without .. "%f[^%w]")
    out = out or options.gc and whole:find("#once", 1, true)
    out = out or options.only and not whole:find(options.only) or whole:find("#long", 1, true) and not os.getenv("LONG")
    return nil, not out
  end, { priority = 1 })
end
select_tests("it")
select_tests("pending")

local function all_specs()
  local found = {}
  for name in require("lfs").dir(here .. "/spec") do
    if name:find("_spec%.lua$") then found[#found + 1] = here .. "/spec/" .. name end
  end
  table.sort(found)
  return found
end

if #files == 0 then files = all_specs() end

--- eager: a new cycle starts as soon as one ends, and each test ends with a full collection.
--- full: a full cycle at every step; for one spec at a time.
if options.gc == "eager" then
  collectgarbage("incremental", 100, 200, 10)
  busted.subscribe({ "test", "end" }, function()
    collectgarbage()
    return nil, true
  end)
elseif options.gc == "full" then
  collectgarbage("incremental", 100, 1000, 1)
  collectgarbage("setpause", 0)
elseif options.gc == "generational" then
  collectgarbage("generational")
elseif (options.gc or "") ~= "" then
  error("gc=" .. options.gc .. ": must be eager, full or generational")
end

-- A child has a collector of its own, which gc does not change.
if options.children == "no" then
  require("tests.support.program").run = function() error(CHILD, 0) end
end

busted.randomseed = 1
local loader = require("busted.modules.test_file_loader")(busted, { "lua" })
loader(files, {}, { excludes = {} })
require("busted.execute")(busted)(1, {})

if not options.only and tally.passed + tally.failed + #tally.skips == 0 and not options.without then
  fail(table.concat(files, " "), "no tests found")
end

if options.tally then
  local out = assert(io.open(options.tally, "w"))
  out:write(("passed %d\nfailed %d\n"):format(tally.passed, tally.failed))
  for _, reason in ipairs(tally.skips) do out:write("skip ", reason, "\n") end
  assert(out:close())
end
print(("%d passed, %d failed, %d skipped"):format(tally.passed, tally.failed, #tally.skips))
os.exit(tally.failed == 0 and 0 or 1, true)

-- output.lua - what follows when standard output cannot be written.
--
-- A program whose reader has left (`| head`) ends quietly with code 0; one whose disk is full ends with a message.
-- A run goes on without its output: run.log and metrics.jsonl have it all.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")

local output = {}

---What ends the program because its output cannot be written.
---@type seqrun.Failure|nil
output.ended = nil

local surviving, warned, caught = false, false, 0
local PATIENCE = 100 -- how often a program may catch the failure and write again

---Whether losing standard output ends the program, as it does at first, or not, as while a run trains.
---@param survives boolean
function output.survive(survives) surviving = survives end

local function on_failure(problem)
  local left = sys.reader_left()
  local message = left and "" or ("cannot write to standard output: %s; is its disk full?"):format(problem)
  if not surviving then
    output.ended = failure.new(left and "ok" or "storage", message)
    caught = caught + 1
    if caught > PATIENCE then os.exit(output.ended:exit_code(), true) end
    error(output.ended, 0)
  end
  if not left and not warned then io.stderr:write("seqrun: warning: ", message, " The run continues.\n") end
  warned = true
end

---Raises at the caller's line what a method of files would raise here.
local function check_arguments(name, file, ...)
  local kind = io.type(file)
  if kind == "closed file" then check.fail("attempt to use a closed file") end
  if not kind then check.fail("bad argument #1 to '%s' (FILE* expected, got %s)", name, type(file)) end
  for i = 1, name == "write" and select("#", ...) or 0 do
    local value = select(i, ...)
    if type(value) ~= "string" and type(value) ~= "number" then
      check.fail("bad argument #%d to 'write' (string expected, got %s)", i, type(value))
    end
  end
end

---Makes print, io.write and the methods of files notice that standard output cannot be written.
function output.watch()
  local stdout, methods = io.stdout, getmetatable(io.stdout).__index
  for _, name in ipairs { "write", "flush" } do
    local plain = methods[name]
    methods[name] = function(file, ...)
      check_arguments(name, file, ...)
      local done, message, code = plain(file, ...)
      if done then return done end
      if file ~= stdout then return nil, message, code end
      on_failure(message)
      return file
    end
  end
  io.write = function(...) return io.output():write(...) end -- luacheck: ignore 122
  print = function(...) -- luacheck: ignore 121
    local texts = table.pack(...)
    for i = 1, texts.n do texts[i] = tostring(texts[i]) end
    stdout:write(table.concat(texts, "\t"), "\n")
    stdout:flush()
  end
end

return output

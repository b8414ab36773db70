-- output.lua - what follows when standard output cannot be written.
--
-- A program whose reader has left (`| head`) ends quietly with code 0; one whose disk is full ends with a message.
-- A run continues without its output: run.log and metrics.jsonl have it all.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local printable = require("seqrun.base.printable")
local sys = require("seqrun.core.sys")

local output = {}

local STDOUT = 1
local made_printable = false

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
  local why = problem:find("Bad file descriptor", 1, true) and "it is closed" or problem .. "; is its disk full?"
  local message = left and "" or "cannot write to standard output: " .. why
  if not surviving then
    output.ended = failure.new(left and "ok" or "storage", message)
    caught = caught + 1
    if caught > PATIENCE then os.exit(output.ended:exit_code(), true) end
    error(output.ended, 0)
  end
  if not left and not warned then io.stderr:write("seqrun: warning: ", message, " The run continues.\n") end
  warned = true
end

---From here on standard output is for people and for readers of JSON, as that of commands is: what files and names hold
---is printable there.  A recipe may write any bytes.
function output.printable() made_printable = true end

---Printable text; a terminal gets the colours that this program paints with.
local function shown(text)
  if not text:find("\27[", 1, true) or not sys.is_terminal(STDOUT) then return printable(text) end
  local parts, at = {}, 1
  for first, last in text:gmatch("()\27%[[%d;]*m()") do
    parts[#parts + 1] = printable(text:sub(at, first - 1)) .. text:sub(first, last - 1)
    at = last
  end
  return table.concat(parts) .. printable(text:sub(at))
end

---Writes lines of a picture between codes that move the cursor of a terminal; the lines are printable.
---@param lines string[]
---@param codes { before?: string, between?: string, after?: string }
function output.draw(lines, codes)
  local list, before = {}, made_printable
  for i, line in ipairs(lines) do list[i] = shown(line) end
  made_printable = false
  local done, problem = pcall(function()
    io.stdout:write(codes.before or "", table.concat(list, codes.between), codes.after or "")
    io.stdout:flush()
  end)
  made_printable = before
  if not done then error(problem, 0) end
end

---A line about what is done, or a warning, on standard error.
---@param format string
function output.note(format, ...)
  local text = select("#", ...) > 0 and format:format(...) or format
  io.stderr:write("seqrun: ", printable(text), "\n")
end

---What is written instead of some values.
local function written(...)
  local list = table.pack(...)
  for i = 1, list.n do
    if type(list[i]) == "string" then list[i] = shown(list[i]) end
  end
  return table.unpack(list, 1, list.n)
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
      local done, message, code
      if made_printable and file == stdout then
        done, message, code = plain(file, written(...))
      else
        done, message, code = plain(file, ...)
      end
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
